"""Traces: the operations of clients on a store, as a folder of Parquet files.

A trace `X.trace/` has `trace.json` with its description, and `operations-NNNNNN.parquet` with one
row per operation in the order of their instants (`folder.COLUMNS`). Keys are hashes under a secret
key that isn't stored: equal keys have equal hashes, and nothing else can be derived. Contents of
keys and values are included only on request (`folder.Keep`).
"""
