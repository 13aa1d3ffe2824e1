//! The simulated driver: a queue with known service times, stalls and faults, so that what a run
//! records can be held against answers known in closed form.
//!
//! Requests are served first come, first served, by `servers` equal servers. During a stall no
//! server works: service under way is paused, as when a process is stopped. Simulated stores hold
//! every key.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use kvmark_plan::{GOLDEN, Kind, Outcome, split_mix};
use serde_json::Value;

use crate::options::{Accepts, Given, OptionDoc};
use crate::{
    About, AnySession, Capabilities, Completions, Description, Driver, Execution, Never, OpenError,
    Place, Reply, Request, Scheme, Session, Ticket,
};

/// How service times are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServiceTime {
    Constant,
    Exponential,
}

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
}

const WINDOWS: Accepts = Accepts::Text("windows such as 10+1,20+0.5 (start+length in seconds)");
const SHARE: Accepts = Accepts::Text("a share between 0 and 1");

static TABLE: [OptionDoc; 9] = [
    OptionDoc {
        name: "servers",
        meaning: "Servers that work side by side.",
        accepts: Accepts::Text("a count of at least 1"),
        default: Some("1"),
    },
    OptionDoc {
        name: "service",
        meaning: "How service times are distributed.",
        accepts: Accepts::Words(&["constant", "exponential"]),
        default: Some("exponential"),
    },
    OptionDoc {
        name: "mean_us",
        meaning: "Mean service time in microseconds.",
        accepts: Accepts::Text("microseconds, 0 or more"),
        default: Some("100"),
    },
    OptionDoc {
        name: "seed",
        meaning: "Seed of service times, misses and errors.",
        accepts: Accepts::Text("a whole number"),
        default: Some("1"),
    },
    OptionDoc {
        name: "stall",
        meaning: "When requests are delayed.",
        accepts: WINDOWS,
        default: Some(""),
    },
    OptionDoc {
        name: "outage",
        meaning: "When requests are answered `unavailable`.",
        accepts: WINDOWS,
        default: Some(""),
    },
    OptionDoc {
        name: "miss_share",
        meaning: "Share of requests that find nothing.",
        accepts: SHARE,
        default: Some("0"),
    },
    OptionDoc {
        name: "error_share",
        meaning: "Share of requests that fail.",
        accepts: SHARE,
        default: Some("0"),
    },
    OptionDoc {
        name: "clock",
        meaning: "Whether the system lives in simulated time, or in the machine's.",
        accepts: Accepts::Words(&["virtual", "real"]),
        default: Some("real"),
    },
];

/// A simulated system.
#[derive(Clone, Debug)]
pub struct Sim {
    service: ServiceTime,
    mean_ns: f64,
    seed: u64,
    stalls: Windows,
    outages: Windows,
    miss_share: f64,
    error_share: f64,
    simulated_time: bool,
    description: Description,
    queue: Arc<Mutex<Queue>>,
}

/// When each server is free again, and how many requests came so far.
#[derive(Debug)]
struct Queue {
    free_ns: BinaryHeap<Reverse<u64>>,
    arrived: u64,
}

impl Sim {
    /// What the driver says of itself.
    pub const ABOUT: About =
        About::new("sim", Place::Nothing, &[Scheme::new("sim", "sim:?servers=1")]);

