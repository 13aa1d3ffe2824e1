//! The simulated driver: a queue with known service times, stalls and faults, so that a run's
//! records can be compared with results in closed form.
//!
//! Requests are served first come, first served, by `servers` equal servers. During a stall no
//! server works: service under way is paused, as when a process is stopped.
//!
//! A simulated store finds every key, or keeps records in memory. Faults are planted in these
//! records. Verification must find each fault and no other.

mod faults;
mod records;
mod request;
mod store;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use kvmark_plan::{GOLDEN, Kind, Outcome, split_mix};
use serde_json::Value;

use self::faults::{FAULT_OPTIONS, FAULTS_AFTER, FaultCounts};
use self::request::{StatementForm, StoreRequest};
use self::store::MemoryStore;
use crate::options::{Accepts, Given, OptionDoc, option};
use crate::{
    About, AnySession, Capabilities, Completions, Description, Driver, Execution, Layout, Never,
    OpenError, Place, Reply, Request, Scheme, Session, Ticket,
};

/// A list of windows `start+length`, in seconds since the run began, separated by commas.
#[derive(Clone, Debug, Default)]
struct Windows(Vec<Range<u64>>);

impl FromStr for Windows {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let seconds = |text: &str| -> Result<u64, ()> {
            let value: f64 = text.parse().map_err(drop)?;
            if !(0.0..1e9).contains(&value) {
                return Err(());
            }
            Ok((value * 1e9).round() as u64)
        };
        let mut windows = Vec::new();
        for window in text.split(',').filter(|window| !window.is_empty()) {
            let (start, length) = window.split_once('+').ok_or(())?;
            let start = seconds(start)?;
            windows.push(start..start + seconds(length)?);
        }
        windows.sort_by_key(|window| window.start);
        Ok(Self(windows))
    }
}

impl Windows {
    fn around(&self, instant_ns: u64) -> Option<&Range<u64>> {
        self.0.iter().find(|window| window.contains(&instant_ns))
    }

    /// When the first of them begins within a time.
    fn first_start(&self, within_ns: Range<u64>) -> Option<u64> {
        self.0.iter().map(|window| window.start).find(|start_ns| within_ns.contains(start_ns))
    }
}

const WINDOWS: Accepts = Accepts::Text("windows such as 10+1,20+0.5 (start+length in seconds)");
const SHARE: Accepts = Accepts::Text("a share between 0 and 1");

/// Every option of this driver, in the order of the documentation.
#[must_use]
pub fn options() -> Vec<&'static OptionDoc> {
    TABLE.iter().chain(&FAULT_OPTIONS).chain([&FAULTS_AFTER]).collect()
}

static TABLE: [OptionDoc; 11] = [
    option("servers", Accepts::Text("a count of at least 1"), Some("1"))
        .meaning("Servers that work side by side."),
    option("service", Accepts::Words(&["constant", "exponential"]), Some("exponential"))
        .meaning("How service times are distributed."),
    option("mean_us", Accepts::Text("microseconds, 0 or more"), Some("100"))
        .meaning("Mean service time in microseconds."),
    option("seed", Accepts::Text("a whole number"), Some("1"))
        .meaning("Seed of service times, misses and errors."),
    option("stall", WINDOWS, Some("")).meaning("When requests are delayed."),
    option("outage", WINDOWS, Some("")).meaning("When requests are answered `unavailable`."),
    option("disconnect", WINDOWS, Some(""))
        .meaning("When connections are down; of the writes under way some take effect."),
    option("miss_share", SHARE, Some("0")).meaning("Share of requests that find nothing."),
    option("error_share", SHARE, Some("0")).meaning("Share of requests that fail."),
    option("clock", Accepts::Words(&["virtual", "real"]), Some("real"))
        .meaning("Whether the system lives in simulated time, or in the machine's."),
    option("store", Accepts::Words(&["memory", "none"]), Some("none"))
        .meaning("Whether records are kept in memory, or every key is found."),
];

/// A simulated system.
#[derive(Clone, Debug)]
pub struct Sim {
    /// Whether service times are constant, not exponentially distributed.
    is_constant: bool,
    mean_ns: f64,
    seed: u64,
    stalls: Windows,
    outages: Windows,
    disconnects: Windows,
    miss_share: f64,
    error_share: f64,
    simulated_time: bool,
    description: Description,
    queue: Arc<Mutex<Queue>>,
    store: Option<Arc<Mutex<MemoryStore>>>,
    forms: Arc<[StatementForm]>,
}

