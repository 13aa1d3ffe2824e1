//! Connections outside of sessions, for single requests in sequence.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use kvmark_driver::OpenError;

use super::poll::{FRAME_MAX, too_long};
use super::protocol::Protocol;
use super::server::Server;
use super::stream::Stream;
use crate::address::Target;
use crate::failure::Failure;
use crate::timers::Deadline;

/// Buffer size of a read.
const ROOM: usize = 4 << 10;

/// One connection per server, kept while it is usable.
#[derive(Debug)]
pub struct Lines<P: Protocol> {
    /// The protocol.
    pub protocol: Arc<P>,
    streams: Mutex<Vec<(P::Target, Stream)>>,
}

impl<P: Protocol> Lines<P> {
    /// Starts without connections.
    pub fn new(protocol: Arc<P>) -> Self {
        Self { protocol, streams: Mutex::default() }
    }

    /// The servers with an open connection.
    pub fn open(&self) -> Vec<P::Target> {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.iter().map(|(target, _)| target.clone()).collect()
    }

    /// Sends a request with `send`, within the limit on connecting. A failed connection is reopened
    /// once.
    ///
    /// # Errors
    /// No connection or reply in time, or `send` failed.
    pub fn ask<T>(
        &self,
        target: &P::Target,
        request: &[u8],
        send: impl Fn(&mut Stream, &[u8]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let index = streams.iter().position(|(other, _)| other == target);
        let existing = index.map(|index| streams.swap_remove(index).1);
        let deadline = Deadline::after(self.protocol.connect_timeout());
        let work = || {
            let was_kept = existing.is_some();
            let mut open = match existing {
                Some(open) => open.until(deadline),
                None => self.protocol.dial(target, deadline)?,
            };
            let mut answer = send(&mut open, request);
            if was_kept && answer.as_ref().is_err_and(Failure::ends_connection) {
                open = self.protocol.dial(target, deadline)?;
                answer = send(&mut open, request);
            }
            if !answer.as_ref().is_err_and(Failure::ends_connection) {
                streams.push((target.clone(), open));
            }
            answer
        };
        deadline.judge(work())
    }
}

impl<S: Server> Lines<S> {
    /// The first server.
    pub fn first(&self) -> &Target {
        self.protocol.servers().first()
    }

    /// Sends a request and returns its reply. A failed connection is reopened once.
    ///
    /// # Errors
    /// No connection or reply in time, or the reply is an error.
    pub fn send(&self, target: &Target, request: &[u8]) -> Result<Vec<u8>, Failure> {
        self.ask(target, request, S::send)
    }

    /// The reason why a server can't be opened, which may be that only one of server and client
    /// speaks TLS.
    pub fn refused(&self, target: &Target, failure: Failure) -> OpenError {
        let encrypts = self.protocol.servers().tls.is_some();
        match S::TLS_PROBE {
            Some(probe) => probe.explain(failure, target, encrypts).at(target),
            None => failure.at(target),
        }
    }
}

/// Sends a request and returns the first frame that answers it. Other frames are dropped.
///
/// # Errors
/// The connection failed, or the bytes don't follow the protocol.
pub fn ask<P: Protocol>(
    stream: &mut Stream,
    request: &[u8],
    is_answer: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, Failure> {
    let broken = |error| Failure::broken(&error);
    stream.write_all(request).map_err(broken)?;
    stream.flush().map_err(broken)?;
    let (mut bytes, mut room) = (Vec::new(), [0; ROOM]);
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
        } else {
            match stream.read(&mut room).map_err(broken)? {
                0 => return Err(Failure::closed(!bytes.is_empty())),
                length => bytes.extend_from_slice(&room[..length]),
            }
        }
    }
}
