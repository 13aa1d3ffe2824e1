use kvmark_plan::SizeLaw;

use super::*;

fn of(native: NativeType) -> ColumnType {
    ColumnType::Native(native)
}

fn list(element: NativeType) -> ColumnType {
    ColumnType::List(Box::new(of(element)))
}

/// A value's bytes without their length.
fn written(column: &ColumnType, kind: ValueType, bytes: &[u8]) -> Result<Vec<u8>, Misfit> {
    let mut output = Vec::new();
    write(column, kind, bytes, &mut output)?;
    Ok(output.split_off(4))
}

fn integer(native: NativeType, number: i64) -> Result<Vec<u8>, Misfit> {
    written(&of(native), ValueType::Integer, &number.to_le_bytes())
}

fn fraction_of(native: NativeType, number: f64) -> Vec<u8> {
    written(&of(native), ValueType::Fraction, &number.to_le_bytes()).unwrap()
}

/// Elements as the engine lays them out.
fn elements(of: &[(ValueType, &[u8])]) -> Vec<u8> {
    let mut bytes = (of.len() as u64).to_le_bytes().to_vec();
    for (kind, value) in of {
        bytes.push(*kind as u8);
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        bytes.extend_from_slice(value);
    }
    bytes
}

fn number() -> Generator {
    Generator::Gaussian { min: -5, max: 300, mean: 0.0, stddev: 1.0 }
}

fn text() -> Generator {
    Generator::Text { length: SizeLaw::Constant { size: 3 } }
}

#[test]
fn a_whole_number_takes_the_columns_width() {
    assert_eq!(integer(NativeType::Int, -2).unwrap(), (-2_i32).to_be_bytes());
    assert_eq!(integer(NativeType::BigInt, 1).unwrap(), 1_i64.to_be_bytes());
    assert_eq!(integer(NativeType::SmallInt, 300).unwrap(), [1, 44]);
    assert_eq!(integer(NativeType::TinyInt, -1).unwrap(), [255]);
    assert_eq!(integer(NativeType::Counter, 7).unwrap(), 7_i64.to_be_bytes());
    let error = integer(NativeType::TinyInt, 128).unwrap_err().to_string();
    assert_eq!(error, "the number 128 can't be of type tinyint");
}

#[test]
fn a_varint_has_no_byte_too_many() {
    for (number, bytes) in [(0, vec![0]), (127, vec![127]), (128, vec![0, 128]), (-1, vec![255])] {
        assert_eq!(integer(NativeType::Varint, number).unwrap(), bytes, "{number}");
    }
    assert_eq!(integer(NativeType::Varint, -129).unwrap(), [0xff, 0x7f]);
}

#[test]
fn a_fraction_becomes_a_float_a_double_or_a_decimal() {
    assert_eq!(fraction_of(NativeType::Double, 1.5), 1.5_f64.to_be_bytes());
    assert_eq!(fraction_of(NativeType::Float, 1.5), 1.5_f32.to_be_bytes());
    assert_eq!(fraction_of(NativeType::Decimal, -1.25), [0, 0, 0, 2, 0x83]);
}

#[test]
fn times_count_from_their_own_beginnings() {
    let at = |native| written(&of(native), ValueType::Timestamp, &86_400_001_i64.to_le_bytes());
    assert_eq!(at(NativeType::Timestamp).unwrap(), 86_400_001_i64.to_be_bytes());
    assert_eq!(at(NativeType::Date).unwrap(), (0x8000_0001_u32).to_be_bytes());
    assert_eq!(at(NativeType::Time).unwrap(), 1_000_000_i64.to_be_bytes());
    assert!(at(NativeType::Int).is_err());
}

#[test]
fn a_uuid_says_version_1_where_it_must() {
    let bytes = [0xff; 16];
    let uuid = written(&of(NativeType::Uuid), ValueType::Uuid, &bytes).unwrap();
    let timeuuid = written(&of(NativeType::Timeuuid), ValueType::Uuid, &bytes).unwrap();
    assert_eq!((uuid[6], timeuuid[6]), (0xff, 0x1f));
}

#[test]
fn an_address_is_read_from_its_text() {
    let inet = |text: &[u8]| written(&of(NativeType::Inet), ValueType::Text, text);
    assert_eq!(inet(b"127.0.0.1").unwrap(), [127, 0, 0, 1]);
    assert_eq!(inet(b"::1").unwrap().len(), 16);
    assert!(inet(b"here").is_err());
}

