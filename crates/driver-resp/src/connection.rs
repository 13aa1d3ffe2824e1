//! One connection, used by one client or shared by many: requests go out in the order they came,
//! and replies are matched to them in that order.
//!
//! There is no task behind a connection. The first client in the queue that still waits sends what
//! has gathered, reads, and takes its reply in place; then it wakes the next one. So a client alone
//! pays one write and one read for an exchange, and clients that share a connection share both.
//! A client that gave up leaves its place in the queue behind, and its late reply is passed over.
//!
//! A connection that fails ends every exchange on it at once. The next request opens it again; a
//! request that comes while it's down waits for the attempt under way, and ends with it if it
//! fails. Attempts are spaced by a pause that doubles up to the option `reconnect_max_ms`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use kvmark_driver::Time;
use kvmark_plan::Outcome;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::address::Target;
use crate::connect::{connect, too_slow};
use crate::failure::Failure;
use crate::options::Settings;
use crate::resp::{Garbage, Scan, is_push};
use crate::stream::Stream;

/// Bytes that a connection can take in once it is used. It grows with the replies.
const INPUT_BYTES: usize = 4 << 10;
/// Where it stops to grow because it was filled: many replies at once. One reply may take more.
const INPUT_FILLED_MAX: usize = 64 << 10;
/// Late replies that are waited for before the connection is given up.
const LATE_MAX: usize = 1024;
/// The pause before the second attempt in a row.
const PAUSE_NS: u64 = 10_000_000;

type Opening = Pin<Box<dyn Future<Output = Result<Stream, Failure>>>>;

/// What is between the client and the server.
enum Link {
    Up(Stream),
    /// An attempt is under way, until it succeeds, fails or takes too long.
    Opening {
        attempt: Opening,
        until_ns: u64,
    },
    /// The next attempt must wait.
    Pausing {
        until_ns: u64,
    },
    Down,
}

/// A client's place in the queue of exchanges.
#[derive(Debug)]
struct Place {
    waker: Option<Waker>,
    /// Replies that are still to come.
    replies: u32,
    /// Whether nobody waits for them any more.
    given_up: bool,
}

/// Bytes received and not yet taken.
#[derive(Debug)]
struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    scan: Scan,
}

impl Input {
    fn new() -> Self {
        Self { bytes: Vec::new(), start: 0, end: 0, scan: Scan::START }
    }

    fn clear(&mut self) {
        (self.start, self.end, self.scan) = (0, 0, Scan::START);
    }

    fn held(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Length of the first reply, once it is complete.
    fn reply(&mut self) -> Result<Option<usize>, Garbage> {
        if self.start == self.end {
            return Ok(None);
        }
        let Self { bytes, start, end, scan } = self;
        scan.advance(&bytes[*start..*end])
    }

    fn consume(&mut self, length: usize) {
        self.start += length;
        self.scan = Scan::START;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Room behind what is held, a quarter of the buffer at least: a read that fills it would be
    /// followed by one that finds nothing. A buffer that was filled all the same is doubled, up to
    /// what a pipeline's replies take, so that one read fetches them.
    fn room(&mut self) -> &mut [u8] {
        let was_filled = self.end == self.bytes.len() && self.bytes.len() < INPUT_FILLED_MAX;
        let least = self.bytes.len() / 4;
        if self.bytes.len() - self.end < least {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if was_filled || self.bytes.len() - self.end < least {
            self.bytes.resize((2 * self.bytes.len()).max(INPUT_BYTES), 0);
        }
        &mut self.bytes[self.end..]
    }
}

struct State {
    settings: Arc<Settings>,
    target: Target,
    time: Rc<dyn Time>,
    link: Link,
    /// Attempts and connections that failed since the last reply.
    losses: u32,
    /// What ended the exchanges that aren't in the queue any more.
    fault: Option<Failure>,
    input: Input,
    output: Vec<u8>,
    /// Bytes of the output that are sent.
    sent: usize,
    /// Whether sent bytes may be held back by the stream.
    unflushed: bool,
    queue: VecDeque<Place>,
    /// Ticket of the queue's first place.
    first: u64,
    /// Places in the queue that were given up.
    late: usize,
    /// Whether the client that has to send and read was woken and hasn't come yet.
    nudged: bool,
}

/// One connection of a session.
pub(crate) struct Connection {
    state: RefCell<State>,
}

/// A client's stay in the queue; leaving it early gives up the place.
struct Stay<'a> {
    state: &'a RefCell<State>,
    ticket: u64,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.state.borrow_mut().leave(self.ticket);
    }
}

impl Connection {
    /// Around an open stream, or to be opened when it is first used.
    pub(crate) fn new(
        stream: Option<Stream>,
        target: Target,
        settings: Arc<Settings>,
        time: Rc<dyn Time>,
    ) -> Self {
        let state = State {
            settings,
            target,
            time,
            link: stream.map_or(Link::Down, Link::Up),
            losses: 0,
            fault: None,
            input: Input::new(),
            output: Vec::new(),
            sent: 0,
            unflushed: false,
            queue: VecDeque::new(),
            first: 0,
            late: 0,
            nudged: false,
        };
        Self { state: RefCell::new(state) }
    }

