//! A tape is replayed exactly: each operation once, at its intended start, in order.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::support::recording::Recording;
use crate::support::{closed, completed, plan, record, sim};
use kvmark_driver::{
    AnySession, Capabilities, Completions, Description, Driver, Execution, Never, OpenError, Reply,
    Request, Session, Ticket,
};
use kvmark_engine::{EngineError, Unobserved, run};
use kvmark_plan::*;
use kvmark_trace::tape::{BlockWriter, Record};

const MS: u64 = 1_000_000;
/// Bits of an operation's number below the size of its value.
const NUMBER_BITS: u32 = 40;

/// Operations on a few keys by a few clients, a millisecond apart.
fn records(count: u64, seed: u64) -> Vec<Record> {
    let mut state = seed;
    let record = |number| {
        state = split_mix(state);
        let kind = [Kind::Read, Kind::Update, Kind::Insert, Kind::Delete][state as usize % 4];
        Record {
            at_ns: number * MS,
            key: (((state >> 8) % 7) << 8) | 20,
            value_size: (state >> 32) as u32 % 50,
            client: (state >> 16) as u32 % 5,
            key_size: 20,
            items: 1,
            kind: kind as u8,
            ..Record::default()
        }
    };
    (0..count).map(record).collect()
}

thread_local! {
    /// The tapes of a test, which are removed when its thread ends.
    static TAPES: RefCell<Vec<tempfile::TempPath>> = const { RefCell::new(Vec::new()) };
}

fn tape(records: &[Record]) -> PathBuf {
    let (mut bytes, mut writer) = (Vec::new(), BlockWriter::default());
    for part in records.chunks(100) {
        part.iter().for_each(|record| writer.push(record, None, None));
        writer.finish(&mut bytes).unwrap();
    }
    let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    fs::write(&file, bytes).unwrap();
    let path = file.to_path_buf();
    TAPES.with_borrow_mut(|tapes| tapes.push(file));
    path
}

/// Replays these records and ends with the last of them.
fn replay(records: &[Record], speed: Option<f64>, order: TapeOrder, clients: u32) -> Plan {
    let path = tape(records).to_string_lossy().into_owned();
    let (trace, told) = (String::new(), Vec::new());
    let (loops, length_ns) = (1, records.len() as u64 * MS);
    let tape = Arrival::Tape { path, speed, order, loops, length_ns, trace, told };
    let mut plan = plan(tape, clients);
    plan.dataset.key.order = KeyOrder::Sized;
    plan.dataset.values = ValueKind::Sized;
    plan.dataset.fields.count = 1;
    plan.dataset.count = 1;
    let weight = |kind| Weight { kind, statement: None, weight: 1.0 };
    let group = &mut plan.groups[0];
    group.mix = [Kind::Read, Kind::Update, Kind::Insert, Kind::Delete].map(weight).to_vec();
    group.keys = KeyChoice { start: 0, count: 1, distribution: Distribution::Uniform };
    group.write_fields = FieldChoice::All;
    plan.phases[0].groups[0].operations = Some(records.len() as u64);
    plan
}

/// An operation of a tape as a driver gets it: its number, kind and key, and its value's length.
type Issued = (u64, Kind, Vec<u8>, Option<usize>);

fn expected(records: &[Record]) -> Vec<Issued> {
    let issued = |(number, record): (usize, &Record)| {
        let kind = Kind::ALL[record.kind as usize];
        let sign = b"-0123456789"[(record.key >> 8) as usize];
        let mut key = vec![b'-'; 9];
        key.push(sign);
        key.resize(20, b'.');
        let writes = matches!(kind, Kind::Update | Kind::Insert);
        (number as u64, kind, key, writes.then_some(record.value_size as usize))
    };
    records.iter().enumerate().map(issued).collect()
}

fn number(packed: u64) -> u64 {
    packed & ((1 << NUMBER_BITS) - 1)
}

fn issued(store: &Recording) -> Vec<Issued> {
    let issued = |(packed, kind, key, values): crate::support::recording::Asked| {
        (number(packed), kind, key, values.first().map(|(_, value)| value.len()))
    };
    store.multiset().into_iter().map(issued).collect()
}

