//! Byte streams in pieces of any size, and peers that don't read or that close one direction.

mod cql;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use kvmark_driver_server::{HostPort, Target};
use kvmark_plan::Outcome;
use kvmark_trace::HashKey;
use kvmark_trace::tape::{Block, RECORD_BYTES, Record, TapeReader};
use proptest::prelude::*;

use crate::connection::Connection;
use crate::content::{Contents, Keeper};
use crate::recorder::{Keys, Operation, Recorder};
use crate::shared::Shared;
use crate::store::Piece;
use crate::{Keep, Settings, TapProtocol, TapReport};

fn key() -> HashKey {
    HashKey::new(&[7; 16])
}

fn recorder(memory_bytes: usize, keep: Keep) -> (Recorder, Receiver<Piece>) {
    let (sender, receiver) = channel();
    let shared = Arc::new(Shared::new(1 << 30));
    let keeper = Keeper::new(keep, key(), Arc::clone(&shared));
    (Recorder::new(keeper, sender, 0, memory_bytes), receiver)
}

const HASHED: Keep = Keep { keys: false, values: false };

/// The records of a connection with their statements, and the report.
fn recorded(protocol: TapProtocol, pieces: &[(bool, &[u8])]) -> (Vec<(String, Record)>, TapReport) {
    let (pieces, report) = taped(protocol, pieces, recorder(1 << 20, HASHED));
    let (mut statements, mut found) = (Vec::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Statement { line, .. } => {
                let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
                statements.push(parsed["statement"].as_str().unwrap().to_owned());
            }
            Piece::Block { bytes, .. } => {
                let (parts, _) = bytes.as_chunks::<RECORD_BYTES>();
                let records = parts[1..].iter().map(Record::read);
                found.extend(records.map(|one| (statements[one.statement as usize].clone(), one)));
            }
        }
    }
    (found, report)
}

/// The written pieces of a connection, and the report.
fn taped(
    protocol: TapProtocol,
    pieces: &[(bool, &[u8])],
    (recorder, receiver): (Recorder, Receiver<Piece>),
) -> (Vec<Piece>, TapReport) {
    let recorder = Rc::new(RefCell::new(recorder));
    let mut connection = Connection::new(protocol, Rc::clone(&recorder));
    for (is_request, bytes) in pieces {
        if *is_request {
            connection.requests(bytes, 5);
        } else {
            connection.replies(bytes, 9);
        }
    }
    connection.end();
    drop(connection);
    let report = Rc::into_inner(recorder).unwrap().into_inner().finish();
    (receiver.into_iter().collect(), report)
}

/// Statement, key's size, value's size, items and outcome of each record.
type Row = (String, u32, Option<u32>, u16, Option<Outcome>);

fn rows(protocol: TapProtocol, requests: &[u8], replies: &[u8]) -> Vec<Row> {
    rows_in(protocol, &[(true, requests), (false, replies)])
}

fn rows_in(protocol: TapProtocol, pieces: &[(bool, &[u8])]) -> Vec<Row> {
    let (records, _) = recorded(protocol, pieces);
    let row = |(statement, one): (String, Record)| {
        let size = (one.value_size != Record::UNKNOWN).then_some(one.value_size);
        let outcome = Outcome::ALL.get(usize::from(one.outcome)).copied();
        (statement, one.key_size, size, one.items, outcome)
    };
    records.into_iter().map(row).collect()
}

/// The outcomes of the answered operations.
fn outcomes(protocol: TapProtocol, requests: &[u8], replies: &[u8]) -> Vec<Outcome> {
    rows(protocol, requests, replies).into_iter().filter_map(|(.., outcome)| outcome).collect()
}

fn row(statement: &str, key: u32, size: Option<u32>, items: u16, outcome: Outcome) -> Row {
    (statement.to_owned(), key, size, items, Some(outcome))
}

