//! Opens connections: connects, encrypts, logs in and selects the database.

use std::time::Duration;

use kvmark_driver::OpenError;
use kvmark_driver_server::framed::{Framed, Ordered, Protocol, Stream, ask, in_time};
use kvmark_driver_server::{Credentials, Target};

use crate::failure::{Failure, refused, refused_login};
use crate::options::Settings;
use crate::slots::{CLUSTER_SLOTS, Share, read_shares};
use kvmark_wire::resp::{Cursor, Scan, Token, is_push, put_all};

/// A session's connections.
pub(crate) type Connections = Framed<Settings>;

impl Protocol for Settings {
    type Target = Target;
    type Exchanges = Ordered;
    type Scan = Scan;

    const REOPENS: bool = false;

    async fn dial(&self, target: &Target) -> Result<Stream, Failure> {
        let mut stream = Stream::reach(target, self.tls.as_ref()).await?;
        introduce(&mut stream, self).await?;
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

    /// A push message is always expected, a reply only after a request.
    #[inline]
    fn may_come(exchanges: &Ordered, first: u8) -> bool {
        !exchanges.is_answered() || first == b'>'
    }
}

/// Logs in and selects protocol and database, or at least checks that the server answers.
async fn introduce(stream: &mut Stream, settings: &Settings) -> Result<(), Failure> {
    let Credentials { username, password } = &settings.credentials;
    let password = password.as_ref().map(|password| password.reveal());
    match (password, settings.protocol) {
        (Some(password), 3) => {
            let username = username.as_deref().unwrap_or("default");
            log_in(stream, &["HELLO", "3", "AUTH", username, password]).await?;
        }
        (Some(password), _) => {
            let mut auth = vec!["AUTH"];
            auth.extend(username.as_deref());
            auth.push(password);
            log_in(stream, &auth).await?;
        }
        (None, 3) => drop(call(stream, &["HELLO", "3"]).await?),
        (None, _) if settings.database == 0 => drop(call(stream, &["PING"]).await?),
        (None, _) => {}
    }
    if settings.database != 0 {
        call(stream, &["SELECT", &settings.database.to_string()]).await?;
    }
    Ok(())
}

/// The map of a cluster's slots from the first configured server that answers.
pub(crate) async fn first_map(settings: &Settings) -> Result<Vec<Share>, OpenError> {
    let mut refusal = None;
    for target in &settings.targets {
        let map = async {
            let mut stream = settings.dial(target).await?;
            read_shares(&call(&mut stream, &CLUSTER_SLOTS).await?, target)
        };
        match in_time(settings.connect_timeout, map).await {
            Ok(shares) if !shares.is_empty() => return Ok(shares),
            Ok(_) => refusal = Some(no_slots(target)),
            Err(failure) => refusal = Some(failure.at(target)),
        }
    }
    Err(refusal.expect("an address names at least one server"))
}

/// The error for a cluster without slots.
pub(crate) fn no_slots(target: &Target) -> OpenError {
    let text = format!("the cluster at {target} has no slots yet: give them to its servers first");
    OpenError::System(text)
}

/// Sends a command and returns its reply.
async fn call(stream: &mut Stream, command: &[&str]) -> Result<Vec<u8>, Failure> {
    send(stream, &encoded(command)).await
}

/// Sends a command with the password.
async fn log_in(stream: &mut Stream, command: &[&str]) -> Result<(), Failure> {
    exchange(stream, &encoded(command), refused_login).await.map(drop)
}

fn encoded(command: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_all(&mut bytes, command);
    bytes
}

/// Sends an encoded command and returns its reply.
pub(crate) async fn send(stream: &mut Stream, command: &[u8]) -> Result<Vec<u8>, Failure> {
    exchange(stream, command, refused).await
}

/// Sends an encoded command and returns its reply; `refusal` converts an error reply.
async fn exchange(
    stream: &mut Stream,
    command: &[u8],
    refusal: fn(&[u8]) -> Failure,
) -> Result<Vec<u8>, Failure> {
    let reply = ask::<Settings>(stream, command, |reply| !is_push(reply)).await?;
    match Cursor::new(&reply).token()? {
        Token::Error(message) => Err(refusal(message)),
        _ => Ok(reply),
    }
}
