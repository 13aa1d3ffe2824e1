//! The types of columns, read from the descriptions in results.
//!
//! Source: Apache Cassandra, `doc/native_protocol_v4.spec`, section 4.2.5.2. Version 4 has no
//! identifier for a vector, so the name of its class describes it.

use std::fmt;

use crate::cql::Reader;

/// Depth of types within types.
const DEPTH_MAX: u32 = 32;

/// A type without elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are CQL's")]
pub enum NativeType {
    Ascii,
    BigInt,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Float,
    Inet,
    Int,
    SmallInt,
    Text,
    Time,
    Timestamp,
    Timeuuid,
    TinyInt,
    Uuid,
    Varint,
}

/// The identifiers and the classes of native types.
const NATIVES: [(u16, &str, NativeType); 20] = [
    (0x01, "AsciiType", NativeType::Ascii),
    (0x02, "LongType", NativeType::BigInt),
    (0x03, "BytesType", NativeType::Blob),
    (0x04, "BooleanType", NativeType::Boolean),
    (0x05, "CounterColumnType", NativeType::Counter),
    (0x06, "DecimalType", NativeType::Decimal),
    (0x07, "DoubleType", NativeType::Double),
    (0x08, "FloatType", NativeType::Float),
    (0x09, "Int32Type", NativeType::Int),
    (0x0b, "TimestampType", NativeType::Timestamp),
    (0x0c, "UUIDType", NativeType::Uuid),
    (0x0d, "UTF8Type", NativeType::Text),
    (0x0e, "IntegerType", NativeType::Varint),
    (0x0f, "TimeUUIDType", NativeType::Timeuuid),
    (0x10, "InetAddressType", NativeType::Inet),
    (0x11, "SimpleDateType", NativeType::Date),
    (0x12, "TimeType", NativeType::Time),
    (0x13, "ShortType", NativeType::SmallInt),
    (0x14, "ByteType", NativeType::TinyInt),
    (0x15, "DurationType", NativeType::Duration),
];

impl NativeType {
    /// Whether a vector stores elements of this type without their lengths. Some types of fixed
    /// width aren't stored in this way.
    pub const fn is_fixed_in_vectors(self) -> bool {
        matches!(
            self,
            Self::BigInt
                | Self::Boolean
                | Self::Double
                | Self::Float
                | Self::Int
                | Self::Timestamp
                | Self::Timeuuid
                | Self::Uuid
        )
    }
}

/// The type of a column, of a bind marker or of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A type without elements.
    Native(NativeType),
    /// A list.
    List(Box<Self>),
    /// A set.
    Set(Box<Self>),
    /// The types of keys and values.
    Map(Box<[Self; 2]>),
    /// The types of the elements.
    Tuple(Vec<Self>),
    /// The name of a user-defined type, and the types of its fields.
    UserDefined(String, Vec<Self>),
    /// The type and the number of elements.
    Vector(Box<Self>, u16),
}

impl fmt::Display for ColumnType {
    /// Writes the type in CQL.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native(native) => {
                formatter.write_str(&format!("{native:?}").to_ascii_lowercase())
            }
            Self::List(of) => write!(formatter, "list<{of}>"),
            Self::Set(of) => write!(formatter, "set<{of}>"),
            Self::Map(of) => write!(formatter, "map<{}, {}>", of[0], of[1]),
            Self::Vector(of, dimensions) => write!(formatter, "vector<{of}, {dimensions}>"),
            Self::UserDefined(name, _) => formatter.write_str(name),
            Self::Tuple(of) => {
                let of: Vec<_> = of.iter().map(ToString::to_string).collect();
                write!(formatter, "tuple<{}>", of.join(", "))
            }
        }
    }
}

impl ColumnType {
    /// Reads a type; `None` if it is truncated or nested too deeply. Unknown types are blobs.
    pub fn read(body: &mut Reader<'_>) -> Option<Self> {
        Self::nested(body, 0)
    }

    fn nested(body: &mut Reader<'_>, depth: u32) -> Option<Self> {
        if depth > DEPTH_MAX {
            return None;
        }
        let inner = |body: &mut Reader<'_>| Self::nested(body, depth + 1);
        Some(match body.short()? {
            0 => {
                let class = std::str::from_utf8(body.short_bytes()?).ok()?;
                Self::of_class(class, 0)?.typ
            }
            0x20 => Self::List(Box::new(inner(body)?)),
            0x21 => Self::Map(Box::new([inner(body)?, inner(body)?])),
            0x22 => Self::Set(Box::new(inner(body)?)),
            0x30 => {
                // The keyspace.
                body.short_bytes()?;
                let name = String::from_utf8_lossy(body.short_bytes()?).into_owned();
                let count = body.short()?;
                let field = |_| body.short_bytes().and_then(|_| inner(body));
                Self::UserDefined(name, (0..count).map(field).collect::<Option<_>>()?)
            }
            0x31 => {
                let count = body.short()?;
                Self::Tuple((0..count).map(|_| inner(body)).collect::<Option<_>>()?)
            }
            id => {
                let native = NATIVES.iter().find(|(known, ..)| *known == id);
                Self::Native(native.map_or(NativeType::Blob, |(.., native)| *native))
            }
        })
    }

