//! A protocol of numbered lines, its session, and the server's end of a connection.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use kvmark_driver::{Completions, Reply, Ticket};
use kvmark_driver_server::framed::{
    ABANDONED, Framed, Handler, Lost, Numbered, Protocol, Stream, poll,
};
use kvmark_driver_server::timers::Deadline;
use kvmark_driver_server::{Failure, HostPort, Target, Tls};
use kvmark_plan::Outcome;

/// Longer than any reply takes.
pub(crate) const PATIENCE_NS: u64 = 10_000_000_000;
/// The longest pause between two attempts.
pub(crate) const PAUSE_MAX_NS: u64 = 35_000_000;

/// Lines of the form `NUMBER TEXT`.
pub(crate) struct Lines<const REOPENS: bool> {
    /// Whether a server sends a greeting.
    pub(crate) greets: bool,
    pub(crate) tls: Option<Tls>,
    pub(crate) connect_timeout: Duration,
}

impl<const REOPENS: bool> Lines<REOPENS> {
    /// Connections without a greeting and encryption.
    pub(crate) const PLAIN: Self =
        Self { greets: false, tls: None, connect_timeout: Duration::from_secs(3_600) };
}

impl<const REOPENS: bool> Protocol for Lines<REOPENS> {
    type Target = Target;
    type Exchanges = Numbered;
    type Scan = usize;

    const REOPENS: bool = REOPENS;

    fn dial(&self, target: &Target, deadline: Deadline) -> Result<Stream, Failure> {
        let mut stream = Stream::reach(target, self.tls.as_ref(), deadline)?;
        let mut byte = [if self.greets { 0 } else { b'\n' }];
        while byte != *b"\n" {
            stream.read_exact(&mut byte).map_err(|error| Failure::broken(&error))?;
        }
        Ok(stream)
    }

    fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    fn reconnect_max(&self) -> Duration {
        Duration::from_nanos(PAUSE_MAX_NS)
    }

    fn scan(scan: &mut usize, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        let end = bytes[*scan..].iter().position(|byte| *byte == b'\n');
        *scan = end.map_or(bytes.len(), |end| *scan + end);
        Ok(end.map(|_| *scan + 1))
    }
}

/// A session that records its results.
pub(crate) struct Session<const REOPENS: bool> {
    pub(crate) framed: Framed<Lines<REOPENS>>,
    sent: BTreeSet<Ticket>,
    /// The replies by ticket.
    pub(crate) answers: Vec<(Ticket, String)>,
    pub(crate) lost: Vec<(Ticket, Outcome)>,
    /// Reopened connections.
    pub(crate) opened: Vec<usize>,
    pub(crate) clock: Clock,
}

/// A manual clock, and the issued tickets.
#[derive(Default)]
pub(crate) struct Clock {
    pub(crate) now_ns: u64,
    pub(crate) issued: Vec<Ticket>,
}

impl Completions for Clock {
    fn stamp(&mut self) -> u64 {
        self.now_ns
    }

    fn issued(&mut self, ticket: Ticket, _: u64) {
        self.issued.push(ticket);
    }

    fn completed(&mut self, _: Ticket, _: u64, _: Outcome, _: &Reply) {}

    fn failed(&mut self, _: Ticket, _: u64, _: Outcome, _: &str, _: &Reply) {}
}

impl<const REOPENS: bool> Session<REOPENS> {
    /// A session with this number of connections to each server.
    pub(crate) fn new(width: usize) -> Self {
        Self::of(Lines::PLAIN, width)
    }

    pub(crate) fn of(lines: Lines<REOPENS>, width: usize) -> Self {
        let framed = Framed::new(Arc::new(lines), width).unwrap();
        let clock = Clock::default();
        let (sent, answers, lost, opened) = Default::default();
        Self { framed, sent, answers, lost, opened, clock }
    }

    /// Submits a line for a ticket. Returns its number.
    pub(crate) fn ask(&mut self, node: usize, ticket: Ticket, text: &str) -> Result<u16, Failure> {
        let index = self.framed.index(node, ticket);
        self.framed.enter(index, |exchanges, output| {
            let number = exchanges.enter(ticket, 0).unwrap();
            writeln!(output, "{number} {text}").unwrap();
            number
        })
    }

    /// A poll without a wait.
    pub(crate) fn look(&mut self) {
        self.poll(0);
    }

    fn poll(&mut self, patience_ns: u64) {
        let mut clock = std::mem::take(&mut self.clock);
        poll(self, patience_ns, &mut clock);
        self.clock = clock;
    }

    /// Polls until a condition is met, and skips pauses.
    pub(crate) fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            self.poll(PATIENCE_NS);
            if self.framed.due_ns() < u64::MAX {
                self.clock.now_ns = self.clock.now_ns.max(self.framed.due_ns());
            }
        }
    }

    /// Polls until a pause begins. Returns its length.
    pub(crate) fn next_pause_ns(&mut self) -> u64 {
        while self.framed.due_ns() == u64::MAX {
            self.poll(PATIENCE_NS);
        }
        self.framed.due_ns() - self.clock.now_ns
    }
}

impl<const REOPENS: bool> Handler<Lines<REOPENS>> for Session<REOPENS> {
    fn framed(&mut self) -> &mut Framed<Lines<REOPENS>> {
        &mut self.framed
    }

    fn issue(&mut self, ticket: Ticket) -> bool {
        self.sent.insert(ticket)
    }

    fn take(
        &mut self,
        index: usize,
        frame: &[u8],
        _: u64,
        _: &mut impl Completions,
    ) -> Result<(), Failure> {
        let line = std::str::from_utf8(frame).unwrap().trim_end_matches('\n');
        let (number, text) = line.split_once(' ').unwrap();
        match self.framed.exchanges(index).answered(number.parse().unwrap()) {
            Some((ABANDONED, _)) => {}
            Some((ticket, _)) => self.answers.push((ticket, text.to_owned())),
            None => {
                let why = format!("nobody waits for {number}");
                return Err(Failure::new(Outcome::Protocol, why));
            }
        }
        Ok(())
    }

    fn lost(&mut self, lost: Lost) {
        self.lost.push((lost.ticket, lost.failure.outcome));
    }

    fn opened(&mut self, index: usize) {
        self.opened.push(index);
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn report_ended(&mut self, _: u64, _: &mut impl Completions) {}
}

/// A server whose connections are accepted by the test.
pub(crate) struct Server {
    listener: TcpListener,
    pub(crate) place: Target,
}

impl Server {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let place = Target::Tcp(HostPort { host: "127.0.0.1".to_owned(), port });
        Self { listener, place }
    }

    /// Waits for the next connection.
    pub(crate) fn accept(&self) -> Peer {
        self.listener.set_nonblocking(false).unwrap();
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        Peer(BufReader::new(stream))
    }

    /// Whether a connection waits to be accepted.
    pub(crate) fn is_asked(&self) -> bool {
        self.listener.set_nonblocking(true).unwrap();
        match self.listener.accept() {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                false
            }
        }
    }
}

/// The server's end of a connection.
pub(crate) struct Peer(BufReader<TcpStream>);

impl Peer {
    /// The next line; `None` when the client has closed.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.0.read_line(&mut line).unwrap();
        (length > 0).then(|| line.trim_end().to_owned())
    }

    /// Sends raw text.
    pub(crate) fn say(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Whether the client has closed.
    pub(crate) fn is_left(&mut self) -> bool {
        self.0.get_mut().set_nonblocking(true).unwrap();
        match self.0.read(&mut [0; 1]) {
            Ok(length) => length == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }
}
