//! A client's login by SCRAM-SHA-256, without channel binding. Sources: RFC 5802 and RFC 7677.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kvmark_plan::Outcome;
use ring::{digest, hmac, pbkdf2, rand};

use crate::failure::Failure;

/// The name of the mechanism.
pub const SCRAM: &str = "SCRAM-SHA-256";
/// Limit on the server's number of iterations, which cost time on both sides.
const ITERATIONS_MAX: u32 = 10_000_000;

/// A login in progress, in which the server must prove that it knows the password, too.
pub struct Scram {
    password: String,
    nonce: String,
    /// The client's first message without its header.
    bare: String,
    /// The server's key and the message that it must sign.
    proof: Option<(hmac::Key, String)>,
}

impl Scram {
    /// Begins a login.
    ///
    /// # Errors
    /// The machine gives no random bytes.
    pub fn new(user: &str, password: &str) -> Result<Self, Failure> {
        let random: [u8; 24] = rand::generate(&rand::SystemRandom::new())
            .map_err(|_| Failure::new(Outcome::Refused, "the machine gives no random bytes"))?
            .expose();
        Ok(Self::with_nonce(user, password, BASE64.encode(random)))
    }

    fn with_nonce(user: &str, password: &str, nonce: String) -> Self {
        let bare = format!("n={},r={nonce}", user.replace('=', "=3D").replace(',', "=2C"));
        let password = stringprep::saslprep(password).unwrap_or(password.into()).into_owned();
        Self { password, nonce, bare, proof: None }
    }

    /// The first message.
    pub fn first(&self) -> String {
        format!("n,,{}", self.bare)
    }

    /// Answers the server's first message, whose number of iterations must be at least `least`.
    ///
    /// # Errors
    /// The message is invalid.
    pub fn answer(&mut self, first: &[u8], least: u32) -> Result<String, Failure> {
        let first = str::from_utf8(first).map_err(|_| unproven())?;
        let nonce = member(first, "r=").filter(|nonce| nonce.starts_with(&self.nonce));
        let salt = member(first, "s=").and_then(|text| BASE64.decode(text).ok());
        let count = member(first, "i=").and_then(|text| text.parse().ok());
        let allowed: RangeInclusive<u32> = least..=ITERATIONS_MAX;
        let count = count.filter(|count| allowed.contains(count)).and_then(NonZeroU32::new);
        let (Some(nonce), Some(salt), Some(count)) = (nonce, salt, count) else {
            return Err(unproven());
        };
        let proven = format!("c=biws,r={nonce}");
        let message = format!("{},{first},{proven}", self.bare);
        let mut salted = [0; digest::SHA256_OUTPUT_LEN];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, count, &salt, self.password.as_bytes(), &mut salted);
        let key = |bytes: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let own = hmac::sign(&key(&salted), b"Client Key");
        let stored = digest::digest(&digest::SHA256, own.as_ref());
        let signature = hmac::sign(&key(stored.as_ref()), message.as_bytes());
        let pairs = own.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<_> = pairs.map(|(key, signature)| key ^ signature).collect();
        let server = key(hmac::sign(&key(&salted), b"Server Key").as_ref());
        self.proof = Some((server, message));
        Ok(format!("{proven},p={}", BASE64.encode(proof)))
    }

    /// Checks the server's last message.
    ///
    /// # Errors
    /// The server doesn't know the password.
    pub fn check(&self, last: &[u8]) -> Result<(), Failure> {
        let last = str::from_utf8(last).unwrap_or_default();
        let signature = member(last, "v=").and_then(|text| BASE64.decode(text).ok());
        let (signature, proof) = signature.zip(self.proof.as_ref()).ok_or_else(unproven)?;
        hmac::verify(&proof.0, proof.1.as_bytes(), &signature).map_err(|_| unproven())
    }
}

/// The failure of a server without a proof that it knows the password.
pub fn unproven() -> Failure {
    Failure::new(Outcome::Refused, "the server doesn't know the password")
}

/// A member of a message, which follows this name.
fn member<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message.split(',').find_map(|member| member.strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    #[test]
    fn a_login_is_that_of_the_standard() {
        let mut scram = Scram::with_nonce("user", "pencil", "rOprNGfwEbeRWgbNEkqO".to_owned());
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let first = format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        assert!(scram.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").is_err());
        let last = scram.answer(first.as_bytes(), 4096).unwrap();
        let expected = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(last, format!("c=biws,r={nonce},p={expected}"));
        scram.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
        for wrong in ["v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "e=other-error", ""] {
            assert!(scram.check(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_message_with_another_nonce_or_too_few_or_many_iterations_is_rejected() {
        let mut scram = Scram::with_nonce("a=b,c", "x", "abc".to_owned());
        assert_eq!(scram.first(), "n,,n=a=3Db=2Cc,r=abc");
        let mut answer = |first: &str, least| scram.answer(first.as_bytes(), least).is_ok();
        assert!(answer("r=abcd,s=YQ==,i=4096", 4096) && answer("r=abcd,s=YQ==,i=1", 1));
        for wrong in ["r=bcd,s=YQ==,i=4096", "r=abcd,s=YQ==,i=4095", "r=abcd,s=YQ==,i=4294967295"] {
            assert!(!answer(wrong, 4096), "{wrong}");
        }
    }
}
