//! The driver does what every embedded store must do.

kvmark_testing::embedded_conformance!(kvmark_driver_lmdb::Lmdb);
