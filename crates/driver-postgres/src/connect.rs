//! Opens connections: connects, encrypts, logs in and prepares all texts.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use kvmark_driver_server::framed::{Exchanges as _, Ordered, Protocol, Stream, ask};
use kvmark_driver_server::timers::Deadline;
use kvmark_driver_server::{Target, Tls};
use kvmark_plan::Outcome;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};

use crate::failure::{Failure, ended, refused_login};
use crate::message::{Messages, Reader, SYNC, Scan, put};
use crate::options::Settings;

/// The request for TLS, which the server answers with one byte.
const SSL_REQUEST: &[u8] = &[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
const VERSION: [u8; 4] = [0, 3, 0, 0];

/// The protocol with its settings and the texts that each connection prepares.
#[derive(Debug)]
pub struct Wire {
    pub(crate) settings: Arc<Settings>,
    preparation: Vec<u8>,
}

impl Wire {
    /// A wire that prepares these texts as [`name_of`] their numbers.
    pub(crate) fn new<'a>(
        settings: Arc<Settings>,
        texts: impl ExactSizeIterator<Item = &'a str>,
    ) -> Self {
        let mut preparation = Vec::new();
        for (number, text) in texts.enumerate() {
            put_parse(&mut preparation, &name_of(number), text);
        }
        if !preparation.is_empty() {
            preparation.extend_from_slice(SYNC);
        }
        Self { settings, preparation }
    }
}

/// The name of a prepared text.
pub(crate) fn name_of(number: usize) -> String {
    format!("kvmark{number}")
}

/// Appends the request to prepare a text, whose types the server derives.
pub(crate) fn put_parse(output: &mut Vec<u8>, name: &str, text: &str) {
    put(output, b'P', &[name.as_bytes(), b"\0", text.as_bytes(), b"\0\0\0"]);
}

impl Protocol for Wire {
    type Target = Target;
    type Exchanges = Ordered;
    type Scan = Scan;

    const REOPENS: bool = false;

    fn dial(&self, target: &Target, deadline: Deadline) -> Result<Stream, Failure> {
        let mut stream = Stream::reach(target, None, deadline)?;
        if let Some(tls) = &self.settings.tls {
            stream = encrypted(stream, target, tls)?;
        }
        login(&mut stream, &self.settings)?;
        if !self.preparation.is_empty() {
            send(&mut stream, &self.preparation)?;
        }
        Ok(stream)
    }

    fn connect_timeout(&self) -> Duration {
        self.settings.limits.connect_timeout
    }

    fn reconnect_max(&self) -> Duration {
        self.settings.limits.reconnect_max
    }

    #[inline]
    fn scan(scan: &mut Scan, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        scan.advance(bytes)
    }

    /// Errors, notices and changed parameters may come at any time.
    #[inline]
    fn may_come(exchanges: &Ordered, first: u8) -> bool {
        exchanges.awaits_frame() || matches!(first, b'A' | b'E' | b'N' | b'S')
    }
}

/// Sends requests and returns the frame that answers them.
pub(crate) fn send(stream: &mut Stream, requests: &[u8]) -> Result<Vec<u8>, Failure> {
    let reply = ask::<Wire>(stream, requests, |_| true)?;
    match Messages(&reply).find(|(tag, _)| *tag == b'E') {
        Some((_, error)) => Err(ended(error)),
        None => Ok(reply),
    }
}

fn encrypted(mut stream: Stream, target: &Target, tls: &Tls) -> Result<Stream, Failure> {
    let broken = |error| Failure::broken(&error);
    stream.write_all(SSL_REQUEST).map_err(broken)?;
    let mut answer = [0];
    stream.read_exact(&mut answer).map_err(broken)?;
    if answer != *b"S" {
        let text = "it doesn't speak TLS: leave tls out";
        return Err(Failure::new(Outcome::Refused, text));
    }
    let name = tls.name_of(target.host());
    let name = name.map_err(|why| Failure::new(Outcome::Connection, why))?;
    stream.encrypted(&tls.config, name)
}

fn login(stream: &mut Stream, settings: &Settings) -> Result<(), Failure> {
    let mut parameters = VERSION.to_vec();
    for (name, value) in &settings.parameters {
        parameters.extend(format!("{name}\0{value}\0").into_bytes());
    }
    let mut request = Vec::new();
    put(&mut request, 0, &[&parameters, b"\0"]);
    // The first message has no tag.
    request.remove(0);
    let mut login = Login { settings, scram: None };
    loop {
        let reply = ask::<Wire>(stream, &request, |_| true)?;
        request.clear();
        for (tag, body) in Messages(&reply) {
            match tag {
                b'E' => return Err(refused_login(body, &settings.username)),
                b'R' => login.answer(Reader(body), &mut request)?,
                b'Z' => return Ok(()),
                _ => {}
            }
        }
    }
}

/// The state of a login.
struct Login<'a> {
    settings: &'a Settings,
    /// The exchange in which the server must show that it knows the password, too.
    scram: Option<ScramSha256>,
}

impl Login<'_> {
    /// Answers a question of the server.
    fn answer(&mut self, mut question: Reader<'_>, request: &mut Vec<u8>) -> Result<(), Failure> {
        let refuse = |text: &str| Err(Failure::new(Outcome::Refused, text));
        let kind = question.number()?;
        let Some(password) = &self.settings.password else {
            return match kind {
                0 => Ok(()),
                _ => refuse("the server asks for a password: give password_env or password_file"),
            };
        };
        let password = password.reveal().as_bytes();
        let unproven = || Failure::new(Outcome::Refused, "the server doesn't know the password");
        match (kind, &mut self.scram) {
            (0, None) => {}
            (3, _) if self.settings.tls.is_some() => put(request, b'p', &[password, b"\0"]),
            (3, _) => {
                return refuse(
                    "the server asks for the password in clear text, which isn't sent without \
                     TLS: give tls=true, or use scram-sha-256 in pg_hba.conf",
                );
            }
            (5, _) => {
                let user = self.settings.username.as_bytes();
                let hash = md5_hash(user, password, question.array()?);
                put(request, b'p', &[hash.as_bytes(), b"\0"]);
            }
            (10, _)
                if question.0.split(|byte| *byte == 0).any(|m| m == SCRAM_SHA_256.as_bytes()) =>
            {
                let scram = ScramSha256::new(password, ChannelBinding::unsupported());
                let (name, first) = (SCRAM_SHA_256.as_bytes(), scram.message());
                let length = (first.len() as u32).to_be_bytes();
                put(request, b'p', &[name, b"\0", &length, first]);
                self.scram = Some(scram);
            }
            (11, Some(scram)) => {
                scram.update(question.0).map_err(|_| unproven())?;
                put(request, b'p', &[scram.message()]);
            }
            (12, Some(scram)) => {
                scram.finish(question.0).map_err(|_| unproven())?;
                self.scram = None;
            }
            (0, Some(_)) => return Err(unproven()),
            _ => return refuse("the server asks for a login other than SCRAM-SHA-256 and MD5"),
        }
        Ok(())
    }
}
