//! Opening connections to nodes: protocol options, login and keyspace; and requests outside of
//! sessions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kvmark_driver_server::Failure;
use kvmark_driver_server::framed::{Lines, Numbered, Protocol, Stream, ask};
use kvmark_driver_server::timers::Deadline;
use kvmark_plan::Outcome;

use crate::failure::{NodeError, impossible, missing_login};
use crate::frame::{
    self, AUTH_RESPONSE, AUTH_SUCCESS, AUTHENTICATE, Compression, ERROR, Frame, OPTIONS, PREPARE,
    QUERY, READY, REGISTER, RESULT, Reader, STARTUP, SUPPORTED, cut_off, put_long, put_short,
};
use crate::records::quoted;
use crate::rows::{Row, table};
use crate::settings::{Consistency, Settings};

/// The flag of a query with values.
const WITH_VALUES: u8 = 0x01;
/// The events that change the topology.
const EVENTS: [&str; 2] = ["TOPOLOGY_CHANGE", "STATUS_CHANGE"];

/// The settings of connections to nodes.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) settings: Arc<Settings>,
    /// The default keyspace.
    pub(crate) keyspace: Option<String>,
    /// Limit on the time to open a connection, and on a request outside of a session.
    pub(crate) limit: Duration,
}

impl Protocol for Wire {
    type Target = SocketAddr;
    type Exchanges = Numbered;
    type Scan = ();

    /// A node that returns is used again.
    const REOPENS: bool = true;

    fn dial(&self, target: &SocketAddr, deadline: Deadline) -> Result<Stream, Failure> {
        let mut stream = Stream::tcp(*target, self.settings.tcp_nodelay, deadline)?;
        if let Some(tls) = &self.settings.tls {
            stream = stream.encrypted(tls, Some(&target.ip().to_string()))?;
        }
        self.introduce(&mut stream)?;
        Ok(stream)
    }

    fn connect_timeout(&self) -> Duration {
        self.limit
    }

    fn reconnect_max(&self) -> Duration {
        self.settings.reconnect_max
    }

    #[inline]
    fn scan((): &mut (), bytes: &[u8]) -> Result<Option<usize>, Failure> {
        frame::scan(bytes)
    }
}

impl Wire {
    /// The settings of connections with the limit on connecting.
    pub(crate) fn new(settings: &Arc<Settings>, keyspace: Option<String>) -> Arc<Self> {
        let settings = Arc::clone(settings);
        Arc::new(Self { limit: settings.connect_timeout, settings, keyspace })
    }

    /// Negotiates options, logs in and selects the keyspace.
    fn introduce(&self, stream: &mut Stream) -> Result<(), Failure> {
        let compression = self.settings.compression.map(Compression::name);
        if let Some(compression) = compression {
            self.check_compression(stream, compression)?;
        }
        let body = startup_body(compression);
        let (answer, _) = self.ask(stream, STARTUP, &body, &[READY, AUTHENTICATE])?;
        if answer == AUTHENTICATE {
            self.log_in(stream)?;
        }
        if let Some(name) = &self.keyspace {
            self.query(stream, &format!("USE {}", quoted(name)), &[], Consistency::One)?;
        }
        Ok(())
    }

    /// Checks that the node supports a compression.
    fn check_compression(&self, stream: &mut Stream, compression: &str) -> Result<(), Failure> {
        let (_, body) = self.ask(stream, OPTIONS, &[], &[SUPPORTED])?;
        if compressions(&body)?.iter().any(|offered| offered == compression) {
            return Ok(());
        }
        let text = format!("it can't compress with {compression}: give compression=none");
        Err(Failure::new(Outcome::Refused, text))
    }

    fn log_in(&self, stream: &mut Stream) -> Result<(), Failure> {
        let Some((username, password)) = &self.settings.login else {
            return Err(missing_login());
        };
        let mut body = Vec::new();
        put_long(&mut body, format!("\0{username}\0{}", password.reveal()).as_bytes());
        self.ask(stream, AUTH_RESPONSE, &body, &[AUTH_SUCCESS]).map(drop)
    }

    /// Sends a request. Returns the opcode and the body of its reply; `answers` are valid opcodes.
    fn ask(
        &self,
        stream: &mut Stream,
        opcode: u8,
        body: &[u8],
        answers: &[u8],
    ) -> Result<(u8, Vec<u8>), Failure> {
        let mut request = Vec::new();
        frame::begin(&mut request, opcode);
        request.extend_from_slice(body);
        frame::set_length(&mut request);
        let is_answer = |frame: &[u8]| !Frame::read(frame).is_event();
        let bytes = ask::<Self>(stream, &request, is_answer)?;
        let frame = Frame::read(&bytes);
        let body = frame.body(self.settings.compression, |_| ())?;
        match frame.opcode {
            // The node's message might repeat the login.
            ERROR if opcode == AUTH_RESPONSE => Err(NodeError::read(&body)?.without_message()),
            ERROR => Err(NodeError::read(&body)?.into()),
            opcode if answers.contains(&opcode) => Ok((opcode, body.into_owned())),
            opcode => Err(impossible(format!("opcode {opcode} isn't expected"))),
        }
    }

