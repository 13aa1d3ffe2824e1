//! Sending, reading and time stamps of a poll.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use kvmark_driver::{Completions, Session};
use kvmark_plan::Outcome;
use proptest::prelude::*;
use serde_json::json;

use crate::common::open;
use crate::scripted::{Peer, Server, be_node, record};
use crate::worker::{Log, PATIENCE_NS, poll_until, session_of, submit};

const CLIENTS: u32 = 64;
const WORK: Duration = Duration::from_micros(50);

/// A server that answers one read of each connection when all have arrived; the barrier signals
/// the start and the end.
fn answering_at_once() -> (Server, Arc<Barrier>) {
    let barrier = Arc::new(Barrier::new(CLIENTS as usize + 1));
    let all = Arc::clone(&barrier);
    let server = Server::of_sessions(move |_, peer| {
        let Some(command) = peer.hear() else { return };
        all.wait();
        peer.say(&record(command.rsplit(' ').next().unwrap()));
        all.wait();
        peer.echo();
    });
    (server, barrier)
}

#[test]
fn the_stamp_of_a_reply_excludes_the_work_of_other_clients() {
    let (server, barrier) = answering_at_once();
    let driver = open(&server.address, json!({})).unwrap();
    let (mut session, mut log) = (session_of(&driver, CLIENTS), Log::new(WORK));
    (0..CLIENTS).for_each(|client| submit(&mut session, client, &client.to_string()));
    while log.issued.len() < CLIENTS as usize {
        session.poll(0, &mut log);
    }
    assert!(log.ended.is_empty());
    barrier.wait();
    barrier.wait();
    session.poll(PATIENCE_NS, &mut log);
    assert_eq!(log.ended.len(), CLIENTS as usize);
    let handed_ns = log.ended.iter().map(|ended| ended.handed_ns);
    let (first_ns, last_ns) = (handed_ns.clone().min().unwrap(), handed_ns.max().unwrap());
    assert!(last_ns - first_ns >= (WORK * (CLIENTS - 1)).as_nanos() as u64);
    assert!(log.ended.iter().all(|ended| ended.at_ns <= first_ns), "{:?}", log.ended);
    (0..CLIENTS).for_each(|client| {
        assert_eq!(log.of(client), (Outcome::Ok, client.to_string().as_str()));
    });
}

#[test]
fn the_requests_of_a_connection_are_issued_at_its_flush() {
    let server = Server::of_sessions(|_, peer| peer.echo());
    let driver = open(&server.address, json!({ "connections": 4 })).unwrap();
    let (mut session, mut log) = (session_of(&driver, 8), Log::new(WORK));
    (0..8).for_each(|client| submit(&mut session, client, "a"));
    let submitted_ns = log.stamp();
    poll_until(&mut session, &mut log, 8);
    let tickets: Vec<_> = log.issued.iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(tickets, [0, 4, 1, 5, 2, 6, 3, 7]);
    assert!(log.issued[0].1 >= submitted_ns);
    for pair in log.issued.chunks(2) {
        assert_eq!(pair[0].1, pair[1].1);
    }
    for neighbours in log.issued.windows(3).step_by(2) {
        assert!(neighbours[2].1 >= neighbours[0].1 + 2 * WORK.as_nanos() as u64);
    }
}

#[test]
fn an_extra_reply_does_not_answer_an_unsent_request() {
    let ((go, gone), (told, said)) = (channel::<()>(), channel());
    let gone = Mutex::new(gone);
    let server = Server::of_sessions(move |_, peer| {
        while let Some(command) = peer.hear() {
            let key = command.rsplit(' ').next().unwrap();
            peer.say(&record(key));
            if key == "first" {
                gone.lock().unwrap().recv().unwrap();
                peer.say(&record("again"));
                told.send(()).unwrap();
            }
        }
    });
    let driver = open(&server.address, json!({})).unwrap();
    // More than a poll flushes, so that the last request waits.
    let last = 19;
    let (mut session, mut log) = (session_of(&driver, last + 1), Log::new(Duration::ZERO));
    submit(&mut session, last, "first");
    poll_until(&mut session, &mut log, 1);
    go.send(()).unwrap();
    said.recv().unwrap();
    log.clear();
    (0..=last).for_each(|client| submit(&mut session, client, "next"));
    poll_until(&mut session, &mut log, last as usize + 1);
    let unasked = "the server sent a reply without a request";
    assert_eq!(log.of(last), (Outcome::Protocol, unasked));
    (0..last).for_each(|client| assert_eq!(log.of(client), (Outcome::Ok, "next")));
}

/// A server that sends the given text on its session connection and signals the end.
pub(crate) fn said_by_test() -> (Server, Sender<String>, Receiver<()>) {
    let ((words, given), (told, said)) = (channel::<String>(), channel());
    let given = Mutex::new(given);
    let server = Server::of_sessions(move |_, peer| {
        for text in given.lock().unwrap().iter() {
            peer.say(&text);
            told.send(()).unwrap();
        }
    });
    (server, words, said)
}

