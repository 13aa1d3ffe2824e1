//! Codecs of the Redis protocol and of memcached's text protocol, shared by drivers and the tap.
//!
//! A driver holds a reply in memory and reads it in place. The tap reads a stream of any length
//! with bounded memory, see the `stream` modules. Both accept the same bytes.

pub mod memcached;
pub mod number;
pub mod resp;

/// A stream doesn't follow its protocol; the text is a clause with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);
