//! The names of commands that clients have used, by number.

use std::collections::HashMap;

use kvmark_trace::verbs::Command;

/// Longest name that is told apart.
pub(crate) const NAME_MAX: usize = 64;
/// Most names that are told apart.
const NAMES_MAX: usize = 4096;
/// The number of all others.
pub(crate) const OTHERS: u16 = 0;

/// Names as they stand in statements. Memory is bounded, whatever clients send.
pub(crate) struct Verbs {
    numbers: HashMap<Vec<u8>, u16>,
    /// The number that was asked for last: most commands follow one like them.
    last: u16,
    named: Vec<(String, Command)>,
}

impl Verbs {
    pub(crate) fn new() -> Self {
        let others = "OTHERS";
        let named = vec![(others.to_owned(), Command::named(others))];
        Self { numbers: HashMap::new(), last: OTHERS, named }
    }

    /// The number of a name, a new one for one that wasn't there before.
    pub(crate) fn number(&mut self, name: &[u8]) -> u16 {
        if self.last != OTHERS && self.name(self.last).as_bytes() == name {
            return self.last;
        }
        if let Some(number) = self.numbers.get(name) {
            self.last = *number;
            return *number;
        }
        if self.named.len() >= NAMES_MAX || name.len() > NAME_MAX {
            return OTHERS;
        }
        let number = self.named.len() as u16;
        let text = String::from_utf8_lossy(name).into_owned();
        let command = Command::named(&text);
        self.named.push((text, command));
        self.numbers.insert(name.to_vec(), number);
        number
    }

    pub(crate) fn name(&self, number: u16) -> &str {
        &self.named[usize::from(number)].0
    }

    /// What it means, before any of its words.
    pub(crate) fn command(&self, number: u16) -> Command {
        self.named[usize::from(number)].1
    }
}
