//! Decimal text of a number, without allocation.

/// A sign and three blocks.
const ROOM: usize = 1 + 3 * 8;

const TEN_TO_THE_8TH: u64 = 100_000_000;

/// The character 0 in each octet.
const ZEROS: u64 = u64::MAX / 255 * 0x30;

/// A number's decimal text: a sign, up to eight digits, and blocks of eight. Always inlined, so
/// that it stays in registers: copied in memory it would have to wait for its parts to be stored.
pub(crate) struct Decimal {
    negative: bool,
    /// Without leading zeros; the first digit in the lowest octet.
    first: u64,
    first_length: usize,
    /// Blocks that follow, at most two.
    blocks: usize,
    last_but_one: u64,
    last: u64,
}

impl Decimal {
    /// The text of a number, given as sign and magnitude.
    #[inline(always)]
    pub(crate) const fn of(negative: bool, magnitude: u64) -> Self {
        let upper = magnitude / TEN_TO_THE_8TH;
        let (high, middle) = (upper / TEN_TO_THE_8TH, eight_digits(upper % TEN_TO_THE_8TH));
        let low = eight_digits(magnitude % TEN_TO_THE_8TH);
        let (blocks, digits) = match (high, upper) {
            (0, 0) => (0, low),
            (0, _) => (1, middle),
            _ => (2, eight_digits(high)),
        };
        // The number 0 keeps its last digit.
        let zeros = (digits | 1 << 56).trailing_zeros() / 8;
        Self {
            negative,
            first: (digits | ZEROS) >> (8 * zeros),
            first_length: 8 - zeros as usize,
            blocks,
            last_but_one: middle | ZEROS,
            last: low | ZEROS,
        }
    }

    /// Characters of the text.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.negative as usize + self.first_length + 8 * self.blocks
    }

    /// The text, then other characters, and its length.
    #[inline(always)]
    pub(crate) fn written(&self) -> ([u8; ROOM], usize) {
        let mut text = [b'-'; ROOM];
        let mut length = usize::from(self.negative);
        let mut put = |word: u64, characters: usize| {
            text[length..length + 8].copy_from_slice(&word.to_le_bytes());
            length += characters;
        };
        put(self.first, self.first_length);
        if self.blocks > 1 {
            put(self.last_but_one, 8);
        }
        if self.blocks > 0 {
            put(self.last, 8);
        }
        (text, length)
    }

    /// Appends the text.
    #[inline(always)]
    pub(crate) fn append_to(&self, bytes: &mut Vec<u8>) {
        if self.negative {
            bytes.push(b'-');
        }
        let end = bytes.len() + self.first_length;
        bytes.extend_from_slice(&self.first.to_le_bytes());
        bytes.truncate(end);
        if self.blocks > 1 {
            bytes.extend_from_slice(&self.last_but_one.to_le_bytes());
        }
        if self.blocks > 0 {
            bytes.extend_from_slice(&self.last.to_le_bytes());
        }
    }
}

/// The digits of a number below 10^8, one per octet, the highest digit in the lowest octet.
///
/// All halves are halved at once: into fours, pairs and single digits. The products with 10486 and
/// 103 are exact divisions by 100 and 10 for what can stand there.
#[inline]
const fn eight_digits(number: u64) -> u64 {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007F_0000_007F;
    let pairs = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000F_000F_000F_000F;
    tens | ((pairs - tens * 10) << 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: Decimal) -> String {
        let mut bytes = b"key".to_vec();
        number.append_to(&mut bytes);
        assert_eq!(bytes.len(), 3 + number.len());
        let (written, length) = number.written();
        assert_eq!(written[..length], bytes[3..]);
        String::from_utf8(bytes.split_off(3)).unwrap()
    }

    #[test]
    fn every_length_of_number_is_written_as_the_standard_library_writes_it() {
        let powers = (0..20).map(|digits| 10_u64.pow(digits));
        let edges = powers.flat_map(|power| [power - 1, power, power + 1, power / 7 * 3]);
        for number in edges.chain([u64::MAX, u64::MAX - 1]).chain(0..100_000) {
            assert_eq!(text(Decimal::of(false, number)), number.to_string());
        }
        for number in [0, 1, -1, 9, -10, i64::from(i32::MIN), i64::MAX, i64::MIN] {
            assert_eq!(text(Decimal::of(number < 0, number.unsigned_abs())), number.to_string());
        }
    }
}
