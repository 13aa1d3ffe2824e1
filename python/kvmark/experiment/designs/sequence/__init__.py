"""YCSB's workloads one after the other on one dataset, repeated."""