const REDIS_REQUESTS: &[u8] =
    b"*5\r\n$3\r\nset\r\n$1\r\nk\r\n$5\r\nvalue\r\n$2\r\nEX\r\n$2\r\n60\r\n\
    GET k\r\n*4\r\n$4\r\nMGET\r\n$1\r\na\r\n$2\r\nbb\r\n$1\r\nc\r\n\
    *1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nGET\r\n$1\r\nx\r\n*3\r\n$4\r\nMGET\r\n$1\r\ny\r\n$1\r\nz\r\n\
    *1\r\n$4\r\nEXEC\r\n*3\r\n$4\r\nAUTH\r\n$4\r\nuser\r\n$6\r\nsecret\r\n\
    *2\r\n$3\r\nGET\r\n$4\r\ngone\r\n*2\r\n$7\r\nHGETALL\r\n$1\r\nh\r\n\
    *4\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$1\r\nk\r\n\
    *2\r\n$3\r\nGET\r\n$2\r\nmo\r\n*1\r\n$6\r\nBANANA\r\nSET 'in line' \"\\x41\\n\"\r\n";
const REDIS_REPLIES: &[u8] = b"+OK\r\n$5\r\nvalue\r\n*3\r\n$2\r\n12\r\n$-1\r\n$0\r\n\r\n\
    +OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$3\r\nxyz\r\n*2\r\n$-1\r\n$1\r\n1\r\n+OK\r\n_\r\n\
    >2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n%1\r\n$1\r\nf\r\n$4\r\nabcd\r\n:1\r\n\
    -MOVED 1234 127.0.0.1:7001\r\n-ERR unknown command 'BANANA'\r\n|1\r\n+ttl\r\n:3\r\n+OK\r\n";
const MEMCACHED_REQUESTS: &[u8] = b"set k 0 60 5\r\nvalue\r\nget k\r\nget a k b\r\n\
    add n 0 0 1 noreply\r\nx\r\ngat 30 k\r\ndelete k\r\nincr n 3\r\nmg k v q\r\nmg a v\r\nmn\r\n\
    ms k 2 T90\r\nok\r\nmg k v t\r\nstats\r\nbanana\r\ntouch k 10\r\nversion\r\n";
const MEMCACHED_REPLIES: &[u8] =
    b"STORED\r\nVALUE k 0 5\r\nvalue\r\nEND\r\nVALUE k 0 5\r\nvalue\r\nEND\r\nEND\r\n\
    DELETED\r\n4\r\nEN\r\nMN\r\nHD\r\nVA 2 t-1\r\nok\r\nSTAT pid 1\r\nSTAT up 2\r\nEND\r\nERROR\r\n\
    NOT_FOUND\r\nVERSION 1.6\r\n";

#[test]
fn commands_of_redis_are_recorded_with_their_replies() {
    use Outcome::{Miss, Ok, Refused};
    let expected = [
        row("SET {key} {value} {ttl}", 1, Some(5), 1, Ok),
        row("GET {key}", 1, Some(5), 1, Ok),
        row("MGET {key}", 1, Some(2), 3, Ok),
        row("MGET {key}", 2, None, 0, Ok),
        row("MGET {key}", 1, Some(0), 0, Ok),
        row("MULTI", 0, None, 1, Ok),
        row("GET {key}", 1, Some(3), 1, Ok),
        row("MGET {key}", 1, None, 2, Ok),
        row("MGET {key}", 1, Some(1), 0, Ok),
        row("EXEC", 0, None, 1, Ok),
        row("AUTH", 0, None, 1, Ok),
        row("GET {key}", 4, None, 1, Miss),
        row("HGETALL {key}", 1, Some(5), 1, Ok),
        row("EVAL", 0, None, 1, Ok),
        row("GET {key}", 2, None, 1, Refused),
        row("SET {key} {value}", 7, Some(2), 1, Ok),
    ];
    assert_eq!(rows(TapProtocol::Redis, REDIS_REQUESTS, REDIS_REPLIES), expected);
    let (records, report) =
        recorded(TapProtocol::Redis, &[(true, REDIS_REQUESTS), (false, REDIS_REPLIES)]);
    assert_eq!((report.moved, report.unknown_commands, report.garbage), (1, 1, 0));
    assert_eq!((report.not_carried_out, report.unanswered, report.operations), (0, 0, 13));
    assert_eq!(records[0].1.ttl_ms, 60_000);
    assert_eq!(records[1].1.key, key().hash(b"k"));
    assert_eq!(records[10].1.key, key().hash(b""), "arguments of AUTH aren't hashed");
}

