//! Replies as values of the console.

use serde_json::Value;

use crate::failure::{Failure, refused};
use kvmark_wire::resp::{Cursor, Garbage, Token};

/// Greatest number of nested lists.
pub(crate) const DEPTH_MAX: u32 = 8;

/// Reads an element with its contents; a map becomes a list of alternating names and values.
pub(crate) fn value(cursor: &mut Cursor<'_>, depth: u32) -> Result<Value, Failure> {
    let count = match cursor.token()? {
        Token::Simple(text) | Token::Bulk(text) | Token::Other(text) => {
            return Ok(String::from_utf8_lossy(text).into());
        }
        Token::Integer(number) => return Ok(number.into()),
        Token::Null => return Ok(Value::Null),
        Token::Error(message) => return Err(refused(message)),
        Token::List(count) => count,
    };
    let depth = depth.checked_sub(1).ok_or(Garbage)?;
    (0..count).map(|_| value(cursor, depth)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(reply: &[u8]) -> Result<Value, String> {
        value(&mut Cursor::new(reply), DEPTH_MAX).map_err(|failure| failure.text)
    }

    #[test]
    fn a_reply_is_texts_numbers_and_lists_of_them() {
        let reply = b"*4\r\n+OK\r\n:-7\r\n$-1\r\n*2\r\n$1\r\na\r\n%1\r\n+b\r\n#t\r\n";
        assert_eq!(read(reply), Ok(json!(["OK", -7, null, ["a", ["b", "t"]]])));
        assert_eq!(read(b"*1\r\n-ERR no\r\n"), Err("the server answered: ERR no".to_owned()));
    }

    #[test]
    fn deeply_nested_lists_are_rejected() {
        let deep = [b"*1\r\n".repeat(1_000_000), b":1\r\n".to_vec()].concat();
        assert_eq!(read(&deep), Err(Garbage.to_string()));
    }
}
