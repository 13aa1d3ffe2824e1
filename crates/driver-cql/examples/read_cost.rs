//! Client cost per operation of reading a row with five 34-byte columns.
//!
//! `read_cost HOST:PORT [OPERATIONS] [IN_FLIGHT] [values] [option=value …]` loads 10,000 rows into
//! the keyspace `read_cost` and reads them at random on one worker. With `values` it decodes the
//! rows, as a workload with checks does.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::time::Instant;

use kvmark_driver::{
    AnySession, Columns, Completions, Driver, Layout, Reply, Request, Session, Ticket, Values,
};
use kvmark_driver_cql::{Cql, CqlSession};
use kvmark_plan::{Kind, Outcome};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

const FIELDS: u32 = 5;
const ROWS: u64 = 10_000;
/// Prefix of every key, followed by four letters.
const KEY: &[u8] = b"user";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (pairs, plain): (Vec<_>, Vec<_>) =
        arguments.into_iter().partition(|argument| argument.contains('='));
    let (words, numbers): (Vec<_>, Vec<_>) =
        plain.into_iter().partition(|argument| argument == "values");
    let mut plain = numbers.into_iter();
    let address = plain.next().ok_or("give HOST:PORT")?;
    let operations: u64 = plain.next().map_or(Ok(300_000), |text| text.parse())?;
    let in_flight: u64 = plain.next().map_or(Ok(64), |text| text.parse())?;
    let mut options =
        BTreeMap::from([("address".to_owned(), format!("{address}/read_cost").into())]);
    for pair in pairs {
        let (name, value) = pair.split_once('=').ok_or("give option=value")?;
        options.insert(name.to_owned(), value.to_owned().into());
    }
    let layout = Layout {
        table: "usertable".into(),
        field_names: (0..FIELDS).map(|field| format!("field{field}")).collect(),
        prepare: Vec::new(),
        statements: Vec::new(),
    };
    let driver = Cql::open(&options, &layout)?;
    let AnySession::Asynchronous(mut session) = driver.session(in_flight as u32)?;
    run(&mut session, in_flight, ROWS, Kind::Insert, false);
    let wall = Instant::now();
    let before = getrusage(UsageWho::RUSAGE_SELF)?;
    run(&mut session, in_flight, operations, Kind::Read, !words.is_empty());
    let after = getrusage(UsageWho::RUSAGE_SELF)?;
    let user = after.user_time() - before.user_time();
    let system = after.system_time() - before.system_time();
    let each = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / operations as f64;
    writeln!(
        std::io::stdout(),
        "{operations} reads, {in_flight} in flight: {:.0} per s, \
         {:.2} µs user + {:.2} µs system each",
        operations as f64 / wall.elapsed().as_secs_f64(),
        each(user),
        each(system),
    )?;
    for (name, value) in driver.statistics() {
        writeln!(std::io::stdout(), "{name} {value}")?;
    }
    Ok(())
}

/// Clients without a request in flight.
struct Free {
    start: Instant,
    tickets: Vec<Ticket>,
}

impl Completions for Free {
    fn stamp(&mut self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn issued(&mut self, _: Ticket, _: u64) {}

    fn completed(&mut self, ticket: Ticket, _: u64, outcome: Outcome, _: &Reply) {
        assert_eq!(outcome, Outcome::Ok);
        self.tickets.push(ticket);
    }

    fn failed(&mut self, _: Ticket, _: u64, outcome: Outcome, why: &str, _: &Reply) {
        panic!("{outcome:?}: {why}");
    }
}

fn run(session: &mut CqlSession, in_flight: u64, operations: u64, kind: Kind, wants_values: bool) {
    let value = vec![b'v'; 34 * FIELDS as usize];
    let places: Vec<(u32, Range<usize>)> =
        (0..FIELDS).map(|field| (field, field as usize * 34..(field as usize + 1) * 34)).collect();
    let mut free = Free { start: Instant::now(), tickets: (0..in_flight as u32).collect() };
    let mut key = KEY.to_vec();
    let mut number = 0;
    while number < operations || free.tickets.len() < in_flight as usize {
        while number < operations
            && let Some(ticket) = free.tickets.pop()
        {
            let record = if kind == Kind::Insert { number } else { scattered(number) % ROWS };
            key.truncate(KEY.len());
            key.extend((0..4).map(|digit| b'a' + (record >> (4 * digit) & 15) as u8));
            let values = Values { bytes: &value, places: &places };
            session.submit(
                ticket,
                &Request {
                    number,
                    at_us: 0,
                    kind,
                    key: &key,
                    columns: Columns::All,
                    values: if kind == Kind::Insert { values } else { Values::NONE },
                    scan_length: 0,
                    wants_values,
                    expected: None,
                    statement: None,
                },
            );
            number += 1;
        }
        session.poll(u64::MAX, &mut free);
    }
}

/// Scrambles a number by Steele, Lea and Flood's SplitMix.
fn scattered(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 31)
}
