//! The tokens of partitions by Cassandra's Murmur3 partitioner.
//!
//! Source: Apache Cassandra, `Murmur3Partitioner` and `MurmurHash.hash3_x64_128`: the first half of
//! the 128-bit hash, with the sign of each of the last bytes extended.

/// The class of the partitioner, without its package.
pub(crate) const NAME: &str = "Murmur3Partitioner";

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// The token of a partition key.
#[inline]
pub(crate) fn token(key: &[u8]) -> i64 {
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let (blocks, tail) = key.as_chunks::<16>();
    for block in blocks {
        let both = u128::from_le_bytes(*block);
        h1 = (h1 ^ first(both as u64)).rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ second((both >> 64) as u64)).rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (low, high) = tail.split_at(tail.len().min(8));
    h1 ^= first(signed(low)) ^ key.len() as u64;
    h2 ^= second(signed(high)) ^ key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finished(h1).wrapping_add(finished(h2));
    // The smallest number isn't a token.
    if h1 == 1 << 63 { i64::MAX } else { h1 as i64 }
}

const fn first(half: u64) -> u64 {
    half.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

const fn second(half: u64) -> u64 {
    half.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

/// Up to eight bytes as a number; each byte's sign is extended.
fn signed(bytes: &[u8]) -> u64 {
    let extended = |byte: u8| i64::from(byte.cast_signed()) as u64;
    let places = bytes.iter().zip((0_u32..).step_by(8));
    places.fold(0, |half, (byte, shift)| half ^ extended(*byte) << shift)
}

const fn finished(mut half: u64) -> u64 {
    half = (half ^ half >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    half = (half ^ half >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    half ^ half >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_equal_those_of_cassandra() {
        // The first four are of the Rust driver's tests, the others of `SELECT token(k)`.
        let long: Vec<_> = (0..47_u32).map(|index| (index * 37) as u8).collect();
        let cases: [(&[u8], i64); 13] = [
            (b"test", -6017608668500074083),
            (b"xd", 4507812186440344727),
            (b"primary_key", -1632642444691073360),
            ("kremówki".as_bytes(), 4354931215268080151),
            (&[0x61], -8839064797231613815),
            (&[0xff], -4442228696663692417),
            (&[0], 5048724184180415669),
            (b"\x80\x81\x82\x83\x84\x85\x86\x87", -6062263109623760877),
            (b"\x7f\xff\x80\x01\x02\x03\x04\x05\x06\x07", -2248083412005475070),
            (
                b"\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f",
                4920504430128807728,
            ),
            (
                b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7\xf6\xf5\xf4\xf3\xf2\xf1\xf0\xef\xee",
                7550107071997514592,
            ),
            (&long, -1491581211539586612),
            // The key ('a', -2, 0xff80) of a text, an int and a blob.
            (b"\0\x01a\0\0\x04\xff\xff\xff\xfe\0\0\x02\xff\x80\0", 3007561075515681458),
        ];
        for (key, expected) in cases {
            assert_eq!(token(key), expected, "{key:?}");
        }
    }
}
