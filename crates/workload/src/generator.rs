//! Generates one argument of a statement.

use std::iter;
use std::ops::Range;

use kvmark_plan::{
    Basis, FormatPart, Generator, KeyChoice, OutOfRange, Random, Seed, ValueType, require,
};

use crate::arguments::{ArgumentAt, EarlierArguments, Element, TapedContent};
use crate::checksum;
use crate::decimal::Decimal;
use crate::distribution::KeyChooser;
use crate::key::KeyWriter;
use crate::records::{RecordRef, Records};
use crate::size::Sizes;
use crate::value::{append_bytes, append_noise};

/// A [`Generator`], ready to draw.
#[derive(Clone, Debug)]
pub(crate) struct ArgumentGenerator {
    recipe: Recipe,
    seed: Seed,
}

#[derive(Clone, Debug)]
enum Recipe {
    Key,
    Ordinal,
    Field(u32),
    /// A field that only replies contain, so that its value isn't generated.
    ReplyField(u32),
    Column(usize),
    /// In units of this number of milliseconds.
    Ttl(u64),
    ScanLength,
    Computed {
        of: Basis,
        divisor: u64,
        modulus: Option<u64>,
        factor: i64,
        start: i64,
        step: i64,
    },
    /// The seed is the statement's, so that both summands agree.
    Split {
        rest: bool,
        seed: Seed,
    },
    Format(Vec<FormatPiece>),
    Checked {
        prefix: ArgumentAt,
        length: Sizes,
        ascii: bool,
    },
    Drawn(Law),
}

/// A literal, and the argument after it.
#[derive(Clone, Debug)]
struct FormatPiece {
    literal: Vec<u8>,
    argument: Option<ArgumentAt>,
    zero_padding: usize,
}

/// A value that doesn't depend on the record or on other arguments.
#[derive(Clone, Debug)]
enum Law {
    /// A generator that collections can't contain.
    Nothing,
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
    List(Box<Law>, Sizes),
    Tuple(Vec<Law>),
    Map(Box<Law>, Box<Law>, Sizes),
}

impl ArgumentGenerator {
    /// The generator at a place in the plan. `seed` is its own, `shared` the statement's, and
    /// `popularity` determines which numbers are popular. `slots` are the arguments up to this one.
    pub(crate) fn new(
        generator: &Generator,
        slots: &[ArgumentAt],
        (seed, shared): (Seed, Seed),
        popularity: Seed,
        place: &str,
    ) -> Result<Self, OutOfRange> {
        let piece = |part: &FormatPart| FormatPiece {
            literal: part.literal.clone().into_bytes(),
            argument: part.argument.map(|index| slots[index as usize]),
            zero_padding: part.zero_padding as usize,
        };
        let recipe = match generator {
            Generator::Key => Recipe::Key,
            Generator::Ordinal => Recipe::Ordinal,
            Generator::Field { field } => Recipe::Field(*field),
            Generator::Column { column } => Recipe::Column(*column as usize),
            Generator::Ttl { unit_ms } => Recipe::Ttl(*unit_ms),
            Generator::ScanLength => Recipe::ScanLength,
            &Generator::Computed { of, divisor, modulus, factor, start, step } => {
                Recipe::Computed { of, divisor, modulus, factor, start, step }
            }
            Generator::Split { rest } => Recipe::Split { rest: *rest, seed: shared },
            Generator::Format { parts } => Recipe::Format(parts.iter().map(piece).collect()),
            Generator::Checked { prefix, length, ascii } => Recipe::Checked {
                prefix: slots[*prefix as usize],
                length: Sizes::new(length, &format!("{place}.length"))?,
                ascii: *ascii,
            },
            drawn => Recipe::Drawn(Law::new(drawn, popularity, place)?),
        };
        Ok(Self { recipe, seed })
    }

