//! The login of a server, from the address and the options. Errors never show it.

use std::{env, fmt, fs};

use kvmark_driver::OpenError;
use kvmark_driver::options::{Given, OptionDoc};

use crate::servers::optional;

/// The option `username`.
pub const USERNAME: OptionDoc =
    optional("username", "User to log in as, unless the address names one.", "a user's name");

/// The option `password_env`.
pub const PASSWORD_ENV: OptionDoc = optional(
    "password_env",
    "Environment variable that holds the password.",
    "the name of an environment variable",
);

/// The option `password_file`.
pub const PASSWORD_FILE: OptionDoc =
    optional("password_file", "File whose first line is the password.", "the path of a file");

/// User name and password, if given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Secret>,
}

impl Credentials {
    /// Splits `[user[:password]@]` off an address. Returns the credentials and the location.
    ///
    /// # Errors
    /// [`OpenError::Option`] if a `%` isn't followed by two hexadecimal digits.
    pub fn split_from(address: &str) -> Result<(Self, &str), OpenError> {
        let Some((user, place)) = address.rsplit_once('@') else {
            return Ok((Self::default(), address));
        };
        let parts = user.split_once(':');
        let (username, password) = parts.map_or((user, None), |(name, word)| (name, Some(word)));
        let read = |text: &str| {
            unescaped(text).ok_or_else(|| {
                refused(
                    "the user and password in option 'address' can't be read: \
                     write special characters as %XX",
                )
            })
        };
        let username = Some(read(username)?).filter(|name| !name.is_empty());
        let password = password.map(read).transpose()?.map(Secret::new);
        Ok((Self { username, password }, place))
    }

    /// Completes the credentials with the options [`USERNAME`], [`PASSWORD_ENV`] and
    /// [`PASSWORD_FILE`].
    ///
    /// # Errors
    /// [`OpenError::Option`] if the password is given twice, or unreadable.
    pub fn completed_by(self, given: &Given) -> Result<Self, OpenError> {
        let username = self.username.or_else(|| given.text(USERNAME.name).map(str::to_owned));
        Ok(Self { username, password: password(self.password, given)? })
    }

    /// Checks that a user has a password.
    ///
    /// # Errors
    /// [`OpenError::Option`] without one.
    pub fn check(&self) -> Result<(), OpenError> {
        if self.username.is_some() && self.password.is_none() {
            return Err(refused("a user needs a password: give password_env or password_file"));
        }
        Ok(())
    }

    /// User and password, of a server whose login has both.
    ///
    /// # Errors
    /// [`OpenError::Option`] if one of them is missing.
    pub fn login(&self) -> Result<Option<(String, Secret)>, OpenError> {
        self.check()?;
        if self.username.is_none() && self.password.is_some() {
            return Err(refused("a password needs a user: give username"));
        }
        Ok(self.username.clone().zip(self.password.clone()))
    }
}

fn refused(text: impl Into<String>) -> OpenError {
    OpenError::Option(text.into())
}

/// Decodes `%XX`.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push((digit()? * 16 + digit()?) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

fn password(own: Option<Secret>, given: &Given) -> Result<Option<Secret>, OpenError> {
    let (variable, file) = (given.text(PASSWORD_ENV.name), given.text(PASSWORD_FILE.name));
    let places = [own.is_some(), variable.is_some(), file.is_some()];
    if places.iter().filter(|there| **there).count() > 1 {
        return Err(refused(
            "the password is given twice: keep one of the address, password_env and password_file",
        ));
    }
    if let Some(name) = variable {
        let value = env::var(name).map_err(|_| {
            refused(format!(
                "option 'password_env' names {name}, which isn't set: set it to the password"
            ))
        })?;
        return Ok(Some(Secret::new(value)));
    }
    let Some(path) = file else { return Ok(own) };
    let text = fs::read_to_string(path)
        .map_err(|error| refused(format!("the password file {path} can't be read ({error})")))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(Some(Secret::new(line.to_owned()))),
        _ => Err(refused(format!("the first line of the password file {path} is empty"))),
    }
}

/// A password. Its `Debug` output hides the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, to be sent only to the server.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write;

    use serde_json::Value;

    use super::*;

    static TABLE: [OptionDoc; 3] = [USERNAME, PASSWORD_ENV, PASSWORD_FILE];

    fn completed(address: &str, options: &[(&str, &str)]) -> Result<Credentials, String> {
        let option = |(name, text): &(&str, &str)| ((*name).to_owned(), Value::from(*text));
        let options: BTreeMap<_, _> = options.iter().map(option).collect();
        let given = Given::parse(&TABLE, &options).unwrap();
        let (own, _) = Credentials::split_from(address).unwrap();
        let completed = own.completed_by(&given);
        let checked = completed.and_then(|both| both.login().map(|_| both));
        checked.map_err(|error| error.to_string())
    }

    fn both(username: &str, password: &str) -> Credentials {
        let password = Some(Secret::new(password.to_owned()));
        Credentials { username: Some(username.to_owned()), password }
    }

    #[test]
    fn user_and_password_precede_the_location() {
        let (own, place) = Credentials::split_from("ann:p%40ss:w@host:1/7").unwrap();
        assert_eq!((own, place), (both("ann", "p@ss:w"), "host:1/7"));
        let (own, place) = Credentials::split_from("host/7").unwrap();
        assert_eq!((own, place), (Credentials::default(), "host/7"));
        assert_eq!(Credentials::split_from(":secret@host").unwrap().0.username, None);
    }

    #[test]
    fn an_unreadable_login_is_rejected_without_being_shown() {
        for text in ["u:%zz@host", "%f:zz@host", "u:zz%ff@host"] {
            let error = Credentials::split_from(text).unwrap_err().to_string();
            assert!(error.contains("%XX") && !error.contains("zz"), "{error}");
        }
    }

    #[test]
    fn options_complete_the_address() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"sesame\nnot this\n").unwrap();
        let path = file.path().to_str().unwrap();
        let options = [("username", "bob"), ("password_file", path)];
        assert_eq!(completed("host", &options), Ok(both("bob", "sesame")));
        assert_eq!(completed("ann@host", &options), Ok(both("ann", "sesame")));
        assert_eq!(completed("ann:own@host", &[]), Ok(both("ann", "own")));
        assert_eq!(completed("host", &[]), Ok(Credentials::default()));
    }

    #[test]
    fn a_missing_or_ambiguous_password_is_rejected() {
        let empty = tempfile::NamedTempFile::new().unwrap();
        let path = empty.path().to_str().unwrap();
        let cases = [
            ("u:sesame@h", ("password_env", "P"), "the password is given twice: keep one of"),
            ("h", ("password_env", "KVMARK_NOT_SET"), "which isn't set: set it to the password"),
            ("h", ("password_file", "nowhere"), "the password file nowhere can't be read"),
            ("h", ("password_file", path), "the first line of the password file"),
            ("h", ("username", "ann"), "a user needs a password: give password_env"),
            ("h", ("password_env", "CARGO_PKG_NAME"), "a password needs a user: give username"),
        ];
        for (address, option, expected) in cases {
            let error = completed(address, &[option]).unwrap_err();
            assert!(error.contains(expected) && !error.contains("sesame"), "{error}");
        }
    }

    #[test]
    fn a_secret_is_shown_nowhere() {
        let secret = Secret::new("sesame".to_owned());
        assert_eq!(format!("{secret:?}"), "***");
    }
}