/// When each server is free again, and how many requests came so far.
#[derive(Debug)]
struct Queue {
    free_ns: BinaryHeap<Reverse<u64>>,
    arrived: u64,
}

impl Sim {
    /// The driver's static properties.
    pub const ABOUT: About =
        About::new("sim", Place::Nothing, &[Scheme::new("sim", "sim:?servers=1")]);

    /// Opens a simulated system.
    ///
    /// # Errors
    /// [`OpenError::Option`] for an unknown option or a value that can't be used.
    pub fn open(options: &BTreeMap<String, Value>, layout: &Layout) -> Result<Self, OpenError> {
        let given = Given::parse(self::options(), options)?;
        let servers: u32 = given.read("servers")?;
        let mean_us: f64 = given.read("mean_us")?;
        if servers == 0 || !mean_us.is_finite() || mean_us < 0.0 {
            let problem = "a simulated system needs a server and a service time of 0 or more";
            return Err(OpenError::Option(problem.to_owned()));
        }
        let own = |doc: &OptionDoc| Some((doc.name.to_owned(), given.own(doc.name)?.to_owned()));
        let description = Description {
            system: "sim".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: self::options().into_iter().filter_map(own).collect(),
        };
        let free_ns = (0..servers).map(|_| Reverse(0)).collect();
        Ok(Self {
            is_constant: given.text("service") == Some("constant"),
            mean_ns: mean_us * 1e3,
            seed: given.read("seed")?,
            stalls: given.read("stall")?,
            outages: given.read("outage")?,
            disconnects: given.read("disconnect")?,
            miss_share: given.read("miss_share")?,
            error_share: given.read("error_share")?,
            simulated_time: given.text("clock") == Some("virtual"),
            description,
            queue: Arc::new(Mutex::new(Queue { free_ns, arrived: 0 })),
            store: store(&given)?.map(|store| Arc::new(Mutex::new(store))),
            forms: layout.statements.iter().map(StatementForm::of).collect(),
        })
    }

    /// Takes a request at an instant. Returns completion and outcome.
    fn serve(&self, now_ns: u64) -> (u64, Outcome) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let number = queue.arrived;
        queue.arrived += 1;
        if self.outages.around(now_ns).is_some() {
            return (now_ns, Outcome::Unavailable);
        }
        if self.disconnects.around(now_ns).is_some() {
            return (now_ns, Outcome::Connection);
        }
        let Reverse(free_ns) = queue.free_ns.pop().expect("there is at least one server");
        let scale = || -(1.0 - unit(self.seed, 2 * number)).ln();
        let service_ns = self.mean_ns * if self.is_constant { 1.0 } else { scale() };
        let done_ns = self.finish(now_ns.max(free_ns), service_ns.round() as u64);
        queue.free_ns.push(Reverse(done_ns));
        if let Some(end_ns) = self.disconnects.first_start(now_ns..done_ns) {
            return (end_ns, Outcome::Connection);
        }
        let chance = unit(self.seed, 2 * number + 1);
        let outcome = if chance < self.error_share {
            Outcome::Unavailable
        } else if chance < self.error_share + self.miss_share {
            Outcome::Miss
        } else {
            Outcome::Ok
        };
        (done_ns, outcome)
    }

    /// End of work of this length that can begin at an instant, extended by stalls.
    fn finish(&self, start_ns: u64, work_ns: u64) -> u64 {
        let mut instant_ns = start_ns;
        let mut left_ns = work_ns;
        for stall in &self.stalls.0 {
            if stall.end <= instant_ns {
                continue;
            }
            let before_ns = stall.start.saturating_sub(instant_ns);
            if left_ns <= before_ns && stall.start > instant_ns {
                break;
            }
            left_ns -= before_ns.min(left_ns);
            instant_ns = stall.end;
        }
        instant_ns + left_ns
    }
}

/// Separate the choice of faults, and of writes that take effect when a connection breaks, from
/// other random numbers.
const FAULT_SEED: u64 = 1 << 32;
const EFFECT_SEED: u64 = 2 << 32;

