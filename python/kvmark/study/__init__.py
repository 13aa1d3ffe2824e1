"""Many runs for one question."""