    /// The body of a statement's result. The values are those of columns of text.
    pub(crate) fn query(
        &self,
        stream: &mut Stream,
        cql: &str,
        values: &[&str],
        level: Consistency,
    ) -> Result<Vec<u8>, Failure> {
        Ok(self.ask(stream, QUERY, &query_body(cql, values, level), &[RESULT])?.1)
    }

    /// The body of the result of preparing a statement.
    pub(crate) fn prepare(&self, stream: &mut Stream, cql: &str) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        put_long(&mut body, cql.as_bytes());
        Ok(self.ask(stream, PREPARE, &body, &[RESULT])?.1)
    }

    /// Opens a connection that receives events.
    pub(crate) fn subscribe(&self, node: &SocketAddr) -> Result<Stream, Failure> {
        let deadline = Deadline::after(self.limit);
        let mut body = (EVENTS.len() as u16).to_be_bytes().to_vec();
        EVENTS.iter().for_each(|name| put_short(&mut body, name.as_bytes()));
        let opened = self.dial(node, deadline).and_then(|mut stream| {
            self.ask(&mut stream, REGISTER, &body, &[READY])?;
            Ok(stream)
        });
        deadline.judge(opened)
    }
}

fn startup_body(compression: Option<&str>) -> Vec<u8> {
    let mut words = vec!["CQL_VERSION", "3.0.0"];
    words.extend(compression.into_iter().flat_map(|name| ["COMPRESSION", name]));
    let mut body = (words.len() as u16 / 2).to_be_bytes().to_vec();
    words.iter().for_each(|word| put_short(&mut body, word.as_bytes()));
    body
}

fn query_body(cql: &str, values: &[&str], level: Consistency) -> Vec<u8> {
    let mut body = Vec::new();
    put_long(&mut body, cql.as_bytes());
    body.extend_from_slice(&(level as u16).to_be_bytes());
    body.push(if values.is_empty() { 0 } else { WITH_VALUES });
    if !values.is_empty() {
        body.extend_from_slice(&(values.len() as u16).to_be_bytes());
        values.iter().for_each(|value| put_long(&mut body, value.as_bytes()));
    }
    body
}

/// The rows of a statement at a node, read at consistency level ONE.
pub(crate) fn select(
    lines: &Lines<Wire>,
    node: &SocketAddr,
    cql: &str,
    values: &[&str],
) -> Result<Vec<Row>, Failure> {
    let wire = &lines.protocol;
    let body =
        lines.ask(node, &[], |stream, _| wire.query(stream, cql, values, Consistency::One))?;
    Ok(table(&body)?.1)
}

/// The compressions in a SUPPORTED reply.
pub(crate) fn compressions(body: &[u8]) -> Result<Vec<String>, Failure> {
    let parse = || {
        let (mut body, mut found) = (Reader(body), Vec::new());
        for _ in 0..body.short()? {
            let is_found = body.short_bytes()? == b"COMPRESSION";
            for _ in 0..body.short()? {
                let word = body.short_bytes()?;
                found.extend(is_found.then(|| String::from_utf8_lossy(word).into_owned()));
            }
        }
        Some(found)
    };
    parse().ok_or_else(cut_off)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_equal_those_of_the_rust_driver() {
        assert_eq!(startup_body(None), b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0");
        assert_eq!(
            startup_body(Some("lz4")),
            b"\0\x02\0\x0bCQL_VERSION\0\x053.0.0\0\x0bCOMPRESSION\0\x03lz4"
        );
        assert_eq!(query_body("USE k", &[], Consistency::One), b"\0\0\0\x05USE k\0\x01\0");
        assert_eq!(
            query_body("?", &["ab"], Consistency::LocalOne),
            b"\0\0\0\x01?\0\x0a\x01\0\x01\0\0\0\x02ab"
        );
    }

    #[test]
    fn compressions_are_found_among_the_supported_options() {
        let mut body = 2_u16.to_be_bytes().to_vec();
        for (name, words) in [("CQL_VERSION", &["3.4.7"][..]), ("COMPRESSION", &["lz4", "snappy"])]
        {
            put_short(&mut body, name.as_bytes());
            body.extend_from_slice(&(words.len() as u16).to_be_bytes());
            words.iter().for_each(|word| put_short(&mut body, word.as_bytes()));
        }
        assert_eq!(compressions(&body).unwrap(), ["lz4", "snappy"]);
        assert!((0..body.len()).all(|end| compressions(&body[..end]).is_err()));
    }
}
