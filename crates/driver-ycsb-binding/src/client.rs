//! One client's instance of a binding.
//!
//! The request and its answer are bytes in memory that Java shares: lengths, numbers and places of
//! fields are big-endian ints.
#![expect(unsafe_code, reason = "Java gets memory, and methods are called by address")]

use std::io::{self, Write as _};
use std::str;
use std::sync::Arc;

use jni::objects::{JMethodID, JObject, JString};
use jni::refs::Global;
use jni::signature::{Primitive, ReturnType};
use jni::{Env, JValue, jni_sig, jni_str};
use kvmark_driver::{Blocking, Columns, OpenError, Reply, Request};
use kvmark_plan::{Kind, Outcome};

use crate::Shared;
use crate::machine::{CLIENT, failure};

// As in BindingClient.java.
const DONE: i32 = 0;
const MISSING: i32 = 1;
const END: u32 = u32::MAX;
/// Bytes of a buffer. The system provides those that are used.
const BUFFER_BYTES: usize = 64 << 20;

/// A client with its instance of the binding.
pub struct BindingSession {
    shared: Arc<Shared>,
    client: Global<JObject<'static>>,
    call: JMethodID,
    /// The memory that Java uses during calls. It never moves.
    buffer: Vec<u8>,
    failure: Option<String>,
}

impl BindingSession {
    pub(crate) fn open(shared: Arc<Shared>) -> Result<Self, OpenError> {
        let Shared { machine, layout, properties, description, .. } = &*shared;
        let fields = layout.field_names.len().to_string();
        let head = [description.system.clone(), layout.table.clone(), fields];
        let words = [&head[..], &layout.field_names, &properties.words].concat();
        let mut buffer = vec![0; BUFFER_BYTES];
        // The thread stays attached until it ends.
        let opened = machine.vm.attach_current_thread(|env| {
            // SAFETY: the session owns the memory, and ends after the last call.
            let memory = unsafe { env.new_direct_byte_buffer(buffer.as_mut_ptr(), buffer.len()) }?;
            let text = env.new_string(words.join("\0"))?;
            let signature = jni_sig!("(Ljava/nio/ByteBuffer;Ljava/lang/String;)Ljava/lang/Object;");
            let arguments = [JValue::Object(&memory), JValue::Object(&text)];
            let client = env.call_static_method(CLIENT, jni_str!("open"), signature, &arguments)?;
            let client = client.l()?;
            if env.is_instance_of(&client, jni_str!("java/lang/String"))? {
                let text = env.cast_local::<JString<'_>>(client)?.try_to_string(env)?;
                return Ok(Err(text));
            }
            let call = env.get_method_id(CLIENT, jni_str!("call"), jni_sig!("()I"))?;
            Ok(Ok((env.new_global_ref(client)?, call)))
        });
        let opened = opened.map_err(|error| failure(&error))?;
        let (client, call) =
            opened.map_err(|text| OpenError::System(properties.without_secrets(text)))?;
        Ok(Self { shared, client, call, buffer, failure: None })
    }

    fn call(&mut self, request: &Request<'_>, reply: &mut Reply) -> jni::errors::Result<Outcome> {
        let wants_values = request.wants_values || request.expected.is_some();
        let encoded = encode(request, wants_values, &mut self.buffer);
        if encoded.is_err() || str::from_utf8(request.key).is_err() {
            self.failure = Some("a key isn't UTF-8 text, or a record has 64 MiB".to_owned());
            return Ok(Outcome::Refused);
        }
        let int = ReturnType::Primitive(Primitive::Int);
        let result = self.shared.machine.vm.with_top_local_frame(|env| {
            // SAFETY: the method has no arguments and returns an int, as its signature says.
            let result = unsafe { env.call_method_unchecked(&self.client, self.call, int, &[]) };
            result.inspect_err(|_| env.exception_clear())?.i()
        })?;
        let mut answer = &self.buffer[..];
        Ok(match result {
            DONE if matches!(request.kind, Kind::Read | Kind::Scan) => {
                deliver(answer, request, wants_values, reply)
            }
            DONE => Outcome::Ok,
            MISSING => Outcome::Miss,
            _ => {
                let text = String::from_utf8_lossy(take(&mut answer)).into_owned();
                let status = text.split([':', ' ']).next().unwrap_or_default();
                if request.kind == Kind::Read && status == self.shared.missing {
                    return Ok(Outcome::Miss);
                }
                let outcome = outcome_of(status);
                self.failure = Some(self.shared.properties.without_secrets(text));
                outcome
            }
        })
    }
}

