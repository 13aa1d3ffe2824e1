//! One word of a request, whose bytes come in pieces and aren't kept but on purpose.

use kvmark_trace::{HashKey, KeyHasher};

use crate::content::Content;
use crate::recorder::Key;
use crate::verbs::NAME_MAX;

/// The bytes don't follow the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbage(pub(crate) &'static str);

/// Its length, the hash of a key, and the first bytes of what isn't one.
pub(crate) struct Word {
    size: u64,
    key: Option<KeyHasher>,
    head: [u8; NAME_MAX],
    content: Option<Content>,
}

impl Word {
    pub(crate) fn new() -> Self {
        Self { size: 0, key: None, head: [0; NAME_MAX], content: None }
    }

    /// Begins the next word; with a hasher where it is a key, and with what is kept of it, if
    /// anything is.
    pub(crate) fn begin(&mut self, key: Option<KeyHasher>, content: Option<Content>) {
        self.size = 0;
        self.key = key;
        self.content = content;
    }

    /// All of it, where it was to be kept and there was room.
    pub(crate) fn take_content(&mut self) -> Option<Content> {
        self.content.take()
    }

    /// Its next bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        if let Some(key) = &mut self.key {
            key.add(bytes);
        } else if self.size < NAME_MAX as u64 {
            let from = self.size as usize;
            let length = bytes.len().min(NAME_MAX - from);
            self.head[from..from + length].copy_from_slice(&bytes[..length]);
        }
        self.size += bytes.len() as u64;
        if let Some(content) = self.content.take() {
            self.content = content.with(bytes);
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn key(&self) -> Option<Key> {
        let size = u32::try_from(self.size).unwrap_or(u32::MAX);
        self.key.map(|key| Key { hash: key.hash(), size })
    }

    /// Its first bytes; all of it where it isn't longer. None of a key.
    pub(crate) fn head(&self) -> &[u8] {
        let length = if self.key.is_some() { 0 } else { self.size.min(NAME_MAX as u64) };
        &self.head[..length as usize]
    }

    /// The number it is, if it is one.
    pub(crate) fn number(&self) -> Option<i64> {
        number(self.head()).filter(|_| self.size <= 20)
    }
}

/// A number in decimal.
#[inline]
pub(crate) fn number(text: &[u8]) -> Option<i64> {
    // Most are short.
    if let &[digit @ b'0'..=b'9'] = text {
        return Some(i64::from(digit - b'0'));
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A number of at most nine digits and the end of its line, and how many bytes these are; none of
/// anything else.
#[inline]
pub(crate) fn number_line(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0;
    for (place, byte) in bytes.iter().take(10).enumerate() {
        match byte {
            b'0'..=b'9' if place < 9 => number = number * 10 + usize::from(byte - b'0'),
            b'\r' if place > 0 && bytes.get(place + 1) == Some(&b'\n') => {
                return Some((number, place + 2));
            }
            _ => return None,
        }
    }
    None
}

/// The hasher of the next word, where that is a key.
pub(crate) fn hasher_if(is_key: bool, hash_key: &HashKey) -> Option<KeyHasher> {
    is_key.then(|| hash_key.hasher())
}
