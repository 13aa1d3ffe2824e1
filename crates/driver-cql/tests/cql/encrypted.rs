//! Encrypted connections, certificates and logins, against a scripted node.

use std::path::Path;
use std::sync::Arc;

use kvmark_plan::{Kind, Outcome};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, crypto};
use serde_json::{Value, json};

use crate::common::{execute, layout, open, refusal, request, run, session};
use crate::peer::{Act, Guard, Peer};

const LOGIN: (&str, &str) = ("ann", "sesame");

/// A node with a certificate for this name, and the certificate's file.
fn node(folder: &Path, name: &str) -> (Peer, String) {
    let own = generate_simple_self_signed([name.to_owned()]).unwrap();
    guarded(folder, name, &own, None)
}

/// The same; it may ask for the certificate of a client.
fn guarded(
    folder: &Path,
    name: &str,
    own: &CertifiedKey<KeyPair>,
    client: Option<&CertifiedKey<KeyPair>>,
) -> (Peer, String) {
    let file = folder.join(format!("{name}.pem"));
    std::fs::write(&file, own.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match client {
        None => config.with_no_client_auth(),
        Some(client) => {
            let mut roots = RootCertStore::empty();
            roots.add(client.cert.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            config.with_client_cert_verifier(verifier.unwrap())
        }
    };
    let config = config.with_single_cert(vec![own.cert.der().clone()], key).unwrap();
    let guard = Guard { tls: Some(Arc::new(config)), login: Some(LOGIN) };
    let peer = Peer::at("127.0.0.1:0", guard, |_| Act::Row("k", "v"));
    (peer, file.to_string_lossy().into_owned())
}

fn read(address: &str, options: Value) -> Outcome {
    let driver = open(address, options, &layout(1)).unwrap();
    run(async { execute(&session(&driver), &request(Kind::Read, "k")).await.0 })
}

#[test]
fn a_node_with_the_right_certificate_and_login_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let (peer, authority) = node(folder.path(), "127.0.0.1");
    let address = format!("ann:sesame@{}", peer.address);
    assert_eq!(read(&address, json!({"tls": true, "ca_file": authority})), Outcome::Ok);
}

#[test]
fn one_name_can_be_valid_for_all_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let (peer, authority) = node(folder.path(), "cluster.example");
    let address = format!("ann:sesame@{}", peer.address);
    let named = |name: &str| json!({"tls": true, "ca_file": authority, "server_name": name});
    assert_eq!(read(&address, named("cluster.example")), Outcome::Ok);
    let error = refusal(&address, named("other.example"), &layout(1));
    assert!(error.contains("certificate"), "{error}");
    assert!(error.ends_with("give server_name, a name that it is for"), "{error}");
}

#[test]
fn a_certificate_for_another_address_or_of_another_authority_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let (peer, own) = node(folder.path(), "127.0.0.9");
    let (_, other) = node(folder.path(), "127.0.0.1");
    for (authority, advice) in [(own, "give server_name"), (other, "give ca_file")] {
        let address = format!("ann:sesame@{}", peer.address);
        let error = refusal(&address, json!({"tls": true, "ca_file": authority}), &layout(1));
        assert!(error.starts_with("can't use the cluster at 127.0.0.1:"), "{error}");
        assert!(error.contains("certificate") && !error.contains("sesame"), "{error}");
        assert!(error.contains(advice), "{error}");
    }
}

#[test]
fn a_node_that_requests_a_certificate_receives_the_clients() {
    let folder = tempfile::tempdir().unwrap();
    let own = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (peer, authority) = guarded(folder.path(), "127.0.0.1", &own, Some(&own));
    let key = folder.path().join("key.pem");
    std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    let address = format!("ann:sesame@{}", peer.address);
    let options =
        json!({"tls": true, "ca_file": authority, "cert_file": authority, "key_file": key});
    assert_eq!(read(&address, options), Outcome::Ok);
    let error = refusal(&address, json!({"tls": true, "ca_file": authority}), &layout(1));
    assert!(error.starts_with("can't use the cluster at 127.0.0.1:"), "{error}");
}

#[test]
fn a_node_that_alone_speaks_tls_or_alone_does_not_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (peer, authority) = node(folder.path(), "127.0.0.1");
    let error = refusal(&peer.address, json!({}), &layout(1));
    assert!(error.ends_with(": it speaks TLS: give tls=true"), "{error}");
    let plain = Peer::at("127.0.0.1:0", Guard::default(), |_| Act::Row("k", "v"));
    let error = refusal(&plain.address, json!({"tls": true, "ca_file": authority}), &layout(1));
    assert!(error.ends_with(": it doesn't speak TLS: leave tls out"), "{error}");
}

#[test]
fn a_wrong_or_missing_password_is_rejected_without_showing_it() {
    let folder = tempfile::tempdir().unwrap();
    let (peer, authority) = node(folder.path(), "127.0.0.1");
    let options = json!({"tls": true, "ca_file": authority});
    let error = refusal(&format!("ann:guessed@{}", peer.address), options.clone(), &layout(1));
    // Without the node's message, which could repeat the password.
    assert!(error.contains("a node answered: Authentication failed"), "{error}");
    assert!(!error.contains("scripted") && !error.contains("guessed"), "{error}");
    let error = refusal(&peer.address, options, &layout(1));
    assert!(error.contains("it wants a login: give username and password_env"), "{error}");
}
