//! Requests with AWS Signature Version 4. Source: IAM User Guide, "Create a signed AWS API
//! request".
//!
//! The signing key is derived once per day. The start of the canonical request is hashed once, the
//! rest per request: the time, the action, and the body's hash.

use std::io::Write;
use std::sync::Arc;

use kvmark_driver_server::{Secret, Target};
use ring::digest::{self, SHA256};
use ring::hmac::{self, HMAC_SHA256};

use crate::options::Settings;

const CONTENT_TYPE: &str = "application/x-amz-json-1.0";
/// The version of the API.
pub(crate) const VERSION: &str = "20120810";

const DAY_S: i64 = 24 * 60 * 60;

/// An instant, in microseconds since the Unix epoch, as `YYYYMMDDTHHMMSSZ`.
fn timestamp(at_us: i64) -> [u8; 16] {
    let at_s = at_us.div_euclid(1_000_000);
    let (year, month, day) = date(at_s.div_euclid(DAY_S));
    let second = at_s.rem_euclid(DAY_S);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let mut text = [0; 16];
    write!(&mut text[..], "{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
        .expect("the text of a year before 10000 has 16 bytes");
    text
}

/// Year, month and day of the Gregorian calendar, from the days since the Unix epoch. Years begin
/// in March here, so that a leap day is the last one.
const fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (is_next, day) = (month >= 10, of_year - (153 * month + 2) / 5 + 1);
    let month = if is_next { month - 9 } else { month + 3 };
    (year + era * 400 + is_next as i64, month, day)
}

fn hexadecimal(bytes: &[u8]) -> [u8; 64] {
    let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
    let mut text = [0; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xF)]);
    }
    text
}

fn ascii(text: &[u8]) -> &str {
    str::from_utf8(text).expect("digits and letters are UTF-8")
}

/// The key of one day.
struct DayKey {
    /// Day, region and service.
    scope: String,
    key: hmac::Key,
}

impl DayKey {
    fn new(day: &[u8], secret: &Secret, region: &str, service: &str) -> Self {
        let scope = format!("{}/{region}/{service}/aws4_request", ascii(day));
        let key = |bytes: &[u8]| hmac::Key::new(HMAC_SHA256, bytes);
        let first = key(format!("AWS4{}", secret.reveal()).as_bytes());
        let next = |last, part: &str| key(hmac::sign(&last, part.as_bytes()).as_ref());
        Self { key: scope.split('/').fold(first, next), scope }
    }

    /// The signature of a canonical request with this hash.
    fn signature(&self, time: &[u8], canonical: &digest::Digest) -> [u8; 64] {
        let (scope, hash) = (self.scope.as_bytes(), hexadecimal(canonical.as_ref()));
        let mut context = hmac::Context::with_key(&self.key);
        for part in [&b"AWS4-HMAC-SHA256\n"[..], time, b"\n", scope, b"\n", &hash] {
            context.update(part);
        }
        hexadecimal(context.sign().as_ref())
    }
}

/// Writes signed requests to one server.
pub(crate) struct Requests {
    settings: Arc<Settings>,
    day: Option<DayKey>,
    /// The headers that don't change.
    head: String,
    /// The canonical request up to the time, and its parts around the action.
    canonical: digest::Context,
    parts: [String; 2],
}

impl Requests {
    pub(crate) fn new(settings: Arc<Settings>, target: &Target) -> Self {
        let mut host = target.to_string();
        if target.host().is_none() {
            "localhost".clone_into(&mut host);
        } else if let (true, Some(name)) =
            (settings.servers.tls.is_some(), host.strip_suffix(":443"))
        {
            host = name.to_owned();
        }
        let (mut token, mut signed) = (String::new(), String::new());
        let mut head =
            format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: {CONTENT_TYPE}\r\n");
        if let Some(secret) = &settings.token {
            head += &format!("X-Amz-Security-Token: {}\r\n", secret.reveal());
            token = format!("\nx-amz-security-token:{}", secret.reveal());
            signed += ";x-amz-security-token";
        }
        let mut canonical = digest::Context::new(&SHA256);
        let start = format!("POST\n/\n\ncontent-type:{CONTENT_TYPE}\nhost:{host}\nx-amz-date:");
        canonical.update(start.as_bytes());
        let signed = format!("content-type;host;x-amz-date{signed};x-amz-target");
        let parts = [format!("{token}\nx-amz-target:DynamoDB_{VERSION}."), signed];
        Self { settings, day: None, head, canonical, parts }
    }

