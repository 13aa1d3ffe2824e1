"""What a tap costs."""
