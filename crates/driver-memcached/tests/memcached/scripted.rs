//! A server with a scripted behaviour.

use std::io::{BufRead, Read};

use kvmark_testing::{Peer, Scripted, ServerSide};

pub(crate) type Server = Scripted<TextProtocol>;

pub(crate) struct TextProtocol;

impl ServerSide for TextProtocol {
    const LOGIN: Option<&'static str> = Some("version");

    /// The next command, with a blank before a value.
    fn read(peer: &mut Peer<Self>) -> Option<String> {
        let mut line = String::new();
        if peer.input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.strip_suffix("\r\n").unwrap();
        let words: Vec<_> = line.split(' ').collect();
        let length = match words[0] {
            "set" | "add" | "replace" | "append" | "prepend" | "cas" => words.get(4),
            "ms" => words.get(2),
            _ => None,
        };
        let Some(length) = length else { return Some(line.to_owned()) };
        let mut value = vec![0; length.parse::<usize>().unwrap() + 2];
        peer.input.read_exact(&mut value).ok()?;
        Some(format!("{line} {}", String::from_utf8(value).unwrap().strip_suffix("\r\n").unwrap()))
    }

    fn own_reply() -> String {
        "VERSION 1.6.18\r\n".to_owned()
    }

    fn record_of(request: &str) -> String {
        record(key_of(request))
    }
}

/// The key of a get without its table.
pub(crate) fn key_of(command: &str) -> &str {
    command.rsplit('-').next().unwrap()
}

/// An item of a get.
pub(crate) fn item(key: &str, value: &str) -> String {
    format!("VALUE {key} 0 {}\r\n{value}\r\n", value.len())
}

/// The reply to the get of a record whose field is its key.
pub(crate) fn record(key: &str) -> String {
    let json = format!("{{\"field0\":\"{key}\"}}");
    item(&format!("usertable-{key}"), &json) + "END\r\n"
}
