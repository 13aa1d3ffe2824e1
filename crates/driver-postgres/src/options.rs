//! The options of this driver, in one table for parsing and documentation, and the protocol of its
//! connections.

use std::io::{Read as _, Write as _};

use kvmark_driver::OpenError;
use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver_server::Servers;
use kvmark_driver_server::framed::{Exchanges as _, Ordered, Server, Stream};
use kvmark_plan::Outcome;

use crate::connect::login;
use crate::failure::{Failure, ended};
use crate::message::{Messages, Scan};

/// The port of PostgreSQL.
pub(crate) const PORT: u16 = 5432;
/// The user without the option.
const USER: &str = "postgres";

/// The request for TLS, which the server answers with one byte.
const SSL_REQUEST: &[u8] = &[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// The parsed options, and what each connection prepares.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) servers: Servers,
    pub(crate) username: String,
    /// Settings of the server's sessions, by name.
    pub(crate) parameters: Vec<(&'static str, String)>,
    /// The requests that each connection begins with.
    pub(crate) preparation: Vec<u8>,
}

impl Server for Settings {
    type Scan = Scan;

    const OPTIONS: &'static [OptionDoc] = &[
        option("address", Accepts::Text("host:port or a socket's path"), Some("127.0.0.1:5432"))
            .meaning("The server: [user:password@]host[:port], or a Unix socket's path."),
        option("database", Accepts::Text("a database's name"), None)
            .meaning("The database, which must exist; else the one of the user's name."),
        option(
            "synchronous_commit",
            Accepts::Words(&["off", "local", "remote_write", "on", "remote_apply"]),
            None,
        )
        .meaning("What an acknowledged write waits for; else the server's own setting."),
    ];

    fn new(given: Given) -> Result<Self, OpenError> {
        let servers = Servers::given(&given, PORT)?.only()?;
        let username = servers.credentials.username.clone().unwrap_or_else(|| USER.to_owned());
        let database = given.text("database").unwrap_or(&username);
        let fixed = [
            ("user", username.as_str()),
            ("database", database),
            ("application_name", "kvmark"),
            ("client_encoding", "UTF8"),
        ];
        let own = given.text("synchronous_commit").map(|word| ("synchronous_commit", word));
        let parameters = fixed.into_iter().chain(own);
        let parameters = parameters.map(|(name, value)| (name, value.to_owned())).collect();
        Ok(Self { servers, parameters, preparation: Vec::new(), username })
    }

    fn servers(&self) -> &Servers {
        &self.servers
    }

    fn request_tls(&self, stream: &mut Stream) -> Result<(), Failure> {
        let mut answer = [0];
        let asked = stream.write_all(SSL_REQUEST).and_then(|()| stream.read_exact(&mut answer));
        match asked {
            Err(error) => Err(Failure::broken(&error)),
            Ok(()) if answer == *b"S" => Ok(()),
            Ok(()) => Err(Failure::new(Outcome::Refused, "it doesn't speak TLS: leave tls out")),
        }
    }

    fn introduce(&self, stream: &mut Stream) -> Result<(), Failure> {
        login(stream, self)?;
        if !self.preparation.is_empty() {
            Self::send(stream, &self.preparation)?;
        }
        Ok(())
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

    fn check(reply: &[u8]) -> Result<(), Failure> {
        let error = Messages(reply).find(|(tag, _)| *tag == b'E');
        error.map_or(Ok(()), |(_, error)| Err(ended(error)))
    }
}
