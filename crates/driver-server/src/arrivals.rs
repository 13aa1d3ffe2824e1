//! Arrival times of bytes, as measured by the kernel.

use std::io::{self, IoSliceMut};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

const SECOND_NS: u64 = 1_000_000_000;

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// In bytes; 0 at the end of the stream.
    pub length: usize,
    /// Arrival of the last byte, in nanoseconds of wall time since the Unix epoch. `None` if the
    /// kernel took no time stamp, as at first after the request for them.
    pub arrived_wall_ns: Option<u64>,
}

/// Reads a connection with arrival times.
///
/// While any socket requests them, the kernel stamps every packet on the machine. So a few
/// connections are enough.
#[derive(Debug)]
pub struct Arrivals {
    control: Vec<u8>,
}

impl Arrivals {
    /// Requests arrival times for a connection. `None` if the kernel doesn't support them.
    pub fn ask(stream: &TcpStream) -> Option<Self> {
        setsockopt(stream, sockopt::ReceiveTimestampns, &true).ok()?;
        Some(Self { control: cmsg_space!(TimeSpec) })
    }

    /// Reads once.
    ///
    /// # Errors
    /// As for [`io::Read::read`].
    pub fn read(&mut self, stream: &TcpStream, room: &mut [u8]) -> io::Result<Received> {
        let mut parts = [IoSliceMut::new(room)];
        let (file, control) = (stream.as_raw_fd(), Some(&mut self.control[..]));
        let message = recvmsg::<()>(file, &mut parts, control, MsgFlags::empty())?;
        let times = message.cmsgs().ok().into_iter().flatten();
        let arrived = times.filter_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(time) => Some(in_ns(time)),
            _ => None,
        });
        Ok(Received { arrived_wall_ns: arrived.last(), length: message.bytes })
    }
}

fn in_ns(time: TimeSpec) -> u64 {
    time.tv_sec() as u64 * SECOND_NS + time.tv_nsec() as u64
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        far.set_nodelay(true).unwrap();
        (near, far)
    }

    fn wall_ns() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
    }

    #[test]
    fn a_read_returns_the_arrival_of_its_last_byte() {
        let (near, mut far) = pair();
        let mut arrivals = Arrivals::ask(&near).unwrap();
        let mut room = [0; 100];
        // Until the kernel takes time stamps.
        while {
            far.write_all(b"?").unwrap();
            arrivals.read(&near, &mut room).unwrap().arrived_wall_ns.is_none()
        } {}
        far.write_all(b"early").unwrap();
        let between_ns = wall_ns();
        far.write_all(b", late").unwrap();
        while near.peek(&mut room).unwrap() < b"early, late".len() {}
        let after_ns = wall_ns();
        let received = arrivals.read(&near, &mut room).unwrap();
        assert_eq!(&room[..received.length], b"early, late");
        let arrived_ns = received.arrived_wall_ns.unwrap();
        assert!((between_ns..=after_ns).contains(&arrived_ns), "{between_ns} {arrived_ns}");
    }

    #[test]
    fn the_end_of_a_stream_and_an_empty_stream_behave_as_in_any_read() {
        let (near, far) = pair();
        let mut arrivals = Arrivals::ask(&near).unwrap();
        near.set_nonblocking(true).unwrap();
        let nothing = arrivals.read(&near, &mut [0; 9]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        drop(far);
        near.set_nonblocking(false).unwrap();
        let end = arrivals.read(&near, &mut [0; 9]).unwrap();
        assert_eq!(end, Received { length: 0, arrived_wall_ns: None });
    }
}