    /// Opens a simulated system.
    ///
    /// # Errors
    /// [`OpenError::Option`] for an unknown option or a value that can't be used.
    pub fn open(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        let given = Given::parse(&TABLE, options)?;
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
            configuration: TABLE.iter().filter_map(own).collect(),
        };
        let free_ns = (0..servers).map(|_| Reverse(0)).collect();
        Ok(Self {
            service: match given.text("service") {
                Some("constant") => ServiceTime::Constant,
                _ => ServiceTime::Exponential,
            },
            mean_ns: mean_us * 1e3,
            seed: given.read("seed")?,
            stalls: given.read("stall")?,
            outages: given.read("outage")?,
            miss_share: given.read("miss_share")?,
            error_share: given.read("error_share")?,
            simulated_time: given.text("clock") == Some("virtual"),
            description,
            queue: Arc::new(Mutex::new(Queue { free_ns, arrived: 0 })),
        })
    }

    /// Takes a request at an instant: when it will be completed, and how.
    fn serve(&self, now_ns: u64) -> (u64, Outcome) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let number = queue.arrived;
        queue.arrived += 1;
        if self.outages.around(now_ns).is_some() {
            return (now_ns, Outcome::Unavailable);
        }
        let Reverse(free_ns) = queue.free_ns.pop().expect("there is at least one server");
        let service_ns = match self.service {
            ServiceTime::Constant => self.mean_ns,
            ServiceTime::Exponential => -self.mean_ns * (1.0 - unit(self.seed, 2 * number)).ln(),
        };
        let done_ns = self.finish(now_ns.max(free_ns), service_ns.round() as u64);
        queue.free_ns.push(Reverse(done_ns));
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

    /// When work of this length that could begin at an instant is done, with stalls cut out.
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

/// Uniform in [0, 1), a function of seed and number.
fn unit(seed: u64, number: u64) -> f64 {
    let noise = split_mix(seed.wrapping_add(number.wrapping_add(1).wrapping_mul(GOLDEN)));
    (noise >> 11) as f64 / (1u64 << 53) as f64
}

impl Driver for Sim {
    type Blocking = Never;
    type Session = SimSession;

    fn capabilities(&self) -> Capabilities {
        let all = Capabilities::all(Execution::Asynchronous, false);
        Capabilities { simulated_time: self.simulated_time, ..all }
    }

    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn session(&self, clients: u32) -> Result<AnySession<Never, SimSession>, OpenError> {
        Ok(AnySession::Asynchronous(SimSession {
            system: self.clone(),
            submitted: Vec::new(),
            under_way: BinaryHeap::new(),
            requests: vec![Under::default(); clients as usize],
            reply: Reply::default(),
            served: 0,
        }))
    }
}

/// A session of the simulated driver.
#[derive(Debug)]
pub struct SimSession {
    system: Sim,
    submitted: Vec<(Ticket, u64)>,
    /// When each is done; of several at one instant the one that came first is first. By the number
    /// of its request.
    under_way: BinaryHeap<Reverse<(u64, u64, Ticket)>>,
    /// By ticket.
    requests: Vec<Under>,
    reply: Reply,
    /// Requests so far.
    served: u64,
}

/// A request under way.
#[derive(Clone, Debug, Default)]
struct Under {
    /// Its number; none when it was given up.
    number: Option<u64>,
    outcome: Option<Outcome>,
    rows: u64,
}

impl SimSession {
    fn issue(&mut self, at_ns: u64, done: &mut impl Completions) {
        for (ticket, rows) in std::mem::take(&mut self.submitted) {
            done.issued(ticket, at_ns);
            let (done_ns, outcome) = self.system.serve(at_ns);
            let number = self.served;
            self.served += 1;
            self.requests[ticket as usize] =
                Under { number: Some(number), outcome: Some(outcome), rows };
            self.under_way.push(Reverse((done_ns, number, ticket)));
        }
    }

    /// Hands over what is done by an instant; whether there was anything.
    fn complete(&mut self, at_ns: u64, done: &mut impl Completions) -> bool {
        let mut any = false;
        while let Some(Reverse((done_ns, number, ticket))) = self.under_way.peek().copied() {
            if done_ns > at_ns {
                break;
            }
            self.under_way.pop();
            let request = &mut self.requests[ticket as usize];
            if request.number != Some(number) {
                continue;
            }
            request.number = None;
            any = true;
            match request.outcome {
                Some(outcome) if outcome.is_failure() => {
                    done.failed(ticket, at_ns, outcome, "the simulated system is unavailable");
                }
                outcome => {
                    let outcome = outcome.unwrap_or(Outcome::Ok);
                    self.reply.rows = if outcome == Outcome::Ok { request.rows } else { 0 };
                    done.completed(ticket, at_ns, outcome, &self.reply);
                }
            }
        }
        any
    }
}

