"""What traces cost to make and to read."""
