"""Two sides in turn, until their ratio is known."""
