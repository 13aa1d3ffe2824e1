"""What runs did, in numbers: totals, times, repetitions together, over time, around faults.

Its verdict is in `verdict`.
"""
