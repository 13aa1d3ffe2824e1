"""Executes one plan, in a process that generates load or on the machines of a fleet."""