#[test]
fn a_list_of_nulls_is_a_miss() {
    let requests = b"MGET gone\r\nMGET k\r\nMGET empty\r\nHMGET h f g\r\nHMGET h f g\r\n\
        MGET gone away\r\nLRANGE l 0 9\r\nSMISMEMBER s m\r\n";
    let replies = b"*1\r\n$-1\r\n*1\r\n$3\r\nxyz\r\n*1\r\n$0\r\n\r\n*2\r\n$-1\r\n_\r\n\
        *2\r\n$-1\r\n$1\r\nv\r\n*2\r\n$-1\r\n$-1\r\n*0\r\n*1\r\n:1\r\n";
    let (sizes, outcomes): (Vec<_>, Vec<_>) = rows(TapProtocol::Redis, requests, replies)
        .into_iter()
        .map(|(_, _, size, _, outcome)| (size, outcome))
        .unzip();
    assert_eq!(sizes, [None, Some(3), Some(0), None, Some(1), None, None, Some(0), None]);
    let (ok, miss) = (Some(Outcome::Ok), Some(Outcome::Miss));
    assert_eq!(outcomes, [miss, ok, ok, miss, ok, miss, miss, miss, ok]);
}

#[test]
fn an_error_has_the_same_outcome_as_in_a_driver() {
    use Outcome::{Miss, Ok, Overloaded, Refused, Unavailable};
    let requests = b"SET k v\r\nGET k\r\nLPUSH k v\r\nDEL k\r\nDEL k\r\n";
    let replies = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n\
        -CLUSTERDOWN The cluster is down\r\n-WRONGTYPE Operation against a key\r\n:1\r\n:0\r\n";
    let expected = [Overloaded, Unavailable, Refused, Ok, Miss];
    assert_eq!(outcomes(TapProtocol::Redis, requests, replies), expected);
    let requests =
        b"set k 0 0 1\r\nv\r\nset k 0 0 1\r\nv\r\nget k\r\nget k\r\nset k 0 0 1\r\nv\r\n";
    let replies =
        b"SERVER_ERROR out of memory storing object\r\nSERVER_ERROR object too large for \
        cache\r\nSERVER_ERROR Connection refused\r\nERROR Too many open connections\r\n\
        ERROR Too many open connections\r\n";
    let expected = [Overloaded, Refused, Unavailable, Overloaded, Overloaded];
    assert_eq!(outcomes(TapProtocol::Memcached, requests, replies), expected);
}

#[test]
fn commands_of_memcached_are_recorded_with_their_replies() {
    use Outcome::{Miss, Ok};
    let mut expected = vec![
        row("set {key} {value} {ttl}", 1, Some(5), 1, Ok),
        row("get {key}", 1, Some(5), 1, Ok),
        row("get {key}", 1, None, 3, Ok),
        row("get {key}", 1, Some(5), 0, Ok),
        row("get {key}", 1, None, 0, Ok),
        row("add {key} {value}", 1, Some(1), 1, Ok),
        row("gat {key} {ttl}", 1, None, 1, Miss),
        row("delete {key}", 1, None, 1, Ok),
        row("incr {key}", 1, None, 1, Ok),
        row("mg {key}", 1, None, 1, Ok),
        row("mg {key}", 1, None, 1, Miss),
        row("mn", 0, None, 1, Ok),
        row("ms {key} {value} {ttl}", 1, Some(2), 1, Ok),
        row("mg {key}", 1, Some(2), 1, Ok),
        row("stats", 0, None, 1, Ok),
        row("touch {key} {ttl}", 1, None, 1, Miss),
        row("version", 0, None, 1, Ok),
    ];
    // These two requested no reply.
    (expected[5].4, expected[9].4) = (None, None);
    assert_eq!(rows(TapProtocol::Memcached, MEMCACHED_REQUESTS, MEMCACHED_REPLIES), expected);
}