/// The store that the options ask for.
fn store(given: &Given) -> Result<Option<MemoryStore>, OpenError> {
    let counts = FaultCounts::read(given);
    let refuse = |text: String| Err(OpenError::Option(text));
    if given.text("store") != Some("memory") {
        return match counts.first() {
            Some(name) => refuse(format!(
                "option '{name}' plants faults in records: give store=memory too, so that there \
                 are some"
            )),
            None => Ok(None),
        };
    }
    if given.read::<f64>("miss_share")? > 0.0 {
        return refuse(
            "options 'miss_share' and 'store' exclude each other: with store=memory a request \
             misses when there is no such record"
                .to_owned(),
        );
    }
    let seed = given.read::<u64>("seed")? ^ FAULT_SEED;
    Ok(Some(MemoryStore::new(counts, seed)))
}

/// Uniform in [0, 1), a function of seed and number.
fn unit(seed: u64, number: u64) -> f64 {
    let noise = split_mix(seed.wrapping_add(number.wrapping_add(1).wrapping_mul(GOLDEN)));
    (noise >> 11) as f64 / (1u64 << 53) as f64
}

fn lock(store: &Mutex<MemoryStore>) -> MutexGuard<'_, MemoryStore> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver for Sim {
    type Blocking = Never;
    type Session = SimSession;

    fn capabilities(&self) -> Capabilities {
        let all = Capabilities::all(Execution::Asynchronous, false);
        Capabilities { simulated_time: self.simulated_time, compares: self.store.is_some(), ..all }
    }

    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn session(&self, clients: u32) -> Result<AnySession<Never, SimSession>, OpenError> {
        Ok(AnySession::Asynchronous(SimSession {
            system: self.clone(),
            submitted: Vec::new(),
            under_way: BinaryHeap::new(),
            requests: vec![Under { number: None, outcome: Outcome::Ok, rows: 0 }; clients as usize],
            carried: HashMap::new(),
            reply: Reply::default(),
            served: 0,
        }))
    }

    fn statistics(&self) -> BTreeMap<String, f64> {
        self.store.as_ref().map_or_else(BTreeMap::new, |store| lock(store).planted())
    }
}

/// A session of the simulated driver.
#[derive(Debug)]
pub struct SimSession {
    system: Sim,
    submitted: Vec<Submitted>,
    /// Completion instants, in order of arrival for equal instants, with the number of the request.
    under_way: BinaryHeap<Reverse<(u64, u64, Ticket)>>,
    /// By ticket.
    requests: Vec<Under>,
    /// Requests to a store in memory by number, including those given up.
    carried: HashMap<u64, Carried>,
    reply: Reply,
    /// Requests so far.
    served: u64,
}

#[derive(Debug)]
struct Submitted {
    ticket: Ticket,
    rows: u64,
    /// For a store in memory.
    request: Option<StoreRequest>,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Under {
    /// Its number; none when it was given up.
    number: Option<u64>,
    outcome: Outcome,
    rows: u64,
}

/// A request that is on its way to a store in memory.
#[derive(Debug)]
struct Carried {
    request: StoreRequest,
    issued_ns: u64,
    /// Whether it gets there.
    takes_effect: bool,
}

const CLOSED: &str = "the simulated connection was closed";
const UNAVAILABLE: &str = "the simulated system is unavailable";

impl SimSession {
    fn issue(&mut self, at_ns: u64, done: &mut impl Completions) {
        for Submitted { ticket, rows, request } in std::mem::take(&mut self.submitted) {
            done.issued(ticket, at_ns);
            let (done_ns, outcome) = self.system.serve(at_ns);
            let number = self.served;
            self.served += 1;
            self.requests[ticket as usize] = Under { number: Some(number), outcome, rows };
            self.under_way.push(Reverse((done_ns, number, ticket)));
            if let Some(request) = request {
                let by_chance = || unit(self.system.seed ^ EFFECT_SEED, number) < 0.5;
                let was_sent = outcome == Outcome::Connection && done_ns > at_ns;
                let takes_effect = !outcome.is_failure() || was_sent && by_chance();
                let carried = Carried { request, issued_ns: at_ns, takes_effect };
                self.carried.insert(number, carried);
            }
        }
    }