#[test]
fn a_reply_in_single_bytes_is_stamped_by_its_last_byte() {
    let (server, words, said) = said_by_test();
    let driver = open(&server.address, json!({})).unwrap();
    let (mut session, mut log) = (session_of(&driver, 1), Log::new(Duration::ZERO));
    submit(&mut session, 0, "a");
    session.poll(0, &mut log);
    let mut before_last_ns = 0;
    for byte in record("slow").chars() {
        assert!(log.ended.is_empty());
        before_last_ns = log.stamp();
        words.send(byte.to_string()).unwrap();
        said.recv().unwrap();
        session.poll(PATIENCE_NS, &mut log);
    }
    assert_eq!(log.of(0), (Outcome::Ok, "slow"));
    assert!(log.ended[0].at_ns >= before_last_ns);
}

#[test]
fn replies_larger_than_the_read_buffer_are_complete() {
    let long = |key: &str| format!("{key}{}", "x".repeat(700_000));
    let server = Server::of_sessions(move |_, peer| {
        while let Some(command) = peer.hear() {
            peer.say(&record(&long(command.rsplit(' ').next().unwrap())));
        }
    });
    for connections in [1, 3] {
        let driver = open(&server.address, json!({ "connections": connections })).unwrap();
        let mut session = session_of(&driver, 3);
        for round in 0..3 {
            let mut log = Log::new(Duration::ZERO);
            let key = |client| format!("{round}-{client}");
            (0..3).for_each(|client| submit(&mut session, client, &key(client)));
            poll_until(&mut session, &mut log, 3);
            for client in 0..3 {
                assert!(log.of(client) == (Outcome::Ok, long(&key(client)).as_str()));
            }
        }
    }
}

#[test]
fn an_abandoned_ticket_is_free_at_once_and_has_no_result() {
    let (server, words, said) = said_by_test();
    let driver = open(&server.address, json!({})).unwrap();
    let (mut session, mut log) = (session_of(&driver, 1), Log::new(Duration::ZERO));
    submit(&mut session, 0, "never sent");
    session.give_up(0);
    submit(&mut session, 0, "late");
    session.poll(0, &mut log);
    session.give_up(0);
    submit(&mut session, 0, "wanted");
    session.poll(0, &mut log);
    assert_eq!(log.issued.len(), 2);
    words.send(record("late") + &record("wanted")).unwrap();
    said.recv().unwrap();
    poll_until(&mut session, &mut log, 1);
    assert_eq!(log.of(0), (Outcome::Ok, "wanted"));
}

#[test]
fn a_connection_with_too_many_late_replies_fails() {
    let server = Server::of_sessions(|number, peer| {
        if number == 0 {
            while peer.hear().is_some() {}
        }
        peer.echo();
    });
    let driver = open(&server.address, json!({})).unwrap();
    let (mut session, mut log) = (session_of(&driver, 1), Log::new(Duration::ZERO));
    for _ in 0..1025 {
        submit(&mut session, 0, "a");
        session.poll(0, &mut log);
        session.give_up(0);
    }
    assert_eq!(log.issued.len(), 1025);
    submit(&mut session, 0, "a");
    poll_until(&mut session, &mut log, 1);
    assert_eq!(log.of(0), (Outcome::Connection, "more than 1024 replies of the server are late"));
    assert_eq!(log.issued.len(), 1026);
    log.ended.clear();
    submit(&mut session, 0, "b");
    poll_until(&mut session, &mut log, 1);
    assert_eq!(log.of(0), (Outcome::Ok, "b"));
}

