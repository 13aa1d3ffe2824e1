"""What comparisons with peers share: programs on their own cores, what they cost, and the table."""
