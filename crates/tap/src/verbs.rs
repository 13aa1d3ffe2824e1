//! The names of commands that clients have used, by number.

use std::collections::HashMap;

use kvmark_trace::verbs::{Command, Plain};

/// Longest name that is told apart.
pub(crate) const NAME_MAX: usize = 64;
/// Most names that are told apart.
const NAMES_MAX: usize = 4096;
/// The number of all others.
pub(crate) const OTHERS: u16 = 0;

/// What a command means for the connection that it is sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Plain,
    Multi,
    Exec,
    /// It ends a transaction without carrying it out.
    Discard,
    /// Its replies don't stand in the order of requests, or nothing that follows is one.
    Leaves,
    /// Its second word says what it does.
    Client,
}

/// Names as they stand in statements. Memory is bounded, whatever clients send.
pub(crate) struct Verbs {
    numbers: HashMap<Vec<u8>, u16>,
    /// The number that was asked for last: most commands follow one like them.
    last: u16,
    named: Vec<Verb>,
}

struct Verb {
    name: String,
    command: Command,
    effect: Effect,
}

impl Verb {
    fn named(name: String) -> Self {
        let effect = match name.as_str() {
            "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" | "MONITOR" | "SYNC" | "PSYNC" => {
                Effect::Leaves
            }
            "CLIENT" => Effect::Client,
            "MULTI" => Effect::Multi,
            "EXEC" => Effect::Exec,
            "DISCARD" | "RESET" => Effect::Discard,
            _ => Effect::Plain,
        };
        Self { command: Command::named(&name), name, effect }
    }
}

impl Verbs {
    pub(crate) fn new() -> Self {
        let named = vec![Verb::named("OTHERS".to_owned())];
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
        self.named.push(Verb::named(String::from_utf8_lossy(name).into_owned()));
        self.numbers.insert(name.to_vec(), number);
        number
    }

    /// The number of a name in any case, if it is the one that was asked for last.
    #[inline]
    pub(crate) fn again(&self, name: &[u8]) -> Option<u16> {
        let is_last = self.name(self.last).as_bytes().eq_ignore_ascii_case(name);
        (self.last != OTHERS && is_last).then_some(self.last)
    }

    pub(crate) fn name(&self, number: u16) -> &str {
        &self.named[usize::from(number)].name
    }

    pub(crate) fn effect(&self, number: u16) -> Effect {
        self.named[usize::from(number)].effect
    }

    /// What it is with so many words behind its name; none where these have to be read.
    #[inline]
    pub(crate) fn plain(&self, number: u16, words: usize) -> Option<Plain> {
        self.named[usize::from(number)].command.plain(words)
    }

    /// The kind of its operations.
    #[inline]
    pub(crate) fn kind(&self, number: u16) -> u8 {
        self.named[usize::from(number)].command.kind()
    }

    /// What it means, before any of its words.
    pub(crate) fn command(&self, number: u16) -> Command {
        self.named[usize::from(number)].command
    }
}
