//! A server with a scripted behaviour.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// One connection of a scripted server.
pub(crate) struct Peer {
    input: BufReader<TcpStream>,
    output: TcpStream,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    /// The next command, with a blank before a value; `None` when the client is gone.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        if self.input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.strip_suffix("\r\n").unwrap();
        let words: Vec<_> = line.split(' ').collect();
        let length = match words[0] {
            "set" | "add" | "replace" | "append" | "prepend" | "cas" => words.get(4),
            "ms" => words.get(2),
            _ => None,
        };
        let command = match length {
            None => line.to_owned(),
            Some(length) => {
                let mut value = vec![0; length.parse::<usize>().unwrap() + 2];
                self.input.read_exact(&mut value).ok()?;
                format!(
                    "{line} {}",
                    String::from_utf8(value).unwrap().strip_suffix("\r\n").unwrap()
                )
            }
        };
        self.heard.lock().unwrap().push(command.clone());
        Some(command)
    }

    pub(crate) fn say(&mut self, text: &str) {
        drop(self.output.write_all(text.as_bytes()));
    }

    /// Answers the first command of a connection.
    pub(crate) fn greet(&mut self) {
        assert_eq!(self.hear().as_deref(), Some("version"));
        self.say("VERSION 1.6.18\r\n");
    }

    /// Answers each get with a record whose field is the key.
    pub(crate) fn echo(&mut self) {
        while let Some(command) = self.hear() {
            self.say(&record(key_of(&command)));
        }
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

/// A scripted server on a loopback port.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) heard: Arc<Mutex<Vec<String>>>,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    /// Runs a script on each connection, with its number from 0. The first connection is the
    /// driver's own; [`Server::of_sessions`] excludes it.
    pub(crate) fn new(script: impl Fn(usize, &mut Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let accepted = Arc::new(AtomicUsize::new(0));
        let (ears, counter) = (Arc::clone(&heard), Arc::clone(&accepted));
        let script = Arc::new(script);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                stream.set_nodelay(true).unwrap();
                let number = counter.fetch_add(1, Ordering::SeqCst);
                let input = BufReader::new(stream.try_clone().unwrap());
                let mut peer = Peer { input, output: stream, heard: Arc::clone(&ears) };
                let script = Arc::clone(&script);
                thread::spawn(move || script(number, &mut peer));
            }
        });
        Self { address, heard, accepted }
    }

    /// Runs a script on each connection of a session, with its number from 0.
    pub(crate) fn of_sessions(script: impl Fn(usize, &mut Peer) + Send + Sync + 'static) -> Self {
        Self::new(move |number, peer| {
            peer.greet();
            match number.checked_sub(1) {
                Some(number) => script(number, peer),
                None => {
                    while peer.hear().is_some() {
                        peer.say("VERSION 1.6.18\r\n");
                    }
                }
            }
        })
    }

    /// The number of connections of sessions.
    pub(crate) fn session_connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst) - 1
    }
}
