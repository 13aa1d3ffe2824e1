//! A worker for tests of drivers, which are written as futures.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use kvmark_driver::{
    AnySession, Blocking, Columns, Completions, Driver, Expected, Layout, Reply, Request, Session,
    Ticket, Values,
};
use kvmark_plan::{Kind, Outcome};

/// Time limit of a poll, after which other futures continue.
const PATIENCE_NS: u64 = 200_000;

/// Runs a future to its end on this thread, without a runtime.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::yield_now();
    }
}

/// A session shared by futures, one per client.
pub struct Shared<D: Driver>(RefCell<Inner<D>>);

struct Inner<D: Driver> {
    session: AnySession<D::Blocking, D::Session>,
    results: Results,
}

/// The recorded results of a session.
struct Results {
    start: Instant,
    issued: HashMap<Ticket, u64>,
    ended: HashMap<Ticket, (Outcome, Reply)>,
    failure: Option<String>,
}

impl Completions for Results {
    fn stamp(&mut self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn issued(&mut self, ticket: Ticket, at_ns: u64) {
        assert!(self.issued.insert(ticket, at_ns).is_none(), "{ticket} was issued before");
    }

    fn completed(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, reply: &Reply) {
        let is_complete = !outcome.is_failure() || outcome == Outcome::Mismatch;
        assert!(is_complete, "{outcome:?} is a failure");
        let issued_ns = self.issued.remove(&ticket).expect("a completed request was issued");
        assert!(issued_ns <= at_ns);
        self.ended.insert(ticket, (outcome, reply.clone()));
    }

    fn failed(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, why: &str, reply: &Reply) {
        assert!(outcome.is_failure(), "{outcome:?} is no failure");
        let issued_ns = self.issued.remove(&ticket).expect("a failed request was issued");
        assert!(issued_ns <= at_ns);
        self.failure = Some(why.to_owned());
        self.ended.insert(ticket, (outcome, reply.clone()));
    }

    fn expired(&mut self, ticket: Ticket, at_ns: u64, why: &str) {
        let why = format!("given up: {why}");
        self.failed(ticket, at_ns, Outcome::Timeout, &why, &Reply::default());
    }
}

/// A request in flight, given up when its future is dropped.
struct InFlightRequest<'a, D: Driver> {
    shared: &'a Shared<D>,
    ticket: Ticket,
}

impl<D: Driver> Drop for InFlightRequest<'_, D> {
    fn drop(&mut self) {
        let inner = &mut *self.shared.0.borrow_mut();
        if let AnySession::Asynchronous(session) = &mut inner.session {
            session.give_up(self.ticket);
        }
        inner.results.issued.remove(&self.ticket);
    }
}

impl<D: Driver> Shared<D> {
    /// The reason of the last failure.
    pub fn last_failure(&self) -> Option<String> {
        let inner = self.0.borrow();
        match &inner.session {
            AnySession::Blocking(session) => session.last_failure(),
            AnySession::Asynchronous(_) => inner.results.failure.clone(),
        }
    }
}

/// Wall time, as the engine passes it with a request.
fn wall_us() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.expect("it is later than 1970").as_micros() as i64
}

/// A worker's session for this number of clients.
pub fn session<D: Driver>(driver: &D, clients: u32) -> Shared<D> {
    let session = driver.session(clients).unwrap_or_else(|error| panic!("{error}"));
    let (issued, ended) = (HashMap::new(), HashMap::new());
    let results = Results { start: Instant::now(), issued, ended, failure: None };
    Shared(RefCell::new(Inner { session, results }))
}

/// A table with fields `field0` and so on.
pub fn layout(fields: u32) -> Layout {
    Layout {
        table: "usertable".to_owned(),
        field_names: (0..fields).map(|n| format!("field{n}")).collect(),
        prepare: Vec::new(),
        statements: Vec::new(),
    }
}

