//! The kept contents of keys and values, in bounded memory.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use kvmark_trace::HashKey;

use crate::settings::Keep;
use crate::shared::Shared;

/// Longest content that is kept: a replay writes no longer value.
const CONTENT_MAX: usize = (1 << 24) - 1;

/// The role of a word in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Key,
    Value,
    /// A name, an option or an unknown word, which may be a password. Never kept.
    Other,
}

/// Selects the contents to keep, and hashes keys.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    keep: Keep,
    pub(crate) hash_key: HashKey,
    pub(crate) shared: Arc<Shared>,
}

/// The bytes of a word. Dropping it releases its share of the memory.
#[derive(Debug)]
pub(crate) struct Content {
    bytes: Vec<u8>,
    shared: Arc<Shared>,
}

/// The contents of one operation.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    keys: Vec<Option<Content>>,
    value: Option<Content>,
    values: usize,
}

impl Contents {
    /// Adds the content of the next key; `None` if memory was exhausted.
    pub(crate) fn add_key(&mut self, content: Option<Content>) {
        self.keys.push(content);
    }

    /// Adds the content of the next value; several values are joined.
    pub(crate) fn add_value(&mut self, content: Option<Content>) {
        let first = self.values == 0;
        let before = self.value.take();
        self.value = if first { content } else { Content::joined(before, content) };
        self.values += 1;
    }

    pub(crate) fn key(&self, place: usize) -> Option<&[u8]> {
        self.keys.get(place)?.as_ref().map(Content::bytes)
    }

    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.value.as_ref().map(Content::bytes)
    }

    /// Bytes of all contents.
    pub(crate) fn len(&self) -> usize {
        let all = self.keys.iter().flatten().chain(&self.value);
        all.map(|content| content.bytes().len()).sum()
    }

    /// Takes the contents, if there are any.
    pub(crate) fn take(&mut self) -> Option<Box<Self>> {
        let is_empty = self.keys.is_empty() && self.value.is_none();
        self.values = 0;
        (!is_empty).then(|| Box::new(std::mem::take(self)))
    }
}

impl Keeper {
    pub(crate) fn new(keep: Keep, hash_key: HashKey, shared: Arc<Shared>) -> Self {
        Self { keep, hash_key, shared }
    }

    /// Whether words in this role are kept.
    #[inline]
    pub(crate) fn keeps(&self, role: Role) -> bool {
        match role {
            Role::Key => self.keep.keys,
            Role::Value => self.keep.values,
            Role::Other => false,
        }
    }

    /// Whether any word is kept.
    #[inline]
    pub(crate) fn keeps_any(&self) -> bool {
        self.keeps(Role::Key) || self.keeps(Role::Value)
    }

    /// Begins the content of a word, if words in this role are kept.
    #[inline]
    pub(crate) fn begin(&self, role: Role) -> Option<Content> {
        self.keeps(role).then(|| Content { bytes: Vec::new(), shared: Arc::clone(&self.shared) })
    }
}

impl Content {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends bytes. Returns `None` and counts the content if it is too long or memory is
    /// exhausted.
    pub(crate) fn with(mut self, more: &[u8]) -> Option<Self> {
        if self.bytes.len() + more.len() > CONTENT_MAX || !self.shared.take_room(more.len()) {
            self.shared.cut_contents.fetch_add(1, Relaxed);
            return None;
        }
        self.bytes.extend_from_slice(more);
        Some(self)
    }

    /// Joins two contents; `None` if one is missing.
    pub(crate) fn joined(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        let (first, second) = first.zip(second)?;
        first.with(second.bytes())
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.shared.room.fetch_add(self.bytes.len(), Relaxed);
    }
}
