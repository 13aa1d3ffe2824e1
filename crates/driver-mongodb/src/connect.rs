//! The login of a connection.
//!
//! Source: MongoDB's specifications of handshake and authentication.

use kvmark_driver_server::framed::{Server as _, Stream};
use kvmark_driver_server::{SCRAM, Scram};
use kvmark_plan::Outcome;
use serde_json::json;

use crate::bson::{DOCUMENT, Value, put_binary, put_boolean, put_int32, put_nested, put_text};
use crate::failure::Failure;
use crate::message::{command, put_message, reply};
use crate::options::Settings;

/// Fewest iterations of a login that MongoDB's drivers accept.
const ITERATIONS_MIN: u32 = 4096;

/// Names this program and logs in.
pub(crate) fn introduce(stream: &mut Stream, settings: &Settings) -> Result<(), Failure> {
    let name = json!({ "name": "kvmark", "version": env!("CARGO_PKG_VERSION") });
    let client =
        json!({ "application": { "name": "kvmark" }, "driver": name, "os": { "type": "Linux" } });
    let mut members = json!({ "client": client });
    if let Some((user, _)) = &settings.login {
        members["saslSupportedMechs"] = format!("{}.{user}", settings.source).into();
    }
    let frame = Settings::send(stream, &command("hello", &members, "admin"))?;
    let mechanisms = &reply(&frame)?.1.json(0)?["saslSupportedMechs"];
    let Some((user, password)) = &settings.login else { return Ok(()) };
    if mechanisms.as_array().is_some_and(|names| !names.contains(&SCRAM.into())) {
        let text = "the server has no login by SCRAM-SHA-256 for this user";
        return Err(Failure::new(Outcome::Refused, text));
    }
    let mut login = Login { stream, source: &settings.source, conversation: None };
    login
        .run(user, password.reveal())
        .map_err(|failure| Failure { text: failure.text.replace(user.as_str(), "***"), ..failure })
}

/// A login in progress.
struct Login<'a> {
    stream: &'a mut Stream,
    source: &'a str,
    conversation: Option<i32>,
}

impl Login<'_> {
    /// Sends a message. Returns the server's, and whether it was the last one.
    fn exchange(&mut self, payload: &str) -> Result<(Vec<u8>, bool), Failure> {
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
        let frame = Settings::send(self.stream, &request)?;
        let (_, answer) = reply(&frame)?;
        let number =
            |name| answer.find(name).map(|value| value.and_then(Value::number).unwrap_or_default());
        self.conversation = Some(number("conversationId")? as i32);
        let payload = answer.find("payload")?.and_then(Value::bytes).unwrap_or_default();
        Ok((payload.to_vec(), number("done")? != 0))
    }

    /// Logs in. The server must prove that it knows the password.
    fn run(&mut self, user: &str, password: &str) -> Result<(), Failure> {
        let mut scram = Scram::new(user, password)?;
        let (first, _) = self.exchange(&scram.first())?;
        let answer = scram.answer(&first, ITERATIONS_MIN)?;
        let (last, mut is_done) = self.exchange(&answer)?;
        scram.check(&last)?;
        while !is_done {
            (_, is_done) = self.exchange("")?;
        }
        Ok(())
    }
}
