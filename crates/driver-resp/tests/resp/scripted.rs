//! A server with a scripted behaviour.

use std::io::{BufRead, Read};

use kvmark_testing::{Scripted, ServerSide};

pub(crate) type Peer = kvmark_testing::Peer<RedisProtocol>;
pub(crate) type Server = Scripted<RedisProtocol>;

pub(crate) struct RedisProtocol;

impl ServerSide for RedisProtocol {
    const LOGIN: Option<&'static str> = Some("PING");

    /// The next command, its parts separated by spaces.
    fn read(peer: &mut Peer) -> Option<String> {
        let mut parts = Vec::new();
        for _ in 0..count(peer, '*')? {
            let mut part = vec![0; count(peer, '$')? + 2];
            peer.input.read_exact(&mut part).ok()?;
            parts.push(String::from_utf8(part).unwrap().trim_end().to_owned());
        }
        Some(parts.join(" "))
    }

    fn own_reply() -> String {
        "+PONG\r\n".to_owned()
    }

    fn record_of(request: &str) -> String {
        record(request.rsplit(' ').next().unwrap())
    }
}

fn count(peer: &mut Peer, kind: char) -> Option<usize> {
    let mut line = String::new();
    peer.input.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}

/// A server of a cluster with these slots. `answer` handles the other commands; it receives the
/// command and the server's port.
pub(crate) fn be_node(peer: &mut Peer, slots: &str, answer: impl Fn(&str, u16) -> String) {
    let port = peer.port();
    while let Some(command) = peer.hear() {
        let said = match command.as_str() {
            "PING" => RedisProtocol::own_reply(),
            "CLUSTER SLOTS" => {
                let (first, last) = slots.split_once('-').unwrap();
                let server = format!("*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
                format!("*1\r\n*3\r\n:{first}\r\n:{last}\r\n{server}")
            }
            other => answer(other, port),
        };
        peer.say(&said);
    }
}

/// The reply to a read: a record of one field.
pub(crate) fn record(value: &str) -> String {
    format!("*2\r\n$6\r\nfield0\r\n${}\r\n{value}\r\n", value.len())
}