#[test]
fn a_tape_is_issued_whole_and_once_whatever_the_clients_the_speed_and_the_order() {
    let records = records(500, 1);
    for (clients, speed) in [(1, None), (3, None), (8, Some(100.0))] {
        for order in [TapeOrder::Key, TapeOrder::Client, TapeOrder::None] {
            let store = Recording::default();
            record(&replay(&records, speed, order, clients), store.clone());
            let mut found = issued(&store);
            found.sort();
            assert_eq!(found, expected(&records), "{clients} {speed:?} {order:?}");
        }
    }
}

#[test]
fn with_order_kept_by_key_a_store_ends_as_the_tape_leaves_it() {
    for seed in 0..10 {
        let records = records(800, seed);
        let store = Recording::default();
        record(&replay(&records, None, TapeOrder::Key, 8), store.clone());
        let mut left = BTreeMap::new();
        for (_, kind, key, size) in expected(&records) {
            match kind {
                Kind::Update | Kind::Insert => drop(left.insert(key, size.unwrap())),
                Kind::Delete => drop(left.remove(&key)),
                _ => {}
            }
        }
        let found = store.store.lock().unwrap();
        let found: BTreeMap<_, _> =
            found.iter().map(|(key, fields)| (key.clone(), fields[&0].len())).collect();
        assert_eq!(found, left);
    }
}

#[test]
fn operations_are_due_when_they_were_on_the_tape() {
    for (speed, took_ns) in [(1.0, 99 * MS), (2.0, 99 * MS / 2), (0.5, 198 * MS)] {
        let plan = replay(&records(100, 3), Some(speed), TapeOrder::Key, 16);
        let options = [("clock", "virtual"), ("service", "constant"), ("mean_us", "10")];
        let record = record(&plan, sim(&options));
        let (phase, group) = (&record.phases[0], &record.phases[0].groups[0]);
        assert_eq!((group.due, group.issued, group.late), (Some(100), 100, 0));
        let length_ns = phase.end_ns - phase.start_ns;
        assert!(length_ns.abs_diff(took_ns) < MS, "{length_ns} {took_ns}");
        let totals = record.totals.iter();
        let worst = totals.map(|total| total.response.quantiles.max).max().unwrap();
        assert!(worst <= 11_000, "{worst}");
    }
}

#[test]
fn an_operation_that_waits_for_its_key_is_late_because_clients_are_busy() {
    // All operations write one key, and each write takes 2.5 ms: the tape has one each millisecond.
    let mut records = records(100, 4);
    for record in &mut records {
        (record.key, record.kind) = (20, Kind::Update as u8);
    }
    let options =
        [("clock", "virtual"), ("service", "constant"), ("mean_us", "2500"), ("servers", "100")];
    let held = record(&replay(&records, Some(1.0), TapeOrder::Key, 200), sim(&options));
    let group = &held.phases[0].groups[0];
    assert_eq!((group.late, group.late_busy), (99, 99));
    let free = record(&replay(&records, Some(1.0), TapeOrder::None, 200), sim(&options));
    assert_eq!(free.phases[0].groups[0].late, 0);
}

#[test]
fn a_limit_ends_a_replay_early() {
    let records = records(100, 5);
    let mut plan = replay(&records, None, TapeOrder::Key, 3);
    plan.phases[0].groups[0].operations = Some(30);
    let store = Recording::default();
    record(&plan, store.clone());
    let mut found = issued(&store);
    found.sort();
    assert_eq!(found, expected(&records[..30]));

    let mut plan = replay(&records, Some(1.0), TapeOrder::Key, 16);
    plan.phases[0].duration_ns = Some(50 * MS);
    let options = [("clock", "virtual"), ("service", "constant"), ("mean_us", "10")];
    let group = record(&plan, sim(&options)).phases[0].groups[0].clone();
    assert_eq!((group.due, group.issued), (Some(50), 50));
}

