//! The properties of a binding. Secrets come from variables and files, because plans are kept.

use std::collections::BTreeMap;
use std::{env, fs};

use kvmark_driver::{Layout, OpenError};
use serde_json::Value;

/// Properties as the binding gets them.
pub(crate) struct Properties {
    /// Names and values in turn.
    pub(crate) words: Vec<String>,
    secrets: Vec<String>,
}

impl Properties {
    /// Reads a driver's other options. `NAME_env` and `NAME_file` give the place of a property.
    pub(crate) fn read(
        options: &BTreeMap<String, Value>,
        layout: &Layout,
    ) -> Result<Self, OpenError> {
        let fields = layout.field_names.len().to_string();
        let mut values = BTreeMap::from([("fieldcount", fields), ("table", layout.table.clone())]);
        let mut secrets = Vec::new();
        for (name, value) in options {
            let text = text(value);
            let (property, read) = match name.rsplit_once('_') {
                Some((property, "env")) => (property, env::var(&text).ok()),
                Some((property, "file")) => (property, fs::read_to_string(&text).ok()),
                _ => {
                    values.insert(name, text);
                    continue;
                }
            };
            let secret = read.and_then(|lines| lines.lines().next().map(str::to_owned));
            let secret = secret.filter(|line| !line.is_empty()).ok_or_else(|| {
                let text = format!("option '{name}': nothing can be read from {text}");
                OpenError::Option(text)
            })?;
            values.insert(property, secret.clone());
            secrets.push(secret);
        }
        let words = values.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        Ok(Self { words: words.collect(), secrets })
    }

    /// A text of the binding without the secrets.
    pub(crate) fn without_secrets(&self, text: String) -> String {
        self.secrets.iter().fold(text, |text, secret| text.replace(secret, "***"))
    }
}

/// An option's value as text.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    fn read(options: &[(&str, &str)]) -> Result<Properties, String> {
        let options = options.iter().map(|(name, text)| ((*name).to_owned(), json!(text)));
        let layout = Layout {
            table: "usertable".to_owned(),
            field_names: vec!["field0".to_owned()],
            prepare: Vec::new(),
            statements: Vec::new(),
        };
        Properties::read(&options.collect(), &layout).map_err(|error| error.to_string())
    }

    #[test]
    fn a_secret_comes_from_its_place_and_is_in_no_text() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"sesame\nnot this\n").unwrap();
        let path = file.path().to_str().unwrap();
        let properties = read(&[("a.password_file", path), ("table", "t")]).unwrap();
        let words = ["a.password", "sesame", "fieldcount", "1", "table", "t"];
        assert_eq!(properties.words, words);
        let said = properties.without_secrets("no login with sesame".to_owned());
        assert_eq!(said, "no login with ***");
    }

    #[test]
    fn a_place_without_a_secret_is_named() {
        for (name, place) in [("url_env", "KVMARK_NOT_SET"), ("url_file", "nowhere")] {
            let error = read(&[(name, place)]).err().unwrap();
            assert_eq!(error, format!("option '{name}': nothing can be read from {place}"));
        }
    }
}
