//! Opening connections to nodes: protocol options, login and keyspace.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kvmark_driver_server::Failure;
use kvmark_driver_server::framed::{Numbered, Protocol, Stream, ask};
use kvmark_plan::Outcome;
use scylla::statement::Consistency;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::failure::{impossible, refused_by, refused_login};
use crate::frame::{
    self, AUTH_RESPONSE, AUTH_SUCCESS, AUTHENTICATE, ERROR, Frame, OPTIONS, QUERY, READY, RESULT,
    Reader, STARTUP, SUPPORTED, cut_off, put_long, put_short,
};
use crate::records::quoted;
use crate::settings::Settings;

/// The required option of a STARTUP request.
const CQL_VERSION: (&str, &str) = ("CQL_VERSION", "3.0.0");

/// The settings of connections to nodes.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) settings: Arc<Settings>,
    /// The default keyspace.
    pub(crate) keyspace: Option<String>,
}

impl Protocol for Wire {
    type Target = SocketAddr;
    type Exchanges = Numbered;
    type Scan = ();

    /// A node that returns is used again.
    const REOPENS: bool = true;

    async fn dial(&self, target: &SocketAddr) -> Result<Stream, Failure> {
        let mut stream = Stream::tcp(*target, self.settings.tcp_nodelay).await?;
        if let Some(tls) = &self.settings.tls {
            stream = stream.encrypted(&tls.0, ServerName::IpAddress(target.ip().into())).await?;
        }
        let mut talk = Talk { stream: &mut stream, settings: &self.settings };
        talk.introduce(self.keyspace.as_deref()).await?;
        Ok(stream)
    }

    fn connect_timeout(&self) -> Duration {
        self.settings.connect_timeout
    }

    fn reconnect_max(&self) -> Duration {
        self.settings.reconnect_max
    }

    #[inline]
    fn scan((): &mut (), bytes: &[u8]) -> Result<Option<usize>, Failure> {
        frame::scan(bytes)
    }
}

/// A connection for requests in sequence.
struct Talk<'a> {
    stream: &'a mut Stream,
    settings: &'a Settings,
}

impl Talk<'_> {
    /// Negotiates options, logs in and selects the keyspace.
    async fn introduce(&mut self, keyspace: Option<&str>) -> Result<(), Failure> {
        let mut words = vec![CQL_VERSION];
        if let Some(compression) = self.settings.compression {
            self.check_compression(compression.as_str()).await?;
            words.push(("COMPRESSION", compression.as_str()));
        }
        let mut body = (words.len() as u16).to_be_bytes().to_vec();
        for (name, word) in words {
            put_short(&mut body, name.as_bytes());
            put_short(&mut body, word.as_bytes());
        }
        let (answer, _) = self.ask(STARTUP, &body, &[READY, AUTHENTICATE]).await?;
        if answer == AUTHENTICATE {
            self.log_in().await?;
        }
        if let Some(name) = keyspace {
            let cql = format!("USE {}", quoted(name));
            query(self.stream, self.settings, cql.as_bytes(), Consistency::One).await?;
        }
        Ok(())
    }

    /// Checks that the node supports a compression.
    async fn check_compression(&mut self, compression: &str) -> Result<(), Failure> {
        let (_, body) = self.ask(OPTIONS, &[], &[SUPPORTED]).await?;
        if compressions(&body).ok_or_else(cut_off)?.iter().any(|offered| offered == compression) {
            return Ok(());
        }
        let text = format!("it can't compress with {compression}: give compression=none");
        Err(Failure::new(Outcome::Refused, text))
    }

    async fn log_in(&mut self) -> Result<(), Failure> {
        let Some((username, password)) = &self.settings.login else {
            let text = "it wants a login: give username and password_env";
            return Err(Failure::new(Outcome::Refused, text));
        };
        let mut body = Vec::new();
        put_long(&mut body, format!("\0{username}\0{}", password.reveal()).as_bytes());
        self.ask(AUTH_RESPONSE, &body, &[AUTH_SUCCESS]).await.map(drop)
    }

    /// Sends a request. Returns the opcode and the body of its reply; `answers` are valid opcodes.
    async fn ask(
        &mut self,
        opcode: u8,
        body: &[u8],
        answers: &[u8],
    ) -> Result<(u8, Vec<u8>), Failure> {
        let mut request = Vec::with_capacity(frame::HEADER + body.len());
        frame::begin(&mut request, opcode);
        request.extend_from_slice(body);
        frame::set_length(&mut request);
        let is_answer = |frame: &[u8]| !Frame::read(frame).is_event();
        let bytes = ask::<Wire>(self.stream, &request, is_answer).await?;
        let frame = Frame::read(&bytes);
        let body = frame.body(self.settings.compression, |_| ())?;
        match frame.opcode {
            ERROR if opcode == AUTH_RESPONSE => Err(refused_login(&body)),
            ERROR => Err(refused_by(&body)),
            opcode if answers.contains(&opcode) => Ok((opcode, body.into_owned())),
            opcode => Err(impossible(format!("opcode {opcode} isn't expected"))),
        }
    }
}

/// The body of a statement's result.
pub(crate) async fn query(
    stream: &mut Stream,
    settings: &Settings,
    cql: &[u8],
    level: Consistency,
) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    put_long(&mut body, cql);
    body.extend_from_slice(&(level as u16).to_be_bytes());
    body.push(0);
    Ok(Talk { stream, settings }.ask(QUERY, &body, &[RESULT]).await?.1)
}

/// The compressions in a SUPPORTED reply.
pub(crate) fn compressions(body: &[u8]) -> Option<Vec<String>> {
    let mut body = Reader(body);
    let mut offered = Vec::new();
    for _ in 0..body.short()? {
        let name = body.short_bytes()?;
        for _ in 0..body.short()? {
            let word = body.short_bytes()?;
            if name == b"COMPRESSION" {
                offered.push(String::from_utf8_lossy(word).into_owned());
            }
        }
    }
    Some(offered)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!((0..body.len()).all(|end| compressions(&body[..end]).is_none()));
    }
}