#[test]
fn a_command_that_memcached_does_not_execute_is_a_miss() {
    let requests =
        b"replace k 0 0 1\r\nv\r\ncas k 0 0 1 7\r\nv\r\ntouch k 9\r\nms k 1\r\nv\r\nmd k\r\n";
    let replies = b"NOT_STORED\r\nEXISTS\r\nNOT_FOUND\r\nNS\r\nEX\r\n";
    assert_eq!(outcomes(TapProtocol::Memcached, requests, replies), [Outcome::Miss; 5]);
}

#[test]
fn commands_of_an_abandoned_transaction_are_left_out() {
    let requests = b"MULTI\r\nSET a 1\r\nDISCARD\r\nMULTI\r\nSET b 1\r\nEXEC\r\nGET a\r\n";
    let replies = b"+OK\r\n+QUEUED\r\n+OK\r\n+OK\r\n+QUEUED\r\n*-1\r\n$-1\r\n";
    let (records, report) = recorded(TapProtocol::Redis, &[(true, requests), (false, replies)]);
    let names: Vec<_> = records.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["MULTI", "DISCARD", "MULTI", "EXEC", "GET {key}"]);
    assert_eq!(report.not_carried_out, 2);
}

#[test]
fn an_unsupported_command_ends_the_recording_of_its_connection() {
    let requests = b"GET a\r\nSUBSCRIBE news\r\nGET b\r\n";
    let replies = b"$1\r\n1\r\n*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n";
    let (records, report) = recorded(TapProtocol::Redis, &[(true, requests), (false, replies)]);
    assert_eq!(records.len(), 1);
    assert_eq!(report.not_recorded["SUBSCRIBE"], 1);
    assert_eq!((report.garbage, report.unanswered), (0, 0));
    for requests in [&b"MONITOR\r\n"[..], b"PSYNC ? -1\r\n", b"CLIENT REPLY OFF\r\n"] {
        let (records, report) =
            recorded(TapProtocol::Redis, &[(true, requests), (false, b"+OK\r\n")]);
        assert_eq!((records.len(), report.not_recorded.len()), (0, 1));
    }
    let (records, report) = recorded(TapProtocol::Memcached, &[(true, b"\x80\x00\x00")]);
    assert_eq!((records.len(), report.not_recorded["the binary protocol"]), (0, 1));
}

#[test]
fn malformed_bytes_end_the_recording_of_their_connection() {
    let (_, report) = recorded(TapProtocol::Redis, &[(true, b"*1\r\n$3\r\nGETx")]);
    assert_eq!(report.first_garbage.as_deref(), Some("a word is longer than its header states"));
    let (_, report) = recorded(TapProtocol::Redis, &[(false, b"+OK\r\n")]);
    assert_eq!(report.first_garbage.as_deref(), Some("a reply without a request"));
    let (_, report) =
        recorded(TapProtocol::Memcached, &[(true, b"get k\r\n"), (false, b"STORED\r\n")]);
    assert_eq!((report.garbage, report.unanswered), (1, 1));
}

fn operation(contents: Option<Box<Contents>>) -> Operation {
    Operation { verb: 0, keys: Keys::default(), value_size: 0, ttl_ms: 0, contents }
}

