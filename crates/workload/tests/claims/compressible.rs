//! The share of values that compressors remove.

use kvmark_plan::{Compressible, Plan, SizeLaw, TAG_LENGTH, ValueKind};
use kvmark_workload::{RecordRef, Stream, ValueBuffer, tag};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::plans::{plan, stream};

fn plan_of(share: f64, text: bool, fields: u32, size: u64) -> Plan {
    let mut plan = plan();
    plan.dataset.values = ValueKind::Compressible(Compressible { share, text });
    plan.dataset.fields.count = fields;
    plan.dataset.fields.length = SizeLaw::Constant { size };
    plan
}

fn record(stream: &Stream, number: u64, values: &mut ValueBuffer) {
    stream.insert_values_into(number, RecordRef { ordinal: number, key: b"" }, values);
}

/// The values of many records, one after the other.
fn content(plan: &Plan) -> Vec<u8> {
    let (stream, mut values, mut bytes) = (stream(plan), ValueBuffer::default(), Vec::new());
    for number in 0.. {
        record(&stream, number, &mut values);
        bytes.extend_from_slice(&values.bytes);
        if bytes.len() > 1 << 18 {
            break;
        }
    }
    bytes
}

fn lz4(block: &[u8]) -> usize {
    lz4_flex::block::compress(block).len()
}

fn zstd(block: &[u8]) -> usize {
    compress_to_vec(block, CompressionLevel::Fastest).len()
}

/// The compressed share of a store's blocks.
fn compressed(content: &[u8], block: usize, compress: fn(&[u8]) -> usize) -> f64 {
    content.chunks(block).map(compress).sum::<usize>() as f64 / content.len() as f64
}

#[test]
fn lz4_and_zstd_remove_the_share_within_6_percent_of_the_values() {
    for share in [0.0, 0.25, 0.5, 0.75, 0.9] {
        for (fields, size) in [(1, 100), (1, 250), (1, 1_000), (1, 10_000), (10, 100), (10, 1_000)]
        {
            let content = content(&plan_of(share, false, fields, size));
            for block in [4_096, 16_384] {
                for (name, compress) in [("LZ4", lz4 as fn(&[u8]) -> usize), ("Zstd", zstd)] {
                    let rest = compressed(&content, block, compress);
                    let what = format!("{share} of {fields} fields of {size} bytes");
                    let miss = rest - (1.0 - share);
                    // Tag and run need 18 bytes; without a share, other fields still have the tag.
                    let least = 18.0 / size as f64 - (1.0 - share);
                    let limit = if share > 0.0 || fields == 1 { 0.06 } else { 0.07 };
                    assert!(
                        miss.abs() <= least.max(limit),
                        "{what}: {name} in {block} leaves {rest:.3}"
                    );
                }
            }
        }
    }
}

#[test]
fn text_is_printable_and_has_the_share_for_lz4() {
    let content = content(&plan_of(0.5, true, 1, 1_000));
    assert!(content.iter().all(|byte| (0x20..0x7F).contains(byte)));
    assert!((compressed(&content, 4_096, lz4) - 0.5).abs() < 0.05);
}

#[test]
fn compressible_values_have_tags_lengths_and_two_random_ends() {
    let mut values = ValueBuffer::default();
    for size in [0, 1, 9, 16, 100, 511, 512, 513, 3_000] {
        let stream = stream(&plan_of(0.5, false, 2, size));
        for number in 0..50 {
            record(&stream, number, &mut values);
            for (_, place) in &values.places {
                let value = &values.bytes[place.clone()];
                assert_eq!(value.len() as u64, size);
                let tagged = kvmark_plan::tag_length(value.len());
                assert_eq!(value[..tagged], tag(number)[..tagged]);
            }
        }
        assert_eq!(
            (stream.records().value_length(), stream.records().tag(7)),
            (Some(size), Some(tag(7)))
        );
    }
    let stream = stream(&plan_of(0.5, false, 1, 100));
    let mut ends = std::collections::BTreeSet::new();
    for number in 0..1_000 {
        record(&stream, number, &mut values);
        let [start, end] = [TAG_LENGTH..16, 92..100].map(|place| values.bytes[place].to_vec());
        assert!(ends.insert(start) && ends.insert(end));
    }
}
