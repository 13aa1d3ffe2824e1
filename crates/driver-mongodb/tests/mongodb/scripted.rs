//! A scripted server: errors, damaged replies and lost connections.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use kvmark_driver::{OpenError, Reply};
use kvmark_driver_mongodb::MongoDb;
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::client::{ask, options_at, refusal, write};
use kvmark_testing::{layout, request, session};
use serde_json::{Value, json};

/// A string element.
fn element(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind], name.as_bytes(), b"\0", value].concat()
}

/// A document of these members, with the types of the driver's replies.
fn document(members: &Value) -> Vec<u8> {
    let mut elements = Vec::new();
    for (name, value) in members.as_object().unwrap() {
        elements.extend(match value {
            Value::Number(number) => {
                element(16, name, &(number.as_i64().unwrap() as i32).to_le_bytes())
            }
            Value::String(text) => {
                let length = (text.len() as u32 + 1).to_le_bytes();
                element(2, name, &[&length, text.as_bytes(), b"\0"].concat())
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let items = items.map(|(place, item)| (place.to_string(), item.clone()));
                element(4, name, &document(&Value::Object(items.collect())))
            }
            _ => element(3, name, &document(value)),
        });
    }
    [&(elements.len() as u32 + 5).to_le_bytes()[..], &elements, b"\0"].concat()
}

/// A reply to a request with these bytes.
fn message(request: &[u8], members: &Value) -> Vec<u8> {
    let document = document(members);
    let words = [21 + document.len() as u32, 0, word(request, 4), 2013, 0];
    let header: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    [&header, &b"\0"[..], &document].concat()
}

fn word(bytes: &[u8], place: usize) -> u32 {
    u32::from_le_bytes(bytes[place..place + 4].try_into().unwrap())
}

/// Reads a request.
fn hear(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut request = vec![0; 4];
    stream.read_exact(&mut request).ok()?;
    request.resize(word(&request, 0) as usize, 0);
    stream.read_exact(&mut request[4..]).ok()?;
    Some(request)
}

/// Starts a server, which answers a request as the function does: with bytes, or by its end.
fn serve(answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            thread::spawn(move || {
                while let Some(reply) = hear(&mut stream).and_then(|request| answer(&request)) {
                    drop(stream.write_all(&reply));
                }
            });
        }
    });
    address
}

/// The name of a request's command.
fn name(request: &[u8]) -> &str {
    str::from_utf8(request[26..].split(|byte| *byte == 0).next().unwrap()).unwrap()
}

fn open(address: &str) -> Result<MongoDb, OpenError> {
    MongoDb::open(&options_at(address, json!({})), &layout(3))
}

/// The outcome of an operation that gets this reply, with its reply and the failure's text.
fn outcome(
    kind: Kind,
    reply: impl Fn(&[u8]) -> Option<Vec<u8>> + Clone + Send + 'static,
) -> (Outcome, Reply, String) {
    let address = serve(move |request| match name(request) {
        "hello" | "listCollections" => Some(message(request, &json!({ "ok": 1 }))),
        _ => reply(request),
    });
    let client = session(&open(&address).unwrap(), 1);
    let (outcome, reply) = match kind {
        Kind::Read | Kind::Scan => ask(&client, &request(kind, "k")),
        _ => (write(&client, kind, "k", &[(0, b"v")]), Reply::default()),
    };
    (outcome, reply, client.last_failure().unwrap_or_default())
}

#[test]
fn a_reply_has_its_outcome() {
    let found =
        |documents: Value| json!({ "cursor": { "id": 0, "firstBatch": documents }, "ok": 1 });
    let conflict = json!({ "code": 112, "errmsg": "write conflict", "index": 0 });
    let late = json!({ "code": 64, "codeName": "WriteConcernTimeout", "errmsg": "too late" });
    let error = json!({ "ok": 0, "code": 13, "codeName": "Unauthorized", "errmsg": "not allowed" });
    let cases = [
        (Kind::Read, found(json!([{ "_id": "k", "field1": "v" }])), Outcome::Ok, ""),
        (Kind::Read, found(json!([])), Outcome::Miss, ""),
        (Kind::Scan, found(json!([])), Outcome::Ok, ""),
        (Kind::Update, json!({ "n": 1, "ok": 1 }), Outcome::Ok, ""),
        (Kind::Update, json!({ "n": 0, "ok": 1 }), Outcome::Miss, ""),
        (
            Kind::Insert,
            json!({ "n": 0, "writeErrors": [conflict], "ok": 1 }),
            Outcome::Unavailable,
            "the server answered: write conflict (code 112)",
        ),
        (
            Kind::Insert,
            json!({ "n": 1, "writeConcernError": late, "ok": 1 }),
            Outcome::Timeout,
            "the server answered: too late (WriteConcernTimeout)",
        ),
        (Kind::Read, error, Outcome::Refused, "the server answered: not allowed (Unauthorized)"),
        (
            Kind::Read,
            json!({ "ok": 1 }),
            Outcome::Protocol,
            "the server's bytes aren't a reply in MongoDB's protocol",
        ),
    ];
    for (kind, reply, expected, text) in cases {
        let (found, values, failure) = outcome(kind, {
            let reply = reply.clone();
            move |request| Some(message(request, &reply))
        });
        assert_eq!((found, &*failure), (expected, text), "{reply}");
        let is_record = reply["cursor"]["firstBatch"].get(0).is_some();
        assert_eq!(values.cells.len(), usize::from(is_record), "{reply}");
    }
}

