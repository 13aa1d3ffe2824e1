//! Writers that insert until the dataset is full, readers that follow them, and pairs of rows that
//! must be written atomically.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use crate::support::{closed, plan, record};
use kvmark_driver::{
    AnySession, Blocking, Capabilities, Description, Driver, Execution, Never, OpenError, Reply,
    Request, Slot,
};
use kvmark_plan::*;
use kvmark_record::RunRecord;

const PAIRS: u64 = 50;
const OPERATIONS: u64 = 2_000;

/// The two halves of a pair and when each was written.
type Pair = [(i64, u64); 2];

/// A store of pairs in which some writes write only one half.
#[derive(Clone, Default)]
struct Pairs {
    pairs: Arc<Mutex<HashMap<i64, Pair>>>,
    written: Arc<Mutex<Vec<(String, i64)>>>,
    /// Writes with a number divisible by this write only the first half.
    tears_each: Option<u64>,
}

impl Driver for Pairs {
    type Blocking = Self;
    type Session = Never;

    fn capabilities(&self) -> Capabilities {
        Capabilities::all(Execution::Blocking, true)
    }

    fn describe(&self) -> Description {
        let (system, version) = ("pairs".to_owned(), "1".to_owned());
        Description { system, version, configuration: BTreeMap::new() }
    }

    fn session(&self, _: u32) -> Result<AnySession<Self, Never>, OpenError> {
        Ok(AnySession::Blocking(self.clone()))
    }
}

impl Blocking for Pairs {
    fn execute(&mut self, request: &Request<'_>, reply: &mut Reply) -> Outcome {
        let call = request.statement.expect("the plan only has statements");
        let argument = |place| {
            let (_, bytes) = call.argument(Slot { each: Each::Command, place }, 0, 0);
            i64::from_le_bytes(bytes.try_into().expect("numbers are of 8 bytes"))
        };
        let number = argument(0);
        let mut pairs = self.pairs.lock().expect("no other session panicked");
        if request.kind == Kind::Read {
            let Some(pair) = pairs.get(&number) else { return Outcome::Miss };
            for (row, (value, time)) in (0..).zip(pair) {
                reply.push(row, 0, value.to_string().as_bytes());
                reply.push(row, 1, time.to_string().as_bytes());
            }
            reply.rows = 2;
            return Outcome::Ok;
        }
        let kind = format!("{:?}", request.kind);
        self.written.lock().expect("no other session panicked").push((kind, number));
        let new = [(argument(1), request.number), (argument(2), request.number)];
        let pair = pairs.entry(number).or_insert(new);
        pair[0] = new[0];
        if self.tears_each.is_none_or(|each| !request.number.is_multiple_of(each)) {
            pair[1] = new[1];
        }
        reply.rows = 1;
        Outcome::Ok
    }

    fn last_failure(&self) -> Option<String> {
        None
    }
}

fn statement(name: &str, checks: Vec<Check>) -> Statement {
    let argument =
        |name: &str, generator| Argument { name: name.to_owned(), each: Each::Command, generator };
    Statement {
        name: name.to_owned(),
        texts: vec![name.to_owned()],
        commands: SizeLaw::Constant { size: 1 },
        items: SizeLaw::Constant { size: 1 },
        rows: None,
        record: Each::Command,
        arguments: vec![
            argument("n", Generator::Ordinal),
            argument("first", Generator::Split { rest: false }),
            argument("rest", Generator::Split { rest: true }),
        ],
        expects: Vec::new(),
        checks,
        when_full: None,
        options: BTreeMap::new(),
    }
}

/// Two writers and two readers that start without records.
fn pairs_plan() -> Plan {
    let mut plan = plan(closed(), 2);
    (plan.dataset.count, plan.dataset.full_at) = (0, Some(PAIRS));
    let checks = vec![
        Check::Rows { least: 2, most: Some(2) },
        Check::Sum { column: 0, argument: 0 },
        Check::Same { column: 1 },
    ];
    plan.statements = vec![statement("WRITE", Vec::new()), statement("READ", checks)];
    plan.groups[0].keys = KeyChoice { start: 0, count: PAIRS, distribution: Distribution::Uniform };
    let mut readers = plan.groups[0].clone();
    let weight = |kind, index| vec![Weight { kind, statement: Some(index), weight: 1.0 }];
    plan.groups[0].mix = weight(Kind::Insert, 0);
    readers.mix = weight(Kind::Read, 1);
    readers.name = "readers".to_owned();
    readers.check_values = ValueCheck::Full;
    plan.groups.push(readers);
    let active = |group| ActiveGroup { group, operations: Some(OPERATIONS) };
    plan.phases[0].groups = vec![active(0), active(1)];
    plan
}

fn count(record: &RunRecord, operation: &str, outcome: Outcome) -> u64 {
    let totals = record.totals.iter();
    let wanted = totals.filter(|total| total.operation == operation && total.outcome == outcome);
    wanted.map(|total| total.count).sum()
}

#[test]
fn pairs_that_are_written_as_one_break_no_rule_and_are_never_missed() {
    let record = record(&pairs_plan(), Pairs::default());
    assert_eq!(count(&record, "READ", Outcome::Ok), OPERATIONS);
    assert_eq!(count(&record, "WRITE", Outcome::Ok), OPERATIONS);
}

#[test]
fn a_pair_that_was_written_in_part_is_found_and_counted() {
    let store = Pairs { tears_each: Some(3), ..Pairs::default() };
    // Readers start after the last writes, of which one in three is torn.
    let mut plan = pairs_plan();
    let mut writing = plan.phases[0].clone();
    writing.name = PhaseName::WarmUp;
    plan.phases[0].groups.remove(0);
    writing.groups.remove(1);
    plan.phases.insert(0, writing);
    let record = record(&plan, store);
    let wrong = count(&record, "READ", Outcome::Mismatch);
    assert!(wrong > 0, "no reader saw half a write");
    assert_eq!(wrong + count(&record, "READ", Outcome::Ok), OPERATIONS);
}

#[test]
fn writers_insert_each_record_once_and_then_update() {
    let store = Pairs::default();
    record(&pairs_plan(), store.clone());
    let written = store.written.lock().unwrap();
    let of = |kind: &'static str| {
        written.iter().filter(move |(found, _)| found == kind).map(|(_, n)| *n)
    };
    let pairs = 0..PAIRS.cast_signed();
    assert!(pairs.clone().all(|pair| written.iter().any(|(_, n)| *n == pair)));
    let inserted: BTreeSet<_> = of("Insert").collect();
    assert!(inserted.into_iter().eq(pairs.clone()));
    // A writer whose insert finds the dataset full updates a record instead.
    assert!((PAIRS as usize..=PAIRS as usize + 1).contains(&of("Insert").count()));
    assert!(of("Update").all(|pair| pairs.contains(&pair)));
}
