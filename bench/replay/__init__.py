"""A replay at full speed, beside operations drawn by chance."""
