//! Opening connections to nodes: protocol options, login and keyspace; and requests outside of
//! sessions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kvmark_driver_server::Failure;
use kvmark_driver_server::framed::{Lines, Numbered, Protocol, Stream, ask};
use kvmark_driver_server::timers::Deadline;
use kvmark_plan::Outcome;
use kvmark_wire::cql::WITH_VALUES;

use crate::failure::{NodeError, impossible, missing_login};
use crate::frame::{
    self, AUTH_RESPONSE, AUTH_SUCCESS, AUTHENTICATE, Compression, ERROR, Frame, OPTIONS, PREPARE,
    QUERY, READY, REGISTER, RESULT, Reader, STARTUP, SUPPORTED, cut_off, put_long, put_short,
};
use crate::records::quoted;
use crate::rows::{Row, table};
use crate::settings::{Consistency, Settings};
use crate::shards::{Endpoint, Shard, Supported, TABLETS};

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
    type Target = Endpoint;
    type Exchanges = Numbered;
    type Scan = ();

    /// A node that returns is used again.
    const REOPENS: bool = true;

    fn dial(&self, target: &Endpoint, deadline: Deadline) -> Result<Stream, Failure> {
        let (host, no_delay) = (target.node.ip(), self.settings.tcp_nodelay);
        let mut stream = match target.shard {
            None => Stream::tcp(target.node, no_delay, deadline)?,
            Some(shard) => {
                let place = SocketAddr::new(host, shard.port());
                Stream::tcp_from(shard.client_ports(), place, no_delay, deadline)?
            }
        };
        if let Some(tls) = &self.settings.tls {
            stream = stream.encrypted(tls, Some(&host.to_string()))?;
        }
        self.introduce(&mut stream, target.shard)?;
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
    fn introduce(&self, stream: &mut Stream, shard: Option<Shard>) -> Result<(), Failure> {
        let compression = self.settings.compression.map(Compression::name);
        let mut supported = Supported::new();
        if compression.is_some() || shard.is_some() {
            supported = self.supported(stream)?;
        }
        let refused = |why| Failure::new(Outcome::Refused, why);
        if let Some(name) = compression
            && !supported
                .get("COMPRESSION")
                .is_some_and(|offered| offered.iter().any(|o| o == name))
        {
            return Err(refused(format!("it can't compress with {name}: give compression=none")));
        }
        shard.map_or(Ok(()), |shard| shard.check(&supported).map_err(refused))?;
        let body = startup_body(compression, supported.contains_key(TABLETS));
        let (answer, _) = self.ask(stream, STARTUP, &body, &[READY, AUTHENTICATE])?;
        if answer == AUTHENTICATE {
            self.log_in(stream)?;
        }
        if let Some(name) = &self.keyspace {
            self.query(stream, &format!("USE {}", quoted(name)), &[], Consistency::One)?;
        }
        Ok(())
    }

    /// The options that the node supports.
    pub(crate) fn supported(&self, stream: &mut Stream) -> Result<Supported, Failure> {
        supported(&self.ask(stream, OPTIONS, &[], &[SUPPORTED])?.1)
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
    pub(crate) fn subscribe(&self, node: SocketAddr) -> Result<Stream, Failure> {
        let deadline = Deadline::after(self.limit);
        let mut body = (EVENTS.len() as u16).to_be_bytes().to_vec();
        EVENTS.iter().for_each(|name| put_short(&mut body, name.as_bytes()));
        let opened = self.dial(&node.into(), deadline).and_then(|mut stream| {
            self.ask(&mut stream, REGISTER, &body, &[READY])?;
            Ok(stream)
        });
        deadline.judge(opened)
    }
}

fn startup_body(compression: Option<&str>, tablets: bool) -> Vec<u8> {
    let mut words = vec!["CQL_VERSION", "3.0.0"];
    words.extend(compression.into_iter().flat_map(|name| ["COMPRESSION", name]));
    words.extend(tablets.then_some([TABLETS, ""]).into_iter().flatten());
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
    node: SocketAddr,
    cql: &str,
    values: &[&str],
) -> Result<Vec<Row>, Failure> {
    let wire = &lines.protocol;
    let body = lines
        .ask(&node.into(), &[], |stream, _| wire.query(stream, cql, values, Consistency::One))?;
    Ok(table(&body)?.1)
}

/// The options in a SUPPORTED reply.
pub(crate) fn supported(body: &[u8]) -> Result<Supported, Failure> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let parse = || {
        let (mut body, mut found) = (Reader(body), Supported::new());
        for _ in 0..body.short()? {
            let words = found.entry(text(body.short_bytes()?)).or_default();
            for _ in 0..body.short()? {
                words.push(text(body.short_bytes()?));
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
        assert_eq!(startup_body(None, false), b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0");
        assert_eq!(
            startup_body(Some("lz4"), false),
            b"\0\x02\0\x0bCQL_VERSION\0\x053.0.0\0\x0bCOMPRESSION\0\x03lz4"
        );
        let tablets = startup_body(None, true);
        assert!(tablets.ends_with(b"3.0.0\0\x12TABLETS_ROUTING_V1\0\0"), "{tablets:?}");
        assert_eq!(query_body("USE k", &[], Consistency::One), b"\0\0\0\x05USE k\0\x01\0");
        assert_eq!(
            query_body("?", &["ab"], Consistency::LocalOne),
            b"\0\0\0\x01?\0\x0a\x01\0\x01\0\0\0\x02ab"
        );
    }

    #[test]
    fn a_node_supports_options_with_words() {
        let mut body = 2_u16.to_be_bytes().to_vec();
        for (name, words) in [("CQL_VERSION", &["3.4.7"][..]), ("COMPRESSION", &["lz4", "snappy"])]
        {
            put_short(&mut body, name.as_bytes());
            body.extend_from_slice(&(words.len() as u16).to_be_bytes());
            words.iter().for_each(|word| put_short(&mut body, word.as_bytes()));
        }
        let found = supported(&body).unwrap();
        assert_eq!(found["COMPRESSION"], ["lz4", "snappy"]);
        assert_eq!(found["CQL_VERSION"], ["3.4.7"]);
        assert!((0..body.len()).all(|end| supported(&body[..end]).is_err()));
    }
}
