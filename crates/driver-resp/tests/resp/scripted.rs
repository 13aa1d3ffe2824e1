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
    /// The next command, its parts separated by spaces; `None` when the client is gone.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let mut parts = Vec::new();
        for _ in 0..self.count('*')? {
            let mut part = vec![0; self.count('$')? + 2];
            self.input.read_exact(&mut part).ok()?;
            parts.push(String::from_utf8(part).unwrap().trim_end().to_owned());
        }
        let command = parts.join(" ");
        self.heard.lock().unwrap().push(command.clone());
        Some(command)
    }

    fn count(&mut self, kind: char) -> Option<usize> {
        let mut line = String::new();
        self.input.read_line(&mut line).ok()?;
        line.trim_end().strip_prefix(kind)?.parse().ok()
    }

    pub(crate) fn say(&mut self, bytes: &str) {
        drop(self.output.write_all(bytes.as_bytes()));
    }

    /// Answers the client's login.
    pub(crate) fn greet(&mut self) {
        assert_eq!(self.hear().as_deref(), Some("PING"));
        self.say("+PONG\r\n");
    }

    /// A server of a cluster with these slots. `answer` handles the other commands; it receives the
    /// command and the server's port.
    pub(crate) fn be_node(&mut self, slots: &str, answer: impl Fn(&str, u16) -> String) {
        let port = self.output.local_addr().unwrap().port();
        while let Some(command) = self.hear() {
            let said = match command.as_str() {
                "PING" => "+PONG\r\n".to_owned(),
                "CLUSTER SLOTS" => {
                    let (first, last) = slots.split_once('-').unwrap();
                    let server = format!("*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
                    format!("*1\r\n*3\r\n:{first}\r\n:{last}\r\n{server}")
                }
                other => answer(other, port),
            };
            self.say(&said);
        }
    }

    /// Answers each read with a record whose field is the key.
    pub(crate) fn echo(&mut self) {
        while let Some(command) = self.hear() {
            self.say(&record(command.rsplit(' ').next().unwrap()));
        }
    }
}

/// The reply to a read: a record of one field.
pub(crate) fn record(value: &str) -> String {
    format!("*2\r\n$6\r\nfield0\r\n${}\r\n{value}\r\n", value.len())
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
                        peer.say("+PONG\r\n")
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
