//! Options by name, as URLs and plans carry them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::OpenError;

/// One option as documentation shows it: a line of a driver's table.
#[derive(Debug)]
pub struct OptionDoc {
    /// Its name in plans and URLs.
    pub name: &'static str,
    /// Its effect.
    pub meaning: &'static str,
    /// What it accepts.
    pub accepts: Accepts,
    /// Its default value, if any.
    pub default: Option<&'static str>,
}

/// An option, whose meaning follows: a row of a driver's table.
#[must_use]
pub const fn option(
    name: &'static str,
    accepts: Accepts,
    default: Option<&'static str>,
) -> OptionDoc {
    OptionDoc { name, meaning: "", accepts, default }
}

impl OptionDoc {
    /// The option with its effect.
    #[must_use]
    pub const fn meaning(self, meaning: &'static str) -> Self {
        Self { meaning, ..self }
    }
}

/// What an option accepts. Its text completes the sentence "give …".
#[derive(Debug)]
pub enum Accepts {
    /// Any text except an empty one, with its description.
    Text(&'static str),
    /// One of these words, in any case.
    Words(&'static [&'static str]),
    /// A whole number within bounds, both included.
    Whole {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
}

impl fmt::Display for Accepts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(what) => formatter.write_str(what),
            Self::Words([first, second]) => write!(formatter, "{first} or {second}"),
            Self::Words(words) => write!(formatter, "one of {}", words.join(", ")),
            Self::Whole { min, max } => write!(formatter, "a whole number from {min} to {max}"),
        }
    }
}

impl Accepts {
    /// `true` or `false`.
    pub const SWITCH: Self = Self::Words(&["true", "false"]);

    /// The value in its one spelling, if it is accepted.
    #[must_use]
    pub fn read(&self, text: &str) -> Option<String> {
        match self {
            Self::Text(_) if text.is_empty() || text.contains('\0') => None,
            Self::Text(_) => Some(text.to_owned()),
            Self::Words(words) => {
                let word = words.iter().find(|word| word.eq_ignore_ascii_case(text))?;
                Some((*word).to_owned())
            }
            Self::Whole { min, max } => {
                let number = text.parse::<i64>().ok()?;
                (*min..=*max).contains(&number).then(|| number.to_string())
            }
        }
    }
}

/// Options as text, each accepted by its line of a driver's table.
#[derive(Debug)]
pub struct Given {
    table: Vec<&'static OptionDoc>,
    values: BTreeMap<&'static str, String>,
}

impl Given {
    /// The options of a plan, checked against the lines of a table.
    ///
    /// # Errors
    /// [`OpenError::Option`] when one is unknown or its value isn't accepted.
    pub fn parse(
        table: impl IntoIterator<Item = &'static OptionDoc>,
        options: &BTreeMap<String, Value>,
    ) -> Result<Self, OpenError> {
        let table = table.into_iter().collect();
        let mut given = Self { table, values: BTreeMap::new() };
        for (name, value) in options {
            given.take(name, value)?;
        }
        Ok(given)
    }

    fn take(&mut self, name: &str, value: &Value) -> Result<(), OpenError> {
        let doc = self.line(name).ok_or_else(|| self.unknown(name))?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        // The default may be given explicitly, even an empty one.
        let accepted = match doc.default {
            Some(default) if default == text => Some(text.clone()),
            _ => doc.accepts.read(&text),
        };
        self.values.insert(doc.name, accepted.ok_or_else(|| wrong(doc, &text))?);
        Ok(())
    }

    fn line(&self, name: &str) -> Option<&'static OptionDoc> {
        self.table.iter().copied().find(|doc| doc.name == name)
    }

    /// The error with the nearest name.
    fn unknown(&self, name: &str) -> OpenError {
        let known: Vec<_> = self.table.iter().map(|doc| doc.name).collect();
        let near = nearest(name, known.iter().copied());
        let hint = near.map_or_else(String::new, |near| format!(", did you mean '{near}'?"));
        let known = known.join(", ");
        OpenError::Option(format!("there is no option '{name}'{hint}; known are {known}"))
    }

    /// Takes an option's value from the address, if there is one.
    ///
    /// # Errors
    /// [`OpenError::Option`] when the option is given as well, or doesn't accept the value.
    pub fn take_from_address(&mut self, name: &str, text: Option<String>) -> Result<(), OpenError> {
        let Some(text) = text else { return Ok(()) };
        if self.values.contains_key(name) {
            let text = format!("option '{name}' is given twice: the address has one as well");
            return Err(OpenError::Option(text));
        }
        self.take(name, &Value::String(text))
    }

    /// The option's text or its default.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.own(name).or_else(|| self.line(name)?.default)
    }

    /// The option's text where it was given.
    #[must_use]
    pub fn own(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// All options that have a value, in the order of the table.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.table.iter().filter_map(|doc| Some((doc.name, self.text(doc.name)?)))
    }

    /// Whether a switch is on.
    #[must_use]
    pub fn switch(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    /// A whole number of 0 or more, where it was given or has a default.
    #[must_use]
    pub fn whole(&self, name: &str) -> Option<u64> {
        let text = self.text(name)?;
        Some(text.parse().expect("the table accepts nothing but whole numbers of 0 or more"))
    }

    /// An option that has a default, as a type of the driver's own.
    ///
    /// # Errors [`OpenError::Option`] if the text doesn't parse as `T`, with the accepted values.
    pub fn read<T: FromStr>(&self, name: &str) -> Result<T, OpenError> {
        let doc = self.line(name).expect("only options of the table are read");
        let text = self.text(name).expect("only options that have a default are read");
        text.parse().map_err(|_| wrong(doc, text))
    }
}

