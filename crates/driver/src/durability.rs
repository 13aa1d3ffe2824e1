//! What acknowledged writes survive.

use std::fmt;
use std::str::FromStr;

/// What an acknowledged write survives; the same words mean the same for every store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Perhaps nothing: it may be lost when the process is killed.
    None,
    /// A kill of the process: the operating system has the bytes.
    Process,
    /// A power failure: the disk has them.
    Sync,
}

impl Durability {
    /// The levels' words in their order.
    pub const WORDS: [&'static str; 3] = ["none", "process", "sync"];
    const ALL: [Self; 3] = [Self::None, Self::Process, Self::Sync];
}

impl FromStr for Durability {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|level| level.to_string() == word).ok_or(())
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(Self::WORDS[*self as usize])
    }
}
