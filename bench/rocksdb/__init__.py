"""kvmark beside its peers on embedded RocksDB: a bare loop over the same crate, and YCSB."""
