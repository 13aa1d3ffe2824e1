//! Opens connections: connects, encrypts, introduces itself and logs in by SCRAM-SHA-256.
//!
//! Sources: MongoDB's specifications of handshake and authentication; RFC 5802 and RFC 7677.

use std::num::NonZeroU32;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kvmark_driver_server::Target;
use kvmark_driver_server::framed::{Ordered, Protocol, Stream, ask};
use kvmark_driver_server::timers::Deadline;
use kvmark_plan::Outcome;
use ring::{digest, hmac, pbkdf2, rand};
use serde_json::{Value as Json, json};

use crate::bson::{DOCUMENT, Value, put_binary, put_boolean, put_int32, put_nested, put_text};
use crate::failure::Failure;
use crate::message::{Answer, command, complete, put_message, reply};
use crate::options::Settings;

const SCRAM: &str = "SCRAM-SHA-256";
/// Bounds on the server's number of iterations, which costs time on both sides.
const ITERATIONS: std::ops::RangeInclusive<u32> = 4096..=1_000_000;

impl Protocol for Settings {
    type Target = Target;
    type Exchanges = Ordered;
    type Scan = ();

    const REOPENS: bool = false;

    fn dial(&self, target: &Target, deadline: Deadline) -> Result<Stream, Failure> {
        let mut stream = Stream::reach(target, self.tls.as_ref(), deadline)?;
        let mechanisms = introduce(&mut stream, self)?;
        if let (Some(user), Some(password)) =
            (&self.credentials.username, &self.credentials.password)
        {
            let is_known = mechanisms.as_array().is_none_or(|names| names.contains(&SCRAM.into()));
            if !is_known {
                let text = "the server has no login by SCRAM-SHA-256 for this user";
                return Err(Failure::new(Outcome::Refused, text));
            }
            let login = Login { stream, source: &self.source, conversation: None };
            stream = login.run(user, password.reveal()).map_err(|failure| Failure {
                text: failure.text.replace(user.as_str(), "***"),
                ..failure
            })?;
        }
        Ok(stream)
    }

    fn connect_timeout(&self) -> Duration {
        self.limits.connect_timeout
    }

    fn reconnect_max(&self) -> Duration {
        self.limits.reconnect_max
    }

    #[inline]
    fn scan((): &mut (), bytes: &[u8]) -> Result<Option<usize>, Failure> {
        complete(bytes)
    }
}

/// Sends a command and returns its reply.
pub(crate) fn send(stream: &mut Stream, request: &[u8]) -> Result<Vec<u8>, Failure> {
    let frame = ask::<Settings>(stream, request, |_| true)?;
    Answer::read(reply(&frame)?.1)?.unconfirmed.map_or(Ok(frame), Err)
}

/// Names this program. Returns the mechanisms for the user's login.
fn introduce(stream: &mut Stream, settings: &Settings) -> Result<Json, Failure> {
    let name = json!({ "name": "kvmark", "version": env!("CARGO_PKG_VERSION") });
    let client =
        json!({ "application": { "name": "kvmark" }, "driver": name, "os": { "type": "Linux" } });
    let mut members = json!({ "client": client });
    if let Some(user) = &settings.credentials.username {
        members["saslSupportedMechs"] = format!("{}.{user}", settings.source).into();
    }
    let frame = send(stream, &command("hello", &members, "admin"))?;
    Ok(reply(&frame)?.1.json(0)?["saslSupportedMechs"].take())
}

/// A login in progress.
struct Login<'a> {
    stream: Stream,
    source: &'a str,
    conversation: Option<i32>,
}

