//! The login of a connection, and the requests that prepare texts.

use kvmark_driver_server::framed::{Stream, ask};
use kvmark_driver_server::{SCRAM, Scram, unproven};
use kvmark_plan::Outcome;
use md5::{Digest as _, Md5};

use crate::failure::{Failure, refused_login};
use crate::message::{Messages, Reader, SYNC, put};
use crate::options::Settings;
use crate::text::Text;

const VERSION: [u8; 4] = [0, 3, 0, 0];

/// The name of a prepared text.
pub(crate) fn name_of(number: usize) -> String {
    format!("kvmark{number}")
}

/// Appends the request to prepare a text, whose types the server derives.
pub(crate) fn put_parse(output: &mut Vec<u8>, name: &str, text: &str) {
    put(output, b'P', &[name.as_bytes(), b"\0", text.as_bytes(), b"\0\0\0"]);
}

/// The requests that prepare these texts as [`name_of`] their numbers.
pub(crate) fn preparation(texts: &[Text]) -> Vec<u8> {
    let mut requests = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        put_parse(&mut requests, &name_of(number), &text.sql);
    }
    requests.extend_from_slice(SYNC);
    requests
}

pub(crate) fn login(stream: &mut Stream, settings: &Settings) -> Result<(), Failure> {
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
        let reply = ask::<Settings>(stream, &request, |_| true)?;
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
    scram: Option<Scram>,
}

impl Login<'_> {
    /// Answers a question of the server.
    fn answer(&mut self, mut question: Reader<'_>, request: &mut Vec<u8>) -> Result<(), Failure> {
        let refuse = |text: &str| Err(Failure::new(Outcome::Refused, text));
        let kind = question.number()?;
        let Some(password) = &self.settings.servers.credentials.password else {
            return match kind {
                0 => Ok(()),
                _ => refuse("the server asks for a password: give password_env or password_file"),
            };
        };
        let password = password.reveal();
        match (kind, &mut self.scram) {
            (0, None) => {}
            (3, _) if self.settings.servers.tls.is_some() => put_password(request, password),
            (3, _) => {
                return refuse(
                    "the server asks for the password in clear text, which isn't sent without \
                     TLS: give tls=true, or use scram-sha-256 in pg_hba.conf",
                );
            }
            (5, _) => {
                let hash = md5(&[password.as_bytes(), self.settings.username.as_bytes()]);
                let salted = md5(&[hash.as_bytes(), &question.array::<4>()?]);
                put_password(request, &format!("md5{salted}"));
            }
            (10, _) if question.0.split(|byte| *byte == 0).any(|it| it == SCRAM.as_bytes()) => {
                // The server takes the user from the first message of the connection.
                let scram = self.scram.insert(Scram::new("", password)?);
                let first = scram.first();
                let length = (first.len() as u32).to_be_bytes();
                put(request, b'p', &[SCRAM.as_bytes(), b"\0", &length, first.as_bytes()]);
            }
            (11, Some(scram)) => {
                put(request, b'p', &[scram.answer(question.0, 1)?.as_bytes()]);
            }
            (12, Some(scram)) => {
                scram.check(question.0)?;
                self.scram = None;
            }
            (0, Some(_)) => return Err(unproven()),
            _ => return refuse("the server asks for a login other than SCRAM-SHA-256 and MD5"),
        }
        Ok(())
    }
}

fn put_password(request: &mut Vec<u8>, password: &str) {
    put(request, b'p', &[password.as_bytes(), b"\0"]);
}

/// The digits of the hash of these parts.
fn md5(parts: &[&[u8]]) -> String {
    let hash = parts.iter().fold(Md5::new(), |hash, part| hash.chain_update(part));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