#[test]
fn the_queue_of_unanswered_operations_is_bounded() {
    let (mut recorder, receiver) = recorder(1 << 20, HASHED);
    let shared = Arc::clone(&recorder.shared);
    for at_ns in 0..100_000 {
        recorder.origin.at_ns = at_ns;
        recorder.begin(operation(None));
    }
    recorder.release(99_999);
    let released = shared.operations.load(Relaxed);
    assert!(released > 90_000, "{released} of 100,000 are on the tape");
    assert_eq!(recorder.finish().unanswered, 100_000);
    drop(receiver);
}

/// The kept key and value of each record.
fn kept(protocol: TapProtocol, pieces: &[(bool, &[u8])], keep: Keep) -> Vec<[Option<String>; 2]> {
    let (pieces, _) = taped(protocol, pieces, recorder(1 << 20, keep));
    let blocks = pieces.into_iter().filter_map(|piece| match piece {
        Piece::Block { bytes, .. } => Some(bytes),
        Piece::Statement { .. } => None,
    });
    let (file, mut found) = (tempfile::NamedTempFile::new().unwrap(), Vec::new());
    std::fs::write(file.path(), blocks.flatten().collect::<Vec<_>>()).unwrap();
    let (mut reader, mut block) = (TapeReader::open(file.path()).unwrap(), Block::default());
    while reader.next_block(&mut block).unwrap() {
        for record in (0..block.len()).filter_map(|index| block.record(index)) {
            let content = [block.key(&record), block.value(&record)];
            found.push(content.map(|one| one.map(|one| String::from_utf8_lossy(one).into_owned())));
        }
    }
    found
}

const KEPT: Keep = Keep { keys: true, values: true };

fn content_of(key: &str, value: Option<&str>) -> [Option<String>; 2] {
    [Some(key.to_owned()), value.map(str::to_owned)]
}

#[test]
fn keys_and_values_are_kept_independently_and_only_on_request() {
    let asked: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n\
        *4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n$2\r\nv1\r\nmget k other\r\n";
    let said: &[u8] = b"+OK\r\n:1\r\n*2\r\n$5\r\nvalue\r\n$-1\r\n";
    for cut in 0..asked.len() {
        let pieces = [(true, &asked[..cut]), (true, &asked[cut..]), (false, said)];
        let all = [
            content_of("k", Some("value")),
            content_of("h", Some("v1")),
            content_of("k", None),
            content_of("other", None),
        ];
        assert_eq!(kept(TapProtocol::Redis, &pieces, KEPT), all);
        let keys = kept(TapProtocol::Redis, &pieces, Keep { values: false, ..KEPT });
        assert_eq!(keys, all.clone().map(|[key, _]| [key, None]));
        let values = kept(TapProtocol::Redis, &pieces, Keep { keys: false, ..KEPT });
        assert_eq!(values, all.map(|[_, value]| [None, value]));
        assert_eq!(kept(TapProtocol::Redis, &pieces, HASHED), vec![[None, None]; 4]);
    }
    let asked: &[u8] = b"version\r\nset k 0 0 7\r\nva\r\nlue\r\nget k\r\nms m 2\r\nhi\r\n";
    let said: &[u8] = b"VERSION 1\r\nSTORED\r\nEND\r\nHD\r\n";
    for cut in 0..asked.len() {
        let pieces = [(true, &asked[..cut]), (true, &asked[cut..]), (false, said)];
        let all = [
            content_of("k", Some("va\r\nlue")),
            content_of("k", None),
            content_of("m", Some("hi")),
        ];
        assert_eq!(kept(TapProtocol::Memcached, &pieces, KEPT)[1..], all);
    }
}