    /// Writes a request at an instant, in microseconds since the Unix epoch.
    pub(crate) fn put(&mut self, output: &mut Vec<u8>, action: &str, body: &[u8], at_us: i64) {
        let Self { settings, day, head, canonical, parts: [before, signed] } = self;
        let Settings { access_key, secret, region, .. } = &**settings;
        let time = timestamp(at_us);
        let today = &time[..8];
        if day.as_ref().is_none_or(|day| !day.scope.as_bytes().starts_with(today)) {
            *day = Some(DayKey::new(today, secret, region, "dynamodb"));
        }
        let day = day.as_ref().expect("the key was derived");
        let mut canonical = canonical.clone();
        let hash = hexadecimal(digest::digest(&SHA256, body).as_ref());
        for part in [ascii(&time), before, action, "\n\n", signed, "\n", ascii(&hash)] {
            canonical.update(part.as_bytes());
        }
        let signature = day.signature(&time, &canonical.finish());
        write!(
            output,
            "{head}X-Amz-Date: {}\r\nX-Amz-Target: DynamoDB_{VERSION}.{action}\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential={access_key}/{}, SignedHeaders={signed}, \
             Signature={}\r\nContent-Length: {}\r\n\r\n",
            ascii(&time),
            day.scope,
            ascii(&signature),
            body.len()
        )
        .expect("a write into a vector succeeds");
        output.extend_from_slice(body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_US: i64 = 1_440_938_160_000_000;

    fn time(at_us: i64) -> String {
        ascii(&timestamp(at_us)).to_owned()
    }

    #[test]
    fn an_instant_has_its_date_and_time() {
        let day_us = DAY_S * 1_000_000;
        let cases = [
            (0, "19700101T000000Z"),
            (AT_US, "20150830T123600Z"),
            (951_782_399_999_999, "20000228T235959Z"),
            (951_782_400_000_000, "20000229T000000Z"),
            (951_782_400_000_000 + day_us, "20000301T000000Z"),
            (4_107_542_400_000_000, "21000301T000000Z"),
            (4_107_542_399_000_000, "21000228T235959Z"),
            (1_735_689_599_000_000, "20241231T235959Z"),
        ];
        for (at_us, expected) in cases {
            assert_eq!(time(at_us), expected);
        }
    }

    /// The requests and signatures that AWS published: `post-x-www-form-urlencoded`,
    /// `post-vanilla` and `post-sts-header-before` of the test suite, and the guide's example.
    #[test]
    fn the_published_requests_have_the_published_signatures() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let token = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBu\
                     FqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUp\
                     p2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q\
                     6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4\
                     rvx3iSIlTJabIQwj2ICCR/oLxBA==";
        let start = "host:example.amazonaws.com\nx-amz-date:20150830T123600Z\n";
        let form = "application/x-www-form-urlencoded";
        let body = hexadecimal(digest::digest(&SHA256, b"Param1=value1").as_ref());
        let body = ascii(&body);
        let cases = [
            (
                "service",
                format!("POST\n/\n\n{start}\nhost;x-amz-date\n{empty}"),
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "service",
                format!(
                    "POST\n/\n\n{start}x-amz-security-token:{token}\n\n\
                     host;x-amz-date;x-amz-security-token\n{empty}"
                ),
                "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
            ),
            (
                "service",
                format!(
                    "POST\n/\n\ncontent-type:{form}\n{start}\n\
                     content-type;host;x-amz-date\n{body}"
                ),
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
            (
                "iam",
                format!(
                    "GET\n/\nAction=ListUsers&Version=2010-05-08\ncontent-type:{form}; \
                     charset=utf-8\nhost:iam.amazonaws.com\nx-amz-date:20150830T123600Z\n\n\
                     content-type;host;x-amz-date\n{empty}"
                ),
                "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
            ),
        ];
        for (service, canonical, expected) in cases {
            let secret = Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned());
            let hash = digest::digest(&SHA256, canonical.as_bytes());
            let key = DayKey::new(b"20150830", &secret, "us-east-1", service);
            assert_eq!(ascii(&key.signature(&timestamp(AT_US), &hash)), expected, "{canonical}");
        }
    }
}
