//! Fuzz checks of a protocol's frames: they must not depend on how the bytes are split.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::{iter, mem};

use kvmark_driver::{Call, Columns, Completions, Layout, Reply, Request, Ticket, Values};
use kvmark_plan::{Each, Kind, Outcome, SizeLaw, Statement};

use super::connections::{Framed, Lost};
use super::in_flight::InFlightOperation;
use super::poll::{Handler, Poll};
use super::protocol::{Exchanges as _, Protocol};
use super::request_reply::RequestReply;
use super::server::Server;
use super::socket::Socket;
use crate::failure::Failure;

/// Memory limit of a decoder: the longest input after decompression, and the memory of the checks.
pub const MEMORY_MAX: usize = 32 << 20;

/// Longest input that is also split into single bytes.
const SINGLE_MAX: usize = 512;

/// A layout with these fields and no statement.
pub fn layout(field_names: &[&str]) -> Layout {
    Layout {
        table: "usertable".to_owned(),
        field_names: field_names.iter().map(|name| (*name).to_owned()).collect(),
        prepare: Vec::new(),
        statements: Vec::new(),
    }
}

/// A statement without arguments.
pub fn statement(texts: &[&str]) -> Statement {
    Statement {
        name: "OWN".to_owned(),
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        commands: SizeLaw::Constant { size: 1 },
        items: SizeLaw::Constant { size: 1 },
        record: Each::Command,
        rows: None,
        arguments: Vec::new(),
        expects: Vec::new(),
        checks: Vec::new(),
        when_full: None,
        options: BTreeMap::new(),
    }
}

/// A request for all fields of a record.
pub fn request(kind: Kind) -> Request<'static> {
    Request {
        number: 0,
        at_us: 0,
        kind,
        key: b"k",
        columns: Columns::All,
        values: Values::NONE,
        scan_length: 1,
        wants_values: true,
        expected: None,
        statement: None,
    }
}

/// A call of a statement in two rounds.
pub fn call(statement: u32) -> Call<'static> {
    let (bytes, places, commands, widths) = (&b""[..], &[][..], &[(0, 0); 2][..], [0; 3]);
    Call { statement, bytes, places, commands, widths }
}

/// Passes a frame as the reply to an operation with one request.
///
/// # Panics
/// If a check fails.
pub fn take<O: RequestReply>(frame: &[u8], request: &Request<'_>, context: &mut O::Context) {
    let (mut operation, mut single) = (O::default(), Reply::default());
    operation.begin(request, context).expect("the request can be sent");
    let taken = operation.take(0, frame, context, &mut single);
    operation.progress().failure = taken.err();
    finish(&mut operation, &mut single);
}

/// Checks the result of an operation that has its replies.
///
/// # Panics
/// If a check fails.
pub fn finish<O: InFlightOperation>(operation: &mut O, single: &mut Reply) {
    match &operation.progress().failure {
        Some(failure) => assert!(failure.text.len() < 2000, "a failure is one line"),
        None => {
            let (_, reply) = operation.finish(single);
            assert!(reply.cells.iter().all(|cell| cell.place.end <= reply.bytes.len()));
        }
    }
}

/// The result of a stream of bytes.
#[derive(Debug, PartialEq, Eq)]
struct Taken {
    /// The complete frames.
    frames: Vec<Vec<u8>>,
    /// The reason if the connection was closed.
    closed: Option<String>,
}

/// A connection with test input in place of a server's.
pub struct Feed<P: Protocol> {
    framed: Framed<P>,
    target: P::Target,
    /// Begins an exchange, so that replies are expected.
    ask: fn(&mut P::Exchanges),
    frames: Vec<Vec<u8>>,
    closed: Option<String>,
}

impl<S: Server> Feed<S> {
    /// A connection to the default server that expects any number of replies.
    ///
    /// # Panics
    /// If an option has no default, or the kernel refuses a thread.
    pub fn ordered() -> Self {
        let protocol = S::parse(&BTreeMap::new()).expect("each option has a default");
        let target = protocol.servers().first().clone();
        Self::new(protocol, target, |exchanges| {
            exchanges.enter(0, u32::MAX, 0);
            exchanges.fresh(|_| ());
        })
    }
}

