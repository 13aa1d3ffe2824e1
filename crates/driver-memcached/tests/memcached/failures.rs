//! Outcomes of operations when a server misbehaves.

use futures_util::future::join_all;
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::{Bound, layout_of};
use serde_json::json;

use crate::common::{execute, open, open_layout, outcome, read, refusal, request, run, session};
use crate::common::{with_session, writing};
use crate::scripted::{Server, item, key_of, record};

/// The outcome and failure text of a read that gets this reply, and the number of connections after
/// a second one.
fn ends(first: &str, closes: bool) -> (Outcome, String, usize) {
    Server::ends(|address| open(address, json!({})).unwrap(), first, closes)
}

#[test]
fn an_error_of_the_server_is_an_outcome_and_leaves_the_connection_open() {
    let cases = [
        ("ERROR\r\n", Outcome::Refused),
        ("CLIENT_ERROR bad command line format\r\n", Outcome::Refused),
        ("SERVER_ERROR out of memory writing get response\r\n", Outcome::Overloaded),
        ("SERVER_ERROR Connection refused\r\n", Outcome::Unavailable),
    ];
    for (said, expected) in cases {
        let (outcome, account, connections) = ends(said, false);
        assert_eq!((outcome, connections), (expected, 1), "{said}");
        assert_eq!(account, format!("the server answered: {}", said.trim_end()));
    }
}

#[test]
fn malformed_and_mistyped_replies_are_protocol_failures_and_open_a_new_connection() {
    let cases = [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "STORED\r\n",
        "7\r\n",
        "VALUE usertable-a 0 x\r\n",
        "VALUE usertable-a 0 2\r\n{}STORED\r\n",
        "VALUE usertable-a 0 2\r\n{}\r\nSTORED\r\n",
        "VALUE usertable-other 0 2\r\n{}\r\nEND\r\n",
        "VALUE usertable-a 0 2\r\n{}\r\nVALUE usertable-a 0 2\r\n{}\r\nEND\r\n",
    ];
    for said in cases {
        let (outcome, account, connections) = ends(said, false);
        assert_eq!((outcome, connections), (Outcome::Protocol, 2), "{said}: {account}");
    }
    let (_, account, _) = ends("VALUE usertable-other 0 2\r\n{}\r\nEND\r\n", false);
    let expected = "the server answered a get with the unrequested key 'usertable-other'";
    assert_eq!(account, expected);
}

#[test]
fn an_endless_line_is_a_protocol_failure() {
    let server = Server::of_sessions(|number, peer| {
        peer.hear();
        if number == 0 {
            return peer.say(&"V".repeat(10_000));
        }
        peer.say(&record("a"));
    });
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        assert_eq!(read(&session, 0, "a").await.0, Outcome::Protocol);
        assert_eq!(read(&session, 0, "a").await.0, Outcome::Ok);
    });
}

#[test]
fn an_unexpected_end_does_not_answer_a_write() {
    let server = Server::of_sessions(|_, peer| peer.repeat("END\r\n"));
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        for kind in [Kind::Insert, Kind::Delete] {
            assert_eq!(outcome(&session, &request(kind, "a")).await, Outcome::Protocol);
        }
    });
}

#[test]
fn a_connection_closed_before_or_within_a_value_fails_and_reopens() {
    let (outcome, account, connections) = ends("", true);
    assert_eq!((outcome, connections), (Outcome::Connection, 2));
    assert_eq!(account, "the server closed the connection");
    let (outcome, account, connections) = ends("VALUE usertable-a 0 100\r\n{\"fie", true);
    assert_eq!((outcome, connections), (Outcome::Connection, 2));
    assert_eq!(account, "the server closed the connection in the middle of a reply");
}

