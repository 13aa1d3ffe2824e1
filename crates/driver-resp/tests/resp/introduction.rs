//! The login of connections, and their encryption.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kvmark_plan::Outcome;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned, crypto};
use serde_json::{Value, json};

use crate::common::{open, read, refusal, with_session};
use crate::scripted::{Server, record};
use crate::worker::{Log, poll_until, session_of, submit};

/// The commands of the driver's own connection up to its first PING after the login.
fn said(user: &str, options: Value) -> Vec<String> {
    let server = Server::new(|_, peer| peer.repeat("+OK\r\n"));
    drop(open(&format!("{user}{}", server.address), options).unwrap());
    let mut heard = server.heard.lock().unwrap().clone();
    assert_eq!(heard.pop().as_deref(), Some("PING"));
    heard
}

#[test]
fn a_connection_logs_in_and_selects_protocol_and_database_in_order() {
    let three = json!({ "protocol": 3, "database": 7 });
    assert_eq!(said("", json!({})), ["PING"]);
    assert_eq!(said(":pw@", json!({})), ["AUTH pw"]);
    assert_eq!(said("ann:pw@", json!({ "database": "2" })), ["AUTH ann pw", "SELECT 2"]);
    assert_eq!(said("", json!({ "protocol": "3" })), ["HELLO 3"]);
    assert_eq!(said(":pw@", three.clone()), ["HELLO 3 AUTH default pw", "SELECT 7"]);
    assert_eq!(said("ann:pw@", three), ["HELLO 3 AUTH ann pw", "SELECT 7"]);
}

#[test]
fn a_password_comes_from_a_file_or_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, "from file\nsecond line\n").unwrap();
    let options = json!({ "username": "ann", "password_file": file.to_str().unwrap() });
    assert_eq!(said("", options), ["AUTH ann from file"]);
    assert_eq!(said("", json!({ "password_env": "CARGO_PKG_NAME" })), ["AUTH kvmark-driver-resp"]);
    let twice = json!({ "password_env": "CARGO_PKG_NAME" });
    assert!(refusal(":pw@127.0.0.1", twice).starts_with("the password is given twice"));
    assert!(refusal("h", json!({ "username": "ann" })).starts_with("a user needs a password"));
}

#[test]
fn a_password_in_a_server_message_is_not_shown() {
    let server = Server::new(|_, peer| {
        peer.hear();
        peer.say("-ERR unknown command 'AUTH', with args beginning with: 'sesame'\r\n");
    });
    let error = refusal(&format!(":sesame@{}", server.address), json!({}));
    assert!(error.ends_with("the server answered the login with ERR"), "{error}");
    for protocol in [2, 3] {
        let server = Server::new(|_, peer| {
            peer.hear();
            peer.say("-SESAME is what you said\r\n");
        });
        let said = json!({ "protocol": protocol });
        let error = refusal(&format!(":SESAME@{}", server.address), said);
        assert!(error.ends_with("the server answered the login with an error"), "{error}");
    }
}

#[test]
fn invalid_options_are_rejected_in_a_sentence() {
    let cases = [
        (json!({ "clusters": 1 }), "there is no option 'clusters', did you mean 'cluster'?; known"),
        (json!({ "protocol": 4 }), "option 'protocol' can't be '4': give a whole number from 2"),
    ];
    for (options, expected) in cases {
        let error = refusal("127.0.0.1", options);
        assert!(error.starts_with(expected), "{error}");
    }
    let error = refusal("127.0.0.1/1", json!({ "database": 2 }));
    assert!(error.starts_with("option 'database' is given twice"), "{error}");
    assert!(refusal("a:1,b:2", json!({})).contains("names several servers: set cluster to true"));
    assert!(refusal("a:1/3", json!({ "cluster": true })).starts_with("a cluster has database 0"));
    assert!(refusal("/socket", json!({ "cluster": true })).contains("through a Unix socket"));
}