    /// Reports requests that are done by an instant. Returns whether there were any.
    fn complete(&mut self, at_ns: u64, done: &mut impl Completions) -> bool {
        let mut any = false;
        while let Some(Reverse((done_ns, number, ticket))) = self.under_way.peek().copied() {
            if done_ns > at_ns {
                break;
            }
            self.under_way.pop();
            let Under { number: latest, outcome, rows } = self.requests[ticket as usize];
            let is_given_up = latest != Some(number);
            let fails = is_given_up || outcome.is_failure();
            let (at_ns, outcome) = match (self.carried.remove(&number), &self.system.store) {
                (Some(carried), Some(store)) if fails => {
                    self.reply.clear();
                    carried.end(&mut lock(store));
                    (at_ns, outcome)
                }
                (Some(Carried { request, issued_ns, .. }), Some(store)) => {
                    let reply = &mut self.reply;
                    lock(store).execute(&request, issued_ns, || done.stamp(), reply)
                }
                _ => {
                    self.reply.rows = if outcome == Outcome::Ok { rows } else { 0 };
                    (at_ns, outcome)
                }
            };
            if is_given_up {
                continue;
            }
            self.requests[ticket as usize].number = None;
            any = true;
            if outcome.is_failure() {
                let is_lost = outcome == Outcome::Connection;
                let why = if is_lost { CLOSED } else { UNAVAILABLE };
                done.failed(ticket, at_ns, outcome, why, &self.reply);
            } else {
                done.completed(ticket, at_ns, outcome, &self.reply);
            }
        }
        any
    }
}

impl Carried {
    /// Ends a request whose client never learns its outcome.
    fn end(self, store: &mut MemoryStore) {
        if self.takes_effect {
            store.execute_late(&self.request, self.issued_ns);
        } else {
            store.doubt(&self.request);
        }
    }
}

impl Session for SimSession {
    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        let rows = if request.kind == Kind::Scan { request.scan_length } else { 1 };
        let for_store = || StoreRequest::of(request, &self.system.forms);
        let request = self.system.store.is_some().then(for_store);
        self.submitted.push(Submitted { ticket, rows, request });
    }

    fn poll(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool {
        let now_ns = done.stamp();
        // The engine can't know their completion yet, and wakes on time only for known instants.
        let issues = !self.submitted.is_empty();
        self.issue(now_ns, done);
        let any = self.complete(now_ns, done);
        if any || issues || patience_ns == 0 {
            return any;
        }
        let nap_ns = patience_ns.min(self.due_ns().saturating_sub(now_ns));
        sleep(Duration::from_nanos(nap_ns));
        let now_ns = done.stamp();
        self.complete(now_ns, done)
    }

    fn give_up(&mut self, ticket: Ticket) {
        let number = self.requests[ticket as usize].number.take();
        if let Some(store) = &self.system.store {
            let submitted = self.submitted.iter().find(|submitted| submitted.ticket == ticket);
            let carried = number.and_then(|number| self.carried.get(&number));
            let request = submitted.and_then(|submitted| submitted.request.as_ref());
            if let Some(request) = request.or(carried.map(|carried| &carried.request)) {
                lock(store).doubt(request);
            }
        }
        self.submitted.retain(|submitted| submitted.ticket != ticket);
    }

    fn due_ns(&self) -> u64 {
        self.under_way.peek().map_or(u64::MAX, |Reverse((done_ns, ..))| *done_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(options: &[(&str, &str)]) -> Result<Sim, OpenError> {
        let text = |text: &str| Value::String(text.to_owned());
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), text(value)));
        let layout = Layout {
            table: String::new(),
            field_names: Vec::new(),
            prepare: Vec::new(),
            statements: Vec::new(),
        };
        Sim::open(&options.collect(), &layout)
    }

    fn sim(options: &[(&str, &str)]) -> Sim {
        open(options).unwrap()
    }

    #[test]
    fn requests_queue_for_one_server() {
        let sim = sim(&[("service", "constant"), ("mean_us", "10")]);
        assert_eq!(sim.serve(0), (10_000, Outcome::Ok));
        assert_eq!(sim.serve(1_000), (20_000, Outcome::Ok));
        assert_eq!(sim.serve(50_000), (60_000, Outcome::Ok));
    }

    #[test]
    fn a_stall_pauses_current_service_and_delays_new_requests() {
        let sim = sim(&[("service", "constant"), ("mean_us", "10"), ("stall", "0.001+0.5")]);
        assert_eq!(sim.serve(995_000).0, 501_005_000);
        assert_eq!(sim.serve(1_200_000).0, 501_015_000);
        assert_eq!(sim.serve(600_000_000).0, 600_010_000);
    }

