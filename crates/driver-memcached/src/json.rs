//! Records in the format of YCSB's memcached binding: a JSON object whose members are the fields,
//! as strings and without blanks. Source: YCSB 0.17.0, `MemcachedClient.toJson`.
//!
//! Bytes from 0x80 on are copied, so UTF-8 text gives valid JSON.

/// The bytes aren't a record in this format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it isn't a JSON object of strings")]
pub(crate) struct Damaged;

/// Number of bytes that are checked together for escapes.
const BLOCK: usize = 32;

/// Whether a byte must be escaped in a string.
#[inline]
const fn is_special(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// Length of an escaped text.
#[inline]
pub(crate) fn escaped_length(text: &[u8]) -> usize {
    let quoted = text.iter().filter(|byte| matches!(byte, b'"' | b'\\')).count();
    let controls = text.iter().filter(|byte| **byte < b' ').count();
    if controls == 0 {
        return text.len() + quoted;
    }
    let one = |byte: &u8| escape(*byte).map_or("\\u0000".len(), |_| "\\n".len());
    let controls = text.iter().filter(|byte| **byte < b' ');
    text.len() + quoted + controls.map(|byte| one(byte) - 1).sum::<usize>()
}

/// The letter of a byte's short escape, if it has one.
const fn escape(byte: u8) -> Option<u8> {
    match byte {
        b'"' | b'\\' => Some(byte),
        0x08 => Some(b'b'),
        0x0c => Some(b'f'),
        b'\n' => Some(b'n'),
        b'\r' => Some(b'r'),
        b'\t' => Some(b't'),
        _ => None,
    }
}

/// Appends an escaped text.
#[inline]
pub(crate) fn append_escaped(output: &mut Vec<u8>, text: &[u8]) {
    for block in text.chunks(BLOCK) {
        // Most blocks need no escape and are copied as a whole.
        if block.iter().fold(false, |any, byte| any | is_special(*byte)) {
            block.iter().for_each(|byte| append_byte(output, *byte));
        } else {
            output.extend_from_slice(block);
        }
    }
}

fn append_byte(output: &mut Vec<u8>, byte: u8) {
    match escape(byte) {
        Some(letter) => output.extend_from_slice(&[b'\\', letter]),
        None if byte < b' ' => {
            let digit = |half: u8| b"0123456789ABCDEF"[usize::from(half)];
            output.extend_from_slice(b"\\u00");
            output.extend_from_slice(&[digit(byte >> 4), digit(byte & 0xF)]);
        }
        None => output.push(byte),
    }
}

/// Appends an unescaped string.
pub(crate) fn append_unescaped(output: &mut Vec<u8>, raw: &[u8]) -> Result<(), Damaged> {
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        output.extend_from_slice(&rest[..at]);
        let letter = *rest.get(at + 1).ok_or(Damaged)?;
        rest = &rest[at + 2..];
        let byte = match letter {
            b'"' | b'\\' | b'/' => letter,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                rest = append_unit(output, rest)?;
                continue;
            }
            _ => return Err(Damaged),
        };
        output.push(byte);
    }
    output.extend_from_slice(rest);
    Ok(())
}

/// Appends a character given in UTF-16. Returns the remaining bytes.
fn append_unit<'a>(output: &mut Vec<u8>, rest: &'a [u8]) -> Result<&'a [u8], Damaged> {
    let (first, rest) = unit(rest)?;
    let (units, rest) = match rest.strip_prefix(b"\\u") {
        Some(low) if (0xd800..0xdc00).contains(&first) => {
            let (second, rest) = unit(low)?;
            ([first, second], rest)
        }
        _ => ([first, 0], rest),
    };
    let is_pair = (0xd800..0xdc00).contains(&first);
    let units = if is_pair { &units[..] } else { &units[..1] };
    for decoded in char::decode_utf16(units.iter().copied()) {
        let character = decoded.map_err(|_| Damaged)?;
        output.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(rest)
}

/// Reads four hexadecimal digits. Returns the remaining bytes.
fn unit(bytes: &[u8]) -> Result<(u16, &[u8]), Damaged> {
    let (digits, rest) = bytes.split_at_checked(4).ok_or(Damaged)?;
    let add = |number: u16, digit: &u8| {
        let digit = char::from(*digit).to_digit(16).ok_or(Damaged)?;
        Ok(number << 4 | digit as u16)
    };
    Ok((digits.iter().try_fold(0, add)?, rest))
}

/// The escaped name and value of a member.
pub(crate) type Member<'a> = (&'a [u8], &'a [u8]);

/// The members of a record.
#[derive(Clone, Debug)]
pub(crate) struct Members<'a> {
    /// The bytes after the last member; `None` at the end.
    rest: Option<&'a [u8]>,
    is_first: bool,
}

impl<'a> Members<'a> {
    /// The members of a record.
    pub(crate) fn of(record: &'a [u8]) -> Result<Self, Damaged> {
        let rest = skipped(record, b'{')?;
        Ok(Self { rest: Some(rest), is_first: true })
    }

