"""What runs did, in numbers: totals, times, repetitions together, over time, around faults.

Whether it can be believed is in `verdict`.
"""
