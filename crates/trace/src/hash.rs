//! Keyed hashes of keys: equal keys stay equal, and nothing else can be inferred without the hash
//! key.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use thiserror::Error;

/// The hash function for the keys of one trace: SipHash-2-4 (Aumasson and Bernstein, 2012), a
/// pseudorandom function with a key of 128 bits.
#[derive(Clone, Copy)]
pub struct HashKey(SipHasher24);

/// The hash of a key whose bytes come in pieces.
#[derive(Clone, Copy)]
pub struct KeyHasher(SipHasher24);

/// Lengths that aren't those of the bytes.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the lengths add up to {said} bytes, and there are {there}")]
pub struct LengthsError {
    said: u64,
    there: u64,
}

impl HashKey {
    /// From its 16 bytes.
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Self {
        Self(SipHasher24::new_with_key(key))
    }

    /// The hash of one key.
    #[must_use]
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.0.hash(key)
    }

    /// For a key whose bytes come in pieces.
    #[must_use]
    pub fn hasher(&self) -> KeyHasher {
        KeyHasher(self.0)
    }

    /// The hashes of keys that lie one behind another.
    ///
    /// # Errors
    ///
    /// The lengths don't add up to the bytes.
    pub fn hash_all(&self, joined: &[u8], lengths: &[u32]) -> Result<Vec<u64>, LengthsError> {
        let said = lengths.iter().map(|&length| u64::from(length)).sum::<u64>();
        let there = joined.len() as u64;
        if said != there {
            return Err(LengthsError { said, there });
        }
        let mut rest = joined;
        let hash = |&length: &u32| {
            let (key, behind) = rest.split_at(length as usize);
            rest = behind;
            self.hash(key)
        };
        Ok(lengths.iter().map(hash).collect())
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // With its bytes, likely keys could be tried.
        formatter.write_str("HashKey(..)")
    }
}

impl KeyHasher {
    /// The key's next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The hash of all of them, as [`HashKey::hash`] has it.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.0.finish()
    }
}
