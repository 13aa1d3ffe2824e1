//! Parses the text of a statement: `{name}` becomes a bind marker, `{{` and `}}` are braces. Square
//! brackets belong to CQL.

use kvmark_driver_server::template::{Named, Names};
use kvmark_plan::Each;

/// A text in CQL, with its arguments in order.
#[derive(Debug)]
pub(crate) struct Wording<'a> {
    pub(crate) cql: String,
    /// The argument of each marker.
    pub(crate) arguments: Vec<Named<'a>>,
}

impl<'a> Wording<'a> {
    /// Parses a text. The error is a clause about the text.
    pub(crate) fn parse(text: &str, names: &Names<'a>) -> Result<Self, String> {
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
            wording.arguments.push(find(names, name)?);
            wording.cql.push('?');
            rest = behind;
        }
        wording.cql.push_str(rest);
        Ok(wording)
    }
}

fn find<'a>(names: &Names<'a>, name: &str) -> Result<Named<'a>, String> {
    let named = names.find(name).map_err(|why| format!("is invalid: {why}"))?;
    if named.slot.each == Each::Item {
        return Err(format!(
            "draws '{name}' per item, which CQL doesn't support: draw it per command, or draw a \
             list and write IN {{{name}}}"
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

    /// The CQL of a text, and the names of its arguments.
    fn parse(text: &str) -> Result<(String, Vec<String>), String> {
        let arguments = [
            argument("a", Each::Operation),
            argument("b", Each::Command),
            argument("i", Each::Item),
        ];
        let wording = Wording::parse(text, &Names::new(&arguments))?;
        let name = |named: &Named<'_>| named.argument.name.clone();
        Ok((wording.cql, wording.arguments.iter().map(name).collect()))
    }

    #[test]
    fn names_in_braces_become_markers_in_their_order() {
        let (cql, arguments) = parse("UPDATE t SET m[{b}] = {{'x': {a}}} WHERE k = {b}").unwrap();
        assert_eq!(cql, "UPDATE t SET m[?] = {'x': ?} WHERE k = ?");
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
