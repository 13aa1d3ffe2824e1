//! Requests and replies on open connections.

use std::thread;

use kvmark_plan::Outcome;

use crate::lines::{Peer, Server, Session};

/// A session with one connection, and the server's end of it.
fn pair() -> (Session<false>, Server, Peer) {
    let (mut session, server) = (Session::new(1), Server::new());
    session.framed.open(&server.place).unwrap();
    let peer = server.accept();
    (session, server, peer)
}

fn answer(ticket: u32, text: &str) -> (u32, String) {
    (ticket, text.to_owned())
}

#[test]
fn replies_come_in_any_order_and_in_single_bytes() {
    let (mut session, _server, mut peer) = pair();
    (0..3).for_each(|ticket| assert!(session.ask(0, ticket, "a").is_ok()));
    session.look();
    assert_eq!(session.clock.issued, [0, 1, 2]);
    let heard: Vec<_> = (0..3).map(|_| peer.hear().unwrap()).collect();
    assert_eq!(heard, ["0 a", "1 a", "2 a"]);
    for byte in "2 c\n0 a\n1 b\n".chars() {
        peer.say(&byte.to_string());
        session.look();
    }
    session.until(|session| session.answers.len() == 3);
    assert_eq!(session.answers, [answer(2, "c"), answer(0, "a"), answer(1, "b")]);
}

#[test]
fn a_late_reply_is_dropped_and_its_number_is_reserved_until_then() {
    let (mut session, _server, mut peer) = pair();
    let number = session.ask(0, 0, "slow").unwrap();
    session.look();
    session.framed.give_up(0, number);
    assert!(session.framed.is_troubled(0));
    assert_ne!(session.ask(0, 0, "next").unwrap(), number);
    session.look();
    peer.say("0 late\n1 wanted\n");
    session.until(|session| session.answers.len() == 1);
    assert_eq!(session.answers, [answer(0, "wanted")]);
    assert!(!session.framed.is_troubled(0));
    assert_eq!(session.ask(0, 0, "again").unwrap(), 1);
}

#[test]
fn a_reply_without_a_request_ends_the_connection_and_its_exchanges() {
    let (mut session, _server, mut peer) = pair();
    (0..2).for_each(|ticket| assert!(session.ask(0, ticket, "a").is_ok()));
    session.look();
    peer.say("7 what\n0 never taken\n");
    session.until(|session| !session.framed.is_up(0));
    assert_eq!(session.lost, [(0, Outcome::Connection), (1, Outcome::Connection)]);
    assert!(session.answers.is_empty());
}

#[test]
fn a_server_that_stops_reading_receives_everything_later() {
    const LINES: u32 = 64;
    let (mut session, _server, mut peer) = pair();
    let long = "x".repeat(256 << 10);
    for ticket in 0..LINES {
        session.ask(0, ticket, &long).unwrap();
        session.look();
    }
    assert_eq!(session.clock.issued.len(), LINES as usize);
    let server = thread::spawn(move || {
        for _ in 0..LINES {
            let line = peer.hear().unwrap();
            let (number, text) = line.split_once(' ').unwrap();
            let length = text.len();
            peer.say(&format!("{number} {length}\n"));
        }
        peer
    });
    session.until(|session| session.answers.len() == LINES as usize);
    server.join().unwrap();
    let length = (256 << 10).to_string();
    assert!(session.answers.iter().all(|(_, text)| *text == length));
}

#[test]
fn a_request_abandoned_on_a_closed_connection_is_not_sent_after_it_reopens() {
    let (mut session, server, peer) = pair();
    drop(peer);
    session.until(|session| !session.framed.is_up(0));
    let number = session.ask(0, 0, "given up").unwrap();
    session.look();
    assert_eq!(session.clock.issued, [0]);
    session.framed.give_up(0, number);
    assert!(session.framed.is_troubled(0));
    session.ask(0, 1, "wanted").unwrap();
    session.until(|session| !session.opened.is_empty());
    session.look();
    assert_eq!(server.accept().hear().unwrap(), "0 wanted");
}

#[test]
fn a_session_has_no_room_while_its_server_does_not_read() {
    let (mut session, _server, mut peer) = pair();
    let long = "x".repeat(1 << 20);
    let mut asked = 0;
    while session.framed.has_room() {
        session.ask(0, asked, &long).unwrap();
        session.look();
        asked += 1;
    }
    assert!((64..200).contains(&asked), "{asked}");
    // The last ones were abandoned and aren't sent.
    for number in asked - 8..asked {
        session.framed.give_up(0, number as u16);
    }
    assert!(session.framed.has_room());
    asked -= 8;
    let server = thread::spawn(move || {
        for number in 0..asked {
            let line = peer.hear().unwrap();
            assert!(line.starts_with(&format!("{number} x")), "{}", &line[..20]);
            peer.say(&format!("{number} \n"));
        }
        peer
    });
    session.until(|session| session.answers.len() == asked as usize);
    let mut peer = server.join().unwrap();
    session.ask(0, asked, "last").unwrap();
    session.look();
    assert!(peer.hear().unwrap().ends_with(" last"));
}
