//! The options of this driver, in one table for parsing and documentation, and the protocol of its
//! connections.

use kvmark_driver::OpenError;
use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver_server::framed::{Server, Stream};
use kvmark_driver_server::{Secret, Servers, TlsProbe};
use serde_json::{Map, Value, json};

use crate::connect::introduce;
use crate::failure::Failure;
use crate::message::{Answer, HELLO, complete, reply};

/// The port of MongoDB.
pub(crate) const PORT: u16 = 27017;

/// The parsed options.
#[derive(Debug)]
pub struct Settings {
    pub(crate) servers: Servers,
    pub(crate) database: String,
    pub(crate) login: Option<(String, Secret)>,
    /// The database that has the user.
    pub(crate) source: String,
    /// The members of the write concern, if any.
    pub(crate) concern: Map<String, Value>,
}

impl Server for Settings {
    type Scan = ();

    const OPTIONS: &'static [OptionDoc] = &[
        option("address", Accepts::Text("host:port or a socket's path"), Some("127.0.0.1:27017"))
            .meaning("The primary: [user:password@]host[:port], or a Unix socket's path."),
        option("database", Accepts::Text("a database's name"), Some("ycsb"))
            .meaning("The database."),
        option("auth_source", Accepts::Text("a database's name"), None).meaning(
            "The database that has the user; else the given database, or admin without one.",
        ),
        option("w", Accepts::Text("a number of servers from 1, or majority"), None).meaning(
            "The servers that must have a write before it is acknowledged; else the server's own \
             setting.",
        ),
        option("journal", Accepts::SWITCH, None).meaning(
            "Whether a write must be in the journal on disk before it is acknowledged; else the \
             server's own setting.",
        ),
    ];
    const TLS_PROBE: Option<TlsProbe> =
        Some(TlsProbe { request: HELLO, without: "leave tls out", with: "give tls=true" });

    fn new(given: Given) -> Result<Self, OpenError> {
        let servers = Servers::given(&given, PORT)?.only()?;
        let mut concern = Map::new();
        if let Some(word) = given.text("w") {
            let servers = word.parse().ok().filter(|servers: &u8| *servers > 0);
            let Some(w) = servers.map(Value::from).or((word == "majority").then(|| json!(word)))
            else {
                let text = format!(
                    "option 'w' can't be '{word}': give a number of servers from 1, or majority"
                );
                return Err(OpenError::Option(text));
            };
            concern.insert("w".to_owned(), w);
        }
        if given.text("journal").is_some() {
            concern.insert("j".to_owned(), given.switch("journal").into());
        }
        let source = given.text("auth_source").or_else(|| given.own("database"));
        Ok(Self {
            login: servers.credentials.login()?,
            servers,
            source: source.unwrap_or("admin").to_owned(),
            database: given.text("database").unwrap_or_default().to_owned(),
            concern,
        })
    }

    fn servers(&self) -> &Servers {
        &self.servers
    }

    fn introduce(&self, stream: &mut Stream) -> Result<(), Failure> {
        introduce(stream, self)
    }

    #[inline]
    fn scan((): &mut (), bytes: &[u8]) -> Result<Option<usize>, Failure> {
        complete(bytes)
    }

    fn check(frame: &[u8]) -> Result<(), Failure> {
        Answer::read(reply(frame)?.1)?.unconfirmed.map_or(Ok(()), Err)
    }
}
