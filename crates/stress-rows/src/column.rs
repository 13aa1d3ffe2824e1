//! Generates the values of one column from a seed.

use kvmark_plan::{Becomes, OutOfRange, RowColumn, ValueType, require};

use crate::java::JavaRandom;
use crate::law::Law;
use crate::noise::Noise;
use crate::salt::salt;

/// From 15 October 1582, where UUIDs of version 1 begin, to 1970.
const UUID_EPOCH_MS: i64 = 12_219_292_800_000;
/// Ticks of such a UUID in a millisecond.
const TICKS_PER_MS: i64 = 10_000;

/// A [`RowColumn`], ready to draw.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    salt: i64,
    identity: Law,
    size: Law,
    count: Law,
    becomes: Becomes,
    /// The columns of a collection's elements, in turns.
    inner: Vec<Column>,
}

/// The state of a column's draws after seeding.
#[derive(Clone, Debug)]
pub(crate) struct ColumnState {
    random: JavaRandom,
    /// The state of the inner columns.
    inner: Vec<ColumnState>,
}

impl Column {
    /// The column at a place in the plan.
    pub(crate) fn new(column: &RowColumn, place: &str) -> Result<Self, OutOfRange> {
        let law = |law, name: &str| Law::new(law, &format!("{place}.{name}"));
        let size = law(&column.size, "size")?;
        let length = size.bounds().0;
        require(length >= 0, || format!("{place}.size.min"), length, "a length from 0")?;
        let inner: Vec<(&RowColumn, &str)> = match &column.becomes {
            Becomes::List { of } => vec![(of, "of")],
            Becomes::Tuple { of } => of.iter().map(|part| (part, "of")).collect(),
            Becomes::Map { keys, values } => vec![(keys, "keys"), (values, "values")],
            Becomes::Integer { bits } => {
                let usable = matches!(bits, 8 | 16 | 32 | 64);
                require(usable, || format!("{place}.becomes.bits"), bits, "8, 16, 32 or 64")?;
                Vec::new()
            }
            _ => Vec::new(),
        };
        let ready = |(column, name)| Self::new(column, &format!("{place}.becomes.{name}"));
        Ok(Self {
            salt: salt(&column.label),
            identity: law(&column.identity, "identity")?,
            size,
            count: law(&column.count, "count")?,
            becomes: column.becomes.clone(),
            inner: inner.into_iter().map(ready).collect::<Result<_, _>>()?,
        })
    }

    /// Starts the draws from a seed.
    #[inline]
    pub(crate) fn seeded(&self, seed: i64) -> ColumnState {
        let is_tuple = matches!(self.becomes, Becomes::Tuple { .. });
        let inner_seed = if is_tuple { seed } else { seed.wrapping_mul(31) };
        let inner = self.inner.iter().map(|column| column.seeded(inner_seed)).collect();
        ColumnState { random: JavaRandom::new(seed ^ self.salt), inner }
    }

    /// Number of values below one value of the preceding clustering column.
    pub(crate) fn count(&self, seed: i64) -> i64 {
        self.count.draw(&mut JavaRandom::new(seed ^ !self.salt))
    }

    /// Appends the next value and returns its type.
    pub(crate) fn append(&self, draws: &mut ColumnState, bytes: &mut Vec<u8>) -> ValueType {
        let random = &mut draws.random;
        match self.becomes {
            Becomes::Digits => self.append_digits(random, bytes),
            Becomes::Bytes => self.append_noise(random, bytes),
            Becomes::Text => {
                let start = bytes.len();
                self.append_noise(random, bytes);
                bytes[start..].iter_mut().for_each(|byte| *byte = ((*byte & 127) + 32) & 127);
                ValueType::Text
            }
            Becomes::Fraction { single } => {
                let drawn = self.identity.draw_real(random);
                let kept = if single { f64::from(drawn as f32) } else { drawn };
                bytes.extend_from_slice(&kept.to_le_bytes());
                ValueType::Fraction
            }
            Becomes::List { .. } => self.append_elements(ValueType::List, draws, bytes),
            Becomes::Tuple { .. } => self.append_elements(ValueType::Tuple, draws, bytes),
            Becomes::Map { .. } => self.append_elements(ValueType::Map, draws, bytes),
            _ => self.append_number(self.identity.draw(random), bytes),
        }
    }

    fn append_digits(&self, random: &mut JavaRandom, bytes: &mut Vec<u8>) -> ValueType {
        let end = bytes.len() + self.length(random);
        while bytes.len() < end {
            let number = self.identity.draw(random).cast_unsigned();
            bytes.extend((0..64).step_by(4).map(|place| {
                let digit = (number >> place & 15) as u8;
                // Digits from 10 on are six letters after the hexadecimal ones.
                if digit < 10 { b'0' + digit } else { b'A' + digit }
            }));
        }
        bytes.truncate(end);
        ValueType::Bytes
    }

