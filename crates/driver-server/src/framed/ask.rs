//! Single requests on a connection outside of polls.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::protocol::Protocol;
use super::stream::Stream;
use super::turn::{FRAME_MAX, too_long};
use crate::failure::Failure;

/// Sends a request and returns the first frame that answers it. Other frames are dropped.
///
/// # Errors
/// The connection failed, or the bytes don't follow the protocol.
pub async fn ask<P: Protocol>(
    stream: &mut Stream,
    request: &[u8],
    is_answer: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, Failure> {
    let broken = |error| Failure::broken(&error);
    stream.write_all(request).await.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    let mut bytes = Vec::new();
    let mut scan = P::Scan::default();
    loop {
        if let Some(length) = P::scan(&mut scan, &bytes)? {
            let rest = bytes.split_off(length);
            if is_answer(&bytes) {
                return Ok(bytes);
            }
            (bytes, scan) = (rest, P::Scan::default());
        } else if bytes.len() > FRAME_MAX {
            return Err(too_long());
        } else if stream.read_buf(&mut bytes).await.map_err(broken)? == 0 {
            return Err(Failure::closed(!bytes.is_empty()));
        }
    }
}
