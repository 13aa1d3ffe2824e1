//! `name=value` arguments.

use kvmark_testing::Arguments as Given;

/// The workload, the path and the options.
pub(crate) struct Arguments {
    pub(crate) path: String,
    pub(crate) workload: String,
    pub(crate) records: u64,
    pub(crate) operations: u64,
    pub(crate) threads: u64,
    pub(crate) distribution: String,
    pub(crate) seed: u64,
    pub(crate) write_buffer_bytes: usize,
    pub(crate) block_cache_bytes: usize,
    pub(crate) compression: String,
}

impl Arguments {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut given = Given::parse(arguments)?;
        let records = given.take("records", None)?;
        let parsed = Self {
            path: given.take("path", None)?,
            workload: given.take("workload", None)?,
            records,
            operations: given.take("operations", Some(records))?,
            threads: given.take("threads", Some(1))?,
            distribution: given.take("distribution", Some("zipfian".to_owned()))?,
            seed: given.take("seed", Some(1))?,
            write_buffer_bytes: given.take("write_buffer_bytes", Some(64 << 20))?,
            block_cache_bytes: given.take("block_cache_bytes", Some(32 << 20))?,
            compression: given.take("compression", Some("lz4".to_owned()))?,
        };
        given.finish()?;
        Ok(parsed)
    }

    pub(crate) fn loads(&self) -> bool {
        self.workload == "load"
    }
}
