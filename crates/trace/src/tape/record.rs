//! One key of one operation, in 64 bytes.

/// Bytes of a [`Record`] on a tape.
pub const RECORD_BYTES: usize = 64;

/// One key of an operation in a trace. Numbers are in little endian on the tape, in the order of
/// the fields, without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When it was sent, since the trace's beginning.
    pub at_ns: u64,
    /// The key's hash.
    pub key: u64,
    /// When the answer arrived, since the trace's beginning; 0 if unknown.
    pub completed_ns: u64,
    /// Time to live; 0 is forever.
    pub ttl_ms: u64,
    /// Clients by number, in the order in which they appear.
    pub client: u32,
    /// Bytes written, or read; [`Record::UNKNOWN`] if unknown.
    pub value_size: u32,
    /// Bytes of the key.
    pub key_size: u32,
    /// Records asked of a scan; 0 for others.
    pub count: u32,
    /// Where in the block's heap the kept key begins; its kept value follows.
    pub heap: u32,
    /// Number of the statement.
    pub statement: u16,
    /// Keys of the operation on its first record, 0 on its others.
    pub items: u16,
    /// Place in the list of kinds that the tape's maker and its reader share.
    pub kind: u8,
    /// Place in their list of outcomes; [`Record::UNANSWERED`] where there was no answer.
    pub outcome: u8,
    /// [`Record::KEY_KEPT`] and its like.
    pub flags: u8,
}

impl Record {
    /// An unknown size.
    pub const UNKNOWN: u32 = u32::MAX;
    /// An outcome that never came.
    pub const UNANSWERED: u8 = u8::MAX;
    /// The key's bytes are in the heap.
    pub const KEY_KEPT: u8 = 1;
    /// The value's bytes are in the heap.
    pub const VALUE_KEPT: u8 = 2;
    /// It was sent within a transaction.
    pub const IN_TRANSACTION: u8 = 4;

    /// Reads a record from any bytes.
    #[must_use]
    #[inline]
    pub fn read(bytes: &[u8; RECORD_BYTES]) -> Self {
        Self {
            at_ns: u64::from_le_bytes(at(bytes, 0)),
            key: u64::from_le_bytes(at(bytes, 8)),
            completed_ns: u64::from_le_bytes(at(bytes, 16)),
            ttl_ms: u64::from_le_bytes(at(bytes, 24)),
            client: u32::from_le_bytes(at(bytes, 32)),
            value_size: u32::from_le_bytes(at(bytes, 36)),
            key_size: u32::from_le_bytes(at(bytes, 40)),
            count: u32::from_le_bytes(at(bytes, 44)),
            heap: u32::from_le_bytes(at(bytes, 48)),
            statement: u16::from_le_bytes(at(bytes, 52)),
            items: u16::from_le_bytes(at(bytes, 54)),
            kind: bytes[56],
            outcome: bytes[57],
            flags: bytes[58],
        }
    }

    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let mut place = 0;
        let mut put = |part: &[u8]| {
            bytes[place..place + part.len()].copy_from_slice(part);
            place += part.len();
        };
        for number in [self.at_ns, self.key, self.completed_ns, self.ttl_ms] {
            put(&number.to_le_bytes());
        }
        for number in [self.client, self.value_size, self.key_size, self.count, self.heap] {
            put(&number.to_le_bytes());
        }
        put(&self.statement.to_le_bytes());
        put(&self.items.to_le_bytes());
        put(&[self.kind, self.outcome, self.flags]);
        bytes
    }
}

/// The bytes of a number at this place.
#[inline]
pub(super) fn at<const N: usize>(bytes: &[u8; RECORD_BYTES], place: usize) -> [u8; N] {
    *bytes[place..].first_chunk().expect("numbers end within a record")
}
