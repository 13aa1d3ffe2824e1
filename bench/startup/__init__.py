"""What a user waits for before a command does anything."""
