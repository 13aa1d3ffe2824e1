//! Salts that separate columns: the first half of MurmurHash3 x64-128 (A. Appleby) of the label.

const C1: u64 = 0x87C3_7B91_1142_53D5;
const C2: u64 = 0x4CF5_AD43_2745_937F;

/// The salt of a label. As in Cassandra, bytes after the last whole block count as signed.
pub(crate) fn salt(label: &str) -> i64 {
    let bytes = label.as_bytes();
    let (blocks, rest) = bytes.as_chunks::<16>();
    let [mut first, mut second] = [0_u64; 2];
    for block in blocks {
        let word = u128::from_le_bytes(*block);
        first ^= scramble_first(word as u64);
        first = first.rotate_left(27).wrapping_add(second);
        first = first.wrapping_mul(5).wrapping_add(0x52DC_E729);
        second ^= scramble_second((word >> 64) as u64);
        second = second.rotate_left(31).wrapping_add(first);
        second = second.wrapping_mul(5).wrapping_add(0x3849_5AB5);
    }
    let signed = |bytes: &[u8]| {
        let places = bytes.iter().zip((0..64).step_by(8));
        places.fold(0, |word, (byte, place)| {
            word ^ i64::from(byte.cast_signed()).cast_unsigned() << place
        })
    };
    let (low, high) = rest.split_at(rest.len().min(8));
    second ^= scramble_second(signed(high));
    first ^= scramble_first(signed(low));
    let length = bytes.len() as u64;
    first ^= length;
    second ^= length;
    first = first.wrapping_add(second);
    second = second.wrapping_add(first);
    finish(first).wrapping_add(finish(second)).cast_signed()
}

const fn scramble_first(word: u64) -> u64 {
    word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

const fn scramble_second(word: u64) -> u64 {
    word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

const fn finish(word: u64) -> u64 {
    let word = (word ^ (word >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let word = (word ^ (word >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    word ^ (word >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_salt_is_the_first_half_of_murmur_hash_3() {
        // The published test vector of the x64-128 function with seed 0.
        assert_eq!(salt("").cast_unsigned(), 0);
        assert_eq!(salt("hello").cast_unsigned(), 0xCBD8_A7B3_41BD_9B02);
        let sentence = "The quick brown fox jumps over the lazy dog";
        assert_eq!(salt(sentence).cast_unsigned(), 0xE34B_BC7B_BC07_1B6C);
    }
}
