//! The connections of one thread. Bytes are forwarded first and recorded afterwards.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use kvmark_driver_server::Failure;
use kvmark_driver_server::framed::{BELL, Poller, Socket, Stream};
use kvmark_driver_server::timers::Deadline;
use rustix::event::epoll::EventFlags;
use rustix::event::{EventfdFlags, eventfd};

use crate::connection::Connection;
use crate::cql::Rewriter;
use crate::recorder::Recorder;
use crate::report::TapReport;
use crate::settings::{Settings, TapProtocol};
use crate::shared::Shared;

/// Buffer size of a read.
const ROOM: usize = 64 << 10;
/// Time limit to connect to the server.
const REACH: Duration = Duration::from_secs(2);
/// Interval of the recorder's clock checks.
const TICK_NS: u64 = 500_000_000;
/// At the end, outstanding replies are awaited so long, and looked for at this interval.
const LAST_NS: u64 = 1_000_000_000;
const LOOK_NS: u64 = 20_000_000;

/// A client with its connection to the server, or why there is none.
pub(crate) type Reached = Result<[Socket; 2], String>;

/// Connects to the server for a client.
pub(crate) fn reach(client: TcpStream, settings: &Settings) -> Reached {
    let deadline = Deadline::after(REACH);
    let stream = Stream::reach(&settings.target, settings.tls.as_ref(), deadline);
    let server =
        stream.and_then(|stream| stream.into_socket().map_err(|problem| Failure::broken(&problem)));
    let server = deadline.judge(server).map_err(|failure| failure.text)?;
    Ok([Socket::new(client, None), server])
}

/// Passes clients to a thread.
#[derive(Clone)]
pub(crate) struct Inbox {
    sender: Sender<Option<Reached>>,
    bell: Arc<OwnedFd>,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<(Self, Outbox)> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, clients) = channel();
        Ok((Self { sender, bell: Arc::clone(&bell) }, Outbox { clients, bell }))
    }

    /// Passes a client; `None` ends the thread. A thread that a defect ended is reported when the
    /// tap ends.
    pub(crate) fn send(&self, client: Option<Reached>) {
        self.sender.send(client).ok();
        rustix::io::write(&self.bell, &1_u64.to_ne_bytes()).ok();
    }
}

/// The thread's end of an [`Inbox`].
pub(crate) struct Outbox {
    clients: Receiver<Option<Reached>>,
    bell: Arc<OwnedFd>,
}

/// A client and the server.
struct Link {
    /// The client, then the server.
    sides: [Side; 2],
    connection: Connection,
    /// For CQL, whose clients would leave the tap otherwise.
    rewriter: Option<Rewriter>,
}

/// One end of a link.
struct Side {
    socket: Socket,
    /// Bytes that wait to be written to it. Meanwhile nothing is read from the other side.
    rest: Vec<u8>,
    /// Whether it may send more.
    is_open: bool,
    /// Whether it was told that no more follows.
    is_shut: bool,
    watched: EventFlags,
}

impl Side {
    fn new(socket: Socket) -> Self {
        let (rest, watched) = (Vec::new(), EventFlags::empty());
        Self { socket, rest, is_open: true, is_shut: false, watched }
    }

    /// Writes bytes after those that wait.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let taken = if self.rest.is_empty() { self.socket.write(bytes)? } else { 0 };
        self.rest.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    fn is_blocked(&self) -> bool {
        !self.rest.is_empty() || self.socket.holds_back()
    }
}

/// The state of a thread.
struct Forwarder {
    protocol: TapProtocol,
    recorder: Rc<RefCell<Recorder>>,
    shared: Arc<Shared>,
    poller: Poller,
    /// By number; the sides of link N are 2 N and 2 N + 1 for the poller.
    links: HashMap<u64, Link>,
    begun: u64,
    /// The read buffer. Bytes are forwarded at once, so connections share it.
    room: Box<[u8]>,
}

/// Forwards the clients' connections until the end. Returns the thread's report.
pub(crate) fn run(
    protocol: TapProtocol,
    recorder: Recorder,
    outbox: Outbox,
) -> io::Result<TapReport> {
    let shared = Arc::clone(&recorder.shared);
    let recorder = Rc::new(RefCell::new(recorder));
    let mut forwarder = Forwarder {
        protocol,
        recorder: Rc::clone(&recorder),
        shared: Arc::clone(&shared),
        poller: Poller::new()?,
        links: HashMap::new(),
        begun: 0,
        room: vec![0; ROOM].into_boxed_slice(),
    };
    forwarder.poller.watch(BELL, &outbox.bell)?;
    let (mut tick_ns, mut end_ns) = (TICK_NS, u64::MAX);
    loop {
        let now_ns = shared.now_ns();
        if now_ns >= tick_ns {
            recorder.borrow_mut().tick(now_ns);
            tick_ns = now_ns + TICK_NS;
        }
        let is_ending = end_ns < u64::MAX;
        if is_ending && (now_ns >= end_ns || recorder.borrow().is_idle()) {
            break;
        }
        let limit_ns = (tick_ns - now_ns).min(if is_ending { LOOK_NS } else { u64::MAX });
        for index in 0..forwarder.poller.wait(2 * forwarder.links.len() + 1, limit_ns)? {
            let (number, flags) = forwarder.poller.ready(index);
            if number != BELL {
                forwarder.serve(number, flags);
                continue;
            }
            rustix::io::read(&outbox.bell, &mut [0; 8][..])?;
            for message in outbox.clients.try_iter() {
                match message {
                    Some(reached) => forwarder.adopt(reached),
                    None => end_ns = now_ns + LAST_NS,
                }
            }
        }
    }
    // Ends all connections.
    drop(forwarder);
    let recorder =
        Rc::try_unwrap(recorder).map_err(|_| io::Error::other("a connection is left"))?;
    Ok(recorder.into_inner().finish())
}