#[test]
fn a_damaged_or_foreign_reply_and_the_end_of_a_connection_are_failures() {
    let miss = json!({ "cursor": { "id": 0, "firstBatch": [] }, "ok": 1 });
    let damaged = |place: usize, byte: u8| {
        let miss = miss.clone();
        move |request: &[u8]| {
            let mut reply = message(request, &miss);
            reply[place] = byte;
            Some(reply)
        }
    };
    let unreadable = "the server's bytes aren't a reply in MongoDB's protocol";
    // The operation, the flags, the kind of the section, the document's length and first type.
    for (place, byte) in [(12, 0), (16, 2), (20, 1), (21, 255), (25, 255)] {
        let (outcome, _, text) = outcome(Kind::Read, damaged(place, byte));
        assert_eq!((outcome, &*text), (Outcome::Protocol, unreadable), "{place}");
    }
    let (found, _, text) = outcome(Kind::Read, damaged(8, 200));
    assert_eq!((found, &*text), (Outcome::Protocol, "the server's reply is for another request"));
    let (found, _, text) = outcome(Kind::Read, |_| None);
    assert_eq!((found, &*text), (Outcome::Connection, "the server closed the connection"));
}

#[test]
fn a_login_that_the_server_rejects_or_cannot_prove_is_refused() {
    let answer = |reply: Value| {
        serve(move |request| {
            let hello = json!({ "ok": 1, "saslSupportedMechs": ["SCRAM-SHA-256"] });
            Some(message(request, if name(request) == "hello" { &hello } else { &reply }))
        })
    };
    let text = "Authentication failed for ann";
    let failed = json!({ "ok": 0, "code": 18, "codeName": "AuthenticationFailed", "errmsg": text });
    let other = json!({ "ok": 1, "conversationId": 1, "payload": "r=other,s=c2FsdA==,i=4096" });
    let none = serve(|request| {
        let mechanisms = json!({ "ok": 1, "saslSupportedMechs": ["SCRAM-SHA-1"] });
        Some(message(request, &mechanisms))
    });
    for (server, expected) in [
        (
            answer(failed),
            "the server answered: Authentication failed for *** (AuthenticationFailed)",
        ),
        (answer(other), "the server doesn't know the password"),
        (none, "the server has no login by SCRAM-SHA-256 for this user"),
    ] {
        let error = refusal(open(&format!("ann:pw@{server}")));
        assert_eq!(error, format!("can't use the server at {server}: {expected}"));
    }
}

#[test]
fn invalid_options_and_fields_are_rejected() {
    let cases = [
        (
            json!({ "w": 0 }),
            "option 'w' can't be '0': give a number of servers from 1, or majority",
        ),
        (json!({ "w": "most" }), "option 'w' can't be 'most'"),
        (json!({ "username": "ann" }), "a user needs a password"),
        (json!({ "journal": "maybe" }), "option 'journal' can't be 'maybe': give true or false"),
    ];
    for (options, expected) in cases {
        let error = refusal(MongoDb::open(&options_at("127.0.0.1:1", options), &layout(3)));
        assert!(error.starts_with(expected), "{error}");
    }
    let several = refusal(open("a:1,b:2"));
    assert_eq!(several, "option 'address' names several servers: give one host:port");
    let mut fields = layout(1);
    fields.field_names = vec!["a.b".to_owned()];
    let error = refusal(MongoDb::open(&options_at("127.0.0.1:1", json!({})), &fields));
    assert_eq!(error, "'a.b' can't be a field of MongoDB: give another prefix");
}
