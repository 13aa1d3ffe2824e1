//! A blocking stream, for opening connections and for requests outside of polls.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kvmark_plan::Outcome;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, UnixAddr, bind, connect, setsockopt,
    socket, sockopt,
};
use rustls::ClientConnection;

use super::socket::Socket;
use crate::address::Target;
use crate::failure::Failure;
use crate::timers::Deadline;
use crate::tls::{Tls, advice};

/// Idle time before the kernel probes the peer's machine, and the interval between probes.
pub const KEEPALIVE: Duration = Duration::from_secs(10);
/// Time without an acknowledgement after which the kernel closes the connection.
pub const SILENCE: Duration = Duration::from_secs(30);

/// A connection, plain or encrypted, whose calls end at a deadline.
#[derive(Debug)]
pub struct Stream {
    transport: Transport,
    tls: Option<Box<ClientConnection>>,
}

/// TCP or a Unix socket, which sends and receives in the same way.
#[derive(Debug)]
struct Transport {
    stream: TcpStream,
    deadline: Deadline,
}

impl Stream {
    /// Connects to a server, encrypted if requested, with `TCP_NODELAY`.
    ///
    /// # Errors
    /// The server is unreachable, or the TLS handshake failed.
    pub fn reach(target: &Target, tls: Option<&Tls>, deadline: Deadline) -> Result<Self, Failure> {
        let stream = Self::connect(target, deadline)?;
        match tls {
            Some(tls) => stream.encrypted(tls, target.host()),
            None => Ok(stream),
        }
    }

    /// Connects to a server, with `TCP_NODELAY`.
    ///
    /// # Errors
    /// The server is unreachable.
    pub(crate) fn connect(target: &Target, deadline: Deadline) -> Result<Self, Failure> {
        match target {
            Target::Tcp(place) => Self::over_tcp(place.connect(deadline), true, deadline),
            Target::Unix(path) => Self::unix(path, deadline),
        }
    }

    /// Connects over TCP.
    ///
    /// # Errors
    /// The server is unreachable.
    pub fn tcp(address: SocketAddr, no_delay: bool, deadline: Deadline) -> Result<Self, Failure> {
        let reached = deadline.rest().and_then(|rest| TcpStream::connect_timeout(&address, rest));
        Self::over_tcp(reached, no_delay, deadline)
    }

    /// Connects over TCP from the first of these local ports that is free.
    ///
    /// # Errors
    /// The server is unreachable, or no port is free.
    pub fn tcp_from(
        ports: impl Iterator<Item = u16>,
        address: SocketAddr,
        no_delay: bool,
        deadline: Deadline,
    ) -> Result<Self, Failure> {
        let mut reached = Err(ErrorKind::AddrInUse.into());
        for port in ports {
            reached = connect_from(port, address, deadline);
            let kind = reached.as_ref().err().map(io::Error::kind);
            if !matches!(kind, Some(ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable)) {
                break;
            }
        }
        Self::over_tcp(reached, no_delay, deadline)
    }

