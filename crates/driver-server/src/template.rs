//! Compiled texts of statements: constant bytes with arguments between them.

use kvmark_driver::{Call, OpenError, Slot};
use kvmark_plan::{Argument, Each, Generator, Statement};

use crate::text::append_text;
use crate::words::{Group, Word, WordPart, words};

/// The arguments of a statement by name.
#[derive(Debug)]
pub struct Names<'a>(Vec<Named<'a>>);

/// An argument with its position in a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Named<'a> {
    /// The argument.
    pub argument: &'a Argument,
    /// Its position.
    pub slot: Slot,
}

/// A part of a template.
#[derive(Debug)]
pub enum Piece {
    /// Constant bytes.
    Literal(Vec<u8>),
    /// The text of an argument.
    Argument(Slot),
}

/// A compiled text.
pub type Template = Vec<Piece>;

impl Named<'_> {
    /// Whether it is a collection.
    pub fn is_collection(&self) -> bool {
        use Generator::{List, Map, Tuple};
        matches!(self.argument.generator, List { .. } | Map { .. } | Tuple { .. })
    }
}

impl<'a> Names<'a> {
    /// The names of these arguments.
    pub fn new(arguments: &'a [Argument]) -> Self {
        let mut before = [0; 3];
        let named = |argument: &'a Argument| {
            let place = before[argument.each as usize];
            before[argument.each as usize] += 1;
            Named { argument, slot: Slot { each: argument.each, place } }
        };
        Self(arguments.iter().map(named).collect())
    }

    /// The argument of this name.
    ///
    /// # Errors
    /// A clause if there is none.
    pub fn find(&self, name: &str) -> Result<Named<'a>, String> {
        let named = self.0.iter().find(|named| named.argument.name == name).copied();
        named.ok_or_else(|| {
            let names: Vec<_> = self.0.iter().map(|named| named.argument.name.as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            format!("there is no argument '{name}' (there are {names})")
        })
    }

    /// The argument of this name within a word. `per_item` allows arguments that are drawn per
    /// item.
    ///
    /// # Errors
    /// A clause with the reason why it can't be used.
    pub fn find_in_word(&self, name: &str, per_item: bool) -> Result<Named<'a>, String> {
        let named = self.find(name)?;
        if named.slot.each == Each::Item && !per_item {
            return Err(format!("'{name}' is drawn for each item, so put it in square brackets"));
        }
        Ok(named)
    }

    /// Compiles a word.
    ///
    /// # Errors
    /// A clause with the reason why an argument can't be used.
    pub fn compile(&self, word: &Word, per_item: bool) -> Result<Template, String> {
        let piece = |part: &WordPart| match part {
            WordPart::Literal(bytes) => Ok(Piece::Literal(bytes.clone())),
            WordPart::Argument(name) => {
                let named = self.find_in_word(name, per_item)?;
                if named.is_collection() {
                    return Err(format!("'{name}' is a collection, which isn't part of a word"));
                }
                Ok(Piece::Argument(named.slot))
            }
        };
        word.iter().map(piece).collect()
    }

    /// Whether a part of a word is the key of the record.
    pub fn is_key(&self, part: &WordPart) -> bool {
        let WordPart::Argument(name) = part else { return false };
        self.find(name).is_ok_and(|named| named.argument.generator == Generator::Key)
    }
}

/// Compiles the texts of a statement; `command` receives a text and its words.
///
/// # Errors
/// [`OpenError::Option`] naming the statement and the text that can't be sent.
pub fn compile<C>(
    statement: &Statement,
    command: impl Fn(&str, &[Group], &Names<'_>) -> Result<C, String>,
) -> Result<Vec<C>, OpenError> {
    let Statement { name, texts, options, .. } = statement;
    if let Some(option) = options.keys().next() {
        let text = format!("statement '{name}' has an option '{option}', and there are none");
        return Err(OpenError::Option(text));
    }
    let names = Names::new(&statement.arguments);
    let compiled = |text: &String| {
        let compiled = words(text).and_then(|groups| command(text, &groups, &names));
        compiled.map_err(|why| {
            OpenError::Option(format!("statement '{name}' can't be sent as '{text}': {why}"))
        })
    };
    texts.iter().map(compiled).collect()
}

/// Appends a template with the arguments of a call.
#[inline]
pub fn append(output: &mut Vec<u8>, template: &[Piece], call: &Call<'_>, round: usize, item: u32) {
    for piece in template {
        match piece {
            Piece::Literal(bytes) => output.extend_from_slice(bytes),
            Piece::Argument(slot) => {
                let (kind, bytes) = call.argument(*slot, round, item);
                append_text(output, kind, bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_counts_the_arguments_with_the_same_rate() {
        let argument = |(name, each): (&str, Each)| Argument {
            name: name.to_owned(),
            each,
            generator: Generator::Key,
        };
        let each = [("a", Each::Command), ("b", Each::Operation), ("c", Each::Command)];
        let arguments = each.map(argument);
        let names = Names::new(&arguments);
        let slot = |name| names.find(name).unwrap().slot;
        assert_eq!(slot("c"), Slot { each: Each::Command, place: 1 });
        assert_eq!(slot("b"), Slot { each: Each::Operation, place: 0 });
        let error = names.find("d").unwrap_err();
        assert_eq!(error, "there is no argument 'd' (there are a, b, c)");
    }
}
