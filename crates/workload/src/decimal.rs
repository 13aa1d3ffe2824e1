//! Decimal text of a number, without allocation.

/// Digits of `u64::MAX`, and as many as `i64::MIN` with its sign.
const LONGEST: usize = 20;

const TEN_TO_THE_8TH: u64 = 100_000_000;

/// The character 0 in each octet.
const ZEROS: u128 = u128::MAX / 255 * 0x30;

/// A number's decimal text. Made in registers and of fixed size, because a copy of just the bytes
/// needed would have to wait for them to be stored.
pub(crate) struct Decimal {
    text: [u8; LONGEST],
    length: usize,
}

impl Decimal {
    /// The text of a number that isn't negative.
    #[inline]
    pub(crate) fn of(number: u64) -> Self {
        let upper = number / TEN_TO_THE_8TH;
        let low = eight_digits(number % TEN_TO_THE_8TH);
        let middle = eight_digits(upper % TEN_TO_THE_8TH);
        let high = eight_digits(upper / TEN_TO_THE_8TH);
        let sixteen = u128::from(middle) | (u128::from(low) << 64);
        if high == 0 {
            let zeros = (sixteen.trailing_zeros() / 8).min(15);
            return Self::from_digits(sixteen >> (8 * zeros), 0, 16 - zeros);
        }
        // The digits above the sixteen come first: at most four, for 64 bits.
        let zeros = high.trailing_zeros() / 8;
        let length = 8 - zeros;
        let first = u128::from(high >> (8 * zeros)) | (sixteen << (8 * length));
        Self::from_digits(first, (sixteen >> (128 - 8 * length)) as u32, 16 + length)
    }

    #[inline]
    fn from_digits(first: u128, rest: u32, length: u32) -> Self {
        let mut text = [b'0'; LONGEST];
        text[..16].copy_from_slice(&(first | ZEROS).to_le_bytes());
        text[16..].copy_from_slice(&(rest | ZEROS as u32).to_le_bytes());
        Self { text, length: length as usize }
    }

    /// The text of a number that may be negative.
    #[inline]
    pub(crate) fn of_signed(number: i64) -> Self {
        let mut decimal = Self::of(number.unsigned_abs());
        if number < 0 {
            decimal.text.rotate_right(1);
            decimal.text[0] = b'-';
            decimal.length += 1;
        }
        decimal
    }

    /// Characters of the text.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.length
    }

    /// Appends the text.
    #[inline]
    pub(crate) fn append_to(&self, bytes: &mut Vec<u8>) {
        let end = bytes.len() + self.length;
        bytes.extend_from_slice(&self.text);
        bytes.truncate(end);
    }

    /// The text.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
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

    #[test]
    fn every_length_of_number_is_written_as_the_standard_library_writes_it() {
        let powers = (0..20).map(|digits| 10_u64.pow(digits));
        let edges = powers.flat_map(|power| [power - 1, power, power + 1, power / 7 * 3]);
        for number in edges.chain([u64::MAX, u64::MAX - 1]).chain(0..100_000) {
            assert_eq!(Decimal::of(number).as_bytes(), number.to_string().as_bytes());
        }
        for number in [0, 1, -1, 9, -10, i64::from(i32::MIN), i64::MAX, i64::MIN] {
            assert_eq!(Decimal::of_signed(number).as_bytes(), number.to_string().as_bytes());
        }
    }
}
