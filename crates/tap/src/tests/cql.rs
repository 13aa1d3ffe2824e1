//! Dialogues of CQL as they are recorded and as they are forwarded.

use kvmark_plan::Outcome::{Miss, Ok as Done, Refused, Unavailable};
use kvmark_wire::cql::{
    BATCH, ERROR, EVENT, EXECUTE, OPTIONS, PREPARE, PREPARED, QUERY, READY, RESULT, ROWS, STARTUP,
    SUPPORTED, put_long, put_short, set_length,
};

use super::*;
use crate::cql::{Passed, Rewriter};

const AUTH_RESPONSE: u8 = 15;
/// Places of two markers, `k blob` and `v blob`, of one table.
const SECRET: &[u8] = b"hunter";

/// A frame of version 4.
pub(super) fn frame(is_reply: bool, opcode: u8, stream: u16, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![if is_reply { 0x84 } else { 4 }, 0, 0, 0, opcode, 0, 0, 0, 0];
    frame[2..4].copy_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(body);
    set_length(&mut frame);
    frame
}

fn asked(opcode: u8, stream: u16, body: &[u8]) -> Vec<u8> {
    frame(false, opcode, stream, body)
}

fn said(opcode: u8, stream: u16, body: &[u8]) -> Vec<u8> {
    frame(true, opcode, stream, body)
}

fn long(text: &str) -> Vec<u8> {
    let mut body = Vec::new();
    put_long(&mut body, text.as_bytes());
    body
}

/// The description of columns of one table, with their types.
fn columns(place: [&str; 2], columns: &[(&str, u16)]) -> Vec<u8> {
    let mut body = Vec::new();
    place.iter().for_each(|word| put_short(&mut body, word.as_bytes()));
    for (name, typ) in columns {
        put_short(&mut body, name.as_bytes());
        body.extend_from_slice(&typ.to_be_bytes());
    }
    body
}

/// The reply to PREPARE with these markers, of which some are the key.
fn prepared(stream: u16, id: &[u8], markers: &[(&str, u16)], key: &[u16]) -> Vec<u8> {
    let mut body = PREPARED.to_be_bytes().to_vec();
    put_short(&mut body, id);
    for number in [1, markers.len() as u32, key.len() as u32] {
        body.extend_from_slice(&number.to_be_bytes());
    }
    key.iter().for_each(|index| body.extend_from_slice(&index.to_be_bytes()));
    body.extend_from_slice(&columns(["ks", "t"], markers));
    body.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0]);
    said(RESULT, stream, &body)
}

/// The values of a request, after their number.
fn values(values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut body = (values.len() as u16).to_be_bytes().to_vec();
    for value in values {
        match value {
            Some(value) => put_long(&mut body, value),
            None => body.extend_from_slice(&[0xff; 4]),
        }
    }
    body
}

fn execute(stream: u16, id: &[u8], bound: &[Option<&[u8]>]) -> Vec<u8> {
    let mut body = Vec::new();
    put_short(&mut body, id);
    body.extend_from_slice(&[0, 1, 1]);
    body.extend_from_slice(&values(bound));
    asked(EXECUTE, stream, &body)
}

/// Rows of these cells in columns of blobs.
fn rows_of(stream: u16, names: &[&str], cells: &[Option<&[u8]>]) -> Vec<u8> {
    let mut body = ROWS.to_be_bytes().to_vec();
    body.extend_from_slice(&[0, 0, 0, 1]);
    body.extend_from_slice(&(names.len() as u32).to_be_bytes());
    let described: Vec<_> = names.iter().map(|name| (*name, 3)).collect();
    body.extend_from_slice(&columns(["ks", "t"], &described));
    body.extend_from_slice(&((cells.len() / names.len()) as u32).to_be_bytes());
    body.extend_from_slice(&values(cells)[2..]);
    said(RESULT, stream, &body)
}

fn error(stream: u16, code: u32) -> Vec<u8> {
    said(ERROR, stream, &[&code.to_be_bytes()[..], b"\0\x02no"].concat())
}

fn void(stream: u16) -> Vec<u8> {
    said(RESULT, stream, &1_u32.to_be_bytes())
}

