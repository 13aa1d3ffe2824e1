//! Opening connections to nodes: protocol options, login and keyspace.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kvmark_driver_server::Failure;
use kvmark_driver_server::framed::{Numbered, Protocol, Stream, ask};
use kvmark_driver_server::timers::Deadline;
use kvmark_plan::Outcome;
use rustls::pki_types::ServerName;
use scylla::statement::Consistency;
use scylla_cql::frame::SerializedRequest;
use scylla_cql::frame::request::query::QueryParameters;
use scylla_cql::frame::request::{
    AuthResponse, Options, Query, RequestOpcode, SerializableRequest, Startup,
};
use scylla_cql::frame::response::Supported;
use scylla_cql_core::frame::response::error::Error;

use crate::failure::{db_error, impossible, missing_login, refused};
use crate::frame::{
    self, AUTH_SUCCESS, AUTHENTICATE, ERROR, Frame, READY, RESULT, SUPPORTED, cut_off,
};
use crate::records::quoted;
use crate::settings::Settings;

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

    fn dial(&self, target: &SocketAddr, deadline: Deadline) -> Result<Stream, Failure> {
        let mut stream = Stream::tcp(*target, self.settings.tcp_nodelay, deadline)?;
        if let Some(tls) = &self.settings.tls {
            stream = stream.encrypted(tls, ServerName::IpAddress(target.ip().into()))?;
        }
        self.introduce(&mut stream)?;
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

impl Wire {
    /// Negotiates options, logs in and selects the keyspace.
    fn introduce(&self, stream: &mut Stream) -> Result<(), Failure> {
        let mut options = HashMap::from([("CQL_VERSION".into(), "3.0.0".into())]);
        if let Some(compression) = self.settings.compression {
            self.check_compression(stream, compression.as_str())?;
            options.insert("COMPRESSION".into(), compression.as_str().into());
        }
        let (answer, _) = self.ask(stream, &Startup { options }, &[READY, AUTHENTICATE])?;
        if answer == AUTHENTICATE {
            self.log_in(stream)?;
        }
        if let Some(name) = &self.keyspace {
            self.query(stream, &format!("USE {}", quoted(name)), Consistency::One)?;
        }
        Ok(())
    }

    /// Checks that the node supports a compression.
    fn check_compression(&self, stream: &mut Stream, compression: &str) -> Result<(), Failure> {
        let (_, body) = self.ask(stream, &Options, &[SUPPORTED])?;
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
        let response = Some(format!("\0{username}\0{}", password.reveal()).into_bytes());
        self.ask(stream, &AuthResponse { response }, &[AUTH_SUCCESS]).map(drop)
    }

    /// Sends a request. Returns the opcode and the body of its reply; `answers` are valid opcodes.
    fn ask<R: SerializableRequest>(
        &self,
        stream: &mut Stream,
        request: &R,
        answers: &[u8],
    ) -> Result<(u8, Vec<u8>), Failure> {
        let request = SerializedRequest::make(request, None, false);
        let request = request.map_err(|error| Failure::new(Outcome::Refused, error.to_string()))?;
        let is_answer = |frame: &[u8]| !Frame::read(frame).is_event();
        let bytes = ask::<Self>(stream, request.get_data(), is_answer)?;
        let frame = Frame::read(&bytes);
        let body = frame.body(self.settings.compression, |_| ())?;
        match frame.opcode {
            ERROR => {
                let Error { error, reason } = db_error(&body)?;
                // The node's message might repeat the login.
                let is_login = R::OPCODE == RequestOpcode::AuthResponse;
                Err(refused(&error, if is_login { "" } else { &reason }))
            }
            opcode if answers.contains(&opcode) => Ok((opcode, body.into_owned())),
            opcode => Err(impossible(format!("opcode {opcode} isn't expected"))),
        }
    }

    /// The body of a statement's result.
    pub(crate) fn query(
        &self,
        stream: &mut Stream,
        cql: &str,
        consistency: Consistency,
    ) -> Result<Vec<u8>, Failure> {
        let parameters = QueryParameters { consistency, ..QueryParameters::default() };
        let query = Query { contents: cql.into(), parameters };
        Ok(self.ask(stream, &query, &[RESULT])?.1)
    }
}

/// The compressions in a SUPPORTED reply.
pub(crate) fn compressions(mut body: &[u8]) -> Result<Vec<String>, Failure> {
    let mut supported = Supported::deserialize(&mut body).map_err(|_| cut_off())?;
    Ok(supported.options.remove("COMPRESSION").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::put_short;

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
