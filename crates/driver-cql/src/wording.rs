//! Parses the text of a statement: `{name}` becomes a bind marker, `{{` and `}}` are braces. Square
//! brackets belong to CQL.

use kvmark_driver::Slot;
use kvmark_plan::{Argument, Each};

/// A text in CQL, with its arguments in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wording {
    pub(crate) cql: String,
    /// The index of the argument of each marker.
    pub(crate) arguments: Vec<usize>,
}

impl Wording {
    /// Parses a text. The error is a clause about the text.
    pub(crate) fn parse(text: &str, arguments: &[Argument]) -> Result<Self, String> {
        let mut wording = Self { cql: String::with_capacity(text.len()), arguments: Vec::new() };
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            wording.cql.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            let behind = &rest[at + 1..];
            if let Some(behind) = behind.strip_prefix(brace) {
                wording.cql.push_str(brace);
                rest = behind;
                continue;
            }
            let (name, behind) =
                behind.split_once('}').filter(|_| brace == "{").ok_or_else(|| {
                    format!("has an unmatched '{brace}': write {brace}{brace} for a brace")
                })?;
            wording.arguments.push(index_of(name, arguments)?);
            wording.cql.push('?');
            rest = behind;
        }
        wording.cql.push_str(rest);
        Ok(wording)
    }
}

fn index_of(name: &str, arguments: &[Argument]) -> Result<usize, String> {
    let index = arguments.iter().position(|argument| argument.name == name);
    let index = index.ok_or_else(|| {
        let known: Vec<_> = arguments.iter().map(|argument| argument.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        format!("has no argument '{name}'; known are {known}")
    })?;
    if arguments[index].each == Each::Item {
        return Err(format!(
            "draws '{name}' per item, which CQL doesn't support: draw it per command, or draw a \
             list and write IN {{{name}}}"
        ));
    }
    Ok(index)
}

/// The position of an argument in a call.
pub(crate) fn slot(index: usize, arguments: &[Argument]) -> Slot {
    let each = arguments[index].each;
    let before = arguments[..index].iter().filter(|argument| argument.each == each);
    Slot { each, place: u32::try_from(before.count()).unwrap_or(u32::MAX) }
}

#[cfg(test)]
mod tests {
    use kvmark_plan::Generator;

    use super::*;

    fn argument(name: &str, each: Each) -> Argument {
        Argument { name: name.to_owned(), each, generator: Generator::Key }
    }

    fn parse(text: &str) -> Result<Wording, String> {
        let arguments = [
            argument("a", Each::Operation),
            argument("b", Each::Command),
            argument("i", Each::Item),
        ];
        Wording::parse(text, &arguments)
    }

    #[test]
    fn names_in_braces_become_markers_in_their_order() {
        let wording = parse("UPDATE t SET m[{b}] = {{'x': {a}}} WHERE k = {b}").unwrap();
        assert_eq!(wording.cql, "UPDATE t SET m[?] = {'x': ?} WHERE k = ?");
        assert_eq!(wording.arguments, [1, 0, 1]);
    }

    #[test]
    fn an_unknown_argument_or_unmatched_brace_is_rejected() {
        assert!(parse("SELECT {c}").unwrap_err().contains("'c'; known are a, b, i"));
        assert!(parse("SELECT {a").unwrap_err().contains("has an unmatched '{'"));
        assert!(parse("SELECT a}").unwrap_err().contains("write }} for a brace"));
        assert!(parse("SELECT {i}").unwrap_err().contains("draws 'i' per item"));
    }

    #[test]
    fn a_slot_counts_the_arguments_with_the_same_rate() {
        let each = [Each::Command, Each::Operation, Each::Command];
        let arguments = each.map(|each| argument("x", each));
        assert_eq!(slot(2, &arguments), Slot { each: Each::Command, place: 1 });
        assert_eq!(slot(1, &arguments), Slot { each: Each::Operation, place: 0 });
    }
}
