//! A server with a scripted behaviour, which checks the signature of each request.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use kvmark_driver::{Layout, OpenError};
use kvmark_driver_dynamodb::DynamoDb;
use kvmark_testing::layout;
use ring::digest::{SHA256, digest};
use ring::hmac::{HMAC_SHA256, Key, sign};
use serde_json::{Value, json};

pub(crate) const SECRET: &str = "sesame";

pub(crate) fn open(address: &str, options: Value) -> Result<DynamoDb, OpenError> {
    open_layout(address, options, &layout(3))
}

pub(crate) fn open_layout(
    address: &str,
    options: Value,
    layout: &Layout,
) -> Result<DynamoDb, OpenError> {
    let mut options: BTreeMap<String, Value> = serde_json::from_value(options).unwrap();
    options.insert("address".to_owned(), json!(format!("KEY:{SECRET}@{address}")));
    DynamoDb::open(&options, layout)
}

/// The error of a failed opening.
pub(crate) fn refusal(address: &str, options: Value) -> String {
    match open(address, options) {
        Ok(_) => panic!("{address} was opened"),
        Err(error) => error.to_string(),
    }
}

/// A response with this status and body.
pub(crate) fn response(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-LENGTH: {}\r\n\r\n{body}", body.len())
}

/// The description of a table with this key.
pub(crate) fn table(key: &[(&str, &str)]) -> String {
    let part = |(role, name): &(&str, &str)| json!({ "KeyType": role, "AttributeName": name });
    let key: Vec<_> = key.iter().map(part).collect();
    let table = json!({ "TableStatus": "ACTIVE", "KeySchema": key });
    response(200, &json!({ "Table": table }).to_string())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The signature that a request must have, by its headers in lower case.
fn signature(headers: &BTreeMap<String, String>, body: &[u8]) -> String {
    let authorization = &headers["authorization"];
    let part = |name: &str| {
        let after = authorization.split_once(&format!("{name}=")).unwrap().1;
        after.split(',').next().unwrap()
    };
    let names = part("SignedHeaders");
    let lines = names.split(';').map(|name| format!("{name}:{}\n", headers[name]));
    let hash = |bytes: &[u8]| hexadecimal(digest(&SHA256, bytes).as_ref());
    let canonical = format!("POST\n/\n\n{}\n{names}\n{}", lines.collect::<String>(), hash(body));
    let scope = part("Credential").strip_prefix("KEY/").unwrap();
    let text = format!(
        "AWS4-HMAC-SHA256\n{}\n{scope}\n{}",
        headers["x-amz-date"],
        hash(canonical.as_bytes())
    );
    let key = |bytes: &[u8]| Key::new(HMAC_SHA256, bytes);
    let first = key(format!("AWS4{SECRET}").as_bytes());
    let last =
        scope.split('/').fold(first, |last, part| key(sign(&last, part.as_bytes()).as_ref()));
    hexadecimal(sign(&last, text.as_bytes()).as_ref())
}

/// One connection of a scripted server.
pub(crate) struct Peer {
    input: BufReader<TcpStream>,
    output: TcpStream,
    heard: Arc<Mutex<Vec<String>>>,
    /// Whether it answers for the table itself.
    has_table: bool,
}

impl Peer {
    /// The action and the body of the next request; `None` when the client is gone.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let mut line = || {
            let mut line = String::new();
            self.input.read_line(&mut line).ok().filter(|length| *length > 0)?;
            Some(line.trim_end().to_owned())
        };
        assert_eq!(line()?, "POST / HTTP/1.1");
        let mut headers = BTreeMap::new();
        while let Some((name, value)) = line()?.split_once(": ") {
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        self.input.read_exact(&mut body).ok()?;
        let found = headers["authorization"].split_once("Signature=").unwrap().1;
        assert_eq!(found, signature(&headers, &body));
        assert_eq!(headers["host"], self.output.local_addr().unwrap().to_string());
        let action = headers["x-amz-target"].strip_prefix("DynamoDB_20120810.").unwrap();
        if self.has_table && action == "DescribeTable" {
            self.say(&table(&[("HASH", "_key")]));
            return self.hear();
        }
        let heard = format!("{action} {}", String::from_utf8(body).unwrap());
        self.heard.lock().unwrap().push(heard.clone());
        Some(heard)
    }

    pub(crate) fn say(&mut self, text: &str) {
        drop(self.output.write_all(text.as_bytes()));
    }

    /// Answers each request with a record whose field is `x`.
    pub(crate) fn echo(&mut self) {
        while self.hear().is_some() {
            self.say(&response(200, r#"{"Item":{"field0":{"S":"x"}}}"#));
        }
    }
}

/// A scripted server on a loopback port.
pub(crate) struct Server {
    pub(crate) address: String,
    /// The requests of sessions.
    pub(crate) heard: Arc<Mutex<Vec<String>>>,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    /// Runs a script on each connection, with its number from 0. The first connection is the
    /// driver's own; [`Server::of_sessions`] excludes it.
    pub(crate) fn new(script: impl Fn(usize, &mut Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let accepted = Arc::new(AtomicUsize::new(0));
        let (ears, counter, script) = (Arc::clone(&heard), Arc::clone(&accepted), Arc::new(script));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let output = stream.unwrap();
                output.set_nodelay(true).unwrap();
                let number = counter.fetch_add(1, Ordering::SeqCst);
                let input = BufReader::new(output.try_clone().unwrap());
                let mut peer = Peer { input, output, heard: Arc::clone(&ears), has_table: false };
                let script = Arc::clone(&script);
                thread::spawn(move || script(number, &mut peer));
            }
        });
        Self { address, heard, accepted }
    }

    /// Runs a script on each connection of a session, with its number from 0.
    pub(crate) fn of_sessions(script: impl Fn(usize, &mut Peer) + Send + Sync + 'static) -> Self {
        Self::new(move |number, peer| {
            peer.has_table = true;
            script(number.wrapping_sub(1), peer);
        })
    }

    /// The number of connections of sessions.
    pub(crate) fn session_connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst) - 1
    }
}
