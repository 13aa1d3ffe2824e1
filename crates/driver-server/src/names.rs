//! A statement's arguments by name, for systems whose commands are words.

use kvmark_driver::Slot;
use kvmark_plan::{Argument, Each, Generator, Statement};

use crate::words::Bit;

/// The arguments that a text can name.
#[derive(Debug)]
pub struct Names<'a>(Vec<Named<'a>>);

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    name: &'a str,
    /// Where it stands in a call.
    pub slot: Slot,
    /// Whether it is the record's own key.
    pub is_key: bool,
    /// Whether it is several values.
    pub is_collection: bool,
}

impl<'a> Names<'a> {
    /// Those of a statement.
    #[must_use]
    pub fn new(statement: &'a Statement) -> Self {
        let mut before = [0; 3];
        let named = |argument: &'a Argument| {
            let place = before[argument.each as usize];
            before[argument.each as usize] += 1;
            use Generator::{List, Map, Tuple};
            Named {
                name: &argument.name,
                slot: Slot { each: argument.each, place },
                is_key: argument.generator == Generator::Key,
                is_collection: matches!(
                    argument.generator,
                    List { .. } | Map { .. } | Tuple { .. }
                ),
            }
        };
        Self(statement.arguments.iter().map(named).collect())
    }

    /// None, for what has no arguments.
    #[must_use]
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// The argument of this name, to stand where items are repeated or elsewhere.
    ///
    /// # Errors
    /// A clause that says why it can't.
    pub fn find(&self, name: &str, per_item: bool) -> Result<Named<'a>, String> {
        let found = self.0.iter().find(|named| named.name == name).copied();
        let named = found.ok_or_else(|| {
            let known: Vec<_> = self.0.iter().map(|named| named.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            format!("there is no argument '{name}' (there are {known})")
        })?;
        if named.slot.each == Each::Item && !per_item {
            return Err(format!("'{name}' is drawn for each item, so put it in square brackets"));
        }
        Ok(named)
    }

    /// Whether a part of a word is the record's own key.
    #[must_use]
    pub fn is_key(&self, bit: &Bit) -> bool {
        let named = |name: &String| self.0.iter().any(|named| named.name == name && named.is_key);
        matches!(bit, Bit::Place(name) if named(name))
    }
}