/// The requests and replies of a connection, with replies in another order.
pub(super) fn dialogue() -> (Vec<u8>, Vec<u8>) {
    let blob = 3;
    let mut batch = vec![0, 0, 2];
    for (key, value) in [(&b"key"[..], &b"1234"[..]), (b"other", b"12345678")] {
        batch.push(1);
        put_short(&mut batch, b"write");
        batch.extend_from_slice(&values(&[Some(key), Some(value), None]));
    }
    batch.extend_from_slice(&[0, 1, 0]);
    let secret = [&6_u32.to_be_bytes()[..], SECRET].concat();
    let query = |text: &str| [&long(text)[..], &[0, 1, 0]].concat();
    let requests = [
        asked(STARTUP, 0, b"\0\0"),
        asked(AUTH_RESPONSE, 0, &secret),
        asked(QUERY, 0, &query("SELECT * FROM system.local")),
        asked(PREPARE, 1, &long("SELECT v FROM ks.t WHERE k = ?")),
        asked(PREPARE, 2, &long("insert into ks.t(k, v) values (?, ?) USING TTL ?")),
        asked(PREPARE, 3, &long("UPDATE ks.t SET v = ? WHERE a = ? AND b = ?")),
        execute(4, b"write", &[Some(b"key"), Some(b"value"), Some(&60_u32.to_be_bytes())]),
        execute(5, b"read", &[Some(b"key")]),
        execute(6, b"read", &[Some(b"gone")]),
        execute(7, b"composite", &[Some(b"12"), Some(b"a"), Some(b"bc")]),
        execute(8, b"unknown", &[Some(b"key")]),
        asked(BATCH, 9, &batch),
        asked(QUERY, 10, &query("CREATE ROLE r WITH PASSWORD = 'hunter'")),
        asked(QUERY, 11, &query("SELECT * FROM \"ks\".t WHERE k = 'hunter'")),
        execute(12, b"write", &[Some(b"key"), Some(b"v"), None]),
    ];
    let replies = [
        said(READY, 0, b""),
        rows_of(0, &["x"], &[Some(b"1")]),
        prepared(2, b"write", &[("k", blob), ("v", blob), ("[ttl]", 9)], &[0]),
        prepared(1, b"read", &[("k", blob)], &[0]),
        prepared(3, b"composite", &[("v", blob), ("a", blob), ("b", blob)], &[1, 2]),
        rows_of(6, &["k", "v"], &[]),
        rows_of(5, &["k", "v"], &[Some(b"key"), Some(b"value"), Some(b"key"), None]),
        said(EVENT, u16::MAX, b"\0\x03any"),
        void(4),
        void(7),
        error(8, 0x2500),
        void(9),
        void(10),
        rows_of(11, &["k"], &[]),
        error(12, 0x1000),
    ];
    (requests.concat(), replies.concat())
}

/// The requests up to the preparations, their replies, and the rest: a client waits for them.
fn in_order() -> [(bool, Vec<u8>); 4] {
    let (requests, replies) = dialogue();
    let place = |bytes: &[u8], opcode: u8, stream: u8| {
        let mut at = 0;
        while (bytes[at + 3], bytes[at + 4]) != (stream, opcode) {
            let length: [u8; 4] = bytes[at + 5..at + 9].try_into().unwrap();
            at += 9 + u32::from_be_bytes(length) as usize;
        }
        at
    };
    let (asked, said) = (place(&requests, EXECUTE, 4), place(&replies, RESULT, 6));
    let (first, second) = requests.split_at(asked);
    let (third, fourth) = replies.split_at(said);
    [(true, first), (false, third), (true, second), (false, fourth)]
        .map(|(side, bytes)| (side, bytes.to_vec()))
}

fn borrowed(pieces: &[(bool, Vec<u8>)]) -> Vec<(bool, &[u8])> {
    pieces.iter().map(|(side, bytes)| (*side, &bytes[..])).collect()
}

#[test]
fn statements_of_cql_are_recorded_with_their_replies() {
    let pieces = in_order();
    let expected = [
        row("INSERT ks.t {key} {value} {ttl}", 3, Some(5), 1, Done),
        row("SELECT ks.t {key}", 3, Some(11), 1, Done),
        row("SELECT ks.t {key}", 4, None, 1, Miss),
        row("UPDATE ks.t {key} {value}", 9, Some(2), 1, Done),
        row("EXECUTE", 0, None, 1, Refused),
        row("BATCH ks.t {key} {value}", 3, Some(6), 2, Done),
        row("BATCH ks.t {key} {value}", 5, Some(6), 0, Done),
        row("SELECT ks.t", 0, None, 1, Done),
        row("INSERT ks.t {key} {value} {ttl}", 3, Some(1), 1, Unavailable),
    ];
    assert_eq!(rows_in(TapProtocol::Cql, &borrowed(&pieces)), expected);
    let (records, report) = recorded(TapProtocol::Cql, &borrowed(&pieces));
    assert_eq!((report.garbage, report.unanswered, report.operations), (0, 0, 8));
    let record = |place: usize| &records[place].1;
    assert_eq!((record(0).ttl_ms, record(0).key), (60_000, record(1).key));
    assert_eq!(record(3).key, key().hash(b"\0\x01a\0\0\x02bc\0"), "as nodes hash it");
    assert_eq!(record(1).key, key().hash(b"key"));
}

