"""kvmark beside latte and YCSB on one Cassandra node."""
