//! The login of connections.

use kvmark_plan::Outcome;
use serde_json::{Value, json};

use crate::common::{open, read, refusal, with_session};
use crate::real::{self, file};
use crate::scripted::Server;

/// The first command of the driver's own connection.
fn said(user: &str, options: Value) -> String {
    let server = Server::new(|_, peer| {
        while let Some(command) = peer.hear() {
            peer.say(if command == "version" { "VERSION 1.6\r\n" } else { "STORED\r\n" });
        }
    });
    drop(open(&format!("{user}{}", server.address), options).unwrap());
    server.heard.lock().unwrap()[0].clone()
}

#[test]
fn a_connection_logs_in_or_checks_that_the_server_answers() {
    assert_eq!(said("", json!({})), "version");
    assert_eq!(said("ann:p%40ss%20word@", json!({})), "set login 0 -1 13 ann p@ss word");
    let (_folder, path) = file("password", "from file\nsecond line\n");
    let options = json!({ "username": "ann", "password_file": path.to_str().unwrap() });
    assert_eq!(said("", options), "set login 0 -1 13 ann from file");
}

#[test]
fn a_password_in_a_server_message_is_not_shown() {
    let server = Server::new(|_, peer| {
        peer.hear();
        peer.say("CLIENT_ERROR no such user: ann sesame\r\n");
    });
    let error = refusal(&format!("ann:sesame@{}", server.address), json!({}));
    assert!(error.ends_with("the server answered the login with CLIENT_ERROR"), "{error}");
}

#[test]
fn invalid_options_are_rejected_in_a_sentence() {
    let cases = [
        (json!({ "update": "cas" }), "option 'update' can't be 'cas': give merge or replace"),
        (json!({ "ttl_s": 2_592_001 }), "option 'ttl_s' can't be '2592001': give a whole number"),
        (json!({ "username": "ann" }), "a user needs a password: give password_env"),
        (json!({ "password_env": "CARGO_PKG_NAME" }), "a password needs a user: give username"),
    ];
    for (options, expected) in cases {
        let error = refusal("127.0.0.1", options);
        assert!(error.starts_with(expected), "{error}");
    }
    let error = refusal("a%20b:sesame@127.0.0.1", json!({}));
    assert_eq!(error, "a user of memcached has no blanks: give another username");
    let error = refusal("127.0.0.1:1/7", json!({}));
    let expected = "option 'address' can't be '127.0.0.1:1/7': give host:port or a socket's path";
    assert_eq!(error, expected);
}

#[test]
#[ignore = "needs memcached"]
fn a_server_with_users_accepts_the_right_password() {
    let (_folder, path) = file("users", "ann:sesame\n");
    let server = real::Server::start(&["-Y", path.to_str().unwrap()]);
    let error = refusal(&server.address, json!({}));
    let expected = "the server answered: CLIENT_ERROR unauthenticated: give username and \
                    password_env or password_file";
    assert!(error.ends_with(expected), "{error}");
    let error = refusal(&format!("ann:wrong@{}", server.address), json!({}));
    assert!(error.ends_with("answered the login with CLIENT_ERROR"), "{error}");
    let driver = open(&format!("ann:sesame@{}", server.address), json!({})).unwrap();
    with_session(&driver, async |session| {
        assert_eq!(read(&session, 0, "k").await.0, Outcome::Miss);
    });
}

#[test]
#[ignore = "needs memcached"]
fn a_server_without_users_does_not_store_the_password() {
    let server = real::Server::start(&[]);
    drop(open(&format!("ann:sesame@{}", server.address), json!({})).unwrap());
    assert_eq!(server.raw().get("login"), None);
}