/// A request for all fields of a record, or of ten from it on.
pub fn request(kind: Kind, key: &str) -> Request<'_> {
    Request {
        number: 0,
        at_us: 0,
        kind,
        key: key.as_bytes(),
        columns: Columns::All,
        values: Values::NONE,
        scan_length: 10,
        wants_values: true,
        expected: None,
        statement: None,
    }
}

/// Executes a request of the client of this number.
pub async fn execute<D: Driver>(
    shared: &Shared<D>,
    ticket: Ticket,
    request: &Request<'_>,
) -> (Outcome, Reply) {
    let request = &Request { at_us: wall_us(), ..*request };
    match &mut shared.0.borrow_mut().session {
        AnySession::Blocking(session) => {
            let mut reply = Reply::default();
            let outcome = session.execute(request, &mut reply);
            return (outcome, reply);
        }
        AnySession::Asynchronous(session) => session.submit(ticket, request),
    }
    let in_flight = InFlightRequest { shared, ticket };
    let ended = poll_fn(|context| {
        let Inner { session, results } = &mut *shared.0.borrow_mut();
        if let AnySession::Asynchronous(session) = session
            && !results.ended.contains_key(&ticket)
        {
            session.poll(PATIENCE_NS, results);
        }
        match results.ended.remove(&ticket) {
            Some(ended) => Poll::Ready(ended),
            None => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    })
    .await;
    std::mem::forget(in_flight);
    ended
}

/// The cells of a reply as `row.field=value`.
pub fn cells(reply: &Reply) -> Vec<String> {
    let cell = |cell: &kvmark_driver::Cell| {
        let value = String::from_utf8_lossy(reply.bytes_of(cell));
        format!("{}.{}={value}", cell.row, cell.field)
    };
    reply.cells.iter().map(cell).collect()
}

/// Three values of nine bytes, which begin with a tag.
const TAGGED: Values<'static> =
    Values { bytes: b"0123ABCDx0123ABCDy0123ABCDz", places: &[(0, 0..9), (1, 9..18), (2, 18..27)] };

/// Asserts that a driver with records of three fields compares every kind of read with the expected
/// values.
///
/// # Panics
/// If it doesn't.
pub async fn assert_compares<D: Driver>(session: &Shared<D>) {
    let insert = Request { values: TAGGED, ..request(Kind::Insert, "tagged") };
    assert_eq!(execute(session, 0, &insert).await.0, Outcome::Ok);
    for columns in [Columns::All, Columns::AllByName, Columns::One(1)] {
        let fields = if columns == Columns::One(1) { 1 } else { 3 };
        let (right, tag) = (Some(fields), Some(*b"0123ABCD"));
        let cases = [
            (Expected { fields: right, length: Some(9), tag, proves: false }, Outcome::Ok),
            (Expected { fields: None, length: None, tag, proves: false }, Outcome::Ok),
            (Expected { fields: right, length: Some(9), tag: None, proves: false }, Outcome::Ok),
            (
                Expected { fields: Some(fields + 1), length: Some(9), tag, proves: false },
                Outcome::Mismatch,
            ),
            (Expected { fields: right, length: Some(8), tag, proves: false }, Outcome::Mismatch),
            (
                Expected { fields: right, length: Some(9), tag: Some([b'0'; 8]), proves: false },
                Outcome::Mismatch,
            ),
        ];
        for (expected, outcome) in cases {
            for wants_values in [false, true] {
                let read = request(Kind::Read, "tagged");
                let read = Request { columns, wants_values, expected: Some(&expected), ..read };
                let (found, reply) = execute(session, 0, &read).await;
                assert_eq!((found, reply.rows), (outcome, 1), "{columns:?} {expected:?}");
            }
            let missing = Request { expected: Some(&expected), ..request(Kind::Read, "missing") };
            assert_eq!(execute(session, 0, &missing).await.0, Outcome::Miss);
        }
    }
}
