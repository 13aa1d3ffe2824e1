//! A non-blocking socket, plain or encrypted.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use rustls::ClientConnection;

use crate::arrivals::{Arrivals, Received};

/// Least buffer size of a read: an encrypted record and a rest of the record before.
pub(crate) const ROOM: usize = 40 << 10;

/// An open connection, plain or encrypted.
#[derive(Debug)]
pub struct Socket {
    /// Also a Unix socket, which sends and receives in the same way.
    pub stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    /// Measures arrival times, if enabled.
    arrivals: Option<Box<Arrivals>>,
}

impl Socket {
    /// Wraps a non-blocking transport.
    pub fn new(stream: TcpStream, tls: Option<Box<ClientConnection>>) -> Self {
        Self { stream, tls, arrivals: None }
    }

    /// Enables arrival times, if the kernel supports them. Encrypted bytes can't be assigned to a
    /// reply, and a Unix socket, which has no IP address, doesn't measure them.
    pub(crate) fn sample(&mut self) {
        if self.tls.is_none() && self.stream.local_addr().is_ok() {
            self.arrivals = Arrivals::ask(&self.stream).map(Box::new);
        }
    }

    /// Reads once; 0 bytes mean the end. The buffer must have [`ROOM`] bytes at least, because no
    /// event reports decrypted bytes that remain.
    ///
    /// # Errors
    /// As for [`Read::read`].
    #[inline]
    pub fn read(&mut self, room: &mut [u8]) -> io::Result<Received> {
        let length = match (&mut self.tls, &mut self.arrivals) {
            (None, Some(arrivals)) => return arrivals.read(&self.stream, room),
            (None, None) => self.stream.read(room)?,
            (Some(tls), _) => decrypt(&mut self.stream, tls, room)?,
        };
        Ok(Received { length, arrived_wall_ns: None })
    }

    /// Writes as many bytes as possible and returns their number.
    ///
    /// # Errors
    /// The connection failed.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => taken(self.stream.write(bytes)),
            Some(tls) => encrypt(&mut self.stream, tls, bytes),
        }
    }

    /// Whether the encryption buffers unsent bytes.
    #[inline]
    pub fn holds_back(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Ends the output.
    ///
    /// # Errors
    /// The connection failed.
    pub fn shut(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            send_encrypted(&mut self.stream, tls)?;
        }
        self.stream.shutdown(Shutdown::Write)
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

fn decrypt(
    stream: &mut TcpStream,
    tls: &mut ClientConnection,
    room: &mut [u8],
) -> io::Result<usize> {
    let received = tls.read_tls(stream)?;
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
    send_encrypted(stream, tls)?;
    match state {
        _ if length > 0 => Ok(length),
        Err(error) => Err(io::Error::new(ErrorKind::InvalidData, error)),
        Ok(state) if received == 0 || state.peer_has_closed() => Ok(0),
        Ok(_) => Err(ErrorKind::WouldBlock.into()),
    }
}

fn encrypt(stream: &mut TcpStream, tls: &mut ClientConnection, bytes: &[u8]) -> io::Result<usize> {
    let mut accepted = 0;
    loop {
        let more = tls.writer().write(&bytes[accepted..])?;
        accepted += more;
        send_encrypted(stream, tls)?;
        if accepted == bytes.len() || tls.wants_write() {
            return Ok(accepted);
        }
    }
}

fn send_encrypted(stream: &mut TcpStream, tls: &mut ClientConnection) -> io::Result<()> {
    while tls.wants_write() {
        if taken(tls.write_tls(stream))? == 0 {
            break;
        }
    }
    Ok(())
}