    /// Appends the bytes of an element's value and returns its type. `key` is the record's, needed
    /// if [`Records::values_hold_keys`]. Content of a tape is used as it is.
    #[inline]
    pub(crate) fn append(
        &self,
        records: &Records,
        element: Element,
        earlier: EarlierArguments<'_>,
        key: &[u8],
        taped: &TapedContent,
        bytes: &mut Vec<u8>,
    ) -> ValueType {
        let Element { number, place, ordinal, .. } = element;
        match &self.recipe {
            Recipe::Key => {
                match taped.key() {
                    Some(key) => bytes.extend_from_slice(key),
                    None => records.append_key(ordinal, bytes),
                }
                ValueType::Text
            }
            Recipe::Ordinal => put_integer(ordinal.cast_signed(), bytes),
            Recipe::Field(field) => {
                match taped.value() {
                    Some(value) => bytes.extend_from_slice(value),
                    None => {
                        let record = RecordRef { ordinal, key };
                        records.append_value(number, place, *field, record, bytes);
                    }
                }
                ValueType::Text
            }
            // A column is appended by the statement's table.
            Recipe::ReplyField(_) | Recipe::Column(_) => ValueType::Text,
            Recipe::Ttl(unit_ms) => {
                put_integer((taped.ttl_ms / unit_ms).max(1).cast_signed(), bytes)
            }
            Recipe::ScanLength => put_integer(taped.scan_length.cast_signed(), bytes),
            Recipe::Drawn(law) => {
                let mut random = self.seed.random_of_part(number, place);
                law.append(element.position, &mut random, bytes)
            }
            derived => self.append_derived(derived, element, earlier, bytes),
        }
    }

    fn append_derived(
        &self,
        recipe: &Recipe,
        element: Element,
        earlier: EarlierArguments<'_>,
        bytes: &mut Vec<u8>,
    ) -> ValueType {
        let Element { number, place, ordinal, .. } = element;
        match recipe {
            Recipe::Computed { of, divisor, modulus, factor, start, step } => {
                let basis = match of {
                    Basis::Ordinal => ordinal,
                    Basis::Operation => number,
                    Basis::Place => place,
                };
                let quotient = basis / divisor;
                let rest = modulus.map_or(quotient, |modulus| quotient % modulus).cast_signed();
                let steps = step.wrapping_mul(place.cast_signed());
                let value = start.wrapping_add(rest.wrapping_mul(*factor)).wrapping_add(steps);
                put_integer(value, bytes)
            }
            Recipe::Split { rest, seed } => {
                let first = seed.random_of_part(number, place).within(0, ordinal);
                put_integer(if *rest { ordinal - first } else { first }.cast_signed(), bytes)
            }
            Recipe::Format(pieces) => {
                pieces.iter().for_each(|piece| piece.append(earlier, bytes));
                ValueType::Text
            }
            Recipe::Checked { prefix, length, ascii } => {
                let mut random = self.seed.random_of_part(number, place);
                let length = length.draw(&mut random) as usize;
                let prefix = earlier.of(*prefix).1.clone();
                checksum::append(&mut random, length, *ascii, prefix, bytes);
                if *ascii { ValueType::Text } else { ValueType::Bytes }
            }
            _ => ValueType::Text,
        }
    }