    /// Whether the server may be lost: it didn't answer last, or owes replies.
    pub(crate) fn is_troubled(&self) -> bool {
        let state = self.state.borrow();
        state.losses > 0 || state.late > 0
    }

    /// Sends the commands that `encode` writes, this many, and hands each reply to `take` as it
    /// lies in the buffer. The first failure that `take` returns is the exchange's.
    pub(crate) async fn exchange(
        &self,
        commands: u32,
        encode: impl FnOnce(&mut Vec<u8>),
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if commands == 0 {
            return Ok(());
        }
        let ticket = self.state.borrow_mut().enter(commands, encode)?;
        let stay = Stay { state: &self.state, ticket };
        let mut refused = None;
        poll_fn(|context| {
            let mut hand = |reply: &[u8]| match take(reply) {
                Err(failure) if !failure.ends_connection() => {
                    refused.get_or_insert(failure);
                    Ok(())
                }
                taken => taken,
            };
            stay.state.borrow_mut().poll(ticket, context, &mut hand)
        })
        .await?;
        refused.map_or(Ok(()), Err)
    }
}

impl State {
    /// Joins the queue with these commands.
    fn enter(&mut self, commands: u32, encode: impl FnOnce(&mut Vec<u8>)) -> Result<u64, Failure> {
        let unasked = self.input.held().first().is_some_and(|byte| *byte != b'>');
        if self.queue.is_empty() && unasked {
            let text = "the server answered what nobody had asked";
            return Err(self.fail(Failure::new(Outcome::Protocol, text)));
        }
        if self.late > LATE_MAX {
            let text = format!("the server owes more than {LATE_MAX} replies");
            return Err(self.fail(Failure::new(Outcome::Connection, text)));
        }
        encode(&mut self.output);
        let ticket = self.first + self.queue.len() as u64;
        self.queue.push_back(Place { waker: None, replies: commands, given_up: false });
        Ok(ticket)
    }

    /// Leaves the queue, if still in it.
    fn leave(&mut self, ticket: u64) {
        let Some(index) = ticket.checked_sub(self.first) else { return };
        let Some(place) = self.queue.get_mut(index as usize) else { return };
        place.given_up = true;
        place.waker = None;
        self.late += 1;
        self.nudged = false;
        self.wake_next();
    }

    /// Wakes the client that now has to send and read, once.
    fn wake_next(&mut self) {
        if self.nudged {
            return;
        }
        let next = self.queue.iter().find(|place| !place.given_up);
        if let Some(waker) = next.and_then(|place| place.waker.as_ref()) {
            waker.wake_by_ref();
            self.nudged = true;
        }
    }

