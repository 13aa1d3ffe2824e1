//! Keys: their validity and their servers.
//!
//! The server of a key is the unsigned Java hash code of the key modulo the number of servers. This
//! is the default of YCSB's client (spymemcached), so each tool finds the data of the other.
//! Servers are numbered in the order of the address.

use kvmark_driver_server::text::java_hash;
use kvmark_plan::Outcome;

use crate::failure::Failure;

/// Longest key of memcached.
pub(crate) const LENGTH_MAX: usize = 250;

/// Whether bytes are a valid word in a command.
#[inline]
pub(crate) fn is_word(bytes: &[u8]) -> bool {
    let ends = |byte: u8| byte <= b' ' || byte == 0x7f;
    !bytes.is_empty() && !bytes.iter().fold(false, |any, byte| any | ends(*byte))
}

/// Rejects an invalid key, after which memcached would read the rest as another command.
#[inline]
pub(crate) fn check(key: &[u8]) -> Result<(), Failure> {
    if key.len() <= LENGTH_MAX && is_word(key) { Ok(()) } else { Err(wrong(key)) }
}

#[cold]
fn wrong(key: &[u8]) -> Failure {
    let why = if key.len() > LENGTH_MAX {
        format!("the key has {} bytes, and memcached's keys have 250 at most", key.len())
    } else {
        let key = key.escape_ascii();
        format!("the key '{key}' is empty or has blanks or control characters")
    };
    Failure::new(Outcome::Refused, why)
}

/// The index of the server of a key.
#[inline]
pub(crate) fn server(key: &[u8], servers: usize) -> usize {
    if servers == 1 { 0 } else { java_hash(key).cast_unsigned() as usize % servers }
}
