//! Keys: their validity and their servers.
//!
//! The server of a key is the unsigned Java hash code of the key modulo the number of servers. This
//! is the default of YCSB's client (spymemcached), so each tool finds the data of the other.
//! Servers are numbered in the order of the address.

use kvmark_driver_server::text::java_hash;
use kvmark_plan::Outcome;

use crate::failure::Failure;

/// Longest key of memcached.
pub(crate) const LENGTH_MAX: usize = 250;

/// Whether bytes are a valid word in a command.
#[inline]
pub(crate) fn is_word(bytes: &[u8]) -> bool {
    let ends = |byte: u8| byte <= b' ' || byte == 0x7f;
    !bytes.is_empty() && !bytes.iter().fold(false, |any, byte| any | ends(*byte))
}

/// Rejects an invalid key, after which memcached would read the rest as another command.
#[inline]
pub(crate) fn check(key: &[u8]) -> Result<(), Failure> {
    if key.len() <= LENGTH_MAX && is_word(key) { Ok(()) } else { Err(wrong(key)) }
}

#[cold]
fn wrong(key: &[u8]) -> Failure {
    let why = if key.len() > LENGTH_MAX {
        format!("the key has {} bytes, and memcached's keys have 250 at most", key.len())
    } else {
        let key = key.escape_ascii();
        format!("the key '{key}' is empty or has blanks or control characters")
    };
    Failure::new(Outcome::Refused, why)
}

/// The index of the server of a key.
#[inline]
pub(crate) fn server(key: &[u8], servers: usize) -> usize {
    if servers == 1 { 0 } else { java_hash(key).cast_unsigned() as usize % servers }
}

/// The keys of an operation, in reusable memory.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Keys {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the key that `append` writes, if it is valid.
    #[inline]
    pub(crate) fn add(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> Result<(), Failure> {
        let start = self.bytes.len();
        append(&mut self.bytes);
        check(&self.bytes[start..])?;
        self.ends.push(self.bytes.len() as u32);
        Ok(())
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    /// The key of this index.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &[u8] {
        let index = index as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[index] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_word_of_at_most_250_bytes() {
        let sentence = |key: &[u8]| check(key).err().map(|failure| failure.text);
        assert_eq!(sentence(&[b'k'; 250]), None);
        assert_eq!(sentence("schl\u{fc}ssel".as_bytes()), None);
        let long = "the key has 251 bytes, and memcached's keys have 250 at most";
        assert_eq!(sentence(&[b'k'; 251]).as_deref(), Some(long));
        for key in ["", "a b", "a\tb", "a\r\nflush_all", "a\x7f"] {
            let error = sentence(key.as_bytes()).unwrap();
            assert!(error.starts_with("the key '") && error.contains("control"), "{error}");
        }
    }

    #[test]
    fn the_server_of_a_key_is_its_unsigned_hash_code_modulo_the_number_of_servers() {
        // spymemcached computes hashCode() & 0xffffffffL modulo the number of servers.
        assert_eq!(server(b"a", 2), 97 % 2);
        assert_eq!(server(b"hello", 5), 99_162_322 % 5);
        assert_eq!(server(b"polygenelubricants", 3), (1 << 31) % 3);
        assert_eq!(server(b"anything", 1), 0);
        let of = |server: usize| {
            move |key: &u32| super::server(format!("user{key}").as_bytes(), 3) == server
        };
        for one in 0..3 {
            let share = (0..9000).filter(of(one)).count();
            assert!((2700..3300).contains(&share), "{share}");
        }
    }

    #[test]
    fn keys_are_found_by_their_index() {
        let mut keys = Keys::default();
        for key in ["a", "bc", "d"] {
            keys.add(|bytes| bytes.extend_from_slice(key.as_bytes())).unwrap();
        }
        assert!(keys.add(|bytes| bytes.push(b' ')).is_err());
        assert_eq!((keys.get(0), keys.get(1), keys.get(2)), (&b"a"[..], &b"bc"[..], &b"d"[..]));
        keys.clear();
        assert_eq!(keys.len(), 0);
    }
}
