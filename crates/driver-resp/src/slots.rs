//! The slots of a Redis Cluster: the slot of a key and the server of a slot.
//!
//! Source: the Redis Cluster specification. The slot of a key is its CRC-16 (XMODEM: polynomial
//! 0x1021, no inversion) modulo 16384. If a key has a non-empty part between the first `{` and the
//! next `}`, only this part counts.

use std::ops::RangeInclusive;

use kvmark_driver_server::{HostPort, Target};

use crate::commands::aggregate;
use crate::failure::Failure;
use kvmark_wire::resp::{Cursor, Garbage, Token};

/// The number of slots of a cluster.
pub(crate) const SLOTS: usize = 16_384;

/// The command that returns the map of the slots.
pub(crate) const CLUSTER_SLOTS: [&str; 2] = ["CLUSTER", "SLOTS"];

/// Contiguous slots and their server.
pub(crate) type Share = (RangeInclusive<u16>, Target);

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 0x8000 == 0 { value << 1 } else { (value << 1) ^ 0x1021 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The slot of a key.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS as u16
}

/// The part of a key that determines its slot.
fn tag(key: &[u8]) -> &[u8] {
    let inside = || {
        let start = key.iter().position(|byte| *byte == b'{')? + 1;
        let length = key[start..].iter().position(|byte| *byte == b'}')?;
        Some(&key[start..start + length])
    };
    inside().filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// Parses the reply to CLUSTER SLOTS from the server `asked`, which may omit its host.
pub(crate) fn read_shares(reply: &[u8], asked: &Target) -> Result<Vec<Share>, Failure> {
    let mut cursor = Cursor::new(reply);
    let count = aggregate(&mut cursor, "CLUSTER SLOTS")?;
    let shares: Result<Vec<_>, Garbage> = (0..count).map(|_| share(&mut cursor, asked)).collect();
    Ok(shares?)
}

fn share(cursor: &mut Cursor<'_>, asked: &Target) -> Result<Share, Garbage> {
    let parts = cursor.elements()?;
    let slots = slot(cursor)?..=slot(cursor)?;
    let details = cursor.elements()?;
    let host = cursor.text()?.map(String::from_utf8_lossy).filter(|host| {
        // A server without a configured name returns an empty text or a question mark.
        !host.is_empty() && host != "?"
    });
    let host = match (host, asked) {
        (Some(host), _) => host.into_owned(),
        (None, Target::Tcp(asked)) => asked.host.clone(),
        (None, Target::Unix(_)) => return Err(Garbage),
    };
    let port = number(cursor)?.try_into().map_err(|_| Garbage)?;
    let rest = details.checked_sub(2).zip(parts.checked_sub(3)).ok_or(Garbage)?;
    cursor.skip(rest.0 + rest.1)?;
    Ok((slots, Target::Tcp(HostPort { host, port })))
}

fn slot(cursor: &mut Cursor<'_>) -> Result<u16, Garbage> {
    let slot = u16::try_from(number(cursor)?).map_err(|_| Garbage)?;
    if usize::from(slot) < SLOTS { Ok(slot) } else { Err(Garbage) }
}

fn number(cursor: &mut Cursor<'_>) -> Result<i64, Garbage> {
    match cursor.token()? {
        Token::Integer(number) => Ok(number),
        _ => Err(Garbage),
    }
}

/// The redirection of a command to another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) slot: u16,
    /// Whether the slot has moved permanently; if not, only this command is redirected.
    pub(crate) moved: bool,
    pub(crate) to: Target,
}

impl Redirect {
    /// Parses a reply; `None` if it isn't a redirection.
    pub(crate) fn read(reply: &[u8], asked: &Target) -> Option<Self> {
        if reply.first() != Some(&b'-') {
            return None;
        }
        let text = std::str::from_utf8(reply).ok()?;
        let mut words = text.split_ascii_whitespace();
        let moved = match words.next()? {
            "-MOVED" => true,
            "-ASK" => false,
            _ => return None,
        };
        let slot = words.next()?.parse().ok().filter(|slot| usize::from(*slot) < SLOTS)?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = match asked {
            Target::Tcp(asked) if host.is_empty() || host == "?" => asked.host.clone(),
            _ => host.to_owned(),
        };
        let to = Target::Tcp(HostPort { host, port: port.parse().ok()? });
        Some(Self { slot, moved, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, port: u16) -> Target {
        Target::Tcp(HostPort { host: host.to_owned(), port })
    }

    #[test]
    fn a_slot_is_the_crc_of_the_specification() {
        // The check value of the specification, and slots that CLUSTER KEYSLOT of Redis 7.0 gives.
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"123456789"), 12_739);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b""), 0);
    }

    #[test]
    fn only_the_first_non_empty_hash_tag_counts() {
        let same = |one: &str, other: &str| slot_of(one.as_bytes()) == slot_of(other.as_bytes());
        assert!(same("{user1000}.following", "{user1000}.followers"));
        assert!(same("foo{bar}{zap}", "bar"));
        assert!(same("foo{{bar}}zap", "{bar"));
        assert_eq!(tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(tag(b"foo{bar"), b"foo{bar");
    }

    #[test]
    fn shares_are_read_with_their_primary_only() {
        let reply = b"*2\r\n\
            *4\r\n:0\r\n:5460\r\n*4\r\n$1\r\na\r\n:7000\r\n$2\r\nid\r\n*2\r\n$1\r\nh\r\n$1\r\nx\r\n\
            *3\r\n$1\r\nb\r\n:7003\r\n$2\r\nid\r\n\
            *3\r\n:5461\r\n:16383\r\n*3\r\n$0\r\n\r\n:7001\r\n$2\r\nid\r\n";
        let shares = read_shares(reply, &target("asked", 1)).unwrap();
        assert_eq!(shares, [(0..=5460, target("a", 7000)), (5461..=16383, target("asked", 7001))]);
        let error =
            read_shares(b"-ERR This instance has cluster support disabled\r\n", &shares[0].1);
        assert!(error.unwrap_err().text.contains("cluster support disabled"));
        assert!(read_shares(b"*1\r\n*2\r\n:0\r\n:16384\r\n", &shares[0].1).is_err());
    }

    #[test]
    fn a_redirection_names_slot_and_server() {
        let asked = target("h", 1);
        let read = |reply: &[u8]| Redirect::read(reply, &asked);
        let moved = Redirect { slot: 3999, moved: true, to: target("127.0.0.1", 6381) };
        assert_eq!(read(b"-MOVED 3999 127.0.0.1:6381\r\n"), Some(moved));
        let ask = Redirect { slot: 7, moved: false, to: target("h", 6381) };
        assert_eq!(read(b"-ASK 7 :6381\r\n"), Some(ask));
        let v6 = read(b"-MOVED 1 ::1:7000\r\n").unwrap();
        assert_eq!(v6.to, target("::1", 7000));
        for other in [&b"-ERR no\r\n"[..], b"-MOVED 16384 a:1\r\n", b"-MOVED\r\n", b"+OK\r\n"] {
            assert_eq!(read(other), None);
        }
    }
}
