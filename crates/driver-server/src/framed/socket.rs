//! A session's end of an open connection, which never holds its thread.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use tokio_rustls::rustls::ClientConnection;

use crate::arrivals::{Arrivals, Received};

/// Room that a read must be given: an encrypted record with what was left of the one before.
pub(crate) const ROOM: usize = 40 << 10;

/// What carries the bytes.
#[derive(Debug)]
pub(crate) enum Wire {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// An open connection, plain or encrypted.
#[derive(Debug)]
pub(crate) struct Socket {
    wire: Wire,
    tls: Option<Box<ClientConnection>>,
    /// Of one whose reads tell when the bytes came.
    arrivals: Option<Box<Arrivals>>,
}

impl Socket {
    /// Around a wire that doesn't block.
    pub(crate) fn new(wire: Wire) -> Self {
        Self { wire, tls: None, arrivals: None }
    }

    /// The same wire, on which encryption was agreed.
    pub(crate) fn encrypted(self, tls: ClientConnection) -> Self {
        Self { tls: Some(Box::new(tls)), ..self }
    }

    /// Lets reads tell from now on when the bytes came, where the kernel knows. Of encrypted ones
    /// nobody knows to which reply they belong.
    pub(crate) fn sample(&mut self) {
        if let (Wire::Tcp(stream), None) = (&self.wire, &self.tls) {
            self.arrivals = Arrivals::ask(stream).map(Box::new);
        }
    }

    /// Reads once what has come; 0 at the end of it. The room must be [`ROOM`] at least: what stays
    /// inside the decryption is told by nobody.
    #[inline]
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<Received> {
        let length = match (&mut self.tls, &mut self.arrivals, &mut self.wire) {
            (None, Some(arrivals), Wire::Tcp(stream)) => return arrivals.read(stream, room),
            (None, _, wire) => wire.read(room)?,
            (Some(tls), _, wire) => decrypt(wire, tls, room)?,
        };
        Ok(Received { length, arrived_wall_ns: None })
    }

    /// Sends as much as is taken; how much that was.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => taken(self.wire.write(bytes)),
            Some(tls) => encrypt(&mut self.wire, tls, bytes),
        }
    }

    /// Whether bytes that were taken wait within the encryption.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.wire {
            Wire::Tcp(stream) => stream.as_fd(),
            Wire::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Wire {
    #[inline]
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(room),
            Self::Unix(stream) => stream.read(room),
        }
    }
}

impl Write for Wire {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Nothing is taken where a write would have to wait.
fn taken(written: io::Result<usize>) -> io::Result<usize> {
    match written {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(0)
        }
        written => written,
    }
}

fn decrypt(wire: &mut Wire, tls: &mut ClientConnection, room: &mut [u8]) -> io::Result<usize> {
    let received = tls.read_tls(wire)?;
    let state = tls.process_new_packets();
    let mut length = 0;
    while length < room.len() {
        match tls.reader().read(&mut room[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(_) => break,
        }
    }
    // An answer of the encryption itself; what isn't taken goes with the next request.
    send_encrypted(wire, tls)?;
    match state {
        _ if length > 0 => Ok(length),
        Err(error) => Err(io::Error::new(ErrorKind::InvalidData, error)),
        Ok(state) if received == 0 || state.peer_has_closed() => Ok(0),
        Ok(_) => Err(ErrorKind::WouldBlock.into()),
    }
}

fn encrypt(wire: &mut Wire, tls: &mut ClientConnection, bytes: &[u8]) -> io::Result<usize> {
    let mut accepted = 0;
    loop {
        let more = tls.writer().write(&bytes[accepted..])?;
        accepted += more;
        send_encrypted(wire, tls)?;
        if accepted == bytes.len() || tls.wants_write() {
            return Ok(accepted);
        }
    }
}

fn send_encrypted(wire: &mut Wire, tls: &mut ClientConnection) -> io::Result<()> {
    while tls.wants_write() {
        if taken(tls.write_tls(wire))? == 0 {
            break;
        }
    }
    Ok(())
}
