//! The delay of stamps on this machine: from a byte's arrival to the stamp of a thread that waits
//! for it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use kvmark_driver_server::Arrivals;

/// Enough for p99, in less than a second.
const MESSAGES: usize = 5000;
/// Fewest messages with a kernel timestamp.
const LEAST: usize = 1000;

/// Median and 99th percentile of the time from arrival to stamp, for bytes on the loopback, in
/// nanoseconds. `None` if the kernel doesn't timestamp arrivals.
pub(crate) fn measure() -> io::Result<Option<(u64, u64)>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let Some(arrivals) = Arrivals::ask(&near) else { return Ok(None) };
    let echo = thread::Builder::new().name("kvmark-echo".to_owned());
    // It ends with the stream.
    echo.spawn(move || echo_all(far))?;
    let mut lags = lags_of(near, arrivals)?;
    lags.sort_unstable();
    let at = |percent: usize| lags[lags.len() * percent / 100];
    Ok((lags.len() >= LEAST).then(|| (at(50), at(99))))
}

fn echo_all(mut stream: TcpStream) -> io::Result<()> {
    let mut byte = [0];
    while stream.read(&mut byte)? > 0 {
        stream.write_all(&byte)?;
    }
    Ok(())
}

fn lags_of(mut stream: TcpStream, mut arrivals: Arrivals) -> io::Result<Vec<u64>> {
    let mut lags = Vec::with_capacity(MESSAGES);
    for _ in 0..MESSAGES {
        stream.write_all(b"?")?;
        let received = arrivals.read(&stream, &mut [0])?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let read_ns = since.as_nanos() as u64;
        lags.extend(received.arrived_wall_ns.map(|arrived_ns| read_ns.saturating_sub(arrived_ns)));
    }
    Ok(lags)
}