#[test]
fn a_tape_can_be_carried_out_again_and_again() {
    let once = records(60, 9);
    let mut plan = replay(&once, Some(1.0), TapeOrder::Key, 16);
    if let Arrival::Tape { loops, .. } = &mut plan.groups[0].arrival {
        *loops = 3;
    }
    plan.phases[0].groups[0].operations = Some(180);
    let store = Recording::default();
    record(&plan, store.clone());
    let mut found = issued(&store);
    found.sort();
    let again = |time: u64| {
        expected(&once).into_iter().map(move |one| (60 * time + one.0, one.1, one.2, one.3))
    };
    assert_eq!(found, (0..3).flat_map(again).collect::<Vec<_>>());
    let options = [("clock", "virtual"), ("service", "constant"), ("mean_us", "10")];
    let record = record(&plan, sim(&options));
    let (phase, group) = (&record.phases[0], &record.phases[0].groups[0]);
    assert_eq!((group.due, group.late), (Some(180), 0));
    assert!((phase.end_ns - phase.start_ns).abs_diff(179 * MS) < MS);
}

#[test]
fn the_writes_of_a_replay_are_read_back() {
    for lost in [false, true] {
        let records = records(400, 6);
        let mut plan = replay(&records, None, TapeOrder::Key, 4);
        let mut reader = plan.groups[0].clone();
        reader.name = "verify".to_owned();
        reader.arrival = closed();
        reader.mix = vec![Weight { kind: Kind::Read, statement: None, weight: 1.0 }];
        plan.groups.push(reader);
        let mut phase = plan.phases[0].clone();
        phase.name = PhaseName::Verify;
        phase.groups = vec![ActiveGroup { group: 1, operations: None }];
        plan.phases.push(phase);
        plan.verify_memory_bytes = Some(1 << 30);
        let store = Recording { forgets_from: lost.then_some(0), ..Recording::default() };
        let record = record(&plan, store);
        let read = record.totals.iter().filter(|total| total.phase == 1);
        let wrong = read.filter(|total| total.outcome != Outcome::Ok).count();
        assert_eq!(wrong > 0, lost);
    }
}

#[test]
fn the_very_key_and_value_are_taken_where_they_were_kept_and_made_where_not() {
    let record = |kind: Kind, key_size: usize, value_size: usize, count| Record {
        key: 3 << 8 | 20,
        kind: kind as u8,
        key_size: key_size as u32,
        value_size: value_size as u32,
        count,
        items: 1,
        ..Record::default()
    };
    let made = b"---------2..........".to_vec();
    type Content<'a> = Option<&'a [u8]>;
    let kept: [(Kind, Content<'_>, Content<'_>); 6] = [
        (Kind::Update, Some(b"a key"), Some(b"its value")),
        (Kind::Update, None, Some(b"another")),
        (Kind::Update, Some(b""), None),
        (Kind::Read, Some(b"\xff\0"), None),
        (Kind::Read, None, None),
        (Kind::Scan, Some(b"from here"), None),
    ];
    let (mut bytes, mut writer, mut expected) = (Vec::new(), BlockWriter::default(), Vec::new());
    let mut records = Vec::new();
    for (number, (kind, key, value)) in kept.into_iter().enumerate() {
        let sizes = (key.map_or(20, <[u8]>::len), value.map_or(4, <[u8]>::len));
        records.push(record(kind, sizes.0, sizes.1, 7));
        writer.push(&records[number], key, value);
        let key = key.map_or_else(|| made.clone(), <[u8]>::to_vec);
        let length = (kind == Kind::Update).then_some(sizes.1);
        expected.push((number as u64, kind, key, length));
    }
    writer.finish(&mut bytes).unwrap();
    for clients in [1, 3] {
        let mut plan = replay(&records, None, TapeOrder::Client, clients);
        let mix = [Kind::Read, Kind::Update, Kind::Scan];
        plan.groups[0].mix = mix.map(|kind| Weight { kind, statement: None, weight: 1.0 }).to_vec();
        let Arrival::Tape { path, .. } = &plan.groups[0].arrival else { panic!("it is a tape") };
        fs::write(path, &bytes).unwrap();
        let store = Recording::default();
        crate::support::record(&plan, store.clone());
        let mut found = issued(&store);
        found.sort();
        assert_eq!(found, expected);
        let written = store.store.lock().unwrap();
        assert_eq!(written[&b"a key"[..]][&0], b"its value");
        assert_eq!(written[&made[..]][&0], b"another");
    }
}