impl Login<'_> {
    /// Sends a message. Returns the server's, and whether it was the last one.
    fn exchange(&mut self, payload: &str) -> Result<(String, bool), Failure> {
        let mut request = Vec::new();
        put_message(&mut request, 0, |output| {
            if let Some(conversation) = self.conversation {
                put_int32(output, "saslContinue", 1);
                put_int32(output, "conversationId", conversation);
            } else {
                put_int32(output, "saslStart", 1);
                put_text(output, "mechanism", SCRAM.as_bytes());
                put_nested(output, DOCUMENT, "options", |output| {
                    put_boolean(output, "skipEmptyExchange", true);
                });
            }
            put_binary(output, "payload", payload.as_bytes());
            put_text(output, "$db", self.source.as_bytes());
        });
        let frame = send(&mut self.stream, &request)?;
        let (_, answer) = reply(&frame)?;
        let number =
            |name| answer.find(name).map(|value| value.and_then(Value::number).unwrap_or_default());
        self.conversation = Some(number("conversationId")? as i32);
        let text = answer.find("payload")?.and_then(Value::bytes).unwrap_or_default();
        Ok((String::from_utf8_lossy(text).into_owned(), number("done")? != 0))
    }

    /// Logs in. The server must prove that it knows the password.
    fn run(mut self, user: &str, password: &str) -> Result<Stream, Failure> {
        let unproven = || Failure::new(Outcome::Refused, "the server doesn't know the password");
        let random: [u8; 24] = rand::generate(&rand::SystemRandom::new())
            .map_err(|_| Failure::new(Outcome::Refused, "the machine gives no random bytes"))?
            .expose();
        let own = BASE64.encode(random);
        let bare = format!("n={},r={own}", user.replace('=', "=3D").replace(',', "=2C"));
        let (first, _) = self.exchange(&format!("n,,{bare}"))?;
        let nonce = member(&first, "r=").filter(|nonce| nonce.starts_with(&own));
        let nonce = nonce.ok_or_else(unproven)?;
        let salt = member(&first, "s=").and_then(|text| BASE64.decode(text).ok());
        let salt = salt.ok_or_else(unproven)?;
        let count = member(&first, "i=").and_then(|text| text.parse().ok());
        let count = count.filter(|count| ITERATIONS.contains(count)).and_then(NonZeroU32::new);
        let proven = format!("c=biws,r={nonce}");
        let message = format!("{bare},{first},{proven}");
        let password = stringprep::saslprep(password).unwrap_or(password.into());
        let keys = Keys::derive(&password, &salt, count.ok_or_else(unproven)?);
        let proof = BASE64.encode(keys.proof(&message));
        let (last, mut is_done) = self.exchange(&format!("{proven},p={proof}"))?;
        let signature = member(&last, "v=").and_then(|text| BASE64.decode(text).ok());
        hmac::verify(&keys.server, message.as_bytes(), &signature.unwrap_or_default())
            .map_err(|_| unproven())?;
        while !is_done {
            (_, is_done) = self.exchange("")?;
        }
        Ok(self.stream)
    }
}

/// A member of a message, which follows this name.
fn member<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message.split(',').find_map(|member| member.strip_prefix(name))
}

/// The keys of both sides.
struct Keys {
    client: hmac::Tag,
    server: hmac::Key,
}

impl Keys {
    fn derive(password: &str, salt: &[u8], iterations: NonZeroU32) -> Self {
        let mut salted = [0; digest::SHA256_OUTPUT_LEN];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, iterations, salt, password.as_bytes(), &mut salted);
        let salted = hmac::Key::new(hmac::HMAC_SHA256, &salted);
        let server = hmac::sign(&salted, b"Server Key");
        let client = hmac::sign(&salted, b"Client Key");
        Self { client, server: hmac::Key::new(hmac::HMAC_SHA256, server.as_ref()) }
    }

    /// The client's proof for the messages of a login.
    fn proof(&self, message: &str) -> Vec<u8> {
        let stored = digest::digest(&digest::SHA256, self.client.as_ref());
        let stored = hmac::Key::new(hmac::HMAC_SHA256, stored.as_ref());
        let signature = hmac::sign(&stored, message.as_bytes());
        let pairs = self.client.as_ref().iter().zip(signature.as_ref());
        pairs.map(|(key, signature)| key ^ signature).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    #[test]
    fn a_proof_is_that_of_the_standard() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let keys = Keys::derive("pencil", &salt, NonZeroU32::new(4096).unwrap());
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let message = format!(
            "n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
             c=biws,r={nonce}"
        );
        let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(BASE64.encode(keys.proof(&message)), proof);
        let signature = BASE64.decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
        hmac::verify(&keys.server, message.as_bytes(), &signature).unwrap();
    }
}