impl<P: Protocol> Feed<P> {
    /// `ask` begins an exchange, so that replies are expected.
    ///
    /// # Panics
    /// If the kernel refuses a thread.
    pub fn new(protocol: P, target: P::Target, ask: fn(&mut P::Exchanges)) -> Self {
        let framed = Framed::new(protocol.into(), 1).expect("a thread can be started");
        Self { framed, target, ask, frames: Vec::new(), closed: None }
    }

    /// The complete frames of the bytes.
    ///
    /// # Panics
    /// If the frames depend on how the bytes are split.
    pub fn frames(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let whole = in_one::<P>(bytes);
        assert_eq!(self.taken([bytes]), whole, "all bytes at once");
        assert_eq!(self.taken(pieces(bytes, 1 << 6)), whole, "in small pieces");
        assert_eq!(self.taken(pieces(bytes, 1 << 10)), whole, "in large pieces");
        if bytes.len() <= SINGLE_MAX {
            assert_eq!(self.taken(bytes.chunks(1)), whole, "byte by byte");
        }
        whole.frames
    }

    fn taken<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Taken {
        self.framed.renew(&self.target, || {
            // The other end isn't needed.
            let (socket, _) = UnixStream::pair().expect("a pair of sockets can be made");
            Socket::new(OwnedFd::from(socket).into(), None)
        });
        let exchanges = self.framed.exchanges(0);
        (self.ask)(exchanges);
        for piece in pieces {
            if self.framed.is_open(0) {
                self.take_in(0, piece, 0, &mut Ignore);
            }
        }
        Taken { frames: mem::take(&mut self.frames), closed: self.closed.take() }
    }
}

/// The frames, each scanned with all bytes available.
fn in_one<P: Protocol>(bytes: &[u8]) -> Taken {
    let mut frames = Vec::new();
    let mut rest = bytes;
    let closed = loop {
        match P::scan(&mut P::Scan::default(), rest) {
            Ok(None) => break None,
            Ok(Some(length)) => {
                assert!(length > 0, "a frame has a byte at least");
                let (frame, behind) = rest.split_at(length);
                frames.push(frame.to_vec());
                rest = behind;
            }
            Err(failure) => break Some(failure.text),
        }
    };
    Taken { frames, closed }
}

/// Splits the bytes into pieces of up to `longest` bytes, a power of two. The bytes seed the sizes,
/// so an input is always split in the same way.
fn pieces(bytes: &[u8], longest: usize) -> impl Iterator<Item = &[u8]> {
    // FNV-1a, then xorshift.
    let start = 0xcbf2_9ce4_8422_2325;
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let mut chance = bytes.iter().fold(start, add).max(1);
    let mut rest = bytes;
    iter::from_fn(move || {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        let length = (1 + chance as usize % longest).min(rest.len());
        let (piece, behind) = rest.split_at(length);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

impl<P: Protocol> Handler<P> for Feed<P> {
    fn framed(&mut self) -> &mut Framed<P> {
        &mut self.framed
    }

    fn issue(&mut self, _: Ticket) -> bool {
        false
    }

    fn take(
        &mut self,
        _: usize,
        frame: &[u8],
        _: u64,
        _: &mut impl Completions,
    ) -> Result<(), Failure> {
        self.frames.push(frame.to_vec());
        Ok(())
    }

    fn lost(&mut self, lost: Lost) {
        self.closed = Some(lost.failure.text);
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn report_ended(&mut self, _: u64, _: &mut impl Completions) {}
}

/// Ignores all results.
struct Ignore;

impl Completions for Ignore {
    fn stamp(&mut self) -> u64 {
        0
    }

    fn issued(&mut self, _: Ticket, _: u64) {}

    fn completed(&mut self, _: Ticket, _: u64, _: Outcome, _: &Reply) {}

    fn failed(&mut self, _: Ticket, _: u64, _: Outcome, _: &str, _: &Reply) {}
}