    fn poll(
        &mut self,
        ticket: u64,
        context: &mut Context<'_>,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Poll<Result<(), Failure>> {
        let Some(index) = ticket.checked_sub(self.first) else {
            return Poll::Ready(Err(self.fault.clone().unwrap_or_else(|| Failure::closed(false))));
        };
        self.remember(index as usize, context.waker());
        if self.queue.iter().take(index as usize).any(|place| !place.given_up) {
            if self.sent < self.output.len() {
                self.wake_next();
            }
            return Poll::Pending;
        }
        self.nudged = false;
        match self.serve(ticket, context, take) {
            Poll::Ready(Err(failure)) => Poll::Ready(Err(self.fail(failure))),
            Poll::Ready(Ok(())) => {
                self.wake_next();
                Poll::Ready(Ok(()))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn remember(&mut self, index: usize, waker: &Waker) {
        let place = &mut self.queue[index];
        if !place.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            place.waker = Some(waker.clone());
        }
    }

    /// Sends and reads until the exchange is complete.
    fn serve(
        &mut self,
        ticket: u64,
        context: &mut Context<'_>,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Poll<Result<(), Failure>> {
        loop {
            if self.distribute(ticket, take)? {
                return Poll::Ready(Ok(()));
            }
            let State { link: Link::Up(stream), input, output, sent, unflushed, .. } = self else {
                match self.open(context)? {
                    Poll::Ready(()) => continue,
                    Poll::Pending => return Poll::Pending,
                }
            };
            send(stream, output, sent, unflushed, context)?;
            match receive(stream, input, context)? {
                Poll::Ready(()) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Hands over the replies that have come, through this ticket's last; whether it was there.
    fn distribute(
        &mut self,
        ticket: u64,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<bool, Failure> {
        while let Some(length) = self.input.reply()? {
            let reply = &self.input.held()[..length];
            if is_push(reply) {
                self.input.consume(length);
                continue;
            }
            let own = self.first == ticket;
            let place = self.queue.front_mut().expect("the ticket's place is in the queue");
            let taken = if own { take(reply) } else { Ok(()) };
            self.losses = 0;
            self.input.consume(length);
            place.replies -= 1;
            if place.replies == 0 {
                self.late -= usize::from(place.given_up);
                self.queue.pop_front();
                self.first += 1;
            }
            taken?;
            if own && self.first != ticket {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes on opening the connection.
    fn open(&mut self, context: &mut Context<'_>) -> Result<Poll<()>, Failure> {
        let now_ns = self.time.now_ns();
        loop {
            match &mut self.link {
                Link::Up(_) => return Ok(Poll::Ready(())),
                Link::Down => self.link = Link::Pausing { until_ns: now_ns + self.pause_ns() },
                Link::Pausing { until_ns } if now_ns < *until_ns => {
                    self.time.wake_at(*until_ns, context);
                    return Ok(Poll::Pending);
                }
                Link::Pausing { .. } => {
                    let (settings, target) = (Arc::clone(&self.settings), self.target.clone());
                    let limit_ns = settings.connect_timeout.as_nanos() as u64;
                    let attempt = Box::pin(async move { connect(&settings, &target).await });
                    self.link = Link::Opening { attempt, until_ns: now_ns + limit_ns };
                }
                Link::Opening { attempt, until_ns } => match attempt.as_mut().poll(context) {
                    Poll::Ready(stream) => self.link = Link::Up(stream?),
                    Poll::Pending if now_ns >= *until_ns => {
                        return Err(too_slow(self.settings.connect_timeout));
                    }
                    Poll::Pending => {
                        self.time.wake_at(*until_ns, context);
                        return Ok(Poll::Pending);
                    }
                },
            }
        }
    }

    /// How long to wait before the next attempt: not at all for a connection that worked.
    fn pause_ns(&self) -> u64 {
        let longest_ns = self.settings.reconnect_max.as_nanos() as u64;
        match self.losses {
            0 | 1 => 0,
            losses => (PAUSE_NS << (losses - 2).min(30)).min(longest_ns),
        }
    }

    /// Closes the connection and ends every exchange on it. Gives the failure back.
    fn fail(&mut self, failure: Failure) -> Failure {
        let was_up = matches!(self.link, Link::Up(_));
        self.link = Link::Down;
        self.losses = self.losses.saturating_add(1);
        // One client met it; for the others the connection was closed or could not be opened.
        self.fault = Some(if was_up {
            Failure::new(Outcome::Connection, failure.text.clone())
        } else {
            failure.clone()
        });
        self.input.clear();
        self.output.clear();
        (self.sent, self.unflushed, self.late) = (0, false, 0);
        self.nudged = false;
        self.first += self.queue.len() as u64;
        for place in self.queue.drain(..) {
            if let Some(waker) = place.waker {
                waker.wake();
            }
        }
        failure
    }
}

/// Sends as much as the stream takes; if not all, the task is woken when it takes more.
fn send(
    stream: &mut Stream,
    output: &mut Vec<u8>,
    sent: &mut usize,
    unflushed: &mut bool,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    while *sent < output.len() {
        match Pin::new(&mut *stream).poll_write(context, &output[*sent..]) {
            Poll::Ready(Ok(0)) => return Err(Failure::closed(false)),
            Poll::Ready(Ok(length)) => *sent += length,
            Poll::Ready(Err(error)) => return Err(Failure::broken(&error)),
            Poll::Pending => return Ok(()),
        }
        *unflushed = true;
    }
    output.clear();
    *sent = 0;
    if *unflushed {
        match Pin::new(stream).poll_flush(context) {
            Poll::Ready(Ok(())) => *unflushed = false,
            Poll::Ready(Err(error)) => return Err(Failure::broken(&error)),
            Poll::Pending => {}
        }
    }
    Ok(())
}

/// Reads once.
fn receive(
    stream: &mut Stream,
    input: &mut Input,
    context: &mut Context<'_>,
) -> Result<Poll<()>, Failure> {
    let mut room = ReadBuf::new(input.room());
    match Pin::new(stream).poll_read(context, &mut room) {
        Poll::Ready(Ok(())) => {}
        Poll::Ready(Err(error)) => return Err(Failure::broken(&error)),
        Poll::Pending => return Ok(Poll::Pending),
    }
    let length = room.filled().len();
    if length == 0 {
        let in_reply = input.scan.has_begun() || !input.held().is_empty();
        return Err(Failure::closed(in_reply));
    }
    input.end += length;
    Ok(Poll::Ready(()))
}