fn wrong(doc: &OptionDoc, text: &str) -> OpenError {
    let OptionDoc { name, accepts, .. } = doc;
    OpenError::Option(format!("option '{name}' can't be '{text}': give {accepts}"))
}

/// The name most similar to an unknown one, if any is.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|known| (distance(name, known), known)).min();
    near.filter(|(distance, _)| *distance <= 1 + name.len() / 4).map(|(_, near)| near)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one name into the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let (mut above, mut row): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=other.len()).collect());
    for (i, a) in one.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let replaced = row[j] + usize::from(a != b);
            let mut least = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(above[j - 1] + 1);
            }
            next.push(least);
        }
        above = std::mem::replace(&mut row, next);
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: [OptionDoc; 6] = [
        option("compression", Accepts::Words(&["none", "lz4", "snappy"]), Some("none")),
        option("tls", Accepts::SWITCH, Some("false")),
        option("database", Accepts::Whole { min: 0, max: 15 }, None),
        option("username", Accepts::Text("a user's name"), None),
        option("share", Accepts::Text("a share such as 0.5"), Some("0.25")),
        option("prefix", Accepts::Text("a prefix"), Some("")),
    ];

    fn given(name: &str, value: impl Into<Value>) -> Result<Given, String> {
        let options = BTreeMap::from([(name.to_owned(), value.into())]);
        Given::parse(&TABLE, &options).map_err(|error| error.to_string())
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_nearest_and_the_known_ones() {
        let known = "known are compression, tls, database, username, share, prefix";
        let near = ", did you mean 'compression'?";
        for (name, hint) in [("compresion", near), ("ocmpressino", near), ("zzz", "")] {
            let error = given(name, "lz4").unwrap_err();
            assert_eq!(error, format!("there is no option '{name}'{hint}; {known}"));
        }
    }

    #[test]
    fn an_invalid_value_is_rejected_with_the_valid_ones() {
        let error = given("compression", "zip").unwrap_err();
        assert_eq!(error, "option 'compression' can't be 'zip': give one of none, lz4, snappy");
        let error = given("tls", 1).unwrap_err();
        assert_eq!(error, "option 'tls' can't be '1': give true or false");
        let error = given("database", 16).unwrap_err();
        assert_eq!(error, "option 'database' can't be '16': give a whole number from 0 to 15");
        let error = given("username", "").unwrap_err();
        assert_eq!(error, "option 'username' can't be '': give a user's name");
    }

    #[test]
    fn values_may_be_json_or_text() {
        assert!(given("tls", true).unwrap().switch("tls"));
        assert!(given("tls", "true").unwrap().switch("tls"));
        assert_eq!(given("database", 7).unwrap().whole("database"), Some(7));
        assert_eq!(given("database", "7").unwrap().whole("database"), Some(7));
    }

    #[test]
    fn words_are_read_in_any_case() {
        assert_eq!(given("compression", "LZ4").unwrap().own("compression"), Some("lz4"));
    }

    #[test]
    fn a_missing_option_has_its_default_if_there_is_one() {
        let given = given("tls", true).unwrap();
        assert_eq!((given.own("compression"), given.text("compression")), (None, Some("none")));
        assert_eq!((given.text("username"), given.whole("database")), (None, None));
    }

    #[test]
    fn a_default_may_be_given_even_if_it_is_no_text() {
        assert_eq!(given("prefix", "").unwrap().own("prefix"), Some(""));
    }

    #[test]
    fn text_is_parsed_as_a_drivers_type_or_rejected_with_the_accepted_values() {
        assert_eq!(given("share", 0.5).unwrap().read("share").ok(), Some(0.5));
        assert_eq!(given("tls", true).unwrap().read("share").ok(), Some(0.25));
        let error = given("share", "half").unwrap().read::<f64>("share").unwrap_err();
        assert_eq!(error.to_string(), "option 'share' can't be 'half': give a share such as 0.5");
    }

    #[test]
    fn an_option_of_the_address_is_checked_and_given_once() {
        let mut own = given("tls", true).unwrap();
        own.take_from_address("database", None).unwrap();
        assert_eq!(own.whole("database"), None);
        assert!(own.take_from_address("database", Some("16".to_owned())).is_err());
        own.take_from_address("database", Some("3".to_owned())).unwrap();
        assert_eq!(own.whole("database"), Some(3));
        let again = own.take_from_address("database", Some("4".to_owned())).unwrap_err();
        let text = "option 'database' is given twice: the address has one as well";
        assert_eq!(again.to_string(), text);
    }
}
