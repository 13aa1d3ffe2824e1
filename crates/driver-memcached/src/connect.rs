//! Opens connections: connects, encrypts and logs in.

use std::time::Duration;

use kvmark_driver_server::framed::{Ordered, Protocol, Stream, ask};
use kvmark_driver_server::timers::Deadline;
use kvmark_driver_server::{Credentials, Target};

use crate::failure::{Failure, refused, refused_login};
use crate::options::Settings;
use kvmark_wire::memcached::{Answer, Scan, answer};

impl Protocol for Settings {
    type Target = Target;
    type Exchanges = Ordered;
    type Scan = Scan;

    const REOPENS: bool = false;

    fn dial(&self, target: &Target, deadline: Deadline) -> Result<Stream, Failure> {
        let mut stream = Stream::reach(target, self.tls.as_ref(), deadline)?;
        introduce(&mut stream, &self.credentials)?;
        Ok(stream)
    }

    fn connect_timeout(&self) -> Duration {
        self.limits.connect_timeout
    }

    fn reconnect_max(&self) -> Duration {
        self.limits.reconnect_max
    }

    #[inline]
    fn scan(scan: &mut Scan, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        scan.advance(bytes).map_err(Failure::from)
    }
}

/// Logs in by a `set` of any key, or at least checks that the server answers. A server without
/// users would store the login, so its time to live is negative.
fn introduce(stream: &mut Stream, credentials: &Credentials) -> Result<(), Failure> {
    let Credentials { username, password } = credentials;
    let (Some(username), Some(password)) = (username, password) else {
        return send(stream, b"version\r\n").map(drop);
    };
    let token = format!("{username} {}", password.reveal());
    let login = format!("set login 0 -1 {}\r\n{token}\r\n", token.len());
    let reply = ask::<Settings>(stream, login.as_bytes(), |_| true)?;
    match answer(&reply)? {
        Answer::Done => Ok(()),
        Answer::Error(line) => Err(refused_login(line)),
        _ => Err(Failure::unexpected_reply("the login")),
    }
}

/// Sends a line and returns its reply.
pub(crate) fn send(stream: &mut Stream, line: &[u8]) -> Result<Vec<u8>, Failure> {
    let reply = ask::<Settings>(stream, line, |_| true)?;
    match answer(&reply)? {
        Answer::Error(line) => Err(refused(line)),
        _ => Ok(reply),
    }
}
