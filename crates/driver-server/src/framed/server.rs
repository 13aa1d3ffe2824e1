//! A protocol with ordered replies, at the servers of a driver's options.

use std::collections::BTreeMap;
use std::time::Duration;

use kvmark_driver::OpenError;
use kvmark_driver::options::{Given, OptionDoc};
use serde_json::Value;

use super::lines::ask;
use super::ordered::Ordered;
use super::protocol::{Exchanges as _, Protocol};
use super::stream::Stream;
use crate::address::Target;
use crate::failure::Failure;
use crate::servers::{SHARED_OPTIONS, Servers};
use crate::timers::Deadline;
use crate::tls::TlsProbe;

/// The settings of a driver, which define its protocol.
pub trait Server: Sized + Send + Sync + 'static {
    /// The state of the scan of an incomplete frame.
    type Scan: Default;

    /// Its options, before the shared ones.
    const OPTIONS: &'static [OptionDoc];
    /// Finds out whether a server speaks TLS, unless it answers the request for it.
    const TLS_PROBE: Option<TlsProbe> = None;

    /// Reads the options.
    ///
    /// # Errors
    /// [`OpenError::Option`] if one is invalid.
    fn new(given: Given) -> Result<Self, OpenError>;

    /// The servers.
    fn servers(&self) -> &Servers;

    /// Asks for encryption before the handshake.
    ///
    /// # Errors
    /// The server doesn't encrypt, or the connection failed.
    fn request_tls(&self, _stream: &mut Stream) -> Result<(), Failure> {
        Ok(())
    }

    /// Makes a new connection ready for requests, for example by a login.
    ///
    /// # Errors
    /// The server rejects the client, or the connection failed.
    fn introduce(&self, _stream: &mut Stream) -> Result<(), Failure> {
        Ok(())
    }

    /// Continues the scan of a frame, see [`Protocol::scan`].
    ///
    /// # Errors
    /// The failure that ends the connection, if the bytes don't follow the protocol.
    fn scan(scan: &mut Self::Scan, bytes: &[u8]) -> Result<Option<usize>, Failure>;

    /// Whether a frame with this first byte is expected, see [`Protocol::may_come`].
    #[inline]
    fn may_come(exchanges: &Ordered, _first: u8) -> bool {
        exchanges.awaits_frame()
    }

    /// Whether a frame answers a request.
    #[inline]
    fn is_reply(_frame: &[u8]) -> bool {
        true
    }

    /// Checks that a reply isn't an error.
    ///
    /// # Errors
    /// The failure of the request.
    fn check(reply: &[u8]) -> Result<(), Failure>;

    /// All options, in the order of the documentation.
    fn options() -> Vec<&'static OptionDoc> {
        Self::OPTIONS.iter().chain(&SHARED_OPTIONS).collect()
    }

    /// Reads the options of a plan.
    ///
    /// # Errors
    /// [`OpenError::Option`] if one is unknown or invalid.
    fn parse(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        Self::new(Given::parse(Self::options(), options)?)
    }

    /// Sends a request on an open connection and returns its reply.
    ///
    /// # Errors
    /// The connection failed, or the reply is an error.
    fn send(stream: &mut Stream, request: &[u8]) -> Result<Vec<u8>, Failure> {
        let reply = ask::<Self>(stream, request, Self::is_reply)?;
        Self::check(&reply).map(|()| reply)
    }
}

impl<S: Server> Protocol for S {
    type Target = Target;
    type Exchanges = Ordered;
    type Scan = <S as Server>::Scan;

    const REOPENS: bool = false;

    fn dial(&self, target: &Target, deadline: Deadline) -> Result<Stream, Failure> {
        let mut stream = Stream::connect(target, deadline)?;
        if let Some(tls) = &self.servers().tls {
            self.request_tls(&mut stream)?;
            stream = stream.encrypted(tls, target.host())?;
        }
        self.introduce(&mut stream)?;
        Ok(stream)
    }

    fn connect_timeout(&self) -> Duration {
        self.servers().limits.connect_timeout
    }

    fn reconnect_max(&self) -> Duration {
        self.servers().limits.reconnect_max
    }

    #[inline]
    fn scan(scan: &mut <S as Server>::Scan, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        <S as Server>::scan(scan, bytes)
    }

    #[inline]
    fn may_come(exchanges: &Ordered, first: u8) -> bool {
        <S as Server>::may_come(exchanges, first)
    }
}
