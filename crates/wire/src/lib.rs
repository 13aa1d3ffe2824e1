//! Codecs of the Redis protocol, of memcached's text protocol and of CQL's frames, shared by
//! drivers and the tap.
//!
//! A driver holds a reply in memory and reads it in place. The tap reads a stream of any length
//! with bounded memory, see the `stream` modules. Both accept the same bytes.

pub mod cql;
pub mod memcached;
pub mod number;
pub mod resp;

/// A stream doesn't follow its protocol; the text is a clause with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Skips bytes of a value and its line end, of which `left` bytes are expected. Returns the number
/// of skipped and of missing bytes.
///
/// # Errors
/// `why` if the line end isn't at its place.
pub fn skip_value(bytes: &[u8], left: u64, why: &'static str) -> Result<(usize, u64), Malformed> {
    let taken = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
    for (place, byte) in (1..=left.min(2)).zip([b'\n', b'\r']) {
        let index = left - place;
        if index < taken as u64 && bytes[index as usize] != byte {
            return Err(Malformed(why));
        }
    }
    Ok((taken, left - taken as u64))
}