    /// Frozen time, and the number of answers.
    #[derive(Debug, Default)]
    struct Stands(u32);

    impl Completions for Stands {
        fn stamp(&mut self) -> u64 {
            0
        }

        fn issued(&mut self, _ticket: Ticket, _at_ns: u64) {}

        fn completed(&mut self, _t: Ticket, _at_ns: u64, _outcome: Outcome, _reply: &Reply) {
            self.0 += 1;
        }

        fn failed(&mut self, _: Ticket, _: u64, _: Outcome, _: &str, _: &Reply) {
            self.0 += 1;
        }
    }

    #[test]
    fn the_completion_of_an_issued_request_is_known_before_any_sleep() {
        let sim = sim(&[("service", "constant"), ("mean_us", "10e6")]);
        let AnySession::Asynchronous(mut session) = sim.session(1).unwrap();
        session.submitted.push(Submitted { ticket: 0, rows: 1, request: None });
        let (began, mut answers) = (std::time::Instant::now(), Stands::default());
        session.poll(60_000_000_000, &mut answers);
        assert_eq!((answers.0, session.due_ns()), (0, 10_000_000_000));
        assert!(began.elapsed() < Duration::from_secs(10), "it slept");
    }

    #[test]
    fn an_outage_answers_at_once() {
        let sim = sim(&[("outage", "1+1")]);
        assert_eq!(sim.serve(1_500_000_000), (1_500_000_000, Outcome::Unavailable));
    }

    #[test]
    fn unknown_options_and_bad_values_are_named() {
        let open = |name: &str, value: &str| open(&[(name, value)]).unwrap_err().to_string();
        assert!(open("server", "1").starts_with("there is no option 'server', did you mean"));
        let windows = "windows such as 10+1,20+0.5 (start+length in seconds)";
        for (name, accepts) in [
            ("servers", "a count of at least 1"),
            ("service", "constant or exponential"),
            ("mean_us", "microseconds, 0 or more"),
            ("seed", "a whole number"),
            ("stall", windows),
            ("outage", windows),
            ("disconnect", windows),
            ("miss_share", "a share between 0 and 1"),
            ("error_share", "a share between 0 and 1"),
            ("clock", "virtual or real"),
            ("store", "memory or none"),
            ("lose_record", "a whole number from 0 to 1000000000"),
        ] {
            let sentence = format!("option '{name}' can't be 'x': give {accepts}");
            assert_eq!(open(name, "x"), sentence);
        }
        let problem = "a simulated system needs a server and a service time of 0 or more";
        assert_eq!([open("servers", "0"), open("mean_us", "-1")], [problem; 2]);
    }

    #[test]
    fn faults_need_records_and_no_other_misses() {
        let refused = |options: &[(&str, &str)]| open(options).unwrap_err().to_string();
        let text = refused(&[("tear_value", "1")]);
        assert!(
            text.starts_with("option 'tear_value' plants faults in records: give store=memory")
        );
        let text = refused(&[("store", "memory"), ("miss_share", "0.1")]);
        assert!(text.starts_with("options 'miss_share' and 'store' exclude each other"));
    }

    #[test]
    fn a_broken_connection_ends_requests_in_flight() {
        let sim = sim(&[("service", "constant"), ("mean_us", "1000"), ("disconnect", "0.0005+1")]);
        assert_eq!(sim.serve(0), (500_000, Outcome::Connection));
        assert_eq!(sim.serve(600_000), (600_000, Outcome::Connection));
        assert_eq!(sim.serve(2_000_000_000), (2_001_000_000, Outcome::Ok));
    }

    #[test]
    fn a_list_of_no_windows_is_none() {
        assert!(sim(&[("stall", ""), ("outage", "")]).stalls.0.is_empty());
    }

    #[test]
    fn the_description_has_the_options_that_were_given() {
        let configuration =
            sim(&[("mean_us", "10"), ("clock", "virtual")]).describe().configuration;
        let own = [("clock", "virtual"), ("mean_us", "10")];
        assert_eq!(configuration, own.map(|(n, v)| (n.to_owned(), v.to_owned())).into());
    }
}
