//! The login of connections, and their encryption.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use kvmark_plan::Outcome;
use kvmark_testing::server::certificate;
use serde_json::json;
use tempfile::TempDir;

use crate::common::{ask, open, read, refusal, with_session};
use crate::real::Server;

#[test]
fn invalid_options_are_rejected_in_a_sentence() {
    let cases = [
        (json!({ "databases": 1 }), "there is no option 'databases', did you mean 'database'?"),
        (json!({ "synchronous_commit": "no" }), "option 'synchronous_commit' can't be 'no'"),
    ];
    for (options, expected) in cases {
        let error = refusal("ann@127.0.0.1", options);
        assert!(error.starts_with(expected), "{error}");
    }
    let error = refusal("a,b", json!({}));
    assert_eq!(error, "option 'address' names several servers: give one host:port");
}

#[test]
fn a_server_that_does_not_know_the_password_is_rejected() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            drop(stream.read(&mut [0; 1000]));
            drop(stream.write_all(b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0"));
            drop(stream.read(&mut [0; 1000]));
            drop(stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"));
        }
    });
    let error = refusal(&format!("ann:sesame@{address}"), json!({}));
    assert!(error.ends_with("the server doesn't know the password"), "{error}");
}

#[test]
#[ignore = "needs postgres"]
fn each_login_accepts_the_right_password_and_clear_text_needs_tls() {
    let folder = TempDir::new().unwrap();
    let [certificate, key] = certificate(folder.path());
    let logins =
        "host all scram all scram-sha-256\nhost all md5 all md5\nhost all clear all password";
    let files = [format!("ssl_cert_file={certificate}"), format!("ssl_key_file={key}")];
    let server = Server::with_logins(logins, &["ssl=on", &files[0], &files[1]]);
    let address = &server.address;
    let roles = "SET password_encryption = 'scram-sha-256'; CREATE ROLE scram SUPERUSER LOGIN \
                 PASSWORD 'sesame'; CREATE ROLE clear SUPERUSER LOGIN PASSWORD 'sesame'; \
                 SET password_encryption = 'md5'; CREATE ROLE md5 SUPERUSER LOGIN PASSWORD \
                 'sesame'";
    ask(address, roles).unwrap();
    let tls = json!({ "tls": true, "ca_file": certificate, "database": "postgres" });
    let plain = json!({ "database": "postgres" });
    for user in ["scram", "md5", "clear"] {
        let right = format!("{user}:sesame@{address}");
        for options in [&plain, &tls] {
            if user == "clear" && *options == plain {
                let error = refusal(&right, options.clone());
                assert!(error.contains("in clear text, which isn't sent without TLS"), "{error}");
                continue;
            }
            let driver = open(&right, options.clone()).unwrap();
            with_session(&driver, async |session| {
                assert_eq!(read(&session, 0, "k").await.0, Outcome::Miss);
            });
        }
        let error = refusal(&format!("{user}:wrong@{address}"), tls.clone());
        assert!(error.ends_with("authentication failed for user *** (28P01)"), "{error}");
        let error = refusal(&format!("{user}@{address}"), tls.clone());
        assert!(
            error.ends_with("asks for a password: give password_env or password_file"),
            "{error}"
        );
    }
    let error = refusal(address, json!({ "database": "none" }));
    assert!(error.ends_with("database \"none\" does not exist (3D000)"), "{error}");
    let without = Server::start(&[]);
    let error = refusal(&without.address, tls);
    assert!(error.ends_with("it doesn't speak TLS: leave tls out"), "{error}");
}
