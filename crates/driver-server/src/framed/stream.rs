//! An asynchronous stream, for opening connections and for requests outside of polls.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use kvmark_plan::Outcome;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, ToSocketAddrs, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::socket::Socket;
use crate::address::{HostPort, Target};
use crate::failure::Failure;
use crate::tls::{Tls, advice};

/// Idle time before the kernel probes the peer's machine, and the interval between probes.
pub const KEEPALIVE: Duration = Duration::from_secs(10);
/// Time without an acknowledgement after which the kernel closes the connection.
pub const SILENCE: Duration = Duration::from_secs(30);

/// A plain connection, or TLS over one.
#[derive(Debug)]
pub enum Stream {
    /// TCP or a Unix socket, which sends and receives in the same way.
    Plain(TcpStream),
    /// An encrypted connection.
    Tls(Box<TlsStream<Self>>),
}

impl Stream {
    /// Connects to a server, encrypted if requested, with `TCP_NODELAY`.
    ///
    /// # Errors
    /// The server is unreachable, or the TLS handshake failed.
    pub async fn reach(target: &Target, tls: Option<&Tls>) -> Result<Self, Failure> {
        let stream = match target {
            Target::Tcp(HostPort { host, port }) => Self::tcp((host.as_str(), *port), true).await?,
            Target::Unix(path) => Self::unix(path).await?,
        };
        let Some(tls) = tls else { return Ok(stream) };
        let name = tls.name_of(target.host());
        let name = name.map_err(|why| Failure::new(Outcome::Connection, why))?;
        stream.encrypted(&tls.config, name).await
    }

    /// Connects over TCP.
    ///
    /// # Errors
    /// The server is unreachable.
    pub async fn tcp(address: impl ToSocketAddrs, no_delay: bool) -> Result<Self, Failure> {
        let reached = TcpStream::connect(address).await;
        let stream = reached.map_err(|error| Failure::unreachable(&error))?;
        stream.set_nodelay(no_delay).map_err(|error| Failure::broken(&error))?;
        notice_lost_machines(&stream).map_err(|error| Failure::broken(&error.into()))?;
        Ok(Self::Plain(stream))
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// The server is unreachable.
    pub async fn unix(path: &Path) -> Result<Self, Failure> {
        let reached = UnixStream::connect(path).await.and_then(UnixStream::into_std);
        let stream = reached.map_err(|error| Failure::unreachable(&error))?;
        let stream = TcpStream::from_std(OwnedFd::from(stream).into());
        Ok(Self::Plain(stream.map_err(|error| Failure::broken(&error))?))
    }

    /// Encrypts the connection. The server's certificate must be for this name.
    ///
    /// # Errors
    /// The TLS handshake failed, or the certificate isn't trusted.
    pub async fn encrypted(
        self,
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, Failure> {
        match TlsConnector::from(Arc::clone(config)).connect(name, self).await {
            Ok(stream) => Ok(Self::Tls(Box::new(stream))),
            Err(error) => {
                let refusal = error.to_string();
                let text = format!("the TLS handshake failed ({refusal}){}", advice(&refusal));
                Err(Failure::new(Outcome::Connection, text))
            }
        }
    }

    /// Converts it into a socket for polls. Must be called in the runtime that opened it.
    pub(super) fn into_socket(self) -> io::Result<Socket> {
        match self {
            Self::Plain(stream) => Ok(Socket::new(stream.into_std()?)),
            Self::Tls(stream) => {
                let (stream, tls) = stream.into_inner();
                Ok(stream.into_socket()?.encrypted(tls))
            }
        }
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

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            // The kernel's sockets need no flush.
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::getsockopt;
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn the_kernel_probes_an_idle_connection() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let opened = runtime.block_on(Stream::tcp(place, true)).unwrap();
        let Stream::Plain(stream) = opened else { panic!("it isn't over the network") };
        assert!(getsockopt(&stream, sockopt::KeepAlive).unwrap());
        assert_eq!(getsockopt(&stream, sockopt::TcpUserTimeout).unwrap(), 30_000);
        assert_eq!(getsockopt(&stream, sockopt::TcpKeepIdle).unwrap(), 10);
        assert_eq!(getsockopt(&stream, sockopt::TcpKeepInterval).unwrap(), 10);
        assert_eq!(getsockopt(&stream, sockopt::TcpKeepCount).unwrap(), 3);
    }
}
