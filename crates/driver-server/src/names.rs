//! The arguments of a statement by name, for systems whose commands consist of words.

use kvmark_driver::Slot;
use kvmark_plan::{Argument, Each, Generator, Statement};

use crate::words::WordPart;

/// The arguments of a statement.
#[derive(Debug)]
pub struct Names<'a>(Vec<Named<'a>>);

/// A named argument.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    name: &'a str,
    /// Its position in a call.
    pub slot: Slot,
    /// Whether it is the key of the record.
    pub is_key: bool,
    /// Whether it is a collection.
    pub is_collection: bool,
}

impl<'a> Names<'a> {
    /// The arguments of a statement.
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

    /// No arguments.
    #[must_use]
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// The argument of this name. `per_item` allows arguments that are drawn per item.
    ///
    /// # Errors
    /// A clause with the reason why it can't be used.
    pub fn find(&self, name: &str, per_item: bool) -> Result<Named<'a>, String> {
        let named = self.0.iter().find(|named| named.name == name).copied();
        let named = named.ok_or_else(|| {
            let known: Vec<_> = self.0.iter().map(|named| named.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            format!("there is no argument '{name}' (there are {known})")
        })?;
        if named.slot.each == Each::Item && !per_item {
            return Err(format!("'{name}' is drawn for each item, so put it in square brackets"));
        }
        Ok(named)
    }

    /// Whether a part of a word is the key of the record.
    #[must_use]
    pub fn is_key(&self, part: &WordPart) -> bool {
        let named = |name: &String| self.0.iter().any(|named| named.name == name && named.is_key);
        matches!(part, WordPart::Argument(name) if named(name))
    }
}
