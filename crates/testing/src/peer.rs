//! A server with a scripted behaviour, for tests of drivers.

use std::io::{BufReader, Write};
use std::marker::PhantomData;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use kvmark_driver::Driver;
use kvmark_plan::{Kind, Outcome};

use crate::{cells, execute, request, run, session};

/// The server's side of a protocol.
pub trait ServerSide: Sized + 'static {
    /// The first request of each connection; `None` for a protocol without a login.
    const LOGIN: Option<&'static str>;

    /// Reads the next request as a text; `None` when the client is gone.
    fn read(peer: &mut Peer<Self>) -> Option<String>;

    /// The reply to the login and to the requests of the driver's own connection.
    fn own_reply() -> String;

    /// Whether a request is one of the driver's own connection wherever it arrives.
    fn is_own(_request: &str) -> bool {
        false
    }

    /// The reply to a read: a record whose first field is its key.
    fn record_of(request: &str) -> String;
}

/// One connection of a scripted server.
pub struct Peer<P> {
    /// The bytes of the client.
    pub input: BufReader<TcpStream>,
    output: TcpStream,
    heard: Arc<Mutex<Vec<String>>>,
    protocol: PhantomData<fn() -> P>,
}

impl<P: ServerSide> Peer<P> {
    /// The next request; `None` when the client is gone.
    pub fn hear(&mut self) -> Option<String> {
        let request = P::read(self)?;
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        Some(request)
    }

    /// Sends a text. The client may be gone.
    pub fn say(&mut self, text: &str) {
        drop(self.output.write_all(text.as_bytes()));
    }

    /// Answers the login.
    ///
    /// # Panics
    /// If the client sends another request.
    pub fn greet(&mut self) {
        if let Some(login) = P::LOGIN {
            assert_eq!(self.hear().as_deref(), Some(login));
            self.say(&P::own_reply());
        }
    }

    /// Answers each request.
    pub fn answer(&mut self, reply: impl Fn(&str) -> String) {
        while let Some(request) = self.hear() {
            self.say(&if P::is_own(&request) { P::own_reply() } else { reply(&request) });
        }
    }

    /// Answers each request with this text.
    pub fn repeat(&mut self, text: &str) {
        self.answer(|_| text.to_owned());
    }

    /// Answers each read with a record whose first field is its key.
    pub fn echo(&mut self) {
        self.answer(P::record_of);
    }

    /// The server's port.
    ///
    /// # Panics
    /// If the socket has no address.
    pub fn port(&self) -> u16 {
        self.output.local_addr().expect("a connected socket has an address").port()
    }
}

/// A scripted server on a loopback port.
pub struct Scripted<P> {
    /// Its host and port.
    pub address: String,
    /// The requests of all connections.
    pub heard: Arc<Mutex<Vec<String>>>,
    accepted: Arc<AtomicUsize>,
    protocol: PhantomData<fn() -> P>,
}

impl<P: ServerSide> Scripted<P> {
    /// Runs a script on each connection, with its number from 0. The first connection is the
    /// driver's own; [`Self::of_sessions`] excludes it.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn new(script: impl Fn(usize, &mut Peer<P>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address").to_string();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let accepted = Arc::new(AtomicUsize::new(0));
        let (requests, counter, script) =
            (Arc::clone(&heard), Arc::clone(&accepted), Arc::new(script));
        thread::spawn(move || {
            for output in listener.incoming().map_while(Result::ok) {
                output.set_nodelay(true).expect("a socket has this option");
                let number = counter.fetch_add(1, Ordering::SeqCst);
                let input = BufReader::new(output.try_clone().expect("a socket can be cloned"));
                let heard = Arc::clone(&requests);
                let mut peer = Peer { input, output, heard, protocol: PhantomData };
                let script = Arc::clone(&script);
                thread::spawn(move || script(number, &mut peer));
            }
        });
        Self { address, heard, accepted, protocol: PhantomData }
    }

    /// Runs a script on each connection of a session, with its number from 0, after its login.
    pub fn of_sessions(script: impl Fn(usize, &mut Peer<P>) + Send + Sync + 'static) -> Self {
        Self::new(move |number, peer| match number.checked_sub(1) {
            None => peer.repeat(&P::own_reply()),
            Some(number) => {
                peer.greet();
                script(number, peer);
            }
        })
    }

    /// The requests so far, which are forgotten.
    pub fn take_heard(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of connections of sessions.
    pub fn session_connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst) - 1
    }

    /// The outcome of a read that gets this reply, optionally with the end of its connection; the
    /// text of the failure, or else the values; and the number of connections after a second read.
    ///
    /// # Panics
    /// If the second read doesn't succeed.
    pub fn ends<D: Driver>(
        open: impl FnOnce(&str) -> D,
        reply: &str,
        closes: bool,
    ) -> (Outcome, String, usize) {
        let reply = reply.to_owned();
        let server = Self::of_sessions(move |number, peer| {
            if number == 0 {
                peer.hear();
                peer.say(&reply);
                if closes {
                    return;
                }
            }
            peer.echo();
        });
        let driver = open(&server.address);
        let client = session(&driver, 1);
        let read = |key| run(execute(&client, 0, &request(Kind::Read, key)));
        let (outcome, reply) = read("a");
        let text = client.last_failure().unwrap_or_else(|| cells(&reply).join(" "));
        assert_eq!(read("b").0, Outcome::Ok);
        (outcome, text, server.session_connections())
    }
}