#[test]
fn a_tape_that_is_gone_damaged_or_too_short_is_refused_before_anything_is_asked() {
    let records = records(10, 7);
    let refused = |plan: &Plan| {
        let folder = tempfile::tempdir().unwrap();
        let found = run(plan, Recording::default(), folder.path(), None, &mut Unobserved);
        assert!(matches!(found, Err(EngineError::Tape { .. })), "{found:?}");
        found.unwrap_err().to_string()
    };
    let of = |plan: &Plan| match &plan.groups[0].arrival {
        Arrival::Tape { path, .. } => path.clone(),
        _ => String::new(),
    };
    let mut plan = replay(&records, None, TapeOrder::Key, 1);
    plan.phases[0].groups[0].operations = Some(11);
    assert!(refused(&plan).contains("it ends after 10 operations"));
    let plan = replay(&records, None, TapeOrder::Key, 1);
    fs::write(of(&plan), [1; 99]).unwrap();
    assert!(refused(&plan).contains("no block begins there"));
    fs::remove_file(of(&plan)).unwrap();
    assert!(refused(&plan).contains("it can't be read"));
}

/// A request: its number, kind and key.
type Sent = (u64, Kind, Vec<u8>);

/// Answers requests out of order, and records which requests were in flight together.
#[derive(Clone, Default)]
struct Shuffling {
    issued: Arc<Mutex<Vec<Sent>>>,
    broken: Arc<Mutex<Vec<String>>>,
}

#[derive(Default)]
struct ShufflingSession {
    driver: Shuffling,
    state: u64,
    submitted: Vec<Ticket>,
    going: HashMap<Ticket, Sent>,
}

impl Driver for Shuffling {
    type Blocking = Never;
    type Session = ShufflingSession;

    fn capabilities(&self) -> Capabilities {
        Capabilities::all(Execution::Asynchronous, true)
    }

    fn describe(&self) -> Description {
        let (system, version) = ("shuffling".to_owned(), "1".to_owned());
        Description { system, version, configuration: BTreeMap::new() }
    }

    fn session(&self, _: u32) -> Result<AnySession<Never, ShufflingSession>, OpenError> {
        let driver = self.clone();
        Ok(AnySession::Asynchronous(ShufflingSession { driver, ..ShufflingSession::default() }))
    }
}

impl Session for ShufflingSession {
    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        let own = (number(request.number), request.kind, request.key.to_vec());
        for other in self.going.values() {
            let both_read = own.1 == Kind::Read && other.1 == Kind::Read;
            if other.2 == own.2 && !both_read {
                self.driver.broken.lock().unwrap().push(format!("{own:?} beside {other:?}"));
            }
        }
        self.driver.issued.lock().unwrap().push(own.clone());
        self.going.insert(ticket, own);
        self.submitted.push(ticket);
    }

    fn poll(&mut self, _: u64, done: &mut impl Completions) -> bool {
        let under_way = self.going.len();
        let at_ns = done.stamp();
        for ticket in self.submitted.drain(..) {
            done.issued(ticket, at_ns);
        }
        self.state = split_mix(self.state);
        let mut going: Vec<Ticket> = self.going.keys().copied().collect();
        going.sort_unstable();
        let some = going.iter().filter(|ticket| self.state >> (**ticket % 64) & 1 == 0);
        let (at_ns, reply) = (done.stamp(), Reply { rows: 1, ..Reply::default() });
        for ticket in some {
            self.going.remove(ticket);
            done.completed(*ticket, at_ns, Outcome::Ok, &reply);
        }
        self.going.len() < under_way
    }

    fn give_up(&mut self, ticket: Ticket) {
        self.going.remove(&ticket);
    }
}

