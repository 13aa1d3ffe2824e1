//! The text of a statement, taken apart into words, for systems whose commands are words.
//!
//! Words are separated by blanks. Double quotes keep blanks and brackets, and within them `\"`,
//! `\\`, `\n` and `\xHH` stand for one byte. `{name}` anywhere in a word is an argument's place,
//! `{{` and `}}` are braces. A word that begins with `[` begins what is repeated for each item, and
//! `]` ends it; elsewhere brackets are themselves.

use std::iter::Peekable;
use std::str::Chars;

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bit {
    /// Bytes as they are.
    Literal(Vec<u8>),
    /// The place of the argument of this name.
    Place(String),
}

/// A word, as what is joined to it.
pub type Word = Vec<Bit>;

/// What stands at the top of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// A word that stands there once.
    Once(Word),
    /// Words in brackets.
    PerItem(Vec<Word>),
}

/// The words of a text.
///
/// # Errors
/// A clause that says what is wrong with it.
pub fn words(text: &str) -> Result<Vec<Group>, String> {
    let mut reader = Reader { rest: text.chars().peekable() };
    let mut groups = Vec::new();
    let mut open: Option<Vec<Word>> = None;
    while let Some(next) = reader.skip_blanks() {
        match (next, &mut open) {
            ('[', None) => {
                reader.rest.next();
                open = Some(Vec::new());
            }
            ('[', Some(_)) => return Err("brackets can't stand in brackets".to_owned()),
            (']', Some(words)) => {
                reader.rest.next();
                if words.is_empty() {
                    return Err("the brackets are empty".to_owned());
                }
                groups.push(Group::PerItem(std::mem::take(words)));
                open = None;
            }
            (_, Some(words)) => words.push(reader.word(true)?),
            (_, None) => groups.push(Group::Once(reader.word(false)?)),
        }
    }
    match (open, groups.first()) {
        (Some(_), _) => {
            Err("a bracket isn't closed (a word that is a bracket needs quotes)".into())
        }
        (None, None) => Err("it has no words".to_owned()),
        (None, Some(Group::PerItem(_))) => Err("a command can't begin with brackets".to_owned()),
        (None, Some(Group::Once(_))) => Ok(groups),
    }
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Reader<'_> {
    /// The next character that isn't a blank, which is left there.
    fn skip_blanks(&mut self) -> Option<char> {
        while self.rest.next_if(|next| next.is_whitespace()).is_some() {}
        self.rest.peek().copied()
    }

    /// The word that begins here.
    fn word(&mut self, in_brackets: bool) -> Result<Word, String> {
        let mut word = Word::new();
        let mut quoted = false;
        loop {
            let ends =
                |next: &char| !quoted && (next.is_whitespace() || (in_brackets && *next == ']'));
            if self.rest.peek().is_none_or(ends) {
                break;
            }
            match self.rest.next().unwrap_or_default() {
                '"' => quoted = !quoted,
                '\\' if quoted => put(&mut word, &[self.escaped()?]),
                '{' if self.rest.next_if_eq(&'{').is_some() => put(&mut word, b"{"),
                '{' => word.push(Bit::Place(self.name()?)),
                '}' if self.rest.next_if_eq(&'}').is_some() => put(&mut word, b"}"),
                '}' => return Err("a brace closes none (write }} for a brace)".to_owned()),
                other => put(&mut word, other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if quoted { Err("a quote isn't closed".to_owned()) } else { Ok(word) }
    }

    /// The name of an argument, behind its opening brace.
    fn name(&mut self) -> Result<String, String> {
        let mut name = String::new();
        loop {
            match self.rest.next() {
                Some('}') if name.is_empty() => break Err("braces hold no name".to_owned()),
                Some('}') => break Ok(name),
                Some(other) => name.push(other),
                None => break Err("a brace isn't closed (write {{ for a brace)".to_owned()),
            }
        }
    }

    /// What a backslash and what follows stand for.
    fn escaped(&mut self) -> Result<u8, String> {
        match self.rest.next() {
            Some('"') => Ok(b'"'),
            Some('\\') => Ok(b'\\'),
            Some('n') => Ok(b'\n'),
            Some('x') => {
                let mut digit = || self.rest.next().and_then(|digit| digit.to_digit(16));
                match (digit(), digit()) {
                    (Some(high), Some(low)) => Ok((16 * high + low) as u8),
                    _ => Err("\\x needs two hexadecimal digits".to_owned()),
                }
            }
            _ => Err("a backslash stands before none of \" \\ n x".to_owned()),
        }
    }
}

/// Adds bytes to a word.
fn put(word: &mut Word, bytes: &[u8]) {
    match word.last_mut() {
        Some(Bit::Literal(before)) => before.extend_from_slice(bytes),
        _ => word.push(Bit::Literal(bytes.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Bit {
        Bit::Literal(text.as_bytes().to_vec())
    }

    fn place(name: &str) -> Bit {
        Bit::Place(name.to_owned())
    }

    fn once(text: &str) -> Group {
        Group::Once(vec![literal(text)])
    }

    #[test]
    fn words_are_separated_by_blanks_and_places_stand_anywhere_in_them() {
        let found = words("  SET\tuser:{id}:{{x}}  {value}\n").unwrap();
        let key = Group::Once(vec![literal("user:"), place("id"), literal(":{x}")]);
        assert_eq!(found, [once("SET"), key, Group::Once(vec![place("value")])]);
    }

    #[test]
    fn quotes_keep_blanks_and_their_escapes_are_bytes() {
        let found = words(r#"A "b [c] \"\\\n\xfF" "" d"e f"g "{n} x" \n"#).unwrap();
        let mut escaped = b"b [c] \"\\\n".to_vec();
        escaped.push(0xff);
        let expected = [
            once("A"),
            Group::Once(vec![Bit::Literal(escaped)]),
            Group::Once(Vec::new()),
            once("de fg"),
            Group::Once(vec![place("n"), literal(" x")]),
            once("\\n"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn brackets_hold_the_words_of_an_item_and_are_themselves_elsewhere() {
        let found = words("MSET [{k} v] a[b] ] \"[\" [x]").unwrap();
        let expected = [
            once("MSET"),
            Group::PerItem(vec![vec![place("k")], vec![literal("v")]]),
            once("a[b]"),
            once("]"),
            once("["),
            Group::PerItem(vec![vec![literal("x")]]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let cases = [
            ("", "it has no words"),
            ("SET {key", "a brace isn't closed"),
            ("SET {}", "braces hold no name"),
            ("SET }", "a brace closes none"),
            ("SET \"a", "a quote isn't closed"),
            ("SET \"\\t\"", "a backslash stands before"),
            ("SET \"\\x0g\"", "\\x needs two"),
            ("MSET [a", "a bracket isn't closed"),
            ("MSET [a [b]]", "brackets can't stand in brackets"),
            ("MSET []", "the brackets are empty"),
            ("[a]", "a command can't begin with brackets"),
        ];
        for (text, why) in cases {
            let error = words(text).unwrap_err();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