#[test]
fn a_password_is_never_kept() {
    let redis: [&[u8]; 8] = [
        b"*3\r\n$4\r\nAUTH\r\n$4\r\nuser\r\n$6\r\nhunter\r\n",
        b"AUTH hunter\r\n",
        b"*2\r\n$4\r\naUtH\r\n$6\r\nhunter\r\n",
        b"*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$4\r\nuser\r\n$6\r\nhunter\r\n",
        b"CONFIG SET requirepass hunter\r\n",
        b"ACL SETUSER someone on >hunter\r\n",
        b"MIGRATE host 6379 k 0 1000 AUTH hunter\r\n",
        b"EVAL \"return redis.call('AUTH', 'hunter')\" 0 hunter\r\n",
    ];
    let holds = |pieces: &[Piece]| {
        pieces.iter().any(|piece| match piece {
            Piece::Block { bytes, .. } => bytes.windows(6).any(|part| part == b"hunter"),
            Piece::Statement { line, .. } => line.contains("hunter"),
        })
    };
    for asked in redis {
        let pieces = [(true, asked), (false, &b"+OK\r\n"[..])];
        assert!(
            !holds(&taped(TapProtocol::Redis, &pieces, recorder(1 << 20, KEPT)).0),
            "{asked:?}"
        );
    }
    // Clients of memcached log in with a set.
    let first: &[u8] = b"set auth 0 0 11\r\nuser hunter\r\n";
    let pieces = [(true, first), (false, &b"STORED\r\n"[..])];
    assert!(!holds(&taped(TapProtocol::Memcached, &pieces, recorder(1 << 20, KEPT)).0));
    // An ordinary value is found, so the search works.
    let pieces = [(true, &b"SET k hunter\r\n"[..]), (false, &b"+OK\r\n"[..])];
    assert!(holds(&taped(TapProtocol::Redis, &pieces, recorder(1 << 20, KEPT)).0));
}

#[test]
fn kept_contents_are_bounded_by_memory_and_cut_ones_are_counted() {
    let (mut recorder, receiver) = recorder(1 << 20, KEPT);
    let shared = Arc::clone(&recorder.shared);
    shared.room.store(1_000, Relaxed);
    let contents = |length| {
        let mut contents = crate::content::Contents::default();
        let content = recorder.keeper.begin(crate::content::Role::Key);
        contents.add_key(content.and_then(|one| one.with(&vec![b'k'; length])));
        contents.take()
    };
    let held = contents(700);
    assert!(contents(301).is_some_and(|one| one.key(0).is_none()));
    assert_eq!((shared.room.load(Relaxed), shared.cut_contents.load(Relaxed)), (300, 1));
    recorder.begin(operation(held));
    assert_eq!(shared.room.load(Relaxed), 300);
    recorder.finish();
    assert_eq!(shared.room.load(Relaxed), 1_000);
    drop(receiver);
}

/// Splits the bytes at these fractions of their length.
fn split<'a>(is_request: bool, bytes: &'a [u8], cuts: &[f64]) -> Vec<(bool, &'a [u8])> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| (cut * bytes.len() as f64) as usize).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let begins = [0].into_iter().chain(ends.clone());
    begins.zip(ends).map(|(begin, end)| (is_request, &bytes[begin..end])).collect()
}

