//! Arrival times of reads.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kvmark_driver::Session;
use kvmark_plan::Outcome;
use serde_json::json;

use crate::common::open;
use crate::polls::said_by_test;
use crate::scripted::{Server, record};
use crate::worker::{Log, PATIENCE_NS, RespSession, poll_until, session_of, submit};

const PLANTED: Duration = Duration::from_millis(30);

/// A read by each client, as the only entries of the log.
fn read_once(session: &mut RespSession, clients: u32, log: &mut Log) {
    log.clear();
    (0..clients).for_each(|client| submit(session, client, "a"));
    poll_until(session, log, clients as usize);
}

/// Reads until the kernel takes time stamps, which it begins with a delay.
fn warm(session: &mut RespSession, clients: u32, log: &mut Log) {
    log.arrived.clear();
    while log.arrived.is_empty() {
        read_once(session, clients, log);
    }
}

fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[test]
fn the_delay_of_a_late_stamp_is_reported() {
    let (server, words, said) = said_by_test();
    let driver = open(&server.address, json!({})).unwrap();
    let (mut session, mut log) = (session_of(&driver, 1), Log::new(Duration::ZERO));
    // The least delay of the stamp.
    let mut read_after = |pause: Duration| {
        log.clear();
        submit(&mut session, 0, "a");
        session.poll(0, &mut log);
        let before_ns = wall_ns();
        words.send(record("a")).unwrap();
        said.recv().unwrap();
        std::thread::sleep(pause);
        let after_ns = wall_ns();
        session.poll(PATIENCE_NS, &mut log);
        assert_eq!(log.of(0), (Outcome::Ok, "a"));
        let (arrived_ns, read_ns) = *log.arrived.first()?;
        assert!(before_ns <= arrived_ns);
        assert_eq!(read_ns, log.ended[0].at_ns);
        Some(after_ns.saturating_sub(arrived_ns))
    };
    while read_after(Duration::ZERO).is_none() {}
    // Bytes may arrive after the server's write has returned.
    let late_ns = read_after(2 * PLANTED).unwrap();
    assert!(late_ns >= PLANTED.as_nanos() as u64, "{late_ns}");
}

#[test]
fn reads_of_at_most_four_connections_are_sampled() {
    let server = Server::of_sessions(|_, peer| peer.echo());
    let driver = open(&server.address, json!({})).unwrap();
    for (clients, sampled) in [(3, 3), (4, 4), (9, 4)] {
        let (mut session, mut log) = (session_of(&driver, clients), Log::new(Duration::ZERO));
        warm(&mut session, clients, &mut log);
        read_once(&mut session, clients, &mut log);
        assert_eq!(log.arrived.len(), sampled);
    }
}

#[test]
fn a_reopened_connection_is_sampled_again() {
    let server = Server::of_sessions(|number, peer| {
        if number > 0 {
            peer.echo();
        }
    });
    let driver = open(&server.address, json!({})).unwrap();
    let (mut session, mut log) = (session_of(&driver, 1), Log::new(Duration::ZERO));
    read_once(&mut session, 1, &mut log);
    assert_eq!(log.of(0).0, Outcome::Connection);
    warm(&mut session, 1, &mut log);
}

#[test]
fn a_read_of_several_replies_or_a_part_of_one_is_not_sampled() {
    let (server, words, said) = said_by_test();
    let driver = open(&server.address, json!({ "connections": 1 })).unwrap();
    let (mut session, mut log) = (session_of(&driver, 2), Log::new(Duration::ZERO));
    let mut read_in = |pieces: &[&str], clients: u32| {
        log.clear();
        (0..clients).for_each(|client| submit(&mut session, client, "a"));
        session.poll(0, &mut log);
        for piece in pieces {
            words.send((*piece).to_owned()).unwrap();
            said.recv().unwrap();
            session.poll(PATIENCE_NS, &mut log);
        }
        assert_eq!(log.ended.len(), clients as usize);
        log.arrived.len()
    };
    let one = record("a");
    while read_in(&[&one], 1) == 0 {}
    assert_eq!(read_in(&[&one, &one], 2), 2);
    assert_eq!(read_in(&[&(one.clone() + &one)], 2), 0);
    assert_eq!(read_in(&[&one[..7], &one[7..]], 1), 0);
    assert_eq!(read_in(&[&(one.clone() + &one[..7]), &one[7..]], 2), 0);
}
