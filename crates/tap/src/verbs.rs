//! The command names that clients have used, by number.

use std::collections::HashMap;

use kvmark_trace::verbs::Command;

/// Longest name with a separate number.
pub(crate) const NAME_MAX: usize = 64;
/// Greatest number of names.
const NAMES_MAX: usize = 4096;
/// The number of all other names.
pub(crate) const OTHERS: u16 = 0;

/// The effect of a command on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Plain,
    Multi,
    Exec,
    /// It ends a transaction without executing it.
    Discard,
    /// Later replies don't follow the order of requests.
    Unsupported,
    /// Its effect depends on its second word.
    Client,
}

/// Command names as they appear in statements. Their memory is bounded.
pub(crate) struct Verbs {
    numbers: HashMap<Vec<u8>, u16>,
    /// The latest number: most commands equal the one before them.
    last: u16,
    named: Vec<Verb>,
}

/// A command.
pub(crate) struct Verb {
    /// The name as it appears in statements.
    pub(crate) name: String,
    /// The parser, before the first argument.
    pub(crate) command: Command,
    pub(crate) effect: Effect,
}

impl Verb {
    fn named(name: String) -> Self {
        let effect = match name.as_str() {
            "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" | "MONITOR" | "SYNC" | "PSYNC" => {
                Effect::Unsupported
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

    /// Returns the number of a name and registers a new name.
    pub(crate) fn number(&mut self, name: &[u8]) -> u16 {
        if self.last != OTHERS && self.get(self.last).name.as_bytes() == name {
            return self.last;
        }
        if let Some(number) = self.numbers.get(name) {
            self.last = *number;
            return *number;
        }
        if self.named.len() >= NAMES_MAX || name.len() > NAME_MAX {
            return OTHERS;
        }
        self.register(name, Verb::named(String::from_utf8_lossy(name).into_owned()))
    }

    /// Returns the number of a statement of this kind, and registers a new one.
    pub(crate) fn of_kind(&mut self, statement: &str, kind: u8) -> u16 {
        if let Some(number) = self.numbers.get(statement.as_bytes()) {
            return *number;
        }
        if self.named.len() >= NAMES_MAX {
            return OTHERS;
        }
        let (name, command) = (statement.to_owned(), Command::of_kind(kind));
        self.register(statement.as_bytes(), Verb { name, command, effect: Effect::Plain })
    }

    fn register(&mut self, name: &[u8], verb: Verb) -> u16 {
        let number = self.named.len() as u16;
        self.numbers.insert(name.to_vec(), number);
        self.named.push(verb);
        number
    }

    /// The number of a name, ignoring case, if it equals the latest name.
    #[inline]
    pub(crate) fn again(&self, name: &[u8]) -> Option<u16> {
        let is_last = self.get(self.last).name.as_bytes().eq_ignore_ascii_case(name);
        (self.last != OTHERS && is_last).then_some(self.last)
    }

    /// The command of this number.
    #[inline]
    pub(crate) fn get(&self, number: u16) -> &Verb {
        &self.named[usize::from(number)]
    }
}
