//! What a tape has of an operation that others draw: its very key and value.

/// The key and the value of an operation, where they were kept. The memory is used again.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    bytes: Vec<u8>,
    /// Where the key ends.
    key: Option<usize>,
    has_value: bool,
}

impl Kept {
    /// Takes both in the place of what was there.
    pub fn set(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(key.unwrap_or_default());
        self.key = key.map(<[u8]>::len);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.has_value = value.is_some();
    }

    /// Whether neither is there.
    #[must_use]
    #[inline]
    pub fn is_nothing(&self) -> bool {
        self.key.is_none() && !self.has_value
    }

    /// The key; none where it is to be made of its ordinal.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.key.map(|end| &self.bytes[..end])
    }

    /// The value of each field; none where they are to be made.
    #[must_use]
    #[inline]
    pub fn value(&self) -> Option<&[u8]> {
        self.has_value.then(|| &self.bytes[self.key.unwrap_or(0)..])
    }
}
