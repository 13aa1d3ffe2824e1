//! Outcomes of operations when a server misbehaves.

use kvmark_driver::{Request, Values};
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::{cells, execute, request, run, session};
use serde_json::json;

use crate::scripted::{SECRET, Server, open, refusal, response};

/// The outcome of a read that gets this response, the failure text or else the values, and the
/// number of connections after a second read.
fn ends(first: &str, closes: bool) -> (Outcome, String, usize) {
    Server::ends(|address| open(address, json!({})).unwrap(), first, closes)
}

#[test]
fn an_error_of_the_server_is_an_outcome_and_leaves_the_connection_open() {
    let cases = [
        (400, "ProvisionedThroughputExceededException", Outcome::Overloaded),
        (400, "ThrottlingException", Outcome::Overloaded),
        (400, "RequestLimitExceeded", Outcome::Overloaded),
        (400, "ConditionalCheckFailedException", Outcome::Refused),
        (400, "ValidationException", Outcome::Refused),
        (500, "InternalServerError", Outcome::Unavailable),
        (503, "ServiceUnavailable", Outcome::Unavailable),
        (200, "ThrottlingException", Outcome::Overloaded),
        (200, "ValidationException", Outcome::Refused),
    ];
    for (status, name, expected) in cases {
        let body = json!({ "__type": format!("com.amazon#{name}"), "Message": "a reason" });
        let (outcome, account, connections) = ends(&response(status, &body.to_string()), false);
        assert_eq!((outcome, connections), (expected, 1), "{name}");
        assert_eq!(account, format!("the server answered: {name}: a reason"));
    }
    for (status, expected) in [
        (500, Outcome::Unavailable),
        (502, Outcome::Unavailable),
        (429, Outcome::Overloaded),
        (404, Outcome::Refused),
    ] {
        let (outcome, account, connections) = ends(&response(status, "<html>"), false);
        assert_eq!((outcome, connections), (expected, 1), "{status}");
        assert_eq!(account, format!("the server answered with status {status}"));
    }
}

#[test]
fn a_rejected_signature_is_explained_and_its_message_is_not_shown() {
    let message = format!("the canonical request is {SECRET}");
    for name in
        ["InvalidSignatureException", "UnrecognizedClientException", "ExpiredTokenException"]
    {
        let body = json!({ "__type": format!("x#{name}"), "message": message }).to_string();
        let (outcome, account, _) = ends(&response(400, &body), false);
        let advice = "check the access key, the region and this machine's clock";
        assert_eq!(account, format!("the server answered: {name}: {advice}"));
        assert_eq!(outcome, Outcome::Refused);
    }
}

#[test]
fn malformed_responses_are_protocol_failures_and_open_a_new_connection() {
    let head = "HTTP/1.1 200 OK\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    let cases = [
        "STORED\r\n".to_owned(),
        format!("{head}\r\n{{}}"),
        format!("{head}Content-Length: x\r\n\r\n"),
        format!("{head}Content-Length: 67108865\r\n\r\n"),
        format!("{head}Content-Length: 2\r\n{chunked}\r\n{{}}"),
        format!("{head}{chunked}\r\nx\r\n"),
        format!("{head}{chunked}\r\n2\r\n{{}}}}}}\r\n"),
        format!("{head}{chunked}\r\nfffffff\r\n"),
        format!("{head}X: {}", "x".repeat(70_000)),
        response(200, ""),
        response(200, "{\"Item\":{\"field0\":{\"S\":\"x\"}}"),
        response(200, "{}{}"),
        response(200, "{\"Item\":{\"field0\":{\"S\":\"\\x\"}}}"),
    ];
    for said in cases {
        let (outcome, account, connections) = ends(&said, false);
        assert_eq!((outcome, connections), (Outcome::Protocol, 2), "{said}: {account}");
    }
}

#[test]
fn a_connection_closed_before_or_within_a_response_fails_and_reopens() {
    let closed = "the server closed the connection";
    for (said, rest) in [
        ("", ""),
        ("HTTP/1.1 200", " in the middle of a reply"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", " in the middle of a reply"),
    ] {
        let expected = (Outcome::Connection, format!("{closed}{rest}"), 2);
        assert_eq!(ends(said, true), expected);
    }
}

#[test]
fn a_response_that_announces_the_end_of_the_connection_counts() {
    let body = r#"{"Item":{"field0":{"S":"last"}}}"#;
    let said = format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(ends(&said, true), (Outcome::Ok, "0.0=last".to_owned(), 2));
    let said = response(503, "").replace("\r\n\r\n", "\r\nConnection: Close\r\n\r\n");
    let (outcome, _, connections) = ends(&said, true);
    assert_eq!((outcome, connections), (Outcome::Unavailable, 2));
}

#[test]
fn a_response_may_have_chunks_and_be_split_at_every_byte() {
    let body = r#"{"Item":{"field0":{"S":"a\r\nb"}}}"#;
    let (first, second) = body.split_at(10);
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let last = "0\r\nT: x\r\n\r\n";
    let reply = format!("{head}a;x=y\r\n{first}\r\n{:X}\r\n{second}\r\n{last}", second.len());
    let length = reply.len();
    let server = Server::of_sessions(move |_, peer| {
        for split in 1..length {
            if peer.hear().is_none() {
                return;
            }
            peer.say(&reply[..split]);
            std::thread::yield_now();
            peer.say(&reply[split..]);
        }
    });
    let driver = open(&server.address, json!({})).unwrap();
    let session = session(&driver, 1);
    for _ in 1..length {
        let (outcome, reply) = run(execute(&session, 0, &request(Kind::Read, "a")));
        assert_eq!((outcome, cells(&reply)), (Outcome::Ok, vec!["0.0=a\r\nb".to_owned()]));
    }
}

#[test]
fn texts_that_are_not_utf_8_are_rejected_and_not_sent() {
    let server = Server::of_sessions(|_, peer| peer.echo());
    let driver = open(&server.address, json!({})).unwrap();
    server.take_heard();
    let session = session(&driver, 1);
    let values = Values { bytes: "\u{e9}".as_bytes(), places: &[(0, 0..1), (1, 1..2)] };
    let requests = [
        Request { key: b"\xff", ..request(Kind::Read, "") },
        Request { values, ..request(Kind::Insert, "k") },
    ];
    for request in requests {
        assert_eq!(run(execute(&session, 0, &request)).0, Outcome::Refused);
    }
    assert!(server.take_heard().is_empty());
}

#[test]
fn an_unusable_server_is_named_when_opening() {
    for status in [400, 200] {
        let server = Server::new(move |_, peer| {
            peer.hear();
            peer.say(&response(status, r#"{"__type":"x#AccessDeniedException","message":"no"}"#));
        });
        let address = &server.address;
        let expected = format!(
            "can't use the server at {address}: the server answered: AccessDeniedException: no"
        );
        assert_eq!(refusal(address, json!({})), expected);
    }
}
