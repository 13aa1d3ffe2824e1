"""What a report of many cases costs."""
