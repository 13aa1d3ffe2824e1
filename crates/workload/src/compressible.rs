//! Values of which a compressor removes a given share.
//!
//! The law is that of fio's `buffer_compress_percentage` (with `buffer_compress_chunk=512`): each
//! segment of 512 bytes is random, except for a run of one character. `compression_ratio` of
//! RocksDB's `db_bench` repeats random bytes instead, in pieces of 100 bytes from a pool of 1 MiB.
//! Here no random byte repeats, neither within a value nor among values, except for a record's tag.
//! The run is in the middle of its segment, so that both ends of a value identify its write.
//!
//! LZ4 needs 5 to 8 bytes for a run and Zstd about 2. The run is longer by 3, so that both miss the
//! share by at most 5 bytes in a segment. In fields after the first, compressors find the tag in
//! the field before, which saves 5 bytes, and the run is shorter by these. At least two bytes
//! behind the tag are random: LZ4 leaves at least 18 bytes of a value, Zstd 12.

use kvmark_plan::{Compressible, Random, TAG_LENGTH, tag_length};

use crate::value::{append_noise, append_octets};

/// Shorter than a store's block, so that each block of a long value has the share.
const SEGMENT: usize = 512;
/// Bytes that compressors need for a run, and what they save by a known tag in addition.
const RUN_COST: f64 = 3.0;
const TAG_GAIN: f64 = 5.0;
/// Random bytes behind the tag that distinguish the writes of a record.
const DISTINCT: usize = 2;
/// No format escapes or trims it.
const FILLER: u8 = b'-';

/// Appends the value of a field, with noise in the place of its tag.
pub(crate) fn append(
    law: Compressible,
    random: &mut Random,
    field: u32,
    length: usize,
    bytes: &mut Vec<u8>,
) {
    let append = if law.text { append_noise } else { append_octets };
    if law.share == 0.0 {
        return append(random, length, bytes);
    }
    bytes.reserve(length);
    let mut rest = length;
    let mut tagged = tag_length(length);
    while rest > 0 {
        let segment = rest.min(SEGMENT);
        let gain = if tagged > 0 && field > 0 { TAG_GAIN } else { 0.0 };
        let removed = (segment as f64 * law.share + RUN_COST - gain).round() as usize;
        let least = if tagged > 0 { tagged + DISTINCT } else { 0 };
        let run = removed.min(segment.saturating_sub(least));
        let noise = segment - run;
        // Both ends of a value have random bytes, if there are enough of them.
        let head = noise.div_ceil(2).max(noise.min(if tagged > 0 { 2 * TAG_LENGTH } else { 0 }));
        append(random, head, bytes);
        bytes.resize(bytes.len() + run, FILLER);
        append(random, noise - head, bytes);
        rest -= segment;
        tagged = 0;
    }
}
