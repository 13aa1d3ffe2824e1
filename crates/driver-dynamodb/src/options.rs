//! The options of this driver, in one table for parsing and documentation, and the protocol of its
//! connections. Requests are signed, so a connection needs no login.

use std::env;

use kvmark_driver::OpenError;
use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver_server::framed::Server;
use kvmark_driver_server::{Credentials, Secret, Servers, TLS, TlsProbe};

use crate::failure::{Failure, is_error, refused};
use crate::http::Response;

/// The port of DynamoDB local and of ScyllaDB's Alternator.
pub(crate) const PORT: u16 = 8000;
/// The port with encryption, that of AWS.
const TLS_PORT: u16 = 443;

/// The ID and secret of an access key, and a session token.
type Identity = (String, Secret, Option<Secret>);

/// The given access key, or that of the environment. Servers without users accept any.
fn identity(
    given: Credentials,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Identity, OpenError> {
    let variable = |name| variable(name).filter(|text| is_word(text));
    let own = variable("AWS_ACCESS_KEY_ID").zip(variable("AWS_SECRET_ACCESS_KEY"));
    match (given, own) {
        (Credentials { username: Some(key), password: Some(secret) }, _) if is_word(&key) => {
            Ok((key, secret, None))
        }
        (Credentials { password: Some(_), .. }, _) => Err(OpenError::Option(
            "a secret belongs to an access key: give its ID as username".to_owned(),
        )),
        (_, Some((key, secret))) => {
            Ok((key, Secret::new(secret), variable("AWS_SESSION_TOKEN").map(Secret::new)))
        }
        (_, None) => Ok(("kvmark".to_owned(), Secret::new("kvmark".to_owned()), None)),
    }
}

/// Whether a text fits into a header.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The parsed options.
pub struct Settings {
    pub(crate) servers: Servers,
    /// The ID of the access key.
    pub(crate) access_key: String,
    pub(crate) secret: Secret,
    pub(crate) token: Option<Secret>,
    pub(crate) region: String,
    pub(crate) primary_key: String,
    /// Name and value of the partition key, if the primary key is the sort key.
    pub(crate) partition: Option<(String, String)>,
    pub(crate) is_consistent: bool,
    pub(crate) counts_capacity: bool,
}

impl Server for Settings {
    type Scan = ();

    const OPTIONS: &'static [OptionDoc] = &[
        option("address", Accepts::Text("host:port or a socket's path"), Some("127.0.0.1:8000"))
            .meaning(
                "The servers: [key ID:secret@]host[:port][,host[:port]…], which get the operations \
                 in turn, or a Unix socket's path. The port is 443 with tls.",
            ),
        option("region", Accepts::Text("a region"), Some("us-east-1"))
            .meaning("Region for which requests are signed."),
        option("primary_key", Accepts::Text("an attribute's name"), Some("_key"))
            .meaning("Attribute of the record's key, YCSB's dynamodb.primaryKey."),
        option("partition_key", Accepts::Text("an attribute's name"), None).meaning(
            "Partition key of a table whose sort key is primary_key, YCSB's dynamodb.hashKeyName; \
             all records are in one partition.",
        ),
        option("partition", Accepts::Text("a text"), Some("YCSB_0"))
            .meaning("Value of partition_key, YCSB's dynamodb.hashKeyValue."),
        option("consistent", Accepts::SWITCH, Some("false"))
            .meaning("Whether reads and scans are strongly consistent."),
        option("capacity", Accepts::SWITCH, Some("false")).meaning(
            "Whether responses report the consumed capacity units, whose sum is the statistic \
             capacity_units.",
        ),
    ];
    const TLS_PROBE: Option<TlsProbe> = Some(TlsProbe {
        request: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        without: "use dynamodb:// or leave tls out",
        with: "use dynamodbs:// or give tls=true",
    });

    fn new(given: Given) -> Result<Self, OpenError> {
        let port = if given.switch(TLS.name) { TLS_PORT } else { PORT };
        let servers = Servers::given(&given, port)?;
        servers.credentials.check()?;
        let credentials = servers.credentials.clone();
        let (access_key, secret, token) = identity(credentials, |name| env::var(name).ok())?;
        let text = |name| given.text(name).map(str::to_owned);
        Ok(Self {
            servers,
            access_key,
            secret,
            token,
            region: given.read("region")?,
            primary_key: given.read("primary_key")?,
            partition: text("partition_key").zip(text("partition")),
            is_consistent: given.switch("consistent"),
            counts_capacity: given.switch("capacity"),
        })
    }

    fn servers(&self) -> &Servers {
        &self.servers
    }

    fn scan((): &mut (), bytes: &[u8]) -> Result<Option<usize>, Failure> {
        Ok(Response::read(bytes)?.map(|response| response.length))
    }

    fn check(frame: &[u8]) -> Result<(), Failure> {
        let Response { status, body, .. } = Response::read(frame)?.expect("the frame is complete");
        if status == 200 && !is_error(&body) { Ok(()) } else { Err(refused(status, &body)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(given: Credentials, variables: &[(&str, &str)]) -> Result<String, String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, text)| (*text).to_owned())
        };
        let (key, secret, token) = identity(given, variable).map_err(|error| error.to_string())?;
        Ok(format!("{key} {} {}", secret.reveal(), token.as_ref().map_or("none", Secret::reveal)))
    }

    #[test]
    fn an_access_key_comes_from_the_options_or_else_from_the_environment() {
        let environment = [
            ("AWS_ACCESS_KEY_ID", "ENV"),
            ("AWS_SECRET_ACCESS_KEY", "sesame"),
            ("AWS_SESSION_TOKEN", "token"),
        ];
        let given = |key: Option<&str>| {
            let password = Some(Secret::new("own".to_owned()));
            Credentials { username: key.map(str::to_owned), password }
        };
        let none = Credentials::default;
        assert_eq!(shown(given(Some("OWN")), &environment).unwrap(), "OWN own none");
        assert_eq!(shown(none(), &environment).unwrap(), "ENV sesame token");
        assert_eq!(shown(none(), &environment[..2]).unwrap(), "ENV sesame none");
        assert_eq!(shown(none(), &environment[1..]).unwrap(), "kvmark kvmark none");
        for wrong in [None, Some("a b"), Some("a\r\nHost: x")] {
            let error = shown(given(wrong), &environment).unwrap_err();
            assert_eq!(error, "a secret belongs to an access key: give its ID as username");
        }
    }
}
