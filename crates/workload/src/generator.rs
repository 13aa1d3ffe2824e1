//! How one argument of a statement is drawn.

use std::iter;
use std::ops::Range;

use kvmark_plan::{Generator, KeyChoice, ValueType};

use crate::arguments::Element;
use crate::distribution::KeyChooser;
use crate::error::{WorkloadError, require};
use crate::kept::Kept;
use crate::key::KeyWriter;
use crate::random::{Random, Seed};
use crate::records::{Owner, Records};
use crate::size::Sizes;
use crate::value::append_noise;

/// A [`Generator`], ready to draw.
#[derive(Clone, Debug)]
pub(crate) struct Maker {
    law: Recipe,
    seed: Seed,
}

#[derive(Clone, Debug)]
enum Recipe {
    Key,
    Ordinal,
    Field(u32),
    /// A field that replies hold and nothing is told: its value isn't made.
    Awaited(u32),
    Column(usize),
    /// What [`crate::made::Made`] makes.
    Made,
    /// In units of so many milliseconds.
    Ttl(u64),
    ScanLength,
    Number(Box<KeyChooser>),
    Name(Box<KeyChooser>, KeyWriter),
    Gaussian {
        min: i64,
        max: i64,
        mean: f64,
        stddev: f64,
    },
    Fraction {
        min: f64,
        max: f64,
    },
    Text(Sizes),
    Blob(Sizes),
    Boolean,
    Uuid,
    Timestamp {
        start_ms: i64,
        step_ms: i64,
    },
    List(Box<Recipe>, Sizes),
    Tuple(Vec<Recipe>),
    Map(Box<Recipe>, Box<Recipe>, Sizes),
}

impl Maker {
    /// The generator that stands at a place in the plan; `popularity` fixes which numbers are the
    /// popular ones.
    pub(crate) fn new(
        generator: &Generator,
        seed: Seed,
        popularity: Seed,
        place: &str,
    ) -> Result<Self, WorkloadError> {
        Ok(Self { law: Recipe::new(generator, popularity, place)?, seed })
    }

    /// Appends the bytes of an element's value and says what it is. The key is that of the record,
    /// where [`Records::values_hold_keys`]; what was kept is taken as it is.
    #[inline]
    pub(crate) fn append(
        &self,
        records: &Records,
        element: Element,
        key: &[u8],
        kept: &Kept,
        bytes: &mut Vec<u8>,
    ) -> ValueType {
        match &self.law {
            Recipe::Key => {
                match kept.key() {
                    Some(own) => bytes.extend_from_slice(own),
                    None => records.append_key(element.ordinal, bytes),
                }
                ValueType::Text
            }
            Recipe::Ordinal => put_integer(element.ordinal.cast_signed(), bytes),
            Recipe::Field(field) => {
                match kept.value() {
                    Some(own) => bytes.extend_from_slice(own),
                    None => {
                        let owner = Owner { ordinal: element.ordinal, key };
                        let (number, place) = (element.number, element.place);
                        records.append_value(number, place, *field, owner, bytes);
                    }
                }
                ValueType::Text
            }
            Recipe::Awaited(_) => ValueType::Text,
            Recipe::Ttl(unit_ms) => {
                put_integer((element.ttl_ms / unit_ms).max(1).cast_signed(), bytes)
            }
            Recipe::ScanLength => put_integer(element.scan_length.cast_signed(), bytes),
            law => {
                let mut random = self.seed.random_of_part(element.number, element.place);
                law.append(element.position, &mut random, bytes)
            }
        }
    }

