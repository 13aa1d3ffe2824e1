//! The options of this driver, in one table for parsing and documentation, and the protocol of its
//! connections.

use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver::{OpenError, Speedup};
use kvmark_driver_server::framed::{Exchanges as _, Ordered, Server, Stream, ask};
use kvmark_driver_server::{Credentials, Servers, Target, TlsProbe};
use kvmark_plan::Kind;
use kvmark_wire::resp::{Cursor, Scan, Token, is_push, put_all};

use crate::failure::{Failure, refused, refused_login};

/// The port of the Redis protocol.
pub(crate) const PORT: u16 = 6379;

/// Suggested if the commands of an operation dominate the time.
pub(crate) const PARTS_TOGETHER: Speedup = Speedup {
    option: "pipeline_parts=true",
    kinds: &[Kind::Insert, Kind::Scan, Kind::Delete],
    meaning: "sends the commands of one operation together, where YCSB sends each when the one \
              before it is answered",
};

/// The parsed options.
#[derive(Debug)]
pub struct Settings {
    /// One server, or some servers of a cluster.
    pub(crate) servers: Servers,
    pub(crate) cluster: bool,
    pub(crate) pipeline_parts: bool,
    pub(crate) protocol: u64,
    pub(crate) database: u64,
}

impl Server for Settings {
    type Scan = Scan;

    const OPTIONS: &'static [OptionDoc] = &[
        option("address", Accepts::Text("host:port or a socket's path"), Some("127.0.0.1:6379"))
            .meaning(
                "The server: [user[:password]@]host[:port][/database], or a Unix socket's path; of \
                 a cluster any servers, as host:port,host:port.",
            ),
        option("cluster", Accepts::SWITCH, Some("false")).meaning(
            "Whether the server belongs to a Redis Cluster, whose slots are then followed.",
        ),
        option("pipeline_parts", Accepts::SWITCH, Some("false")).meaning(
            "Whether the commands of one operation (an insert, a delete, the reads of a scan) are \
             sent together; YCSB sends each when the one before it is answered.",
        ),
        option("protocol", Accepts::Whole { min: 2, max: 3 }, Some("2"))
            .meaning("Version of the protocol; 3 is asked for by HELLO."),
        option("database", Accepts::Whole { min: 0, max: i32::MAX as i64 }, Some("0"))
            .meaning("Number of the database, unless the address names one."),
    ];
    const TLS_PROBE: Option<TlsProbe> = Some(TlsProbe {
        request: b"PING\r\n",
        without: "use redis:// without tls",
        with: "use rediss://",
    });

    fn new(mut given: Given) -> Result<Self, OpenError> {
        let address = given.text("address").unwrap_or_default().to_owned();
        let (own, place) = Credentials::split_from(&address)?;
        let parts = place.split_once('/').filter(|(hosts, _)| !hosts.is_empty());
        let (hosts, database) = parts.unwrap_or((place, ""));
        let database = Some(database.to_owned()).filter(|text| !text.is_empty());
        given.take_from_address("database", database)?;
        let servers = Servers::at(hosts, own, &given, PORT)?;
        servers.credentials.check()?;
        let whole = |name| given.whole(name).expect("each of these has a default");
        let (cluster, database) = (given.switch("cluster"), whole("database"));
        check_cluster(cluster, &servers.targets, database)?;
        let pipeline_parts = given.switch("pipeline_parts");
        Ok(Self { servers, cluster, pipeline_parts, protocol: whole("protocol"), database })
    }

    fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Logs in and selects protocol and database, or at least checks that the server answers.
    fn introduce(&self, stream: &mut Stream) -> Result<(), Failure> {
        let Credentials { username, password } = &self.servers.credentials;
        let is_third = self.protocol == 3;
        let mut login = if is_third { vec!["HELLO", "3"] } else { Vec::new() };
        if let Some(password) = password {
            login.push("AUTH");
            login.extend(username.as_deref().or(is_third.then_some("default")));
            login.push(password.reveal());
        } else if !is_third && self.database == 0 {
            login.push("PING");
        }
        if !login.is_empty() {
            let reply = ask::<Self>(stream, &encoded(&login), Self::is_reply)?;
            match Cursor::new(&reply).token()? {
                Token::Error(message) if password.is_some() => return Err(refused_login(message)),
                Token::Error(message) => return Err(refused(message)),
                _ => {}
            }
        }
        if self.database != 0 {
            Self::send(stream, &encoded(&["SELECT", &self.database.to_string()]))?;
        }
        Ok(())
    }

    #[inline]
    fn scan(scan: &mut Scan, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        scan.advance(bytes).map_err(Failure::from)
    }

    /// A push message may come at any time.
    #[inline]
    fn may_come(exchanges: &Ordered, first: u8) -> bool {
        exchanges.awaits_frame() || first == b'>'
    }

    #[inline]
    fn is_reply(frame: &[u8]) -> bool {
        !is_push(frame)
    }

    fn check(reply: &[u8]) -> Result<(), Failure> {
        match Cursor::new(reply).token()? {
            Token::Error(message) => Err(refused(message)),
            _ => Ok(()),
        }
    }
}

/// Encodes a command.
pub(crate) fn encoded(command: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_all(&mut bytes, command);
    bytes
}

/// Checks that several servers form a cluster, which requires host names and has one database.
fn check_cluster(cluster: bool, targets: &[Target], database: u64) -> Result<(), OpenError> {
    let wrong = if !cluster && targets.len() > 1 {
        "option 'address' names several servers: set cluster to true, or give one host:port"
    } else if cluster && targets.iter().any(|target| matches!(target, Target::Unix(_))) {
        "a cluster can't be reached through a Unix socket: give host:port"
    } else if cluster && database != 0 {
        "a cluster has database 0 only: leave out the database"
    } else {
        return Ok(());
    };
    Err(OpenError::Option(wrong.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn parse(address: &str, cluster: bool) -> Result<Settings, String> {
        let options = [("address", address.into()), ("cluster", cluster.into())];
        let options: BTreeMap<_, _> = options.map(|(name, value)| (name.to_owned(), value)).into();
        Settings::parse(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_has_servers_and_may_have_user_password_and_database() {
        let cases = [
            ("example.org", false, "example.org:6379", 0),
            ("/run/redis.sock", false, "/run/redis.sock", 0),
            ("ann:sesame@host/7", false, "host:6379", 7),
            ("u:p@a:1,b,[::1]:3/0", true, "a:1 b:6379 [::1]:3", 0),
        ];
        for (address, cluster, expected, database) in cases {
            let Settings { servers, database: found, .. } = parse(address, cluster).unwrap();
            let targets: Vec<_> = servers.targets.iter().map(Target::to_string).collect();
            assert_eq!((targets.join(" ").as_str(), found), (expected, database));
            assert_eq!(servers.credentials.password.is_some(), address.contains('@'));
        }
    }

    #[test]
    fn an_invalid_address_is_rejected_without_showing_its_password() {
        let hosts = ["", "host:x", "host:0", "[::1", "host,,other"];
        for address in hosts.map(|hosts| format!("u:sesame@{hosts}")) {
            let error = parse(&address, false).unwrap_err();
            assert!(error.starts_with("option 'address' can't be"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
    }
}
