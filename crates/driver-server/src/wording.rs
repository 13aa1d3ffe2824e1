//! Parses the text of a statement in CQL or SQL: `{name}` becomes a bind marker, `{{` and `}}` are
//! braces. Square brackets belong to the language.

use kvmark_plan::Each;

use crate::template::{Named, Names};

/// A text with bind markers, and its arguments in order.
#[derive(Debug)]
pub struct Wording<'a> {
    /// The text.
    pub text: String,
    /// The argument of each marker.
    pub arguments: Vec<Named<'a>>,
}

impl<'a> Wording<'a> {
    /// Parses a text. `marker` is the marker of an argument, by its number from 1.
    ///
    /// # Errors
    /// A clause about the text.
    pub fn parse(
        text: &str,
        names: &Names<'a>,
        marker: impl Fn(usize) -> String,
    ) -> Result<Self, String> {
        let mut wording = Self { text: String::with_capacity(text.len()), arguments: Vec::new() };
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            wording.text.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            let behind = &rest[at + 1..];
            if let Some(behind) = behind.strip_prefix(brace) {
                wording.text.push_str(brace);
                rest = behind;
                continue;
            }
            let (name, behind) =
                behind.split_once('}').filter(|_| brace == "{").ok_or_else(|| {
                    format!("has an unmatched '{brace}': write {brace}{brace} for a brace")
                })?;
            wording.arguments.push(find(names, name)?);
            wording.text.push_str(&marker(wording.arguments.len()));
            rest = behind;
        }
        wording.text.push_str(rest);
        Ok(wording)
    }
}

fn find<'a>(names: &Names<'a>, name: &str) -> Result<Named<'a>, String> {
    let named = names.find(name).map_err(|why| format!("is invalid: {why}"))?;
    if named.slot.each == Each::Item {
        return Err(format!(
            "draws '{name}' per item, which CQL and SQL don't support: draw it per command, or \
             draw a list"
        ));
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use kvmark_plan::{Argument, Generator};

    use super::*;

    fn argument(name: &str, each: Each) -> Argument {
        Argument { name: name.to_owned(), each, generator: Generator::Key }
    }

    /// A text with its markers, and the names of its arguments.
    fn parse(text: &str) -> Result<(String, Vec<String>), String> {
        let arguments = [
            argument("a", Each::Operation),
            argument("b", Each::Command),
            argument("i", Each::Item),
        ];
        let wording = Wording::parse(text, &Names::new(&arguments), |number| format!("${number}"))?;
        let name = |named: &Named<'_>| named.argument.name.clone();
        Ok((wording.text, wording.arguments.iter().map(name).collect()))
    }

    #[test]
    fn names_in_braces_become_markers_in_their_order() {
        let (text, arguments) = parse("UPDATE t SET m[{b}] = {{'x': {a}}} WHERE k = {b}").unwrap();
        assert_eq!(text, "UPDATE t SET m[$1] = {'x': $2} WHERE k = $3");
        assert_eq!(arguments, ["b", "a", "b"]);
    }

    #[test]
    fn an_unknown_argument_or_unmatched_brace_is_rejected() {
        assert!(parse("SELECT {c}").unwrap_err().contains("'c' (there are a, b, i)"));
        assert!(parse("SELECT {a").unwrap_err().contains("has an unmatched '{'"));
        assert!(parse("SELECT a}").unwrap_err().contains("write }} for a brace"));
        assert!(parse("SELECT {i}").unwrap_err().contains("draws 'i' per item"));
    }
}
