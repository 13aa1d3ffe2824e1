"""Records and mathematics make answers: summaries, verdicts, comparisons and models."""