    /// Appends the values of all commands of an operation, which have these records, and says of
    /// each what it is and where. For values that aren't made of keys.
    #[inline]
    pub(crate) fn append_each<'a>(
        &self,
        records: &Records,
        first: Element,
        ordinals: &[u64],
        bytes: &mut Vec<u8>,
        places: impl Iterator<Item = &'a mut (ValueType, Range<usize>)>,
    ) {
        let each = ordinals.iter().zip(places).zip(0..);
        let nothing = Kept::default();
        match &self.law {
            Recipe::Key => each.for_each(|((ordinal, place), _)| {
                let start = bytes.len();
                records.append_key(*ordinal, bytes);
                *place = (ValueType::Text, start..bytes.len());
            }),
            Recipe::Field(field) => {
                let values = records.values_of(first.number);
                each.for_each(|((ordinal, place), command)| {
                    let start = bytes.len();
                    let of = (first.number, values);
                    let owner = Owner { ordinal: *ordinal, key: &[] };
                    records.append_value_of(of, command, *field, owner, bytes);
                    *place = (ValueType::Text, start..bytes.len());
                });
            }
            // Nothing, as which the places begin.
            Recipe::Awaited(_) => {}
            _ => each.for_each(|((ordinal, place), command)| {
                let position = first.position.wrapping_add(command);
                let element = Element { place: command, position, ordinal: *ordinal, ..first };
                let start = bytes.len();
                let kind = self.append(records, element, &[], &nothing, bytes);
                *place = (kind, start..bytes.len());
            }),
        }
    }

    /// Makes no value of a field that only replies hold: what they must hold is known without it.
    #[must_use]
    pub(crate) fn awaiting(mut self) -> Self {
        if let Recipe::Field(field) = self.law {
            self.law = Recipe::Awaited(field);
        }
        self
    }

    /// Whether it makes the value of a field.
    pub(crate) const fn makes_field(&self) -> bool {
        matches!(self.law, Recipe::Field(_))
    }

    /// The place of the column that it takes from the statement's rows.
    pub(crate) const fn column(&self) -> Option<usize> {
        if let Recipe::Column(column) = self.law { Some(column) } else { None }
    }

    /// Whether a value found is the one that was bound. A number is found as decimal text.
    pub(crate) fn matches(
        &self,
        records: &Records,
        key: &[u8],
        kind: ValueType,
        bound: &[u8],
        found: &[u8],
    ) -> bool {
        match (&self.law, kind) {
            (Recipe::Field(field) | Recipe::Awaited(field), _) => {
                records.expected(key, iter::once((*field, found)))
            }
            (_, ValueType::Integer | ValueType::Timestamp) => {
                let bound = bound.try_into().map(i64::from_le_bytes).ok();
                let found = std::str::from_utf8(found).ok().and_then(|text| text.parse().ok());
                bound.is_some() && bound == found
            }
            _ => bound == found,
        }
    }
}

impl Recipe {
    fn new(generator: &Generator, popularity: Seed, place: &str) -> Result<Self, WorkloadError> {
        let sizes = |law| Sizes::new(law, &format!("{place}.length"));
        let inner =
            |generator: &Generator| Self::new(generator, popularity, &format!("{place}.of"));
        let choose = |choice: &KeyChoice| {
            KeyChooser::new(choice, popularity, None, &format!("{place}.choice")).map(Box::new)
        };
        Ok(match generator {
            Generator::Key => Self::Key,
            Generator::Ordinal => Self::Ordinal,
            Generator::Field { field } => Self::Field(*field),
            Generator::Column { column } => Self::Column(*column as usize),
            Generator::Number { choice } => Self::Number(choose(choice)?),
            Generator::Name { text, choice } => Self::Name(choose(choice)?, KeyWriter::new(text)),
            Generator::Computed { .. }
            | Generator::Split { .. }
            | Generator::Format { .. }
            | Generator::Checked { .. } => Self::Made,
            Generator::Gaussian { min, max, mean, stddev } => {
                require(min <= max, || format!("{place}.min"), min, "a number up to max")?;
                let usable = *stddev > 0.0 && stddev.is_finite() && mean.is_finite();
                require(usable, || format!("{place}.stddev"), stddev, "a deviation above 0")?;
                Self::Gaussian { min: *min, max: *max, mean: *mean, stddev: *stddev }
            }
            Generator::Fraction { min, max } => {
                let usable = min <= max && (max - min).is_finite();
                require(usable, || format!("{place}.min"), min, "a number up to max")?;
                Self::Fraction { min: *min, max: *max }
            }
            Generator::Text { length } => Self::Text(sizes(length)?),
            Generator::Blob { length } => Self::Blob(sizes(length)?),
            Generator::Ttl { unit_ms } => Self::Ttl(*unit_ms),
            Generator::ScanLength => Self::ScanLength,
            Generator::Boolean => Self::Boolean,
            Generator::Uuid => Self::Uuid,
            Generator::Timestamp { start_ms, step_ms } => {
                Self::Timestamp { start_ms: *start_ms, step_ms: *step_ms }
            }
            Generator::List { of, length } => Self::List(Box::new(inner(of)?), sizes(length)?),
            Generator::Tuple { of } => Self::Tuple(of.iter().map(inner).collect::<Result<_, _>>()?),
            Generator::Map { keys, values, length } => {
                Self::Map(Box::new(inner(keys)?), Box::new(inner(values)?), sizes(length)?)
            }
        })
    }