    /// Appends the values for all commands of an operation, which have these records, and stores
    /// type and place of each. For values that depend neither on keys nor on other arguments.
    #[inline]
    pub(crate) fn append_each<'a>(
        &self,
        records: &Records,
        first: Element,
        ordinals: &[u64],
        taped: &TapedContent,
        bytes: &mut Vec<u8>,
        places: impl Iterator<Item = &'a mut (ValueType, Range<usize>)>,
    ) {
        let each = ordinals.iter().zip(places).zip(0..);
        match &self.recipe {
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
                    let record = RecordRef { ordinal: *ordinal, key: &[] };
                    records.append_value_of(of, command, *field, record, bytes);
                    *place = (ValueType::Text, start..bytes.len());
                });
            }
            // The places are empty already.
            Recipe::ReplyField(_) => {}
            _ => each.for_each(|((ordinal, place), command)| {
                let position = first.position.wrapping_add(command);
                let element = Element { place: command, position, ordinal: *ordinal, ..first };
                let start = bytes.len();
                let earlier = EarlierArguments::NONE;
                let kind = self.append(records, element, earlier, &[], taped, bytes);
                *place = (kind, start..bytes.len());
            }),
        }
    }

    /// Omits the value of a field that only replies contain: the check doesn't need it.
    #[must_use]
    pub(crate) fn for_replies_only(mut self) -> Self {
        if let Recipe::Field(field) = self.recipe {
            self.recipe = Recipe::ReplyField(field);
        }
        self
    }

    /// Whether it generates the value of a field.
    pub(crate) const fn makes_field(&self) -> bool {
        matches!(self.recipe, Recipe::Field(_))
    }

    /// Whether it contains the values of other arguments.
    pub(crate) const fn refers_to_others(&self) -> bool {
        matches!(self.recipe, Recipe::Format(_) | Recipe::Checked { .. })
    }

    /// The index of the column that it takes from the statement's rows.
    pub(crate) const fn column(&self) -> Option<usize> {
        if let Recipe::Column(column) = self.recipe { Some(column) } else { None }
    }

    /// Whether a returned value is the argument's bound value, or has the right prefix and
    /// checksum. Numbers are returned as decimal text.
    pub(crate) fn matches(
        &self,
        records: &Records,
        key: &[u8],
        (drawn, at): (EarlierArguments<'_>, ArgumentAt),
        bytes: &[u8],
        found: &[u8],
    ) -> bool {
        let (kind, place) = drawn.of(at);
        let bound = &bytes[place.clone()];
        match (&self.recipe, kind) {
            (Recipe::Field(field) | Recipe::ReplyField(field), _) => {
                records.expected(key, iter::once((*field, found)))
            }
            (Recipe::Checked { prefix, .. }, _) => {
                checksum::is_intact(&bytes[drawn.of(*prefix).1.clone()], found)
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

impl FormatPiece {
    fn append(&self, earlier: EarlierArguments<'_>, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.literal);
        let Some(argument) = self.argument else { return };
        let (kind, place) = earlier.of(argument);
        match (kind, bytes[place.clone()].first_chunk()) {
            (ValueType::Integer | ValueType::Timestamp, Some(value)) => {
                let value = i64::from_le_bytes(*value);
                let decimal = Decimal::of(value < 0, value.unsigned_abs());
                let zeros = self.zero_padding.saturating_sub(decimal.len());
                bytes.resize(bytes.len() + zeros, b'0');
                let (text, length) = decimal.written();
                bytes.extend_from_slice(&text[..length]);
            }
            _ => bytes.extend_from_within(place.clone()),
        }
    }
}

impl Law {
    fn new(generator: &Generator, popularity: Seed, place: &str) -> Result<Self, OutOfRange> {
        let sizes = |law| Sizes::new(law, &format!("{place}.length"));
        let inner =
            |generator: &Generator| Self::new(generator, popularity, &format!("{place}.of"));
        let choose = |choice: &KeyChoice| {
            KeyChooser::new(choice, popularity, None, &format!("{place}.choice")).map(Box::new)
        };
        Ok(match generator {
            Generator::Number { choice } => Self::Number(choose(choice)?),
            Generator::Name { text, choice } => Self::Name(choose(choice)?, KeyWriter::new(text)),
            &Generator::Gaussian { min, max, mean, stddev } => {
                require(min <= max, || format!("{place}.min"), min, "a number up to max")?;
                let usable = stddev > 0.0 && stddev.is_finite() && mean.is_finite();
                require(usable, || format!("{place}.stddev"), stddev, "a deviation above 0")?;
                Self::Gaussian { min, max, mean, stddev }
            }
            &Generator::Fraction { min, max } => {
                let usable = min <= max && (max - min).is_finite();
                require(usable, || format!("{place}.min"), min, "a number up to max")?;
                Self::Fraction { min, max }
            }
            Generator::Text { length } => Self::Text(sizes(length)?),
            Generator::Blob { length } => Self::Blob(sizes(length)?),
            Generator::Boolean => Self::Boolean,
            Generator::Uuid => Self::Uuid,
            &Generator::Timestamp { start_ms, step_ms } => Self::Timestamp { start_ms, step_ms },
            Generator::List { of, length } => Self::List(Box::new(inner(of)?), sizes(length)?),
            Generator::Tuple { of } => Self::Tuple(of.iter().map(inner).collect::<Result<_, _>>()?),
            Generator::Map { keys, values, length } => {
                Self::Map(Box::new(inner(keys)?), Box::new(inner(values)?), sizes(length)?)
            }
            _ => Self::Nothing,
        })
    }

    fn append(&self, position: u64, random: &mut Random, bytes: &mut Vec<u8>) -> ValueType {
        match self {
            Self::Nothing => ValueType::Text,
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
                let length = length.draw(random) as usize;
                append_bytes(random, length, bytes);
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

/// Draws again outside the bounds, because clamping would make the bounds too likely. If hardly any
/// probability lies inside, returns the nearest bound.
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

/// A UUID of version 4 with 122 random bits.
fn put_uuid(random: &mut Random, bytes: &mut Vec<u8>) -> ValueType {
    let drawn = u128::from(random.next()) << 64 | u128::from(random.next());
    let version = drawn & !(0xF << 76) | 0x4 << 76;
    let variant = version & !(0x3 << 62) | 0x2 << 62;
    bytes.extend_from_slice(&variant.to_be_bytes());
    ValueType::Uuid
}

/// Writes the number of elements, then each with its type and length.
fn put_elements<'a>(
    count: u64,
    elements: impl Iterator<Item = &'a Law>,
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