impl Forwarder {
    /// Begins to forward the bytes of a client.
    fn adopt(&mut self, reached: Reached) {
        self.recorder.borrow_mut().report.connections += 1;
        let sides = match reached {
            Ok(sockets) => sockets.map(Side::new),
            Err(why) => {
                let report = &mut self.recorder.borrow_mut().report;
                report.unreachable += 1;
                report.first_unreachable.get_or_insert(why);
                return;
            }
        };
        let connection = Connection::new(self.protocol, Rc::clone(&self.recorder));
        let address = sides[0].socket.stream.local_addr().ok();
        let tap = address.filter(|_| self.protocol == TapProtocol::Cql);
        let mut link = Link { sides, connection, rewriter: tap.map(Rewriter::new) };
        if link.settle(&self.poller, self.begun).is_ok() {
            self.links.insert(self.begun, link);
        }
        self.begun += 1;
    }

    /// Forwards what a side has sent or can take. A failure in one direction ends both, as it does
    /// without a tap.
    fn serve(&mut self, number: u64, flags: EventFlags) {
        // An event of the same wait may have ended the link.
        let Some(link) = self.links.get_mut(&(number / 2)) else { return };
        let served = link
            .forward((number % 2) as usize, flags, &mut self.room, &self.shared)
            .and_then(|()| link.settle(&self.poller, number / 2));
        if served.is_err() || link.sides.iter().all(|side| side.is_shut) {
            link.connection.end();
            self.links.remove(&(number / 2));
            self.recorder.borrow_mut().release(self.shared.now_ns());
        }
    }
}

impl Link {
    /// Writes the rest for a side that takes more bytes, and forwards those of one read. Bytes are
    /// recorded before the other side can answer them, even if not all of them could be written.
    fn forward(
        &mut self,
        place: usize,
        flags: EventFlags,
        room: &mut [u8],
        shared: &Shared,
    ) -> io::Result<()> {
        let [client, server] = &mut self.sides;
        let (from, to) = if place == 0 { (client, server) } else { (server, client) };
        if flags.contains(EventFlags::OUT) {
            let taken = from.socket.write(&from.rest)?;
            from.rest.drain(..taken);
        }
        if !from.watched.contains(EventFlags::IN) || flags == EventFlags::OUT {
            return Ok(());
        }
        let bytes = match from.socket.read(room) {
            Ok(received) => &room[..received.length],
            Err(problem)
                if matches!(problem.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return Ok(());
            }
            Err(problem) => return Err(problem),
        };
        if bytes.is_empty() {
            from.is_open = false;
            return Ok(());
        }
        let at_ns = shared.now_ns();
        shared.bytes.fetch_add(bytes.len() as u64, Relaxed);
        let passed = self.rewriter.as_mut().map(|rewriter| rewriter.pass(place, bytes));
        let mut bytes = bytes;
        if let Some(passed) = &passed {
            bytes = &passed.bytes;
            from.write(&passed.answer)?;
        }
        let is_known_first = passed.as_ref().is_some_and(|passed| passed.is_prepared);
        if !is_known_first {
            to.write(bytes)?;
        }
        match place {
            0 => self.connection.requests(bytes, at_ns),
            _ => self.connection.replies(bytes, at_ns),
        }
        if is_known_first {
            to.write(bytes)?;
        }
        Ok(())
    }

    /// Passes on the end of a side's bytes, and watches the events that are expected next.
    fn settle(&mut self, poller: &Poller, number: u64) -> io::Result<()> {
        for place in 0..2 {
            let [from, to] = [&self.sides[place], &self.sides[1 - place]];
            let mut flags = EventFlags::empty();
            flags.set(EventFlags::IN, from.is_open && !to.is_blocked());
            flags.set(EventFlags::OUT, from.is_blocked());
            let ends = !from.is_open && !to.is_shut && !to.is_blocked();
            let from = &mut self.sides[place];
            if flags != from.watched {
                let number = 2 * number + place as u64;
                poller.change(number, &from.socket.stream, from.watched, flags)?;
                from.watched = flags;
            }
            if ends {
                self.sides[1 - place].socket.shut()?;
                self.sides[1 - place].is_shut = true;
            }
        }
        Ok(())
    }
}
