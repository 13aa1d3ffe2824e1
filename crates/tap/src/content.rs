//! Contents of words that are kept on purpose, in memory that is bounded.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::settings::Keep;
use crate::shared::Shared;

/// Longest content that is kept: no replay writes a longer value.
const CONTENT_MAX: usize = (1 << 24) - 1;

/// What a word of a request is to its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Key,
    Value,
    /// Neither: a name, an option, or what nobody knows, such as a password. Never kept.
    Other,
}

/// Where contents are kept, and which.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    keep: Keep,
    shared: Arc<Shared>,
}

/// What was said, as far as it is there. Its memory is given back with it.
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
    /// That of the next key; none where there was no room.
    pub(crate) fn add_key(&mut self, content: Option<Content>) {
        self.keys.push(content);
    }

    /// That of the next value: several are one behind the other.
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

    /// Bytes of all of them.
    pub(crate) fn len(&self) -> usize {
        let all = self.keys.iter().flatten().chain(&self.value);
        all.map(|content| content.bytes().len()).sum()
    }

    /// Itself, where anything is in it.
    pub(crate) fn taken(&mut self) -> Option<Box<Self>> {
        let is_empty = self.keys.is_empty() && self.value.is_none();
        self.values = 0;
        (!is_empty).then(|| Box::new(std::mem::take(self)))
    }
}

impl Keeper {
    pub(crate) fn new(keep: Keep, shared: Arc<Shared>) -> Self {
        Self { keep, shared }
    }

    /// Whether what is said in this role is kept.
    #[inline]
    pub(crate) fn keeps(&self, role: Role) -> bool {
        match role {
            Role::Key => self.keep.keys,
            Role::Value => self.keep.values,
            Role::Other => false,
        }
    }

    /// Whether anything is.
    #[inline]
    pub(crate) fn keeps_any(&self) -> bool {
        self.keeps(Role::Key) || self.keeps(Role::Value)
    }

    /// The beginning of what is kept of a word; none where nothing is.
    #[inline]
    pub(crate) fn begin(&self, role: Role) -> Option<Content> {
        self.keeps(role).then(|| Content { bytes: Vec::new(), shared: Arc::clone(&self.shared) })
    }
}

impl Content {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What comes behind; none, and counted, where memory has no room for all of it.
    pub(crate) fn with(mut self, more: &[u8]) -> Option<Self> {
        if self.bytes.len() + more.len() > CONTENT_MAX || !self.shared.take_room(more.len()) {
            self.shared.cut_contents.fetch_add(1, Relaxed);
            return None;
        }
        self.bytes.extend_from_slice(more);
        Some(self)
    }

    /// Two contents, one behind the other; none where one of them is none.
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