proptest! {
    #[test]
    fn pieces_of_any_length_give_the_same_records(
        request_cuts in prop::collection::vec(0.0f64..1.0, 0..40),
        reply_cuts in prop::collection::vec(0.0f64..1.0, 0..40),
        protocol in prop::sample::select(&TapProtocol::ALL[..]),
    ) {
        let dialogue = cql::dialogue();
        let (requests, replies) = match protocol {
            TapProtocol::Redis => (REDIS_REQUESTS, REDIS_REPLIES),
            TapProtocol::Memcached => (MEMCACHED_REQUESTS, MEMCACHED_REPLIES),
            TapProtocol::Cql => (&dialogue.0[..], &dialogue.1[..]),
        };
        let whole = recorded(protocol, &[(true, requests), (false, replies)]);
        let mut pieces = split(true, requests, &request_cuts);
        pieces.extend(split(false, replies, &reply_cuts));
        pieces.retain(|(_, bytes)| !bytes.is_empty());
        prop_assert_eq!(recorded(protocol, &pieces), whole);
    }

    #[test]
    fn arbitrary_bytes_cause_no_defect(
        pieces in prop::collection::vec(
            (any::<bool>(), prop_oneof![
                prop::collection::vec(any::<u8>(), 1..60),
                "[*$+:>%|_=!-]{1,2}[0-9]{0,3}(\r\n)?([A-Z ]{0,9}\r\n)?"
                    .prop_map(String::into_bytes),
                "(get|set|mg|ms|VALUE|VA|END|HD|q|[0-9]{1,3}| |\r\n){1,20}"
                    .prop_map(String::into_bytes),
                (0..17_u8, prop::collection::vec(0..6_u8, 0..60))
                    .prop_map(|(opcode, body)| cql::frame(opcode % 2 == 1, opcode, 0, &body)),
            ]),
            0..40,
        ),
        protocol in prop::sample::select(&TapProtocol::ALL[..]),
    ) {
        let pieces: Vec<_> = pieces.iter().map(|(side, bytes)| (*side, &bytes[..])).collect();
        let (_, report) = recorded(protocol, &pieces);
        let defect = report.first_garbage.is_some_and(|why| why.contains("defect"));
        prop_assert!(!defect);
    }
}

/// Runs work against a tap in front of a test server.
fn tapped<T>(server: u16, work: impl FnOnce(u16) -> T + Send) -> (T, TapReport)
where
    T: Send,
{
    let folder = tempfile::tempdir().unwrap();
    let target = Target::Tcp(HostPort { host: "127.0.0.1".to_owned(), port: server });
    let settings = Settings {
        listen: ("127.0.0.1".to_owned(), 0),
        target,
        tls: None,
        protocol: TapProtocol::Redis,
        threads: 1,
        keep: HASHED,
        memory_bytes: 1 << 20,
        disk_bytes: 1 << 30,
    };
    let (ends, port) = (AtomicBool::new(false), channel());
    thread::scope(|scope| {
        let tap = scope.spawn(|| {
            crate::run(&settings, folder.path(), key(), &mut |progress| {
                let _ = port.0.send(progress.listens.port());
                !ends.load(Relaxed)
            })
        });
        let done = work(port.1.recv().unwrap());
        ends.store(true, Relaxed);
        (done, tap.join().unwrap().unwrap())
    })
}

#[test]
fn a_server_that_does_not_read_blocks_its_client() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (sent, _) = tapped(server.local_addr().unwrap().port(), |port| {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (idle, _) = server.accept().unwrap();
        client.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut sent = 0;
        let chunk = vec![b'x'; 1 << 16];
        while let Ok(count) = client.write(&chunk) {
            sent += count;
            assert!(sent < 1 << 30, "the tap accepts unread bytes without limit");
        }
        drop(idle);
        sent
    });
    assert!(sent > 0);
}

#[test]
fn closing_one_direction_leaves_the_other_open() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (answer, report) = tapped(server.local_addr().unwrap().port(), |port| {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.write_all(b"GET k\r\n").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let (mut far, _) = server.accept().unwrap();
        let mut asked = String::new();
        far.read_to_string(&mut asked).unwrap();
        assert_eq!(asked, "GET k\r\n");
        far.write_all(b"$1\r\nv\r\n").unwrap();
        drop(far);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    });
    assert_eq!(answer, "$1\r\nv\r\n");
    assert_eq!((report.operations, report.unanswered, report.connections), (1, 0, 1));
}

#[test]
fn an_unreachable_server_is_reported() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    drop(server);
    let (read, report) = tapped(port, |port| {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.read(&mut [0]).unwrap_or(0)
    });
    assert_eq!((read, report.unreachable), (0, 1));
    assert!(report.first_unreachable.unwrap().contains("refused"));
}
