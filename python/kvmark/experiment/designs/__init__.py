"""What decides which run comes next: one folder a design."""