    /// Parses the class that a text begins with: `[field:][package.]Name[(argument, …)]`.
    fn of_class(text: &str, depth: u32) -> Option<Class<'_>> {
        if depth > DEPTH_MAX {
            return None;
        }
        let (word, mut rest) = text.split_at(text.find(['(', ')', ',']).unwrap_or(text.len()));
        let word = word.trim();
        let mut arguments = Vec::new();
        if rest.starts_with('(') {
            while !rest.starts_with(')') {
                let argument = Self::of_class(rest.get(1..)?, depth + 1)?;
                rest = argument.rest.trim_start();
                arguments.push(argument);
            }
            rest = &rest[1..];
        }
        let name = word.rsplit(['.', ':']).next().unwrap_or_default();
        Some(Class { word, typ: Self::of_name(name, arguments)?, rest })
    }

    fn of_name(name: &str, arguments: Vec<Class<'_>>) -> Option<Self> {
        let words: Vec<_> = arguments.iter().map(|argument| argument.word).collect();
        let mut types = arguments.into_iter().map(|argument| argument.typ);
        let mut next = || types.next().map(Box::new);
        Some(match name {
            "FrozenType" | "ReversedType" => *next()?,
            "ListType" => Self::List(next()?),
            "SetType" => Self::Set(next()?),
            "MapType" => Self::Map(Box::new([*next()?, *next()?])),
            "TupleType" => Self::Tuple(types.collect()),
            // The keyspace and the name in hexadecimal digits come first.
            "UserType" => Self::UserDefined((*words.get(1)?).to_owned(), types.skip(2).collect()),
            "VectorType" => Self::Vector(next()?, words.get(1)?.parse().ok()?),
            _ => {
                let native = NATIVES.iter().find(|(_, class, _)| *class == name);
                Self::Native(native.map_or(NativeType::Blob, |(.., native)| *native))
            }
        })
    }
}

/// A parsed class: its word without arguments, and the text after it.
struct Class<'a> {
    word: &'a str,
    typ: ColumnType,
    rest: &'a str,
}

/// A column or a bind marker as described in a result.
#[derive(Clone, Debug)]
pub struct Column<'a> {
    /// Its keyspace.
    pub keyspace: &'a [u8],
    /// Its table.
    pub table: &'a [u8],
    /// Its name.
    pub name: &'a [u8],
    /// Its type.
    pub typ: ColumnType,
}

impl<'a> Column<'a> {
    /// Reads a description of columns, which may be `of_one_table`; `None` if it is truncated.
    pub fn read_all(body: &mut Reader<'a>, count: usize, of_one_table: bool) -> Option<Vec<Self>> {
        let mut place: [&[u8]; 2] = [&[]; 2];
        if of_one_table && count > 0 {
            place = [body.short_bytes()?, body.short_bytes()?];
        }
        let mut columns = Vec::new();
        for _ in 0..count {
            if !of_one_table {
                place = [body.short_bytes()?, body.short_bytes()?];
            }
            let [keyspace, table] = place;
            let name = body.short_bytes()?;
            columns.push(Self { keyspace, table, name, typ: ColumnType::read(body)? });
        }
        Some(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cql::put_short;

    #[test]
    fn every_type_is_read_and_named() {
        let udt = b"\0\x30\0\x02ks\0\x04pair\0\x02\0\x01a\0\x0d\0\x01b\0\x09";
        let cases: [(&[u8], &str); 7] = [
            (b"\0\x0d", "text"),
            (b"\0\x22\0\x14", "set<tinyint>"),
            (b"\0\x21\0\x0c\0\x20\0\x02", "map<uuid, list<bigint>>"),
            (b"\0\x31\0\x02\0\x13\0\x15", "tuple<smallint, duration>"),
            (udt, "pair"),
            (b"\0\0\0\x04Some", "blob"),
            (b"\x12\x34", "blob"),
        ];
        for (bytes, name) in cases {
            let mut body = Reader(bytes);
            assert_eq!(ColumnType::read(&mut body).unwrap().to_string(), name);
            assert!(body.0.is_empty(), "{name}");
            assert!(
                (0..bytes.len())
                    .all(|end| { ColumnType::read(&mut Reader(&bytes[..end])).is_none() })
            );
        }
    }

    #[test]
    fn a_class_is_read_by_its_name() {
        let prefix = "org.apache.cassandra.db.marshal.";
        let cases = [
            ("VectorType(@FloatType , 3)", "vector<float, 3>"),
            ("@VectorType(@FrozenType(@ListType(@Int32Type)),2)", "vector<list<int>, 2>"),
            (
                "@MapType(@UTF8Type,@TupleType(@LongType, @UUIDType))",
                "map<text, tuple<bigint, uuid>>",
            ),
            ("@SetType(@TimestampType)", "set<timestamp>"),
            ("@UserType(ks,70616972,61:@Int32Type,62:@UTF8Type)", "70616972"),
            ("@DynamicCompositeType(s=>@UTF8Type)", "blob"),
            ("", "blob"),
        ];
        for (class, name) in cases {
            let mut bytes = vec![0, 0];
            put_short(&mut bytes, class.replace('@', prefix).as_bytes());
            let read = ColumnType::read(&mut Reader(&bytes)).unwrap();
            assert_eq!(read.to_string(), name, "{class}");
        }
        for class in ["VectorType(FloatType)", "ListType()x", "ListType(", &"ListType(".repeat(99)]
        {
            let mut bytes = vec![0, 0];
            put_short(&mut bytes, class.as_bytes());
            let read = ColumnType::read(&mut Reader(&bytes));
            assert!(read.is_none() || class == "ListType()x", "{class}: {read:?}");
        }
    }
}
