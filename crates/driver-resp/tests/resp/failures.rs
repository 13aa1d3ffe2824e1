//! Outcomes of operations when a server misbehaves.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::thread;

use futures_util::future::{Either, select};
use kvmark_plan::{Kind, Outcome};
use serde_json::json;

use crate::common::{execute, heard, open, read, refusal, request, run, session, with_session};
use crate::scripted::{Server, record};

/// The outcome and failure text of a read that gets this reply, and the number of connections after
/// a second one.
fn ends(first: &str, closes: bool) -> (Outcome, String, usize) {
    Server::ends(|address| open(address, json!({})).unwrap(), first, closes)
}

#[test]
fn an_error_of_the_server_is_an_outcome_and_leaves_the_connection_open() {
    let cases = [
        ("-LOADING Redis is loading the dataset in memory\r\n", Outcome::Unavailable),
        ("-MASTERDOWN Link with MASTER is down\r\n", Outcome::Unavailable),
        ("-READONLY You can't write against a read only replica.\r\n", Outcome::Unavailable),
        ("-OOM command not allowed when used memory > 'maxmemory'.\r\n", Outcome::Overloaded),
        ("-NOAUTH Authentication required.\r\n", Outcome::Refused),
        ("-WRONGTYPE Operation against a key\r\n", Outcome::Refused),
        ("!21\r\nSYNTAX invalid syntax\r\n", Outcome::Refused),
    ];
    for (said, expected) in cases {
        let (outcome, account, connections) = ends(said, false);
        assert_eq!((outcome, connections), (expected, 1), "{said}");
        assert!(account.starts_with("the server answered: "), "{account}");
    }
}

#[test]
fn malformed_and_mistyped_replies_are_protocol_failures_and_open_a_new_connection() {
    for said in ["HTTP/1.1 400 Bad Request\r\n\r\n", ":1\r\n", "*1\r\n$1\r\nx\r\n", "+OK\r\n"] {
        let (outcome, _, connections) = ends(said, false);
        assert_eq!((outcome, connections), (Outcome::Protocol, 2), "{said}");
    }
}

#[test]
fn a_reply_without_a_request_is_a_protocol_failure() {
    let server = Server::of_sessions(|_, peer| {
        peer.hear();
        peer.say(&(record("a") + "+more\r\n"));
        peer.echo();
    });
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        assert_eq!(read(&session, 0, "a").await.0, Outcome::Ok);
        assert_eq!(read(&session, 0, "b").await.0, Outcome::Protocol);
        assert_eq!(read(&session, 0, "c").await.0, Outcome::Ok);
    });
}

#[test]
fn a_connection_closed_before_or_within_a_reply_fails_and_reopens() {
    let (outcome, account, connections) = ends("", true);
    assert_eq!((outcome, connections), (Outcome::Connection, 2));
    assert_eq!(account, "the server closed the connection");
    let (outcome, account, connections) = ends("*2\r\n$6\r\nfie", true);
    assert_eq!((outcome, connections), (Outcome::Connection, 2));
    assert_eq!(account, "the server closed the connection in the middle of a reply");
}

#[test]
fn a_reply_in_single_bytes_is_accepted() {
    let server = Server::of_sessions(|_, peer| {
        peer.hear();
        for byte in record("slow").chars() {
            peer.say(&byte.to_string());
        }
        peer.echo();
    });
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        assert_eq!(read(&session, 0, "a").await, (Outcome::Ok, vec!["0.0=slow".to_owned()]));
    });
}

#[test]
fn a_push_message_answers_no_request() {
    let server = Server::of_sessions(|_, peer| {
        peer.hear();
        peer.say(&(">2\r\n+invalidate\r\n*1\r\n$1\r\nx\r\n".to_owned() + &record("a")));
        peer.echo();
    });
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        assert_eq!(read(&session, 0, "a").await, (Outcome::Ok, vec!["0.0=a".to_owned()]));
    });
}

#[test]
fn the_late_reply_of_an_abandoned_request_is_dropped() {
    let (arrived, signal) = channel();
    let server = Server::of_sessions(move |_, peer| {
        peer.hear();
        arrived.send(()).unwrap();
        let second = peer.hear().unwrap();
        peer.say(&(record("late") + &record(second.rsplit(' ').next().unwrap())));
        peer.echo();
    });
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        let first = Box::pin(read(&session, 0, "a"));
        let Either::Right((_, given_up)) = select(first, pin!(heard(&signal))).await else {
            panic!("the server answered")
        };
        drop(given_up);
        for key in ["b", "c"] {
            assert_eq!(read(&session, 0, key).await, (Outcome::Ok, vec![format!("0.0={key}")]));
        }
        assert_eq!(server.session_connections(), 1);
    });
}

#[test]
fn requests_on_a_lost_server_fail_and_succeed_after_its_return() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let greeter = thread::spawn(move || {
        for pings in [2, 1] {
            let (mut stream, _) = listener.accept().unwrap();
            for _ in 0..pings {
                stream.read_exact(&mut [0; 14]).unwrap();
                stream.write_all(b"+PONG\r\n").unwrap();
            }
        }
    });
    let driver = open(&address.to_string(), json!({ "reconnect_max_ms": 10 })).unwrap();
    run(async {
        let session = session(&driver, 1);
        greeter.join().unwrap();
        for _ in 0..3 {
            assert_eq!(read(&session, 0, "a").await.0, Outcome::Connection);
        }
        let listener = TcpListener::bind(address).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 14]).unwrap();
            stream.write_all(b"+PONG\r\n").unwrap();
            stream.read_exact(&mut [0; 24]).unwrap();
            stream.write_all(record("back").as_bytes()).unwrap();
        });
        assert_eq!(read(&session, 0, "a").await, (Outcome::Ok, vec!["0.0=back".to_owned()]));
    });
}

#[test]
fn a_rejected_command_of_an_insert_is_the_outcome_of_the_insert() {
    for options in [json!({}), json!({ "pipeline_parts": true })] {
        let server = Server::of_sessions(|_, peer| {
            while let Some(command) = peer.hear() {
                let index = command.starts_with("ZADD");
                peer.say(if index { "-OOM command not allowed\r\n" } else { "+OK\r\n" });
            }
        });
        let driver = open(&server.address, options).unwrap();
        with_session(&driver, async |session| {
            for _ in 0..2 {
                let (outcome, _) = execute(&session, 0, &request(Kind::Insert, "a")).await;
                assert_eq!(outcome, Outcome::Overloaded);
            }
            assert_eq!(server.session_connections(), 1);
        });
    }
}

#[test]
fn a_rejecting_server_is_named_when_opening() {
    let full = Server::new(|_, peer| peer.say("-ERR max number of clients reached\r\n"));
    let error = refusal(&full.address, json!({}));
    assert!(error.ends_with("the server answered: ERR max number of clients reached"), "{error}");
}
