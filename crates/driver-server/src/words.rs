//! Parses the text of a statement into words, for systems whose commands consist of words.
//!
//! Blanks separate words. Double quotes protect blanks and brackets; within them `\"`, `\\`, `\n`
//! and `\xHH` encode one byte. `{name}` within a word is an argument, `{{` and `}}` are braces.
//! Words in square brackets are repeated for each item. `[` opens a group only at the beginning of
//! a word.

use std::iter::Peekable;
use std::str::Chars;

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WordPart {
    /// Constant bytes.
    Literal(Vec<u8>),
    /// The argument of this name.
    Argument(String),
}

/// A word: its joined parts.
pub type Word = Vec<WordPart>;

/// An element of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// A single word.
    Once(Word),
    /// Words in brackets, repeated for each item.
    PerItem(Vec<Word>),
}

/// Parses a text.
///
/// # Errors
/// A clause that describes the error.
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
            ('[', Some(_)) => return Err("brackets can't be nested".to_owned()),
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
        (Some(_), _) => Err("a bracket isn't closed (quote a bracket to use it as a word)".into()),
        (None, None) => Err("it has no words".to_owned()),
        (None, Some(Group::PerItem(_))) => Err("a command can't begin with brackets".to_owned()),
        (None, Some(Group::Once(_))) => Ok(groups),
    }
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Reader<'_> {
    /// Peeks at the next character that isn't a blank.
    fn skip_blanks(&mut self) -> Option<char> {
        while self.rest.next_if(|next| next.is_whitespace()).is_some() {}
        self.rest.peek().copied()
    }

    /// Reads a word.
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
                '{' => word.push(WordPart::Argument(self.name()?)),
                '}' if self.rest.next_if_eq(&'}').is_some() => put(&mut word, b"}"),
                '}' => return Err("a brace closes none (write }} for a brace)".to_owned()),
                other => put(&mut word, other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if quoted { Err("a quote isn't closed".to_owned()) } else { Ok(word) }
    }

    /// Reads the name of an argument after the opening brace.
    fn name(&mut self) -> Result<String, String> {
        let mut name = String::new();
        loop {
            match self.rest.next() {
                Some('}') if name.is_empty() => break Err("braces without a name".to_owned()),
                Some('}') => break Ok(name),
                Some(other) => name.push(other),
                None => break Err("a brace isn't closed (write {{ for a brace)".to_owned()),
            }
        }
    }

    /// Reads an escape sequence after the backslash.
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
            _ => Err("a backslash must precede \" \\ n or x".to_owned()),
        }
    }
}

/// Adds bytes to a word.
fn put(word: &mut Word, bytes: &[u8]) {
    match word.last_mut() {
        Some(WordPart::Literal(before)) => before.extend_from_slice(bytes),
        _ => word.push(WordPart::Literal(bytes.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> WordPart {
        WordPart::Literal(text.as_bytes().to_vec())
    }

    fn place(name: &str) -> WordPart {
        WordPart::Argument(name.to_owned())
    }

    fn once(text: &str) -> Group {
        Group::Once(vec![literal(text)])
    }

    #[test]
    fn blanks_separate_words_and_arguments_may_be_anywhere_in_them() {
        let found = words("  SET\tuser:{id}:{{x}}  {value}\n").unwrap();
        let key = Group::Once(vec![literal("user:"), place("id"), literal(":{x}")]);
        assert_eq!(found, [once("SET"), key, Group::Once(vec![place("value")])]);
    }

    #[test]
    fn quotes_protect_blanks_and_their_escapes_are_bytes() {
        let found = words(r#"A "b [c] \"\\\n\xfF" "" d"e f"g "{n} x" \n"#).unwrap();
        let mut escaped = b"b [c] \"\\\n".to_vec();
        escaped.push(0xff);
        let expected = [
            once("A"),
            Group::Once(vec![WordPart::Literal(escaped)]),
            Group::Once(Vec::new()),
            once("de fg"),
            Group::Once(vec![place("n"), literal(" x")]),
            once("\\n"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn brackets_group_the_words_of_an_item_and_are_literal_elsewhere() {
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
    fn a_text_with_a_syntax_error_is_rejected() {
        let cases = [
            ("", "it has no words"),
            ("SET {key", "a brace isn't closed"),
            ("SET {}", "braces without a name"),
            ("SET }", "a brace closes none"),
            ("SET \"a", "a quote isn't closed"),
            ("SET \"\\t\"", "a backslash must precede"),
            ("SET \"\\x0g\"", "\\x needs two"),
            ("MSET [a", "a bracket isn't closed"),
            ("MSET [a [b]]", "brackets can't be nested"),
            ("MSET []", "the brackets are empty"),
            ("[a]", "a command can't begin with brackets"),
        ];
        for (text, why) in cases {
            let error = words(text).unwrap_err();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
