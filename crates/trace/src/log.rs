//! The log of a run: each operation of it with its three instants and its outcome.
//!
//! A log is [`LOG_MAGIC`] and then records of one size, in the order in which operations ended, so
//! that the log of a killed writer is complete up to the last record. It isn't a tape: the instants
//! of a tape never decrease, so writing one would wait for the slowest operation. Sorting a log
//! makes a trace.

/// The start of a log: the format and its version, as long as a record.
pub const LOG_MAGIC: [u8; LOG_BYTES] = {
    let (mut bytes, name) = ([0; LOG_BYTES], b"KVRUNLOG01");
    bytes.split_at_mut(name.len()).0.copy_from_slice(name);
    bytes
};
/// Bytes of a [`LogRecord`] in a log.
pub const LOG_BYTES: usize = 64;

/// One key of one operation. Numbers are in little endian in the log, in the order of the fields,
/// without gaps; instants are since the run's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogRecord {
    /// The operation's intended start.
    pub intended_ns: u64,
    /// When it was passed to the system.
    pub issued_ns: u64,
    /// When its outcome was known.
    pub completed_ns: u64,
    /// The key's hash.
    pub key: u64,
    /// Time to live; 0 is forever.
    pub ttl_ms: u64,
    /// Number of the client.
    pub client: u32,
    /// Bytes written; [`LogRecord::UNKNOWN`] where nothing is.
    pub value_size: u32,
    /// Bytes of the key.
    pub key_size: u32,
    /// Number of the statement.
    pub statement: u16,
    /// Keys of the operation on its first record, 0 on its others.
    pub items: u16,
    /// Place of the outcome in the list of all.
    pub outcome: u8,
}

impl LogRecord {
    /// An unknown size.
    pub const UNKNOWN: u32 = u32::MAX;

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> [u8; LOG_BYTES] {
        let mut bytes = [0; LOG_BYTES];
        let mut place = 0;
        let mut put = |part: &[u8]| {
            bytes[place..place + part.len()].copy_from_slice(part);
            place += part.len();
        };
        for number in [self.intended_ns, self.issued_ns, self.completed_ns, self.key, self.ttl_ms] {
            put(&number.to_le_bytes());
        }
        for number in [self.client, self.value_size, self.key_size] {
            put(&number.to_le_bytes());
        }
        put(&self.statement.to_le_bytes());
        put(&self.items.to_le_bytes());
        put(&[self.outcome]);
        bytes
    }
}
