"""Every combination of levels, in random blocks: what a study's file says."""
