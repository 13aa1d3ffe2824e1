//! Decimal text of a number, without allocation.

use std::ops::Range;

/// A sign and three blocks: room for any number.
pub(crate) const ROOM: usize = 1 + 3 * 8;

const TEN_TO_THE_8TH: u64 = 100_000_000;
const TEN_TO_THE_16TH: u64 = TEN_TO_THE_8TH * TEN_TO_THE_8TH;

/// The character 0 in each octet.
const ZEROS: u64 = u64::MAX / 255 * 0x30;

/// A number's decimal text: a sign, up to eight digits, and blocks of eight. Always inlined, so
/// that it stays in registers and isn't copied through memory.
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
        // Two independent divisions, which run in parallel.
        let (upper, high) = (magnitude / TEN_TO_THE_8TH, magnitude / TEN_TO_THE_16TH);
        if upper == 0 {
            return Self::beginning_with(eight_digits(magnitude), negative, 0, [0, 0]);
        }
        let middle = eight_digits(upper - high * TEN_TO_THE_8TH);
        let low = eight_digits(magnitude - upper * TEN_TO_THE_8TH);
        let (blocks, digits) = if high == 0 { (1, middle) } else { (2, eight_digits(high)) };
        Self::beginning_with(digits, negative, blocks, [middle, low])
    }

    #[inline(always)]
    const fn beginning_with(
        digits: u64,
        negative: bool,
        blocks: usize,
        [last_but_one, last]: [u64; 2],
    ) -> Self {
        // The number 0 keeps its last digit.
        let zeros = (digits | 1 << 56).trailing_zeros() / 8;
        Self {
            negative,
            first: (digits | ZEROS) >> (8 * zeros),
            first_length: 8 - zeros as usize,
            blocks,
            last_but_one: last_but_one | ZEROS,
            last: last | ZEROS,
        }
    }

    /// Characters of the text.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.negative as usize + self.first_length + 8 * self.blocks
    }

    /// The text, then other characters, and the text's length.
    #[inline(always)]
    pub(crate) fn written(&self) -> ([u8; ROOM], usize) {
        let mut text = [0; ROOM];
        let length = self.write_to(&mut text);
        (text, length)
    }

    /// Writes the text, then other characters, and returns the text's length.
    #[inline(always)]
    pub(crate) fn write_to(&self, text: &mut [u8; ROOM]) -> usize {
        // Overwritten if there is no sign.
        text[0] = b'-';
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
        length
    }
}

/// Number of digits after the first ones of [`write_long`].
pub(crate) const SIXTEEN: usize = 16;
/// Room for the text of [`write_long`].
pub(crate) const LONG_ROOM: usize = 4 + SIXTEEN;
/// The numbers of [`write_long`]: without `i64::MIN`, the only hash with a sign.
const LONG: Range<u64> = TEN_TO_THE_16TH..i64::MIN.cast_unsigned();

/// Whether [`write_long`] can write a number.
#[inline(always)]
pub(crate) fn is_long(number: u64) -> bool {
    LONG.contains(&number)
}

/// Writes the text of a number from 10^16 to below 2^63, up to three digits and sixteen, then other
/// characters. Returns the text's length.
#[inline(always)]
pub(crate) fn write_long(number: u64, room: &mut [u8; LONG_ROOM]) -> usize {
    let (upper, high) = (number / TEN_TO_THE_8TH, number / TEN_TO_THE_16TH);
    let middle = upper - high * TEN_TO_THE_8TH;
    let low = number - upper * TEN_TO_THE_8TH;
    let both =
        u128::from(eight_digits(middle) | ZEROS) | u128::from(eight_digits(low) | ZEROS) << 64;
    let first = FIRST_DIGITS[high as usize];
    // Three at most, which the compiler doesn't know.
    let length = usize::from(first[3] & 3);
    // The number of the first digits is overwritten.
    room[..4].copy_from_slice(&first);
    room[length..length + SIXTEEN].copy_from_slice(&both.to_le_bytes());
    length + SIXTEEN
}

/// The text of each number below 1000 without leading zeros, and its length in the last octet.
static FIRST_DIGITS: [[u8; 4]; 1000] = {
    let mut texts = [[0; 4]; 1000];
    let mut number = 0;
    while number < 1000 {
        let digits = [number / 100, number / 10 % 10, number % 10];
        let zeros = (number < 100) as usize + (number < 10) as usize;
        let mut place = zeros;
        while place < 3 {
            texts[number][place - zeros] = b'0' + digits[place] as u8;
            place += 1;
        }
        texts[number][3] = 3 - zeros as u8;
        number += 1;
    }
    texts
};

/// Number of digits of [`eight_characters`].
pub(crate) const EIGHT: usize = 8;

/// A number below 10^8 with leading zeros.
#[inline]
pub(crate) fn eight_characters(number: u64) -> Option<[u8; EIGHT]> {
    (number < TEN_TO_THE_8TH).then(|| (eight_digits(number) | ZEROS).to_le_bytes())
}

/// The digits of a number below 10^8, one per octet, the highest digit in the lowest octet.
///
/// All halves are halved at once: into fours, pairs and single digits. A four `100 q + r` becomes
/// `q` with `r` above it, which is the four shifted by 16 bits less `q` times `(100 << 16) - 1`.
/// The products with 10486 and 103 are exact divisions by 100 and 10 for all possible values.
#[inline]
const fn eight_digits(number: u64) -> u64 {
    // As a number of 32 bits, it is divided by one multiplication.
    let upper = (number as u32 / 10_000) as u64;
    let fours = (number << 32) - upper * ((10_000 << 32) - 1);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007F_0000_007F;
    let pairs = (fours << 16) - hundreds * ((100 << 16) - 1);
    let tens = ((pairs * 103) >> 10) & 0x000F_000F_000F_000F;
    (pairs << 8) - tens * ((10 << 8) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: Decimal) -> String {
        let (text, length) = number.written();
        assert_eq!(length, number.len());
        String::from_utf8(text[..length].to_vec()).unwrap()
    }

    #[test]
    fn every_length_of_number_is_written_as_the_standard_library_writes_it() {
        let powers = (0..20).map(|digits| 10_u64.pow(digits));
        let edges = powers.flat_map(|power| [power - 1, power, power + 1, power / 7 * 3]);
        for number in edges.chain([u64::MAX, u64::MAX - 1]).chain(0..100_000) {
            assert_eq!(text(Decimal::of(false, number)), number.to_string());
            // Without a sign, and with more than sixteen digits.
            let long = number.cast_signed() > 0 && number.to_string().len() > SIXTEEN;
            assert_eq!(is_long(number), long);
            if long {
                let mut room = [0; LONG_ROOM];
                let length = write_long(number, &mut room);
                assert_eq!(room[..length], *number.to_string().as_bytes());
            }
        }
        assert!(!is_long(i64::MIN.cast_unsigned()) && is_long(i64::MAX.cast_unsigned()));
        for number in [0, 1, -1, 9, -10, i64::from(i32::MIN), i64::MAX, i64::MIN] {
            assert_eq!(text(Decimal::of(number < 0, number.unsigned_abs())), number.to_string());
        }
    }
}
