//! The `name=value` arguments of an example.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Arguments that aren't taken yet.
#[derive(Debug)]
pub struct Arguments(BTreeMap<String, String>);

impl Arguments {
    /// Reads them.
    ///
    /// # Errors
    /// A sentence that names a word that isn't `name=value`.
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let pair = |word: String| match word.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(format!("'{word}' isn't name=value")),
        };
        Ok(Self(words.map(pair).collect::<Result<_, _>>()?))
    }

    /// Takes one of them; without a default it must be there.
    ///
    /// # Errors
    /// A sentence that names the argument that is missing or can't be read.
    pub fn take<T: FromStr>(&mut self, name: &str, default: Option<T>) -> Result<T, String> {
        match self.0.remove(name) {
            Some(text) => text.parse().map_err(|_| format!("'{name}' can't be '{text}'")),
            None => default.ok_or(format!("'{name}' is missing")),
        }
    }

    /// Makes sure that all were taken.
    ///
    /// # Errors
    /// A sentence that names one that nobody knows.
    pub fn finish(self) -> Result<(), String> {
        match self.0.keys().next() {
            Some(name) => Err(format!("there is no argument '{name}'")),
            None => Ok(()),
        }
    }
}