/// A certificate for `localhost` that is its own authority.
fn certified() -> CertifiedKey<KeyPair> {
    generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

/// Serves TLS with a new certificate for `localhost`, optionally only to clients with this
/// certificate, and answers each read with this text. Returns its port and certificate as PEM.
fn encrypted(
    client: Option<&CertifiedKey<KeyPair>>,
    answer: impl Fn() -> String + Copy + Send + 'static,
) -> (u16, String) {
    let CertifiedKey { cert, signing_key } = certified();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match client {
        None => config.with_no_client_auth(),
        Some(client) => {
            let mut roots = RootCertStore::empty();
            roots.add(client.cert.der().clone()).unwrap();
            let roots = Arc::new(roots);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            config.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let config = config.with_single_cert(vec![cert.der().clone()], key).unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(tls, stream.unwrap());
            thread::spawn(move || {
                let mut bytes = [0; 64];
                // A rejected or closed client ends it.
                while let Ok(length @ 1..) = stream.read(&mut bytes) {
                    let ping = bytes[..length].ends_with(b"PING\r\n");
                    let reply = if ping { "+PONG\r\n".to_owned() } else { answer() };
                    let said = stream.write_all(reply.as_bytes());
                    if said.and_then(|()| stream.flush()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (port, cert.pem())
}

#[test]
fn an_encrypted_connection_needs_a_trusted_certificate_with_the_right_name() {
    let (port, pem) = encrypted(None, || record("tls"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    fs::write(&file, pem).unwrap();
    let file = file.to_str().unwrap();
    let trusting = json!({ "tls": true, "ca_file": file });
    let driver = open(&format!("localhost:{port}"), trusting.clone()).unwrap();
    with_session(&driver, async |session| {
        for _ in 0..3 {
            let expected = (Outcome::Ok, vec!["0.0=tls".to_owned()]);
            assert_eq!(read(&session, 0, "a").await, expected);
        }
    });
    let error = refusal(&format!("127.0.0.1:{port}"), trusting);
    assert!(error.contains("the TLS handshake failed"), "{error}");
    assert!(error.ends_with("give server_name, a name that it is for"), "{error}");
    let named = json!({ "tls": true, "ca_file": file, "server_name": "localhost" });
    assert!(open(&format!("127.0.0.1:{port}"), named).is_ok());
    let (other, _) = encrypted(None, || record("tls"));
    let untrusted = json!({ "tls": true, "ca_file": file });
    let error = refusal(&format!("localhost:{other}"), untrusted);
    assert!(error.contains("the TLS handshake failed"), "{error}");
    assert!(error.ends_with("give ca_file, the authority that signed it"), "{error}");
}

#[test]
fn a_server_that_alone_speaks_tls_or_alone_does_not_is_named() {
    let (port, pem) = encrypted(None, || record("tls"));
    for cluster in [false, true] {
        let error = refusal(&format!("127.0.0.1:{port}"), json!({ "cluster": cluster }));
        assert!(error.ends_with(&format!(":{port}: it speaks TLS: use rediss://")), "{error}");
    }
    let plain = Server::new(|_, peer| {
        peer.hear();
        peer.say("-NOAUTH\r\n");
    });
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(pem.as_bytes()).unwrap();
    let error = refusal(&plain.address, json!({ "tls": true, "ca_file": file.path() }));
    assert!(error.ends_with(": it doesn't speak TLS: use redis:// without tls"), "{error}");
}

#[test]
fn an_encrypted_record_is_read_to_its_end() {
    // One TLS record answers two reads; the second reply takes many records.
    let long = || "x".repeat(500_000);
    let (port, pem) = encrypted(None, move || record("s") + &record(&long()));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    fs::write(&file, pem).unwrap();
    let options = json!({ "tls": true, "ca_file": file.to_str().unwrap(), "connections": 1 });
    let driver = open(&format!("localhost:{port}"), options).unwrap();
    let (mut session, mut log) = (session_of(&driver, 2), Log::new(Duration::ZERO));
    submit(&mut session, 0, "a");
    submit(&mut session, 1, "b");
    poll_until(&mut session, &mut log, 2);
    assert_eq!(log.of(0), (Outcome::Ok, "s"));
    assert!(log.of(1) == (Outcome::Ok, long().as_str()));
}

#[test]
fn a_server_that_requests_a_certificate_receives_the_clients() {
    let own = certified();
    let (port, pem) = encrypted(Some(&own), || record("tls"));
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let ca = write("ca.pem", &pem);
    let (cert, key) =
        (write("cert.pem", &own.cert.pem()), write("key.pem", &own.signing_key.serialize_pem()));
    let address = format!("localhost:{port}");
    assert!(refusal(&address, json!({ "tls": true, "ca_file": ca })).contains("can't use"));
    let shown = json!({ "tls": true, "ca_file": ca, "cert_file": cert, "key_file": key });
    assert!(open(&address, shown).is_ok());
    let stranger = write("stranger.pem", &certified().signing_key.serialize_pem());
    let mixed = json!({ "tls": true, "ca_file": ca, "cert_file": cert, "key_file": stranger });
    let error = refusal(&address, mixed);
    assert!(error.contains("don't belong together"), "{error}");
    let none = json!({ "tls": true, "ca_file": ca, "cert_file": key, "key_file": key });
    assert!(refusal(&address, none).contains("no certificate in it"));
}