/// Writes kind, fields, number of records or values, and whether values are wanted; then the key,
/// and place and value of each field to write.
fn encode(request: &Request<'_>, wants_values: bool, mut rest: &mut [u8]) -> io::Result<()> {
    let count = match request.kind {
        Kind::Scan => i32::try_from(request.scan_length).unwrap_or(i32::MAX),
        _ => request.values.places.len() as i32,
    };
    let columns = match request.columns {
        Columns::All => -2,
        Columns::AllByName => -1,
        Columns::One(index) => index as i32,
    };
    let kind = i32::from(request.kind.name().as_bytes()[0]);
    for number in [kind, columns, count, i32::from(wants_values)] {
        rest.write_all(&number.to_be_bytes())?;
    }
    put(&mut rest, request.key)?;
    for (field, value) in request.values.iter() {
        rest.write_all(&field.to_be_bytes())?;
        put(&mut rest, value)?;
    }
    Ok(())
}

/// The outcome of a status that is neither `OK` nor `NOT_FOUND`.
fn outcome_of(status: &str) -> Outcome {
    match status {
        "NOT_IMPLEMENTED" | "BAD_REQUEST" | "FORBIDDEN" => Outcome::Refused,
        "SERVICE_UNAVAILABLE" => Outcome::Unavailable,
        // A write that the binding only took note of has no outcome yet.
        "UNEXPECTED_STATE" | "BATCHED_OK" => Outcome::Protocol,
        _ => Outcome::Storage,
    }
}

/// Fills the reply with the answer's records, and compares that of a read with the expected one.
fn deliver(
    mut answer: &[u8],
    request: &Request<'_>,
    has_values: bool,
    reply: &mut Reply,
) -> Outcome {
    reply.rows = u64::from(number(&mut answer));
    if !has_values {
        return Outcome::Ok;
    }
    let mut comparison = request.expected.map(|expected| expected.compare());
    for row in 0..reply.rows as u32 {
        loop {
            let field = number(&mut answer);
            if field == END {
                break;
            }
            let value = take(&mut answer);
            if matches!(request.columns, Columns::One(wanted) if wanted != field) {
                continue;
            }
            if request.wants_values {
                reply.push(row, field, value);
            }
            if let Some(comparison) = &mut comparison {
                comparison.see(value);
            }
        }
    }
    let compares = request.kind == Kind::Read;
    comparison.filter(|_| compares).map_or(Outcome::Ok, |comparison| comparison.outcome())
}

fn put(rest: &mut &mut [u8], bytes: &[u8]) -> io::Result<()> {
    rest.write_all(&(bytes.len() as u32).to_be_bytes())?;
    rest.write_all(bytes)
}

fn number(rest: &mut &[u8]) -> u32 {
    let (number, behind) = rest.split_first_chunk().expect("Java wrote the number");
    *rest = behind;
    u32::from_be_bytes(*number)
}

fn take<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let length = number(rest) as usize;
    let (bytes, behind) = rest.split_at(length);
    *rest = behind;
    bytes
}

impl Blocking for BindingSession {
    fn execute(&mut self, request: &Request<'_>, reply: &mut Reply) -> Outcome {
        self.call(request, reply).unwrap_or_else(|error| {
            self.failure = Some(failure(&error).to_string());
            Outcome::Storage
        })
    }

    fn last_failure(&self) -> Option<String> {
        self.failure.clone()
    }
}

impl Drop for BindingSession {
    fn drop(&mut self) {
        let close = |env: &mut Env<'_>| {
            env.call_method(&self.client, jni_str!("close"), jni_sig!("()V"), &[]).map(drop)
        };
        // Nothing is measured any more, so a failure has no consequence.
        self.shared.machine.vm.attach_current_thread(close).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_outcome_that_its_name_says() {
        let cases = [
            ("ERROR", Outcome::Storage),
            ("EXCEPTION", Outcome::Storage),
            ("NOT_IMPLEMENTED", Outcome::Refused),
            ("SERVICE_UNAVAILABLE", Outcome::Unavailable),
            ("BATCHED_OK", Outcome::Protocol),
        ];
        for (status, outcome) in cases {
            assert_eq!(outcome_of(status), outcome, "{status}");
        }
    }
}
