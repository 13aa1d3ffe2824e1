//! A single word in a request, received in pieces. Its bytes are kept only on request.

use kvmark_trace::KeyHasher;
use kvmark_wire::number::parse;

use crate::content::{Content, Keeper, Role};
use crate::recorder::Key;
use crate::verbs::NAME_MAX;

/// The length of a word, with the hash of a key or the first bytes of any other word.
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

    /// Begins the next word, in this role.
    pub(crate) fn begin(&mut self, role: Role, keeper: &Keeper) {
        self.size = 0;
        self.key = (role == Role::Key).then(|| keeper.hash_key.hasher());
        self.content = keeper.begin(role);
    }

    /// The bytes of the word, if they were to be kept and memory was available.
    pub(crate) fn take_content(&mut self) -> Option<Content> {
        self.content.take()
    }

    /// Adds bytes.
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

    /// Up to [`NAME_MAX`] first bytes; none of a key.
    pub(crate) fn head(&self) -> &[u8] {
        let length = if self.key.is_some() { 0 } else { self.size.min(NAME_MAX as u64) };
        &self.head[..length as usize]
    }

    /// The word as a number.
    pub(crate) fn number(&self) -> Option<i64> {
        parse(self.head()).filter(|_| self.size <= 20)
    }
}