    /// Reads the next member.
    pub(crate) fn next(&mut self) -> Result<Option<Member<'a>>, Damaged> {
        let Some(rest) = self.rest.take() else { return Ok(None) };
        if let Ok(end) = skipped(rest, b'}') {
            return if end.trim_ascii().is_empty() { Ok(None) } else { Err(Damaged) };
        }
        let rest = if self.is_first { rest } else { skipped(rest, b',')? };
        let (name, rest) = string(rest)?;
        let (value, rest) = string(skipped(rest, b':')?)?;
        self.rest = Some(rest);
        self.is_first = false;
        Ok(Some((name, value)))
    }
}

/// Skips blanks and this byte, which must be next.
fn skipped(bytes: &[u8], byte: u8) -> Result<&[u8], Damaged> {
    bytes
        .trim_ascii_start()
        .split_first()
        .filter(|(first, _)| **first == byte)
        .map(|(_, rest)| rest)
        .ok_or(Damaged)
}

/// Reads a string without its quotes. Returns the remaining bytes.
fn string(bytes: &[u8]) -> Result<(&[u8], &[u8]), Damaged> {
    let bytes = skipped(bytes, b'"')?;
    let mut at = 0;
    loop {
        let found = bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'\\'));
        at += found.ok_or(Damaged)?;
        if bytes[at] == b'"' {
            return Ok((&bytes[..at], &bytes[at + 1..]));
        }
        at += 2;
        if at > bytes.len() {
            return Err(Damaged);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escaped(text: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        append_escaped(&mut output, text);
        output
    }

    fn unescaped(raw: &str) -> Result<String, Damaged> {
        let mut output = Vec::new();
        append_unescaped(&mut output, raw.as_bytes())?;
        Ok(String::from_utf8(output).unwrap())
    }

    fn members(record: &str) -> Result<Vec<String>, Damaged> {
        let mut members = Members::of(record.as_bytes())?;
        let mut found = Vec::new();
        while let Some((name, value)) = members.next()? {
            let [name, value] = [name, value].map(String::from_utf8_lossy);
            found.push(format!("{name}={value}"));
        }
        Ok(found)
    }

    #[test]
    fn the_output_of_other_writers_is_read() {
        assert_eq!(unescaped(r#"a\/\"\\\b\f\n\r\t"#).unwrap(), "a/\"\\\x08\x0c\n\r\t");
        assert_eq!(unescaped("\\u0041\\u00e9\\uD83D\\ude00!").unwrap(), "A\u{e9}\u{1f600}!");
        let record = " { \"a\" : \"x\\\"y\" , \"b\":\"\" } ";
        assert_eq!(members(record).unwrap(), ["a=x\\\"y", "b="]);
        assert_eq!(members("{}").unwrap(), [""; 0]);
    }

    #[test]
    fn anything_but_an_object_of_strings_is_damaged() {
        let records = [
            "",
            "{",
            "x",
            "[]",
            "{\"a\"}",
            "{\"a\":1}",
            "{\"a\":\"b\"",
            "{\"a\":\"b}",
            "{}x",
            "{\"a\":\"b\" \"c\":\"d\"}",
            "{,}",
            "{\"a\":\"\\",
            "{\"a\":\"b\"}}",
        ];
        for record in records {
            assert!(members(record).is_err(), "{record}");
        }
        for raw in ["\\", "\\x", "\\u12", "\\u12g4", "\\ud800", "\\ud800\\u0041", "\\udc00"] {
            assert_eq!(unescaped(raw), Err(Damaged), "{raw}");
        }
    }

    proptest! {
        #[test]
        fn an_escaped_text_is_valid_json_and_is_read_back(text in any::<String>()) {
            let escaped = escaped(text.as_bytes());
            prop_assert_eq!(escaped.len(), escaped_length(text.as_bytes()));
            let quoted = format!("\"{}\"", std::str::from_utf8(&escaped).unwrap());
            prop_assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text.clone());
            prop_assert_eq!(unescaped(std::str::from_utf8(&escaped).unwrap()).unwrap(), text);
        }

        #[test]
        fn every_byte_survives_a_round_trip(text in any::<Vec<u8>>()) {
            let escaped = escaped(&text);
            prop_assert_eq!(escaped.len(), escaped_length(&text));
            let mut back = Vec::new();
            append_unescaped(&mut back, &escaped).unwrap();
            prop_assert_eq!(back, text);
        }

        #[test]
        fn any_json_of_strings_is_read(
            fields in prop::collection::vec((any::<String>(), any::<String>()), 0..5),
        ) {
            let object: serde_json::Map<_, _> =
                fields.into_iter().map(|(name, value)| (name, value.into())).collect();
            let text = serde_json::to_string_pretty(&object).unwrap();
            let mut members = Members::of(text.as_bytes()).unwrap();
            let mut found = serde_json::Map::new();
            while let Some((name, value)) = members.next().unwrap() {
                let [name, value] =
                    [name, value].map(|raw| unescaped(std::str::from_utf8(raw).unwrap()).unwrap());
                found.insert(name, value.into());
            }
            prop_assert_eq!(found, object);
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            record in prop::collection::vec(
                prop_oneof![prop::sample::select(b"{}\":,\\ u09".to_vec()), any::<u8>()],
                0..40,
            ),
        ) {
            let Ok(mut members) = Members::of(&record) else { return Ok(()) };
            while let Ok(Some((name, value))) = members.next() {
                for raw in [name, value] {
                    append_unescaped(&mut Vec::new(), raw).ok();
                }
            }
        }
    }
}