#[test]
fn a_reply_without_a_request_is_a_protocol_failure() {
    let server = Server::of_sessions(|number, peer| {
        if number == 0 {
            peer.hear();
            peer.say(&(record("a") + "END\r\n"));
        }
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
fn a_reply_may_be_split_at_every_byte_and_a_value_may_contain_line_ends() {
    let value = "{\"field0\":\"END\r\nVALUE x 0 1\r\n\"}";
    let reply = item("usertable-a", value) + "END\r\n";
    let length = reply.len();
    let server = Server::of_sessions(move |_, peer| {
        for split in 1..length {
            if peer.hear().is_none() {
                return;
            }
            let (first, second) = reply.split_at(split);
            peer.say(first);
            // A request on another connection is between the two.
            std::thread::yield_now();
            peer.say(second);
        }
    });
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        for _ in 1..length {
            let expected = vec!["0.0=END\r\nVALUE x 0 1\r\n".to_owned()];
            assert_eq!(read(&session, 0, "a").await, (Outcome::Ok, expected));
        }
    });
}

#[test]
fn replies_of_many_clients_in_one_read_keep_their_order() {
    let server = Server::of_sessions(|_, peer| {
        loop {
            let batch: Option<Vec<_>> = (0..8).map(|_| peer.hear()).collect();
            let Some(batch) = batch else { return };
            peer.say(&batch.iter().map(|command| record(key_of(command))).collect::<String>());
        }
    });
    let driver = open(&server.address, json!({ "connections": 1 })).unwrap();
    run(async {
        let session = session(&driver, 8);
        let client = async |client: u32| {
            for round in 0..50 {
                let key = format!("{client}.{round}");
                let expected = (Outcome::Ok, vec![format!("0.0={key}")]);
                assert_eq!(read(&session, client, &key).await, expected);
            }
        };
        join_all((0..8).map(client)).await;
        assert_eq!(server.session_connections(), 1);
    });
}

#[test]
fn an_error_within_a_get_of_many_keys_fails_only_this_get() {
    let server = Server::of_sessions(|_, peer| {
        peer.hear();
        peer.say(&(item("a", "1") + "SERVER_ERROR out of memory writing get response\r\n"));
        peer.hear();
        peer.say(&(item("c", "3") + &item("a", "1") + "END\r\n"));
    });
    let layout = layout_of(&["GET {key} b [{item}]"]);
    let driver = open_layout(&server.address, json!({}), &layout).unwrap();
    with_session(&driver, async |session| {
        let bound = Bound::new(0).command("a", "", &["c"]);
        let request = bound.request(Kind::Read);
        assert_eq!(outcome(&session, &request).await, Outcome::Overloaded);
        // A proxy may use another order.
        let found = (Outcome::Ok, vec!["0.0=1".to_owned(), "0.2=3".to_owned()]);
        assert_eq!(execute(&session, 0, &request).await, found);
        assert_eq!(server.session_connections(), 1);
    });
}

#[test]
fn a_record_in_another_format_is_reported() {
    let reply = item("usertable-a", "no json") + "END\r\n";
    let server = Server::of_sessions(move |_, peer| peer.repeat(&reply));
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        assert_eq!(read(&session, 0, "a").await.0, Outcome::Storage);
        let expected =
            "the record 'usertable-a' can't be decoded: it isn't a JSON object of strings";
        assert_eq!(session.last_failure().as_deref(), Some(expected));
        let unread = kvmark_driver::Request { wants_values: false, ..request(Kind::Read, "a") };
        assert_eq!(outcome(&session, &unread).await, Outcome::Ok);
        assert_eq!(server.session_connections(), 1);
    });
}

#[test]
fn an_update_after_a_concurrent_write_begins_again() {
    let replies = ["EXISTS\r\n", "STORED\r\n"];
    let server = Server::of_sessions(move |_, peer| {
        for reply in replies {
            peer.hear();
            peer.say("VALUE usertable-a 0 14 7\r\n{\"field0\":\"x\"}\r\nEND\r\n");
            peer.hear();
            peer.say(reply);
        }
        peer.hear();
        peer.say("END\r\n");
    });
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        let values = kvmark_driver::Values { bytes: b"new", places: &[(1, 0..3)] };
        let update = writing(Kind::Update, "a", values);
        assert_eq!(outcome(&session, &update).await, Outcome::Ok);
        assert_eq!(outcome(&session, &update).await, Outcome::Miss);
    });
    let swap = "cas usertable-a 0 0 29 7 {\"field0\":\"x\",\"field1\":\"new\"}";
    let gets = "gets usertable-a";
    let heard = server.heard.lock().unwrap();
    assert_eq!(heard[3..], [gets, swap, gets, swap, gets], "{heard:?}");
}

#[test]
fn an_invalid_key_is_rejected_and_not_sent() {
    let server = Server::of_sessions(|_, peer| peer.echo());
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        for key in [&"k".repeat(241), "a b", "a\r\nflush_all"] {
            assert_eq!(read(&session, 0, key).await.0, Outcome::Refused);
        }
        assert_eq!(read(&session, 0, "a").await.0, Outcome::Ok);
    });
    let heard = server.heard.lock().unwrap();
    assert!(heard.iter().all(|command| command == "version" || command == "get usertable-a"));
}

#[test]
fn a_rejecting_server_is_named_when_opening() {
    let full = Server::new(|_, peer| peer.say("ERROR Too many open connections\r\n"));
    let error = refusal(&full.address, json!({}));
    assert!(error.ends_with("the server answered: ERROR Too many open connections"), "{error}");
}
