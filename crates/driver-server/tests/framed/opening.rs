//! Attempts to open connections.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kvmark_driver_server::{HostPort, Target, Tls, TlsFiles};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, SockaddrLike, UnixAddr, bind,
    getsockname, listen, socket,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto};

use crate::lines::{Lines, Peer, Server, Session};

/// Connections, more than attempts run at once.
const MANY: usize = 100;
const AT_ONCE: usize = 64;

#[test]
fn a_limited_number_of_attempts_runs_at_once() {
    let server = Server::new();
    let lines = Lines { greets: true, ..Lines::PLAIN };
    thread::scope(|scope| {
        let opened = scope.spawn(|| {
            let mut session = Session::<true>::of(lines, MANY);
            session.framed.open(&server.place).is_ok()
        });
        let mut peers: Vec<_> = (0..AT_ONCE).map(|_| server.accept()).collect();
        assert!(!server.is_asked());
        peers.iter_mut().for_each(|peer| peer.say("hello\n"));
        for _ in AT_ONCE..MANY {
            let mut peer = server.accept();
            peer.say("hello\n");
            peers.push(peer);
        }
        assert!(opened.join().unwrap());
    });
}

#[test]
fn a_session_ends_without_waiting_for_its_attempts() {
    let (mut session, server) =
        (Session::<true>::of(Lines { greets: true, ..Lines::PLAIN }, MANY), Server::new());
    session.framed.find_or_add(&server.place);
    (0..MANY).for_each(|_| session.look());
    let mut peers: Vec<Peer> = (0..AT_ONCE).map(|_| server.accept()).collect();
    drop(session);
    // The attempts that no thread had begun are dropped.
    peers.iter_mut().for_each(|peer| peer.say("hello\n"));
    peers.iter_mut().for_each(|peer| assert_eq!(peer.hear(), None));
    assert!(!server.is_asked());
}

#[test]
fn a_server_that_accepts_no_connection_is_given_up_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let idle = |family, address: &dyn SockaddrLike| {
        let listener = socket(family, SockType::Stream, SockFlag::empty(), None).unwrap();
        bind(listener.as_raw_fd(), address).unwrap();
        listen(&listener, Backlog::new(0).unwrap()).unwrap();
        listener
    };
    let place = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
    let tcp = idle(AddressFamily::Inet, &place);
    let place: SockaddrIn = getsockname(tcp.as_raw_fd()).unwrap();
    let _unix = idle(AddressFamily::Unix, &UnixAddr::new(&path).unwrap());
    let tcp = Target::Tcp(HostPort { host: "127.0.0.1".to_owned(), port: place.port() });
    for target in [tcp, Target::Unix(path)] {
        let lines = Lines { connect_timeout: Duration::from_millis(20), ..Lines::PLAIN };
        // The first connections take the places of the queue.
        let error = Session::<true>::of(lines, MANY).framed.open(&target).unwrap_err().to_string();
        assert!(error.ends_with("no connection within 20 ms"), "{error}");
    }
}

/// A server that encrypts one connection and sends a greeting and a reply together with the last
/// message of the handshake.
fn hasty(listener: TcpListener, config: Arc<ServerConfig>) {
    let mut tls = ServerConnection::new(config).unwrap();
    tls.writer().write_all(b"hello\n0 early\n").unwrap();
    let stream = StreamOwned::new(tls, listener.accept().unwrap().0);
    let mut stream = BufReader::new(stream);
    for number in 0..2 {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        assert_eq!(line, format!("{number} a\n"));
    }
    stream.get_mut().write_all(b"1 late\n").unwrap();
    // Until the client closes.
    stream.read_line(&mut String::new()).unwrap_or(0);
}

#[test]
fn bytes_that_arrive_with_the_handshake_are_kept() {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    fs::write(&file, own.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let mut config =
        ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
    config.send_half_rtt_data = true;
    let files = TlsFiles { ca: file.to_str(), own: None, server_name: Some("localhost") };
    let lines = Lines { greets: true, tls: Some(Tls::new(files).unwrap()), ..Lines::PLAIN };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(|| hasty(listener, Arc::new(config)));
    let mut session = Session::<false>::of(lines, 1);
    let target = Target::Tcp(HostPort { host: "127.0.0.1".to_owned(), port });
    let node = session.framed.open(&target).unwrap();
    (5..7).for_each(|ticket| assert!(session.ask(node, ticket, "a").is_ok()));
    session.until(|session| session.answers.len() == 2);
    assert_eq!(session.answers, [(5, "early".to_owned()), (6, "late".to_owned())]);
    drop(session);
    server.join().unwrap();
}
