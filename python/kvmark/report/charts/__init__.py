"""What charts look like, and the rows behind them.

Which charts an answer has is said in `views`.
"""