impl Session for SimSession {
    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        let rows = if request.kind == Kind::Scan { request.scan_length } else { 1 };
        self.submitted.push((ticket, rows));
    }

    fn turn(&mut self, patience_ns: u64, done: &mut impl Completions) {
        let now_ns = done.stamp();
        // The engine doesn't know yet when these will be done, and wakes for an instant on time.
        let issues = !self.submitted.is_empty();
        self.issue(now_ns, done);
        if self.complete(now_ns, done) || issues || patience_ns == 0 {
            return;
        }
        let nap_ns = patience_ns.min(self.due_ns().saturating_sub(now_ns));
        sleep(Duration::from_nanos(nap_ns));
        let now_ns = done.stamp();
        self.complete(now_ns, done);
    }

    fn give_up(&mut self, ticket: Ticket) {
        self.submitted.retain(|(other, _)| *other != ticket);
        self.requests[ticket as usize].number = None;
    }

    fn due_ns(&self) -> u64 {
        self.under_way.peek().map_or(u64::MAX, |Reverse((done_ns, ..))| *done_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sim(options: &[(&str, &str)]) -> Sim {
        let options = options
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Value::String((*value).to_owned())));
        Sim::open(&options.collect()).unwrap()
    }

    #[test]
    fn requests_queue_for_one_server() {
        let sim = sim(&[("service", "constant"), ("mean_us", "10")]);
        assert_eq!(sim.serve(0), (10_000, Outcome::Ok));
        assert_eq!(sim.serve(1_000), (20_000, Outcome::Ok));
        assert_eq!(sim.serve(50_000), (60_000, Outcome::Ok));
    }

    #[test]
    fn a_stall_pauses_service_under_way_and_holds_back_what_comes() {
        let sim = sim(&[("service", "constant"), ("mean_us", "10"), ("stall", "0.001+0.5")]);
        assert_eq!(sim.serve(995_000).0, 501_005_000);
        assert_eq!(sim.serve(1_200_000).0, 501_015_000);
        assert_eq!(sim.serve(600_000_000).0, 600_010_000);
    }

    /// Time that stands still, and how many answers came.
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

        fn failed(&mut self, _t: Ticket, _at_ns: u64, _outcome: Outcome, _why: &str) {
            self.0 += 1;
        }
    }

    #[test]
    fn when_an_issued_request_is_done_can_be_asked_before_anyone_sleeps() {
        let sim = sim(&[("service", "constant"), ("mean_us", "10e6")]);
        let AnySession::Asynchronous(mut session) = sim.session(1).unwrap();
        session.submitted.push((0, 1));
        let (began, mut answers) = (std::time::Instant::now(), Stands::default());
        session.turn(60_000_000_000, &mut answers);
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
        let open = |name: &str, value: &str| {
            let options = BTreeMap::from([(name.to_owned(), Value::String(value.to_owned()))]);
            Sim::open(&options).unwrap_err().to_string()
        };
        assert!(open("server", "1").starts_with("there is no option 'server'; known are servers"));
        let windows = "windows such as 10+1,20+0.5 (start+length in seconds)";
        for (name, accepts) in [
            ("servers", "a count of at least 1"),
            ("service", "constant or exponential"),
            ("mean_us", "microseconds, 0 or more"),
            ("seed", "a whole number"),
            ("stall", windows),
            ("outage", windows),
            ("miss_share", "a share between 0 and 1"),
            ("error_share", "a share between 0 and 1"),
            ("clock", "virtual or real"),
        ] {
            let sentence = format!("option '{name}' can't be 'x': give {accepts}");
            assert_eq!(open(name, "x"), sentence);
        }
        let problem = "a simulated system needs a server and a service time of 0 or more";
        assert_eq!([open("servers", "0"), open("mean_us", "-1")], [problem; 2]);
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
