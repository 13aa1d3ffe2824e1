//! Opens connections: connects, encrypts, logs in and selects the database.

use std::time::Duration;

use kvmark_driver_server::framed::{Exchanges as _, Framed, Ordered, Protocol, Stream, ask};
use kvmark_driver_server::timers::Deadline;
use kvmark_driver_server::{Credentials, Target};

use crate::failure::{Failure, refused, refused_login};
use crate::options::Settings;
use kvmark_wire::resp::{Cursor, Scan, Token, is_push, put_all};

/// A session's connections.
pub(crate) type Connections = Framed<Settings>;

impl Protocol for Settings {
    type Target = Target;
    type Exchanges = Ordered;
    type Scan = Scan;

    const REOPENS: bool = false;

    fn dial(&self, target: &Target, deadline: Deadline) -> Result<Stream, Failure> {
        let mut stream = Stream::reach(target, self.tls.as_ref(), deadline)?;
        introduce(&mut stream, self)?;
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

    /// A push message may come at any time.
    #[inline]
    fn may_come(exchanges: &Ordered, first: u8) -> bool {
        exchanges.awaits_frame() || first == b'>'
    }
}

/// Logs in and selects protocol and database, or at least checks that the server answers.
fn introduce(stream: &mut Stream, settings: &Settings) -> Result<(), Failure> {
    let Credentials { username, password } = &settings.credentials;
    let is_third = settings.protocol == 3;
    let mut login = if is_third { vec!["HELLO", "3"] } else { Vec::new() };
    if let Some(password) = password {
        login.push("AUTH");
        login.extend(username.as_deref().or(is_third.then_some("default")));
        login.push(password.reveal());
    } else if !is_third && settings.database == 0 {
        login.push("PING");
    }
    if !login.is_empty() {
        let refusal: fn(&[u8]) -> Failure =
            if password.is_some() { refused_login } else { refused };
        exchange(stream, &encoded(&login), refusal)?;
    }
    if settings.database != 0 {
        send(stream, &encoded(&["SELECT", &settings.database.to_string()]))?;
    }
    Ok(())
}

/// Encodes a command.
pub(crate) fn encoded(command: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_all(&mut bytes, command);
    bytes
}

/// Sends an encoded command and returns its reply.
pub(crate) fn send(stream: &mut Stream, command: &[u8]) -> Result<Vec<u8>, Failure> {
    exchange(stream, command, refused)
}

/// Sends an encoded command and returns its reply; `refusal` converts an error reply.
fn exchange(
    stream: &mut Stream,
    command: &[u8],
    refusal: fn(&[u8]) -> Failure,
) -> Result<Vec<u8>, Failure> {
    let reply = ask::<Settings>(stream, command, |reply| !is_push(reply))?;
    match Cursor::new(&reply).token()? {
        Token::Error(message) => Err(refusal(message)),
        _ => Ok(reply),
    }
}