#[test]
fn keys_and_values_of_cql_are_kept_only_on_request_and_secrets_never() {
    let pieces = in_order();
    let all = kept(TapProtocol::Cql, &borrowed(&pieces), KEPT);
    assert_eq!(all[..2], [content_of("key", Some("value")), content_of("key", None)]);
    assert_eq!(all[6], content_of("other", None));
    let hashed = kept(TapProtocol::Cql, &borrowed(&pieces), HASHED);
    assert!(hashed.iter().flatten().all(Option::is_none));
    let (written, _) = taped(TapProtocol::Cql, &borrowed(&pieces), recorder(1 << 20, KEPT));
    let holds = written.iter().any(|piece| match piece {
        Piece::Block { bytes, .. } => bytes.windows(6).any(|part| part == SECRET),
        Piece::Statement { line, .. } => line.contains("hunter"),
    });
    assert!(!holds);
}

#[test]
fn what_the_tap_cannot_read_of_cql_ends_the_recording_of_its_connection() {
    let mut compressed = execute(1, b"id", &[]);
    compressed[1] = 1;
    let old = [&[3][..], &asked(OPTIONS, 0, b"")[1..]].concat();
    for (bytes, reason) in [(compressed, "compression"), (old, "version 3 of CQL's protocol")] {
        let (_, report) = recorded(TapProtocol::Cql, &[(true, &bytes)]);
        assert_eq!(report.not_recorded[reason], 1);
    }
    let long = [&[4, 0, 0, 0, QUERY][..], &[0xff; 4]].concat();
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], &long] {
        assert_eq!(recorded(TapProtocol::Cql, &[(true, bytes)]).1.garbage, 1);
    }
    // A reply without a request is one to what isn't recorded.
    assert_eq!(recorded(TapProtocol::Cql, &[(false, &void(3))]).1.garbage, 0);
}

#[test]
fn a_conditional_write_that_is_not_applied_is_a_miss() {
    let [first, second, ..] = in_order();
    for (flag, expected) in [(0, Miss), (1, Done)] {
        let write = execute(4, b"write", &[Some(b"key"), Some(b"v"), None]);
        let reply = rows_of(4, &["[applied]"], &[Some(&[flag])]);
        let pieces = [first.clone(), second.clone(), (true, write), (false, reply)];
        let outcomes: Vec<_> = rows_in(TapProtocol::Cql, &borrowed(&pieces)).into_iter().collect();
        assert_eq!(outcomes[0].4, Some(expected));
    }
}

#[test]
fn long_values_are_counted_and_not_kept() {
    let [first, second, ..] = in_order();
    let long = vec![0; 3 << 20];
    let requests = [
        execute(4, b"write", &[Some(b"key"), Some(&long), None]),
        execute(5, b"read", &[Some(b"key")]),
    ];
    let replies = [void(4), rows_of(5, &["v", "w"], &[Some(&long), Some(b"12")])];
    let pieces = [first, second, (true, requests.concat()), (false, replies.concat())];
    let rows = rows_in(TapProtocol::Cql, &borrowed(&pieces));
    assert_eq!([rows[0].1, rows[1].1], [3, 3]);
    let over = rows[0].2.unwrap() as usize - long.len();
    assert!(over < 100, "{over}");
    assert_eq!(rows[1].2, Some(long.len() as u32 + 2));
}

fn rewriter() -> Rewriter {
    Rewriter::new("127.0.0.9:7000".parse().unwrap())
}

/// What the tap does about bytes of the client (0) or the node (1).
fn passed(place: usize, bytes: &[u8]) -> Passed {
    rewriter().pass(place, bytes)
}