#[test]
fn many_clients_of_several_workers_keep_the_order_of_each_key() {
    for (seed, workers) in [(1, 1), (2, 2), (3, 3)] {
        let records = records(2_000, seed);
        let mut plan = replay(&records, None, TapeOrder::Key, 16);
        plan.workers = workers;
        let driver = Shuffling::default();
        record(&plan, driver.clone());
        assert_eq!(*driver.broken.lock().unwrap(), Vec::<String>::new());
        let issued = driver.issued.lock().unwrap();
        let mut numbers: Vec<u64> = issued.iter().map(|one| one.0).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..2_000).collect::<Vec<_>>());
        // Only reads of a key may overtake other reads of it.
        let mut last_write: HashMap<&[u8], u64> = HashMap::new();
        let mut last: HashMap<&[u8], u64> = HashMap::new();
        for (number, kind, key) in issued.iter() {
            let (before, any) = (last_write.get(&key[..]), last.get(&key[..]));
            if *kind == Kind::Read {
                assert!(before.is_none_or(|before| before < number));
            } else {
                assert!(any.is_none_or(|before| before < number));
                last_write.insert(key, *number);
            }
            let newest = last.entry(key).or_default();
            *newest = (*newest).max(*number);
        }
    }
}

#[test]
fn the_shares_of_a_tape_are_its_operations_once_each_and_each_key_is_of_one_share() {
    let once = records(300, 10);
    for (order, of, clients, workers) in [
        (TapeOrder::Key, 2, 5, 1),
        (TapeOrder::Key, 3, 9, 2),
        (TapeOrder::Client, 3, 6, 2),
        (TapeOrder::None, 3, 4, 1),
        // Shares without clients have no operations of the tape.
        (TapeOrder::Key, 4, 2, 1),
    ] {
        // Two complete passes, and a part of the third.
        let wanted = 700;
        let mut plan = replay(&once, Some(100.0), order, clients);
        plan.workers = workers;
        plan.phases[0].groups[0].operations = Some(wanted);
        if let Arrival::Tape { loops, .. } = &mut plan.groups[0].arrival {
            *loops = 3;
        }
        let (mut found, mut due) = (Vec::new(), 0);
        let mut owners: HashMap<u64, u32> = HashMap::new();
        for index in 0..of {
            plan.share = Share { index, of };
            let driver = Shuffling::default();
            let group = record(&plan, driver.clone()).phases[0].groups[0].clone();
            let issued = driver.issued.lock().unwrap().clone();
            let issued_here = issued.len() as u64;
            assert_eq!((group.issued, group.due.unwrap_or(0)), (issued_here, issued_here));
            due += group.issued;
            for (number, kind, key) in issued {
                let tape = once[(number % 300) as usize];
                let word = match order {
                    TapeOrder::Key => tape.key,
                    TapeOrder::Client => tape.client.into(),
                    TapeOrder::None => number,
                };
                assert_eq!(*owners.entry(word).or_insert(index), index);
                found.push((number, kind, key));
            }
        }
        found.sort();
        let all = (0..wanted).map(|number| {
            let (_, kind, key, _) = expected(&once).swap_remove((number % 300) as usize);
            (number, kind, key)
        });
        assert_eq!((due, found), (wanted, all.collect::<Vec<_>>()), "{order:?} {of} {clients}");
    }
}

#[test]
fn a_replay_that_is_cut_short_while_operations_wait_for_others_comes_to_its_end() {
    let mut records = records(3_000, 8);
    for record in &mut records {
        (record.key, record.kind, record.at_ns) = (20, Kind::Update as u8, record.at_ns / 1_000);
    }
    for speed in [Some(1.0), None] {
        let mut plan = replay(&records, speed, TapeOrder::Key, 64);
        plan.phases[0].duration_ns = Some(20 * MS);
        let options =
            [("clock", "virtual"), ("service", "constant"), ("mean_us", "1000"), ("servers", "9")];
        let group = record(&plan, sim(&options)).phases[0].groups[0].clone();
        assert!((19..=22).contains(&group.issued), "{group:?}");
        assert!(completed(&plan, sim(&options)).failure.is_none());
    }
}
