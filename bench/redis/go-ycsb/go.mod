// The exact version of the Go port of YCSB that is measured beside kvmark; it is built elsewhere.
module kvmark/peer

go 1.21

require github.com/pingcap/go-ycsb v1.0.1
