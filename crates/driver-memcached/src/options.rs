//! The options of this driver, in one table for parsing and documentation, and the protocol of its
//! connections.

use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver::{OpenError, Speedup};
use kvmark_driver_server::framed::{Server, Stream, ask};
use kvmark_driver_server::{Secret, Servers, TlsProbe};
use kvmark_plan::Kind;
use kvmark_wire::memcached::{Answer, Scan, answer};

use crate::failure::{Failure, refused, refused_login};
use crate::keys::is_word;

/// The port of memcached.
pub(crate) const PORT: u16 = 11211;
/// The longest time to live: memcached reads a greater number as a date.
const TTL_MAX_S: i64 = 30 * 24 * 60 * 60;

/// Suggested if updates dominate the time.
pub(crate) const REPLACING: Speedup = Speedup {
    option: "update=replace",
    kinds: &[Kind::Update],
    meaning: "writes the given fields as the whole record at once, as YCSB does, so that the \
              others are lost",
};

/// The parsed options.
#[derive(Debug)]
pub struct Settings {
    pub(crate) servers: Servers,
    pub(crate) login: Option<(String, Secret)>,
    pub(crate) replaces: bool,
    pub(crate) ttl_s: u64,
}

impl Server for Settings {
    type Scan = Scan;

    const OPTIONS: &'static [OptionDoc] = &[
        option("address", Accepts::Text("host:port or a socket's path"), Some("127.0.0.1:11211"))
            .meaning(
                "The servers: [user:password@]host[:port][,host[:port]…], among which keys are \
                 distributed, or a Unix socket's path.",
            ),
        option("update", Accepts::Words(&["merge", "replace"]), Some("merge")).meaning(
            "What an update of some fields does: merge reads the record and writes it whole unless \
             another client did since (gets, cas); replace writes the given fields alone, as YCSB \
             does, and the others are lost.",
        ),
        option("ttl_s", Accepts::Whole { min: 0, max: TTL_MAX_S }, Some("0"))
            .meaning("Seconds that a written record lives; 0 for ever."),
    ];
    const TLS_PROBE: Option<TlsProbe> =
        Some(TlsProbe { request: b"version\r\n", without: "leave tls out", with: "give tls=true" });

    fn new(given: Given) -> Result<Self, OpenError> {
        let servers = Servers::given(&given, PORT)?;
        let wrong = |text: String| Err(OpenError::Option(text));
        let login = servers.credentials.login()?;
        if login.as_ref().is_some_and(|(name, _)| !is_word(name.as_bytes())) {
            return wrong("a user of memcached has no blanks: give another username".to_owned());
        }
        let targets = &servers.targets;
        let twice = (1..targets.len()).find(|index| targets[..*index].contains(&targets[*index]));
        if let Some(index) = twice {
            let target = &targets[index];
            return wrong(format!("option 'address' names {target} twice: leave one out"));
        }
        let ttl_s = given.whole("ttl_s").expect("it has a default");
        Ok(Self { servers, login, replaces: given.text("update") == Some("replace"), ttl_s })
    }

    fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Logs in by a `set` of any key, or at least checks that the server answers. A server without
    /// users would store the login, so its time to live is negative.
    fn introduce(&self, stream: &mut Stream) -> Result<(), Failure> {
        let Some((username, password)) = &self.login else {
            return Self::send(stream, b"version\r\n").map(drop);
        };
        let token = format!("{username} {}", password.reveal());
        let login = format!("set login 0 -1 {}\r\n{token}\r\n", token.len());
        let reply = ask::<Self>(stream, login.as_bytes(), |_| true)?;
        match answer(&reply)? {
            Answer::Done => Ok(()),
            Answer::Error(line) => Err(refused_login(line)),
            _ => Err(Failure::unexpected_reply("the login")),
        }
    }

    #[inline]
    fn scan(scan: &mut Scan, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        scan.advance(bytes).map_err(Failure::from)
    }

    fn check(reply: &[u8]) -> Result<(), Failure> {
        match answer(reply)? {
            Answer::Error(line) => Err(refused(line)),
            _ => Ok(()),
        }
    }
}
