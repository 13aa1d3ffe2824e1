//! Reads and writes encoded HdrHistograms, from logs and from other tools.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use hdrhistogram::{CreationError, Histogram};

/// A range of values that a histogram doesn't distinguish, with their count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The least of them.
    pub low: u64,
    /// The largest.
    pub high: u64,
    /// How many were recorded; above 0.
    pub count: u64,
}

/// A text that isn't a histogram, or values that form none.
#[derive(Debug, thiserror::Error)]
pub enum EncodedError {
    /// Not base64.
    #[error("the text is not base64")]
    Text(#[from] base64::DecodeError),
    /// The bytes are no histogram.
    #[error("the bytes are no histogram: {0}")]
    Bytes(String),
    /// The digits or the range exceed a histogram's limits.
    #[error("no histogram holds these values: {0}")]
    Values(#[from] CreationError),
}

/// The buckets of a histogram in base64, V2 with deflate or plain, from the least value up.
///
/// # Errors
///
/// The text isn't one.
pub fn decoded(text: &str) -> Result<Vec<Bucket>, EncodedError> {
    let bytes = STANDARD.decode(text)?;
    let histogram: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|problem| EncodedError::Bytes(problem.to_string()))?;
    let buckets = histogram.iter_recorded().map(|at| {
        let value = at.value_iterated_to();
        Bucket {
            low: histogram.lowest_equivalent(value),
            high: histogram.highest_equivalent(value),
            count: at.count_at_value(),
        }
    });
    Ok(buckets.collect())
}

/// Encodes values and their counts as V2 with deflate, in base64, with `digits` significant digits.
///
/// # Errors
///
/// The values fit no histogram: too many digits, or too large counts.
pub fn encoded(values: &[(u64, u64)], digits: u8) -> Result<String, EncodedError> {
    let highest = values.iter().map(|&(value, _)| value).max().unwrap_or(0).max(2);
    let mut histogram = Histogram::<u64>::new_with_bounds(1, highest, digits)?;
    for &(value, count) in values {
        histogram.record_n(value, count).expect("no value is above the highest");
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(&histogram, &mut bytes)
        .map_err(|problem| EncodedError::Bytes(problem.to_string()))?;
    Ok(STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_written_count_is_read_in_its_bucket() {
        let values = [(0, 2), (1, 3), (2047, 1), (2048, 4), (1_000_003, 5), (1 << 40, 6)];
        let buckets = decoded(&encoded(&values, 3).expect("they fit")).expect("it is one");
        assert_eq!(buckets.len(), values.len());
        for (bucket, (value, count)) in buckets.iter().zip(values) {
            assert!((bucket.low..=bucket.high).contains(&value), "{value} in {bucket:?}");
            assert_eq!(bucket.count, count);
            // Three digits: a bucket is no wider than a thousandth.
            assert!((bucket.high - bucket.low) * 1000 <= bucket.high.max(1000));
        }
    }

    #[test]
    fn a_text_that_is_no_histogram_is_rejected() {
        assert!(matches!(decoded("%"), Err(EncodedError::Text(_))));
        assert!(matches!(decoded(""), Err(EncodedError::Bytes(_))));
        assert!(matches!(decoded("HISTFAAAAB1p"), Err(EncodedError::Bytes(_))));
        assert!(matches!(encoded(&[(1, 1)], 9), Err(EncodedError::Values(_))));
    }
}
