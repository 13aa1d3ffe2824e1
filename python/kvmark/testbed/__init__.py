"""Systems to measure and the measuring machine: one file a system, one for the host."""