#[test]
fn a_request_on_a_closed_connection_is_issued_and_waits_for_its_reopening() {
    let (open_again, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let server = Server::new(move |number, peer| {
        if number == 2 {
            gate.lock().unwrap().recv().unwrap();
        }
        peer.greet();
        if number != 1 {
            peer.echo();
        }
    });
    let driver = open(&server.address, json!({})).unwrap();
    let (mut session, mut log) = (session_of(&driver, 1), Log::new(Duration::ZERO));
    submit(&mut session, 0, "a");
    poll_until(&mut session, &mut log, 1);
    assert_eq!(log.of(0).0, Outcome::Connection);
    let (issued, ended) = (log.issued.len(), log.ended.len());
    submit(&mut session, 0, "b");
    session.poll(0, &mut log);
    assert_eq!((log.issued.len(), log.ended.len()), (issued + 1, ended));
    session.give_up(0);
    submit(&mut session, 0, "c");
    session.poll(0, &mut log);
    assert_eq!((log.issued.len(), log.ended.len()), (issued + 2, ended));
    open_again.send(()).unwrap();
    poll_until(&mut session, &mut log, ended + 1);
    assert_eq!(log.ended[ended].text, "c");
    assert!(log.ended[ended].at_ns >= log.issued[issued + 1].1);
}

#[test]
fn an_idle_connection_that_closes_reopens_without_a_failure() {
    let server = Server::of_sessions(|number, peer| {
        if number == 0 {
            peer.hear();
            return peer.say(&record("a"));
        }
        peer.echo();
    });
    let driver = open(&server.address, json!({})).unwrap();
    let (mut session, mut log) = (session_of(&driver, 1), Log::new(Duration::ZERO));
    submit(&mut session, 0, "a");
    poll_until(&mut session, &mut log, 1);
    session.poll(PATIENCE_NS, &mut log);
    submit(&mut session, 0, "b");
    poll_until(&mut session, &mut log, 2);
    let texts: Vec<_> = log.ended.iter().map(|ended| (ended.outcome, &ended.text[..])).collect();
    assert_eq!(texts, [(Outcome::Ok, "a"), (Outcome::Ok, "b")]);
    assert_eq!(server.session_connections(), 2);
}

#[test]
fn a_lost_server_is_retried_after_the_pause_in_due_ns() {
    let server = Server::new(|number, peer| match number {
        0 => be_node(peer, "0-0", |_, _| String::new()),
        1 => peer.greet(),
        _ => {}
    });
    let driver = open(&server.address, json!({ "reconnect_max_ms": 10 })).unwrap();
    let (mut session, mut log) = (session_of(&driver, 1), Log::new(Duration::ZERO));
    for ended in 1..=2 {
        submit(&mut session, 0, "a");
        poll_until(&mut session, &mut log, ended);
    }
    assert_eq!(session.due_ns(), u64::MAX);
    submit(&mut session, 0, "a");
    session.poll(0, &mut log);
    let (_, issued_ns) = *log.issued.last().unwrap();
    assert_eq!(session.due_ns(), issued_ns + 10_000_000);
    poll_until(&mut session, &mut log, 3);
    assert!(log.ended.iter().all(|ended| ended.outcome == Outcome::Connection));
    assert!(log.ended[2].at_ns >= issued_ns + 10_000_000);
}

/// Serves a connection with the texts of its lane.
fn say_pieces(peer: &mut Peer, lanes: &[Mutex<Receiver<String>>], told: &Sender<()>) {
    let Some(command) = peer.hear() else { return };
    let client: usize = command.rsplit(' ').next().unwrap().parse().unwrap();
    let pieces = lanes[client % lanes.len()].lock().unwrap();
    for text in pieces.iter() {
        peer.say(&text);
        told.send(()).unwrap();
    }
}

/// Splits a text at these positions.
fn cut(text: &str, places: &[prop::sample::Index]) -> Vec<String> {
    let mut places: Vec<_> = places.iter().map(|place| place.index(text.len())).collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| text[pair[0]..pair[1]].to_owned()).collect()
}

const PUSH: &str = ">2\r\n+invalidate\r\n*1\r\n$1\r\nx\r\n";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn replies_may_be_cut_anywhere_on_any_number_of_connections(
        sizes in prop::collection::vec((0_usize..3000, any::<bool>()), 1..12),
        width in 1_usize..5,
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        order in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 100),
    ) {
        let width = width.min(sizes.len());
        let value = |client: usize| format!("{client}-{}", "v".repeat(sizes[client].0));
        let lane = |lane: usize| {
            let clients = (lane..sizes.len()).step_by(width);
            let reply = |client: usize| {
                let push = if sizes[client].1 { PUSH } else { "" };
                push.to_owned() + &record(&value(client))
            };
            clients.map(reply).collect::<String>()
        };
        let (words, lanes): (Vec<_>, Vec<_>) = (0..width).map(|_| channel()).unzip();
        let lanes: Vec<_> = lanes.into_iter().map(Mutex::new).collect();
        let (told, said) = channel();
        let server = Server::of_sessions(move |_, peer| say_pieces(peer, &lanes, &told));
        let driver = open(&server.address, json!({ "connections": width })).unwrap();
        let clients = sizes.len() as u32;
        let (mut session, mut log) = (session_of(&driver, clients), Log::new(Duration::ZERO));
        (0..clients).for_each(|client| submit(&mut session, client, &client.to_string()));
        session.poll(0, &mut log);
        let mut pieces: Vec<_> = (0..width).map(|n| cut(&lane(n), &places).into_iter()).collect();
        for (index, takes_turn) in order {
            let n = index.index(width);
            if let Some(piece) = pieces[n].next() {
                words[n].send(piece).unwrap();
                said.recv().unwrap();
            }
            if takes_turn {
                session.poll(0, &mut log);
            }
        }
        for (n, rest) in pieces.into_iter().enumerate() {
            words[n].send(rest.collect()).unwrap();
        }
        poll_until(&mut session, &mut log, sizes.len());
        for client in 0..clients {
            let value = value(client as usize);
            prop_assert_eq!(log.of(client), (Outcome::Ok, value.as_str()));
        }
    }
}