#[test]
fn collections_hold_their_elements_in_the_columns_types() {
    let [one, two] = [1_i64, 2].map(i64::to_le_bytes);
    let bytes = elements(&[(ValueType::Integer, &one), (ValueType::Integer, &two)]);
    let written_list = written(&list(NativeType::Int), ValueType::List, &bytes).unwrap();
    assert_eq!(written_list, b"\0\0\0\x02\0\0\0\x04\0\0\0\x01\0\0\0\x04\0\0\0\x02");
    let map = ColumnType::Map(Box::new([of(NativeType::Text), of(NativeType::TinyInt)]));
    let bytes = elements(&[(ValueType::Text, b"a"), (ValueType::Integer, &one)]);
    let written_map = written(&map, ValueType::Map, &bytes).unwrap();
    assert_eq!(written_map, b"\0\0\0\x01\0\0\0\x01a\0\0\0\x01\x01");
    let tuple = ColumnType::Tuple(vec![of(NativeType::Text), of(NativeType::TinyInt)]);
    assert_eq!(written(&tuple, ValueType::Tuple, &bytes).unwrap(), b"\0\0\0\x01a\0\0\0\x01\x01");
    let vector = ColumnType::Vector(Box::new(of(NativeType::Float)), 1);
    let bytes = elements(&[(ValueType::Integer, &two)]);
    assert_eq!(written(&vector, ValueType::List, &bytes).unwrap(), 2_f32.to_be_bytes());
}

#[test]
fn what_comes_back_is_what_was_drawn() {
    let [one, two] = [1_i64, -2].map(i64::to_le_bytes);
    let bytes = elements(&[(ValueType::Integer, &one), (ValueType::Integer, &two)]);
    let column = list(NativeType::SmallInt);
    let mut back = Vec::new();
    let value = written(&column, ValueType::List, &bytes).unwrap();
    crate::decode::append(&column, &value, &mut back);
    assert_eq!(back, bytes);
    for number in [0, -1, 127, 128, -129, i64::MAX, i64::MIN] {
        let mut back = Vec::new();
        let value = integer(NativeType::Varint, number).unwrap();
        crate::decode::append(&of(NativeType::Varint), &value, &mut back);
        assert_eq!(String::from_utf8(back).unwrap(), number.to_string());
    }
}

#[test]
fn what_can_never_fit_is_found_before_it_is_drawn() {
    let told = |generator: &Generator, column| check(generator, &column).unwrap_err().to_string();
    assert_eq!(told(&text(), of(NativeType::Int)), "a text can't be of type int");
    assert_eq!(told(&number(), of(NativeType::TinyInt)), "the number 300 can't be of type tinyint");
    assert_eq!(told(&number(), list(NativeType::Int)), "a single value can't be of type list<int>");
    let texts = Generator::List { of: Box::new(text()), length: SizeLaw::Constant { size: 2 } };
    assert_eq!(told(&texts, list(NativeType::Int)), "a text can't be of type int");
    assert_eq!(told(&texts, of(NativeType::Text)), "a list can't be of type text");
    let pair = Generator::Tuple { of: vec![text(), text()] };
    let one = ColumnType::Tuple(vec![of(NativeType::Text)]);
    assert_eq!(told(&pair, one), "a tuple of 2 can't be of type tuple<text>");
}

#[test]
fn what_fits_is_let_pass() {
    let passes = |generator: &Generator, column| check(generator, &column).is_ok();
    assert!(passes(&text(), of(NativeType::Text)) && passes(&text(), of(NativeType::Blob)));
    assert!(passes(&Generator::Field { field: 0 }, of(NativeType::Text)));
    assert!(passes(&Generator::Field { field: 0 }, of(NativeType::Blob)));
    assert!(passes(&Generator::Ordinal, of(NativeType::Counter)));
    assert!(passes(&Generator::Uuid, of(NativeType::Timeuuid)));
    assert!(passes(&Generator::Boolean, of(NativeType::Boolean)));
    assert!(passes(&number(), of(NativeType::SmallInt)));
    for told in [Generator::Ttl { unit_ms: 1000 }, Generator::ScanLength] {
        assert!(passes(&told, of(NativeType::Int)));
    }
}

#[test]
fn what_is_nothing_is_null_in_any_column() {
    for column in [of(NativeType::Int), of(NativeType::Text), list(NativeType::Int)] {
        let mut output = Vec::new();
        write(&column, ValueType::Null, &[], &mut output).unwrap();
        assert_eq!(output, (-1_i32).to_be_bytes());
    }
}
