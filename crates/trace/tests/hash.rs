//! Hashes of keys against the vectors of SipHash's authors.

use kvmark_trace::HashKey;
use proptest::prelude::*;

fn vectors() -> HashKey {
    HashKey::new(&std::array::from_fn(|index| index as u8))
}

#[test]
fn the_published_vectors_come_out() {
    let hash = vectors();
    assert_eq!(hash.hash(&[]), 0x726f_db47_dd0e_0e31);
    assert_eq!(hash.hash(&[0]), 0x74f8_39c5_93dc_67fd);
    let fifteen: Vec<u8> = (0..15).collect();
    assert_eq!(hash.hash(&fifteen), 0xa129_ca61_49be_45e5);
}

#[test]
fn lengths_that_do_not_add_up_are_refused() {
    let problem = vectors().hash_all(b"abc", &[1, 1]).expect_err("two of three bytes");
    assert_eq!(problem.to_string(), "the lengths add up to 2 bytes, and there are 3");
}

proptest! {
    #[test]
    fn keys_that_lie_together_hash_as_they_do_alone(
        keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..50),
        key in any::<[u8; 16]>(),
    ) {
        let hash = HashKey::new(&key);
        let lengths: Vec<u32> = keys.iter().map(|key| key.len() as u32).collect();
        let alone: Vec<u64> = keys.iter().map(|key| hash.hash(key)).collect();
        prop_assert_eq!(hash.hash_all(&keys.concat(), &lengths), Ok(alone));
    }
}
