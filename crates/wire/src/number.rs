//! Whole numbers in decimal, written and read without an allocation.

/// The longest number has 20 characters: 19 digits and a sign, or 20 digits.
pub const DIGITS: usize = 20;

/// Writes a number in decimal so that it ends before `end`. Returns its first index.
#[inline]
pub fn decimal(text: &mut [u8], end: usize, mut number: u64) -> usize {
    let mut at = end;
    loop {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return at;
        }
    }
}

/// Writes a number that may be negative in decimal. Returns its first index.
#[inline]
pub fn signed(text: &mut [u8; DIGITS], number: i64) -> usize {
    let mut at = decimal(text, DIGITS, number.unsigned_abs());
    if number < 0 {
        at -= 1;
        text[at] = b'-';
    }
    at
}

/// Appends a whole number in decimal.
#[inline]
pub fn append(output: &mut Vec<u8>, number: i64) {
    let mut text = [0; DIGITS];
    let at = signed(&mut text, number);
    output.extend_from_slice(&text[at..]);
}

/// Parses a number of at most 19 digits with an optional sign.
#[inline]
pub fn parse(text: &[u8]) -> Option<i64> {
    // Most numbers have one digit.
    if let &[digit @ b'0'..=b'9'] = text {
        return Some(i64::from(digit - b'0'));
    }
    parse_long(text)
}

fn parse_long(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let mut value: i64 = 0;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // The smallest number has no positive counterpart, so digits are subtracted.
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_as_it_was_written() {
        for number in [0, 7, -7, 10, i64::MAX, i64::MIN] {
            let mut text = Vec::new();
            append(&mut text, number);
            assert_eq!(parse(&text), Some(number));
        }
        for other in ["", "-", "+", "1a", "9223372036854775808", "00000000000000000001"] {
            assert_eq!(parse(other.as_bytes()), None, "{other}");
        }
    }
}
