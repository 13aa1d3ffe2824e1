"""Observed servers that kvmark didn't start: sources of samples, as a testbed's nodes are."""