    /// What doesn't depend on the record. The laws that do never stand in a collection.
    fn append(&self, position: u64, random: &mut Random, bytes: &mut Vec<u8>) -> ValueType {
        match self {
            Self::Key
            | Self::Ordinal
            | Self::Field(_)
            | Self::Awaited(_)
            | Self::Column(_)
            | Self::Ttl(_)
            | Self::ScanLength
            | Self::Made => ValueType::Text,
            Self::Number(law) => {
                let number = law.choose(position, random, 0, |_| true);
                put_integer(number.cast_signed(), bytes)
            }
            Self::Name(law, text) => {
                text.append(law.choose(position, random, 0, |_| true), bytes);
                ValueType::Text
            }
            Self::Gaussian { min, max, mean, stddev } => {
                put_integer(gaussian((*min, *max), (*mean, *stddev), random), bytes)
            }
            Self::Fraction { min, max } => {
                let value = min + (max - min) * random.fraction();
                bytes.extend_from_slice(&value.to_le_bytes());
                ValueType::Fraction
            }
            Self::Text(length) => {
                let length = length.draw(random) as usize;
                append_noise(random, length, bytes);
                ValueType::Text
            }
            Self::Blob(length) => {
                let end = bytes.len() + length.draw(random) as usize;
                while bytes.len() < end {
                    bytes.extend_from_slice(&random.next().to_le_bytes());
                }
                bytes.truncate(end);
                ValueType::Bytes
            }
            Self::Boolean => {
                bytes.push((random.next() >> 63) as u8);
                ValueType::Boolean
            }
            Self::Uuid => put_uuid(random, bytes),
            Self::Timestamp { start_ms, step_ms } => {
                let passed = step_ms.wrapping_mul(position.cast_signed());
                put_integer(start_ms.wrapping_add(passed), bytes);
                ValueType::Timestamp
            }
            Self::List(of, length) => {
                let count = length.draw(random);
                put_elements(count, std::iter::repeat_n(&**of, count as usize), random, bytes);
                ValueType::List
            }
            Self::Tuple(of) => {
                put_elements(of.len() as u64, of.iter(), random, bytes);
                ValueType::Tuple
            }
            Self::Map(keys, values, length) => {
                let count = length.draw(random);
                let pairs = (0..count).flat_map(|_| [&**keys, &**values]);
                put_elements(2 * count, pairs, random, bytes);
                ValueType::Map
            }
        }
    }
}

/// A number outside is drawn again, or the ends would be more likely than the law says; where next
/// to nothing lies inside, the nearest end is taken.
fn gaussian((min, max): (i64, i64), (mean, stddev): (f64, f64), random: &mut Random) -> i64 {
    let mut drawn = (0..100).map(|_| (mean + stddev * normal(random)).round());
    let inside = |value: &f64| *value >= min as f64 && *value <= max as f64;
    let value = drawn.find(inside).unwrap_or(mean) as i64;
    value.clamp(min, max)
}

fn put_integer(value: i64, bytes: &mut Vec<u8>) -> ValueType {
    bytes.extend_from_slice(&value.to_le_bytes());
    ValueType::Integer
}

/// A UUID of version 4, whose 122 free bits are drawn.
fn put_uuid(random: &mut Random, bytes: &mut Vec<u8>) -> ValueType {
    let drawn = u128::from(random.next()) << 64 | u128::from(random.next());
    let version = drawn & !(0xF << 76) | 0x4 << 76;
    let variant = version & !(0x3 << 62) | 0x2 << 62;
    bytes.extend_from_slice(&variant.to_be_bytes());
    ValueType::Uuid
}

/// Writes the number of elements, then each with its kind and length.
fn put_elements<'a>(
    count: u64,
    elements: impl Iterator<Item = &'a Recipe>,
    random: &mut Random,
    bytes: &mut Vec<u8>,
) {
    bytes.extend_from_slice(&count.to_le_bytes());
    for (place, law) in elements.enumerate() {
        let header = bytes.len();
        bytes.extend_from_slice(&[0; 9]);
        let start = bytes.len();
        let kind = law.append(place as u64, random, bytes);
        let length = (bytes.len() - start) as u64;
        bytes[header] = kind as u8;
        bytes[header + 1..start].copy_from_slice(&length.to_le_bytes());
    }
}

/// Normally distributed with mean 0 and deviation 1 (Box and Muller, Ann. Math. Stat. 29, 1958).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * random.positive_fraction().ln()).sqrt();
    radius * (std::f64::consts::TAU * random.fraction()).cos()
}
