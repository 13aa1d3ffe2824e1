//! A bare epoll loop over connections to memcached, with one get each: see `bare.rs` of `testing`.
//!
//! ```text
//! bare_memcached address=HOST:PORT records=N operations=N [connections=50] [seed=1]
//! ```

use kvmark_testing::bare::{Failure, measure};

fn main() -> Result<(), Failure> {
    measure(|key| format!("get {key}\r\n"), is_whole)
}

/// Whether the bytes are a complete item with the end, the reply for an existing key.
fn is_whole(reply: &[u8]) -> Result<bool, Failure> {
    let Some(end) = reply.iter().position(|byte| *byte == b'\r') else { return Ok(false) };
    let line = String::from_utf8_lossy(&reply[..end]);
    let length = line.strip_prefix("VALUE ").and_then(|item| item.rsplit(' ').next()?.parse().ok());
    match length {
        Some(length) => {
            let length: usize = length;
            Ok(reply.len() >= end + b"\r\n".len() + length + b"\r\nEND\r\n".len())
        }
        None => Err(format!("a key that isn't there, or an error: {line}").into()),
    }
}
