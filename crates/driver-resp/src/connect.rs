//! Makes a connection: reaches the server, encrypts, logs in, chooses the database.

use std::time::Duration;

use kvmark_driver::OpenError;
use kvmark_driver_server::timers::timeout;
use kvmark_driver_server::{Credentials, HostPort};
use kvmark_plan::Outcome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::address::Target;
use crate::failure::Failure;
use crate::options::Settings;
use crate::resp::{Cursor, Scan, Token, is_push, put_all};
use crate::slots::{CLUSTER_SLOTS, Share, read_shares};
use crate::stream::Stream;

/// Work that must be done within the limit on connecting.
pub(crate) async fn in_time<T>(
    settings: &Settings,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let limit = settings.connect_timeout;
    timeout(limit, work).await.unwrap_or_else(|_| Err(too_slow(limit)))
}

/// A connection that is ready for requests. Takes as long as it takes.
pub(crate) async fn connect(settings: &Settings, target: &Target) -> Result<Stream, Failure> {
    let mut stream = match target {
        Target::Tcp(HostPort { host, port }) => {
            let reached = TcpStream::connect((host.as_str(), *port)).await;
            let stream = reached.map_err(|error| unreachable(&error))?;
            stream.set_nodelay(true).map_err(|error| Failure::broken(&error))?;
            Stream::Tcp(stream)
        }
        Target::Unix(path) => {
            let reached = UnixStream::connect(path).await;
            Stream::Unix(reached.map_err(|error| unreachable(&error))?)
        }
    };
    if let Some(tls) = &settings.tls {
        let name = tls.name_of(target).map_err(|why| Failure::new(Outcome::Connection, why))?;
        let secured = tls.connector.connect(name, stream).await;
        stream = Stream::Tls(Box::new(secured.map_err(|error| {
            Failure::new(Outcome::Connection, format!("TLS isn't agreed on ({error})"))
        })?));
    }
    let password = settings.credentials.password.as_ref();
    introduce(&mut stream, settings).await.map_err(|failure| match password {
        // Old servers repeat what they don't understand.
        Some(password) => Failure::new(failure.outcome, password.hide_in(&failure.text)),
        None => failure,
    })?;
    Ok(stream)
}

/// Not connected within the limit.
pub(crate) fn too_slow(limit: Duration) -> Failure {
    let text = format!("no connection within {} ms", limit.as_millis());
    Failure::new(Outcome::Connection, text)
}

fn unreachable(error: &std::io::Error) -> Failure {
    Failure::new(Outcome::Connection, format!("it can't be reached ({error})"))
}

/// Logs in and chooses protocol and database; at the least hears that the server answers.
async fn introduce(stream: &mut Stream, settings: &Settings) -> Result<(), Failure> {
    let Credentials { username, password } = &settings.credentials;
    let password = password.as_ref().map(|password| password.reveal());
    let mut commands: Vec<Vec<&str>> = Vec::new();
    if settings.protocol == 3 {
        let mut hello = vec!["HELLO", "3"];
        if let Some(password) = password {
            hello.extend(["AUTH", username.as_deref().unwrap_or("default"), password]);
        }
        commands.push(hello);
    } else if let Some(password) = password {
        let mut auth = vec!["AUTH"];
        auth.extend(username.as_deref());
        auth.push(password);
        commands.push(auth);
    }
    let database = settings.database.to_string();
    if settings.database != 0 {
        commands.push(vec!["SELECT", &database]);
    }
    if commands.is_empty() {
        commands.push(vec!["PING"]);
    }
    for command in commands {
        call(stream, &command).await?;
    }
    Ok(())
}

/// The map of a cluster's slots, as the first configured server that answers has it.
pub(crate) async fn first_map(settings: &Settings) -> Result<Vec<Share>, OpenError> {
    let mut refusal = None;
    for target in &settings.targets {
        let ask = async {
            let mut stream = connect(settings, target).await?;
            read_shares(&call(&mut stream, &CLUSTER_SLOTS).await?, target)
        };
        match in_time(settings, ask).await {
            Ok(shares) if !shares.is_empty() => return Ok(shares),
            Ok(_) => refusal = Some(no_slots(target)),
            Err(failure) => refusal = Some(failure.at(target)),
        }
    }
    Err(refusal.expect("an address names at least one server"))
}

/// A cluster that can't serve anything.
pub(crate) fn no_slots(target: &Target) -> OpenError {
    let text = format!("the cluster at {target} has no slots yet: give them to its servers first");
    OpenError::System(text)
}

/// Sends one command and returns its reply, unless that is an error.
async fn call(stream: &mut Stream, command: &[&str]) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    put_all(&mut bytes, command);
    send(stream, &bytes).await
}

/// Sends one encoded command and returns its reply, unless that is an error.
pub(crate) async fn send(stream: &mut Stream, command: &[u8]) -> Result<Vec<u8>, Failure> {
    let broken = |error| Failure::broken(&error);
    stream.write_all(command).await.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    let mut bytes = Vec::new();
    let mut scan = Scan::START;
    loop {
        if let Some(length) = scan.advance(&bytes)? {
            let rest = bytes.split_off(length);
            if !is_push(&bytes) {
                break;
            }
            (bytes, scan) = (rest, Scan::START);
            continue;
        }
        if stream.read_buf(&mut bytes).await.map_err(broken)? == 0 {
            return Err(Failure::closed(!bytes.is_empty()));
        }
    }
    match Cursor::new(&bytes).token()? {
        Token::Error(message) => Err(Failure::said(message)),
        _ => Ok(bytes),
    }
}
