//! Histograms as text: V2 with deflate, in base64, as the public library writes them.
//!
//! The library writes from an array of all buckets, and allocates it, a buffer nine times as large
//! and a compressor for each histogram. With a hundred named operations, an interval took 40 ms of
//! a core that workers share. This encoder touches only buckets with values and keeps the memory.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compress, Compression, FlushCompress, Status};

use crate::tally::{BucketCount, FIRST_BITS, least_of};

pub(crate) const SIGNIFICANT_DIGITS: u8 = 3;

const COOKIE: u32 = 0x1c84_9313;
const DEFLATED_COOKIE: u32 = 0x1c84_9314;
const HEADER_BYTES: usize = 40;
const DEFLATED_HEADER_BYTES: usize = 8;

/// Encodes histograms.
pub(crate) struct Encoder {
    deflate: Compress,
    plain: Vec<u8>,
    deflated: Vec<u8>,
    text: String,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        let (plain, deflated, text) = (Vec::new(), Vec::new(), String::new());
        Self { deflate: Compress::new(Compression::default(), true), plain, deflated, text }
    }

    /// The histogram of these counts, ascending by bucket.
    pub(crate) fn text(&mut self, counts: &[BucketCount]) -> &str {
        put_plain(counts, &mut self.plain);
        self.put_deflated();
        self.text.clear();
        STANDARD.encode_string(&self.deflated, &mut self.text);
        &self.text
    }

    fn put_deflated(&mut self) {
        let Self { deflate, plain, deflated, .. } = self;
        deflate.reset();
        deflated.clear();
        deflated.extend_from_slice(&DEFLATED_COOKIE.to_be_bytes());
        deflated.extend_from_slice(&[0; 4]);
        let mut status = Status::BufError;
        while status != Status::StreamEnd {
            deflated.reserve(plain.len() + HEADER_BYTES);
            let rest = &plain[deflate.total_in() as usize..];
            let written = deflate.compress_vec(rest, deflated, FlushCompress::Finish);
            status = written.expect("a stream that was reset takes bytes");
        }
        put_length(deflated, DEFLATED_HEADER_BYTES);
    }
}

/// Writes the length of the bytes after a header into its second word.
fn put_length(bytes: &mut [u8], header_bytes: usize) {
    let length = (bytes.len() - header_bytes) as u32;
    bytes[4..8].copy_from_slice(&length.to_be_bytes());
}

fn put_plain(counts: &[BucketCount], bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.extend_from_slice(&COOKIE.to_be_bytes());
    // The length, and the offset by which buckets are shifted.
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&u32::from(SIGNIFICANT_DIGITS).to_be_bytes());
    bytes.extend_from_slice(&1_u64.to_be_bytes());
    bytes.extend_from_slice(&highest_trackable(counts).to_be_bytes());
    bytes.extend_from_slice(&1.0_f64.to_be_bytes());
    let mut next = 0;
    for (bucket, count) in counts {
        let zeros = i64::from(*bucket) - next;
        match zeros {
            0 => {}
            // A single one is a count, several are their number below 0.
            1 => put_number(0, bytes),
            _ => put_number(-zeros, bytes),
        }
        put_number(*count as i64, bytes);
        next = i64::from(*bucket) + 1;
    }
    put_length(bytes, HEADER_BYTES);
}

/// The largest value of a histogram that grew to these values; 2 for an empty one.
fn highest_trackable(counts: &[BucketCount]) -> u64 {
    let largest = counts.last().map_or(0, |(bucket, _)| least_of((*bucket).into()));
    let bits = u64::BITS - largest.leading_zeros();
    if bits <= FIRST_BITS { 2 } else { (1 << bits) - 1 }
}

/// Zigzag, then seven bits per byte from the lowest on; a ninth byte has eight bits.
fn put_number(number: i64, bytes: &mut Vec<u8>) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    for _ in 0..8 {
        if rest < 0x80 {
            break;
        }
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

    use super::*;

    /// By the public library.
    fn expected(counts: &[BucketCount]) -> String {
        let mut histogram = Histogram::<u64>::new(SIGNIFICANT_DIGITS).expect("three digits");
        for (bucket, count) in counts.iter().rev() {
            histogram.record_n(least_of((*bucket).into()), *count).expect("it grows");
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut bytes).expect("memory takes it");
        STANDARD.encode(bytes)
    }

    #[test]
    fn the_text_is_that_of_the_public_library() {
        let noise = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let scattered = |step: u16| (0..33_000 / step).map(move |n| n * step);
        let counted = |bucket: u16| (bucket, 1 + (noise(bucket.into()) >> (bucket % 44)));
        let mut cases: Vec<Vec<BucketCount>> =
            [1, 2, 3, 17, 1_000].map(|step| scattered(step).map(counted).collect()).to_vec();
        cases.extend([vec![(0, 1)], vec![(2, 5)], vec![(2_047, 1)], vec![(2_048, 1)]]);
        cases.extend([vec![(0, 1 << 62)], vec![(7, 1 << 55), (9, (1 << 55) - 1), (33_420, 64)]]);
        let mut encoder = Encoder::new();
        for counts in cases {
            assert_eq!(encoder.text(&counts), expected(&counts), "{:?}", counts.first());
        }
    }
}