    fn over_tcp(
        reached: io::Result<TcpStream>,
        no_delay: bool,
        deadline: Deadline,
    ) -> Result<Self, Failure> {
        let stream = reached.map_err(|error| Failure::unreachable(&error))?;
        stream.set_nodelay(no_delay).map_err(|error| Failure::broken(&error))?;
        notice_lost_machines(&stream).map_err(|error| Failure::broken(&error.into()))?;
        Ok(Self { transport: Transport { stream, deadline }, tls: None })
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// The server is unreachable.
    pub fn unix(path: &Path, deadline: Deadline) -> Result<Self, Failure> {
        let reach = || {
            let flags = SockFlag::SOCK_CLOEXEC;
            let stream = socket(AddressFamily::Unix, SockType::Stream, flags, None)?.into();
            let mut transport = Transport { stream, deadline };
            // The limit on writing is also that on connecting to a server that doesn't accept.
            transport.repeat(TcpStream::set_write_timeout, |stream| {
                Ok(connect(stream.as_raw_fd(), &UnixAddr::new(path)?)?)
            })?;
            Ok(Self { transport, tls: None })
        };
        reach().map_err(|error: io::Error| Failure::unreachable(&error))
    }

    /// Encrypts the connection to a server with this host; a Unix socket has none.
    ///
    /// # Errors
    /// The TLS handshake failed, or the certificate isn't trusted.
    pub fn encrypted(mut self, tls: &Tls, host: Option<&str>) -> Result<Self, Failure> {
        let name = tls.name_of(host);
        let name = name.map_err(|why| Failure::new(Outcome::Connection, why))?;
        let tls = ClientConnection::new(Arc::clone(&tls.config), name);
        let shaken = tls.map_err(io::Error::other).and_then(|mut tls| {
            tls.complete_io(&mut self.transport)?;
            Ok(tls)
        });
        match shaken {
            Ok(tls) => Ok(Self { tls: Some(Box::new(tls)), ..self }),
            Err(error) => {
                let refusal = error.to_string();
                let text = format!("the TLS handshake failed ({refusal}){}", advice(&refusal));
                Err(Failure::new(Outcome::Connection, text))
            }
        }
    }

    /// The same connection with another deadline.
    #[must_use]
    pub fn until(mut self, deadline: Deadline) -> Self {
        self.transport.deadline = deadline;
        self
    }

    /// Converts it into a socket for polls.
    ///
    /// # Errors
    /// The kernel refuses a socket that doesn't block.
    pub fn into_socket(self) -> io::Result<Socket> {
        let Self { transport: Transport { stream, .. }, tls } = self;
        stream.set_nonblocking(true)?;
        Ok(Socket::new(stream, tls))
    }
}

/// Connects from a local port.
fn connect_from(port: u16, address: SocketAddr, deadline: Deadline) -> io::Result<TcpStream> {
    let (family, any): (_, IpAddr) = match address {
        SocketAddr::V4(_) => (AddressFamily::Inet, Ipv4Addr::UNSPECIFIED.into()),
        SocketAddr::V6(_) => (AddressFamily::Inet6, Ipv6Addr::UNSPECIFIED.into()),
    };
    let stream = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    bind(stream.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(any, port)))?;
    let mut transport = Transport { stream: stream.into(), deadline };
    transport.repeat(TcpStream::set_write_timeout, |stream| {
        match connect(stream.as_raw_fd(), &SockaddrStorage::from(address)) {
            // An earlier call was interrupted.
            Err(Errno::EISCONN) => Ok(()),
            Err(Errno::EALREADY | Errno::EINPROGRESS) => Err(ErrorKind::WouldBlock.into()),
            reached => Ok(reached?),
        }
    })?;
    Ok(transport.stream)
}

impl Transport {
    /// Calls until the result isn't due to the time limit of `set_limit`, which is the remaining
    /// time, or to a signal.
    fn repeat<T>(
        &mut self,
        set_limit: impl Fn(&TcpStream, Option<Duration>) -> io::Result<()>,
        mut call: impl FnMut(&mut TcpStream) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            set_limit(&self.stream, Some(self.deadline.rest()?))?;
            match call(&mut self.stream) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                result => return result,
            }
        }
    }
}

impl Read for Transport {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.repeat(TcpStream::set_read_timeout, |stream| stream.read(room))
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.repeat(TcpStream::set_write_timeout, |stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes the kernel close a connection to an unreachable machine. A hanging process keeps its
/// connections.
fn notice_lost_machines(stream: &TcpStream) -> nix::Result<()> {
    let interval_s = KEEPALIVE.as_secs() as u32;
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &interval_s)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &interval_s)?;
    let probes = (SILENCE.as_secs() / KEEPALIVE.as_secs()) as u32;
    setsockopt(stream, sockopt::TcpKeepCount, &probes)?;
    setsockopt(stream, sockopt::TcpUserTimeout, &(SILENCE.as_millis() as u32))
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.transport.read(room),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.transport).read(room),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.transport.write(bytes),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.transport).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            // The kernel's sockets need no flush.
            None => Ok(()),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.transport).flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use nix::sys::socket::getsockopt;

    use super::*;

    #[test]
    fn the_kernel_probes_an_idle_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let deadline = Deadline::after(Duration::from_secs(10));
        let opened = Stream::tcp(listener.local_addr().unwrap(), true, deadline).unwrap();
        let stream = opened.transport.stream;
        assert!(getsockopt(&stream, sockopt::KeepAlive).unwrap());
        assert_eq!(getsockopt(&stream, sockopt::TcpUserTimeout).unwrap(), 30_000);
        assert_eq!(getsockopt(&stream, sockopt::TcpKeepIdle).unwrap(), 10);
        assert_eq!(getsockopt(&stream, sockopt::TcpKeepInterval).unwrap(), 10);
        assert_eq!(getsockopt(&stream, sockopt::TcpKeepCount).unwrap(), 3);
    }
}
