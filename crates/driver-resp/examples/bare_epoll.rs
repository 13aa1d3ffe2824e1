//! A bare epoll loop over connections to Redis, with one GET each: see `bare.rs` of `testing`.
//!
//! ```text
//! bare_epoll address=HOST:PORT records=N operations=N [connections=50] [seed=1]
//! ```

use kvmark_testing::bare::{Failure, measure};

fn main() -> Result<(), Failure> {
    let request = |key: &str| format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
    measure(request, is_whole)
}

/// Whether the bytes are a complete string, the reply for an existing key.
fn is_whole(reply: &[u8]) -> Result<bool, Failure> {
    let Some(end) = reply.iter().position(|byte| *byte == b'\r') else { return Ok(false) };
    let line = String::from_utf8_lossy(&reply[..end]);
    match line.strip_prefix('$').and_then(|length| length.parse::<usize>().ok()) {
        Some(length) => Ok(reply.len() >= end + length + 2 * b"\r\n".len()),
        None => Err(format!("a key that isn't there, or an error: {line}").into()),
    }
}