    fn append_noise(&self, random: &mut JavaRandom, bytes: &mut Vec<u8>) -> ValueType {
        let seed = self.identity.draw(random);
        let length = self.size.draw(&mut JavaRandom::new(seed));
        Noise::new(!seed).append(length as usize, bytes);
        ValueType::Bytes
    }

    fn length(&self, random: &mut JavaRandom) -> usize {
        let seed = self.identity.draw(random);
        self.size.draw(&mut JavaRandom::new(seed)) as usize
    }

    /// Appends a value of one number without a length.
    fn append_number(&self, number: i64, bytes: &mut Vec<u8>) -> ValueType {
        let mut integer = |number: i64| bytes.extend_from_slice(&number.to_le_bytes());
        match self.becomes {
            Becomes::Integer { bits } => {
                integer(number << (64 - bits) >> (64 - bits));
                ValueType::Integer
            }
            Becomes::Timestamp => {
                integer(number);
                ValueType::Timestamp
            }
            Becomes::Boolean => {
                bytes.push(1);
                ValueType::Boolean
            }
            Becomes::Inet => {
                let address = std::net::Ipv4Addr::from_bits(number as u32);
                bytes.extend_from_slice(address.to_string().as_bytes());
                ValueType::Text
            }
            _ => {
                let halves = if matches!(self.becomes, Becomes::TimeUuid) {
                    [time_of_uuid(number), self.salt.cast_unsigned()]
                } else {
                    [number.cast_unsigned(); 2]
                };
                halves.iter().for_each(|half| bytes.extend_from_slice(&half.to_be_bytes()));
                ValueType::Uuid
            }
        }
    }

    /// Appends the number of elements, then each with its type and length, in the format of
    /// [`ValueType`]. A tuple has one element of each inner column, others as many as drawn.
    fn append_elements(
        &self,
        collection: ValueType,
        draws: &mut ColumnState,
        bytes: &mut Vec<u8>,
    ) -> ValueType {
        let is_tuple = collection == ValueType::Tuple;
        let turns = if is_tuple { 1 } else { self.length(&mut draws.random) };
        let count = (turns * self.inner.len()) as u64;
        bytes.extend_from_slice(&count.to_le_bytes());
        for _ in 0..turns {
            for (column, draws) in self.inner.iter().zip(&mut draws.inner) {
                let header = bytes.len();
                bytes.extend_from_slice(&[0; 9]);
                let start = bytes.len();
                let kind = column.append(draws, bytes);
                let length = (bytes.len() - start) as u64;
                bytes[header] = kind as u8;
                bytes[header + 1..start].copy_from_slice(&length.to_le_bytes());
            }
        }
        collection
    }

    /// The seed that results from folding a value into another seed.
    pub(crate) fn fold(&self, value: &[u8], seed: i64) -> i64 {
        let next = |seed: i64, part: i64| seed.wrapping_mul(31).wrapping_add(part);
        let signed = |seed, byte: &u8| next(seed, byte.cast_signed().into());
        let number = || value.try_into().map(i64::from_le_bytes).unwrap_or_default();
        let serialized = |number: &[u8]| number.iter().fold(seed, signed);
        match self.becomes {
            Becomes::Integer { .. } => next(seed, number()),
            Becomes::Fraction { .. } => next(seed, f64::from_bits(number().cast_unsigned()) as i64),
            Becomes::Uuid | Becomes::TimeUuid => {
                let halves = value.as_chunks::<8>().0.iter().map(|half| i64::from_be_bytes(*half));
                next(seed, halves.fold(0, |all, half| all ^ half))
            }
            Becomes::Timestamp => serialized(&number().to_be_bytes()),
            Becomes::Inet => {
                let text = std::str::from_utf8(value).unwrap_or_default();
                let octets = text.split('.').map(|octet| octet.parse().unwrap_or_default());
                octets.fold(seed, |seed, octet: u8| signed(seed, &octet))
            }
            _ => serialized(value),
        }
    }
}

/// The upper half of a UUID of version 1.
const fn time_of_uuid(since_1970_ms: i64) -> u64 {
    let ticks =
        since_1970_ms.wrapping_add(UUID_EPOCH_MS).wrapping_mul(TICKS_PER_MS).cast_unsigned();
    ticks << 32 | ticks >> 16 & 0xFFFF_0000 | 0x1000 | ticks >> 48 & 0x0FFF
}
