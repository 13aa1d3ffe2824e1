//! The `name=value` arguments of an example.

use std::collections::BTreeMap;
use std::str::FromStr;

/// The unused arguments.
#[derive(Debug)]
pub struct Arguments(BTreeMap<String, String>);

impl Arguments {
    /// Parses the arguments.
    ///
    /// # Errors
    /// A sentence about a word other than `name=value`.
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let pair = |word: String| match word.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(format!("'{word}' isn't name=value")),
        };
        Ok(Self(words.map(pair).collect::<Result<_, _>>()?))
    }

    /// Takes an argument, which is required if there is no default.
    ///
    /// # Errors
    /// A sentence about a missing or invalid argument.
    pub fn take<T: FromStr>(&mut self, name: &str, default: Option<T>) -> Result<T, String> {
        match self.0.remove(name) {
            Some(text) => text.parse().map_err(|_| format!("'{name}' can't be '{text}'")),
            None => default.ok_or(format!("'{name}' is missing")),
        }
    }

    /// Checks that all arguments were used.
    ///
    /// # Errors
    /// A sentence about an unknown argument.
    pub fn finish(self) -> Result<(), String> {
        match self.0.keys().next() {
            Some(name) => Err(format!("there is no argument '{name}'")),
            None => Ok(()),
        }
    }
}