#[test]
fn frames_pass_unchanged_in_pieces_of_any_length() {
    let (requests, replies) = dialogue();
    for (place, bytes) in [(0, requests), (1, replies)] {
        // The event has an unknown kind, and no address of a node may be in it.
        let event = said(EVENT, u16::MAX, b"\0\x03any");
        let place_of_event = bytes.windows(event.len()).position(|part| part == event);
        let mut expected = bytes.clone();
        if let Some(at) = place_of_event {
            expected.drain(at..at + event.len());
        }
        for longest in [1, 7, 64, usize::MAX] {
            let mut rewriter = rewriter();
            let pieces = bytes.chunks(longest.min(bytes.len()));
            let passed: Vec<_> = pieces.map(|piece| rewriter.pass(place, piece)).collect();
            let forwarded: Vec<_> = passed.iter().flat_map(|one| one.bytes.clone()).collect();
            assert_eq!(forwarded, expected, "{longest}");
            assert_eq!(passed.iter().any(|one| one.is_prepared), place == 1);
            assert!(passed.iter().all(|one| one.answer.is_empty()));
        }
    }
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"\x01", b"\xff"] {
        assert_eq!(
            (passed(0, bytes).bytes, passed(1, bytes).bytes),
            (bytes.to_vec(), bytes.to_vec())
        );
    }
}

#[test]
fn newer_versions_and_compression_are_declined() {
    let mut newer = asked(OPTIONS, 7, b"");
    newer[0] = 5;
    let compressed = asked(STARTUP, 7, b"\0\x01\0\x0bCOMPRESSION\0\x03lz4");
    for (request, text) in [
        (&newer, "version (5); the lowest supported version is 3 and the greatest is 4"),
        (&compressed, "switch the client's compression off"),
    ] {
        let passed = passed(0, request);
        assert!(passed.bytes.is_empty());
        let answer = &passed.answer;
        assert_eq!(
            (answer[0], &answer[2..5], &answer[9..13]),
            (0x84, &[0, 7, ERROR][..], &[0, 0, 0, 10][..])
        );
        assert!(String::from_utf8_lossy(answer).contains(text));
        // Not in the middle of a frame of the node.
        let mut busy = rewriter();
        busy.pass(1, &[0x84, 0]);
        assert_eq!(busy.pass(0, request).bytes, *request);
    }
    let mut options = vec![0, 3];
    for (name, list) in [
        ("COMPRESSION", &["lz4", "snappy"][..]),
        ("SCYLLA_SHARD", &["1"]),
        ("PROTOCOL_VERSIONS", &["3/v3", "4/v4", "5/v5", "6/v6-beta"]),
    ] {
        put_short(&mut options, name.as_bytes());
        options.extend_from_slice(&(list.len() as u16).to_be_bytes());
        list.iter().for_each(|value| put_short(&mut options, value.as_bytes()));
    }
    let rest = b"\0\x02\0\x0bCOMPRESSION\0\0\0\x11PROTOCOL_VERSIONS\0\x02\0\x043/v3\0\x044/v4";
    assert_eq!(passed(1, &said(SUPPORTED, 1, &options)).bytes, said(SUPPORTED, 1, rest));
}

#[test]
fn clients_see_the_tap_as_the_only_node() {
    let system = |table, rows: &[[Option<&[u8]>; 3]]| {
        let mut body = ROWS.to_be_bytes().to_vec();
        body.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 3]);
        let described = [("key", 13), ("rpc_address", 16), ("rpc_port", 9)];
        body.extend_from_slice(&columns(["system", table], &described));
        body.extend_from_slice(&(rows.len() as u32).to_be_bytes());
        rows.iter().for_each(|row| body.extend_from_slice(&values(row)[2..]));
        said(RESULT, 3, &body)
    };
    let node = [Some(&b"local"[..]), Some(&[10, 0, 0, 1]), Some(&9042_u32.to_be_bytes())];
    let tap = [Some(&b"local"[..]), Some(&[127, 0, 0, 9]), Some(&7000_u32.to_be_bytes())];
    for table in ["peers", "peers_v2"] {
        assert_eq!(passed(1, &system(table, &[node, node])).bytes, system(table, &[]));
    }
    assert_eq!(passed(1, &system("local", &[node])).bytes, system("local", &[tap]));
    assert_eq!(
        passed(1, &system("size_estimates", &[node])).bytes,
        system("size_estimates", &[node])
    );
    let event = |kind: &str| {
        let mut body = Vec::new();
        put_short(&mut body, kind.as_bytes());
        said(EVENT, u16::MAX, &body)
    };
    assert!(passed(1, &event("STATUS_CHANGE")).bytes.is_empty());
    assert_eq!(passed(1, &event("SCHEMA_CHANGE")).bytes, event("SCHEMA_CHANGE"));
}
