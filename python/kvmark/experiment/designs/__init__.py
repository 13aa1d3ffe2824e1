"""What decides which run comes next: one module or folder a design."""
