//! A server with a scripted behaviour, which checks the signature of each request.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use kvmark_driver::OpenError;
use kvmark_driver_dynamodb::DynamoDb;
use kvmark_testing::client::{self, options_at};
use kvmark_testing::{Peer, Scripted, ServerSide, layout};
use ring::digest::{SHA256, digest};
use ring::hmac::{HMAC_SHA256, Key, sign};
use serde_json::{Value, json};

pub(crate) const SECRET: &str = "sesame";

pub(crate) fn open(address: &str, options: Value) -> Result<DynamoDb, OpenError> {
    let address = format!("KEY:{SECRET}@{address}");
    DynamoDb::open(&options_at(&address, options), &layout(3))
}

/// The error of a failed opening.
pub(crate) fn refusal(address: &str, options: Value) -> String {
    client::refusal(open(address, options))
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

pub(crate) type Server = Scripted<Http>;

pub(crate) struct Http;

impl ServerSide for Http {
    const LOGIN: Option<&'static str> = None;

    /// The action and the body of the next request.
    fn read(peer: &mut Peer<Self>) -> Option<String> {
        let mut line = || {
            let mut line = String::new();
            peer.input.read_line(&mut line).ok().filter(|length| *length > 0)?;
            Some(line.trim_end().to_owned())
        };
        assert_eq!(line()?, "POST / HTTP/1.1");
        let mut headers = BTreeMap::new();
        while let Some((name, value)) = line()?.split_once(": ") {
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        peer.input.read_exact(&mut body).ok()?;
        let found = headers["authorization"].split_once("Signature=").unwrap().1;
        assert_eq!(found, signature(&headers, &body));
        assert_eq!(headers["host"], format!("127.0.0.1:{}", peer.port()));
        let action = headers["x-amz-target"].strip_prefix("DynamoDB_20120810.").unwrap();
        Some(format!("{action} {}", String::from_utf8(body).unwrap()))
    }

    fn own_reply() -> String {
        table(&[("HASH", "_key")])
    }

    fn is_own(request: &str) -> bool {
        request.starts_with("DescribeTable ")
    }

    fn record_of(_: &str) -> String {
        response(200, r#"{"Item":{"field0":{"S":"x"}}}"#)
    }
}
