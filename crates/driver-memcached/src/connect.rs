//! Makes a connection: reaches the server, encrypts, logs in. And what the protocol is of which
//! framed connections are made.

use std::time::Duration;

use kvmark_driver_server::framed::{Framed, Ordered, Protocol, Stream, ask};
use kvmark_driver_server::{Credentials, Target};

use crate::failure::{Failure, refused, refused_login};
use crate::options::Settings;
use kvmark_wire::memcached::{Answer, Scan, answer};

/// A session's connections.
pub(crate) type Connections = Framed<Settings>;

impl Protocol for Settings {
    type Target = Target;
    type Exchanges = Ordered;
    type Scan = Scan;

    const REOPENS: bool = false;

    async fn dial(&self, target: &Target) -> Result<Stream, Failure> {
        let mut stream = Stream::reach(target, self.tls.as_ref()).await?;
        introduce(&mut stream, &self.credentials).await?;
        Ok(stream)
    }

    fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    fn reconnect_max(&self) -> Duration {
        self.reconnect_max
    }

    #[inline]
    fn scan(scan: &mut Scan, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        scan.advance(bytes).map_err(Failure::from)
    }

    /// A reply comes when something was sent. A server that lets nobody in says so unasked.
    #[inline]
    fn may_come(exchanges: &Ordered, _first: u8) -> bool {
        !exchanges.is_answered()
    }
}

/// Logs in, which is a `set` of any key; at the least hears that the server answers. A server
/// without users would store what it is told, so that it has to forget it at once.
async fn introduce(stream: &mut Stream, credentials: &Credentials) -> Result<(), Failure> {
    let Credentials { username, password } = credentials;
    let (Some(username), Some(password)) = (username, password) else {
        return send(stream, b"version\r\n").await.map(drop);
    };
    let token = format!("{username} {}", password.reveal());
    let login = format!("set login 0 -1 {}\r\n{token}\r\n", token.len());
    let reply = ask::<Settings>(stream, login.as_bytes(), |_| true).await?;
    match answer(&reply)? {
        Answer::Done => Ok(()),
        Answer::Error(line) => Err(refused_login(line)),
        _ => Err(Failure::unexpected_reply("the login")),
    }
}

/// Sends one line and returns its reply, unless that is an error.
pub(crate) async fn send(stream: &mut Stream, line: &[u8]) -> Result<Vec<u8>, Failure> {
    let reply = ask::<Settings>(stream, line, |_| true).await?;
    match answer(&reply)? {
        Answer::Error(line) => Err(refused(line)),
        _ => Ok(reply),
    }
}
