//! A non-blocking socket, plain or encrypted.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use tokio_rustls::rustls::ClientConnection;

use crate::arrivals::{Arrivals, Received};

/// Least buffer size of a read: an encrypted record and a rest of the record before.
pub(crate) const ROOM: usize = 40 << 10;

/// The transport of the bytes.
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
    /// Measures arrival times, if enabled.
    arrivals: Option<Box<Arrivals>>,
}

impl Socket {
    /// Wraps a non-blocking transport.
    pub(crate) fn new(wire: Wire) -> Self {
        Self { wire, tls: None, arrivals: None }
    }

    /// The same transport with encryption.
    pub(crate) fn encrypted(self, tls: ClientConnection) -> Self {
        Self { tls: Some(Box::new(tls)), ..self }
    }

    /// Enables arrival times, if the kernel supports them. Encrypted bytes can't be assigned to a
    /// reply.
    pub(crate) fn sample(&mut self) {
        if let (Wire::Tcp(stream), None) = (&self.wire, &self.tls) {
            self.arrivals = Arrivals::ask(stream).map(Box::new);
        }
    }

    /// Reads once; 0 bytes mean the end. The buffer must have [`ROOM`] bytes at least, because no
    /// event reports decrypted bytes that remain.
    #[inline]
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<Received> {
        let length = match (&mut self.tls, &mut self.arrivals, &mut self.wire) {
            (None, Some(arrivals), Wire::Tcp(stream)) => return arrivals.read(stream, room),
            (None, _, wire) => wire.read(room)?,
            (Some(tls), _, wire) => decrypt(wire, tls, room)?,
        };
        Ok(Received { length, arrived_wall_ns: None })
    }

    /// Writes as many bytes as possible and returns their number.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => taken(self.wire.write(bytes)),
            Some(tls) => encrypt(&mut self.wire, tls, bytes),
        }
    }

    /// Whether the encryption buffers unsent bytes.
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

/// Maps a write that would block to 0 bytes.
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
    // Messages of TLS itself; a rest is sent with the next request.
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
