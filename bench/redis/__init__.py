"""kvmark beside redis-benchmark, resp-benchmark, YCSB and go-ycsb on one Redis server."""
