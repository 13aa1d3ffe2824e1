//! A node with version 4 of the native protocol and a scripted behaviour.
//!
//! It answers the requests that a driver sends to every node. The script handles executions on the
//! table. The id of a prepared statement is its text. Keyspaces have one replica.

use std::io::{Read, Write};
use std::mem::take;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The node's behaviour for an execution on the table.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Returns a row: a key and the value of `field0`.
    Row(&'static str, &'static str),
    /// Returns nothing, as for a write.
    Done,
    /// The same, with a warning.
    Warning(&'static str),
    /// Answers with an error of this code and its details.
    Error(i32, Vec<u8>),
    /// Answers with malformed bytes.
    Garbage,
    /// Answers with a frame whose body contradicts its header.
    Nonsense,
    /// Closes in the middle of a frame.
    Close,
    /// Sends no answer.
    Silence,
    /// The same row in single bytes.
    Split(&'static str, &'static str),
    /// The same row after an event.
    AfterEvent(&'static str, &'static str),
    /// The same row on an unused stream.
    Stray(&'static str, &'static str),
    /// A header with an excessive length.
    TooLong,
    /// A frame of another version of the protocol.
    OtherVersion,
    /// Stops reading.
    Deaf,
    /// Returns this row, but only when another statement is executed on the same connection, and
    /// before its answer.
    Late(&'static str, &'static str),
}

const ERROR: u8 = 0;
const READY: u8 = 2;
const AUTHENTICATE: u8 = 3;
const SUPPORTED: u8 = 6;
const RESULT: u8 = 8;
const EVENT: u8 = 12;
const AUTH_SUCCESS: u8 = 16;

/// The flags of frames whose bodies begin with a payload or warnings.
const WITH_PAYLOAD: u8 = 0x04;
const WITH_WARNINGS: u8 = 0x08;

const INVALID: i32 = 0x2200;
const UNAVAILABLE: i32 = 0x1000;
/// A level of consistency.
const TWO: [u8; 2] = [0, 2];
const BAD_CREDENTIALS: i32 = 0x0100;

/// The access rules of a node.
#[derive(Clone, Default)]
pub(crate) struct Guard {
    /// Its encryption, if any.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// The required user and password.
    pub(crate) login: Option<(&'static str, &'static str)>,
}

/// The index of the node in its cluster: 127.0.0.1 in dc1 and rack r1, 127.0.0.2 in dc2 and rack r2
/// and so on, at one port, with equal parts of the ring.
#[derive(Clone)]
struct Place {
    index: u8,
    nodes: u8,
    /// The number of nodes that are listed, which may grow up to all.
    members: Arc<AtomicU8>,
    /// The number of its shards, as ScyllaDB has them; 0 for none.
    shards: u16,
    /// The node and the shard that have all rows, if tables have tablets.
    tablet: Arc<Mutex<Option<(u8, u16)>>>,
}

/// The terms of an execution on the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) level: u16,
    pub(crate) page_size: Option<i32>,
    pub(crate) serial: Option<u16>,
    pub(crate) timestamp: Option<i64>,
}

impl Asked {
    /// Reads the parameters of an execution.
    fn read(terms: &[u8]) -> Self {
        let mut rest = terms;
        let mut next = |count: usize| {
            let (part, after) = rest.split_at(count);
            rest = after;
            part.iter().fold(0_i64, |number, byte| number << 8 | i64::from(*byte))
        };
        let level = next(2) as u16;
        let flags = next(1);
        if flags & 0x01 != 0 {
            for _ in 0..next(2) {
                let length = next(4) as i32;
                next(length.max(0) as usize);
            }
        }
        let page_size = (flags & 0x04 != 0).then(|| next(4) as i32);
        if flags & 0x08 != 0 {
            let length = next(4) as usize;
            next(length);
        }
        let serial = (flags & 0x10 != 0).then(|| next(2) as u16);
        let timestamp = (flags & 0x20 != 0).then(|| next(8));
        Self { level, page_size, serial, timestamp }
    }
}

/// State shared by a node's connections.
struct Node {
    place: Place,
    guard: Guard,
    script: Box<dyn Fn(&str) -> Act + Send + Sync>,
    asked: Mutex<Vec<Asked>>,
    /// The shards that received them.
    reached: Mutex<Vec<u16>>,
    /// The number of answers with an old version of the schema.
    late: AtomicU8,
    /// The connections that receive events.
    subscribers: Mutex<Vec<TcpStream>>,
}

/// A node on a loopback port.
pub(crate) struct Peer {
    pub(crate) address: String,
    node: Option<Arc<Node>>,
    door: Arc<Door>,
    doorman: JoinHandle<()>,
}

/// The connections of a node.
#[derive(Default)]
struct Door {
    closed: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Peer {
    /// The script receives the text of each executed statement.
    pub(crate) fn new(script: impl Fn(&str) -> Act + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", Guard::default(), script)
    }

    /// The same at an address, with access rules.
    pub(crate) fn at(
        address: &str,
        guard: Guard,
        script: impl Fn(&str) -> Act + Send + Sync + 'static,
    ) -> Self {
        let members = Arc::new(1.into());
        let place = Place { index: 0, nodes: 1, members, shards: 0, tablet: Arc::default() };
        Self::serving(TcpListener::bind(address).unwrap(), place, guard, Box::new(script))
    }

    /// Nodes of one cluster; the script receives the index of the node, from 0.
    pub(crate) fn cluster(
        nodes: u8,
        script: impl Fn(u8, &str) -> Act + Send + Sync + 'static,
    ) -> Vec<Self> {
        Self::sharded(nodes, 0, script)
    }

    /// The same with shards, which the port of a connection's client chooses.
    pub(crate) fn sharded(
        nodes: u8,
        shards: u16,
        script: impl Fn(u8, &str) -> Act + Send + Sync + 'static,
    ) -> Vec<Self> {
        let (script, members) = (Arc::new(script), Arc::new(nodes.into()));
        let tablet = Arc::default();
        let peer = |(index, listener)| {
            let script = Arc::clone(&script);
            let own = Box::new(move |text: &str| script(index, text));
            let (members, tablet) = (Arc::clone(&members), Arc::clone(&tablet));
            let place = Place { index, nodes, members, shards, tablet };
            Self::serving(listener, place, Guard::default(), own)
        };
        (0..nodes).zip(same_port(nodes)).map(peer).collect()
    }

    fn serving(
        listener: TcpListener,
        place: Place,
        guard: Guard,
        script: Box<dyn Fn(&str) -> Act + Send + Sync>,
    ) -> Self {
        let address = listener.local_addr().unwrap().to_string();
        let node = Arc::new(Node {
            place,
            guard,
            script,
            asked: Mutex::default(),
            reached: Mutex::default(),
            late: AtomicU8::new(0),
            subscribers: Mutex::default(),
        });
        let door = Arc::new(Door::default());
        let (served, inner) = (Arc::clone(&node), Arc::clone(&door));
        let doorman = thread::spawn(move || {
            for socket in listener.incoming().map(Result::unwrap) {
                if inner.closed.load(Ordering::SeqCst) {
                    return;
                }
                inner.streams.lock().unwrap().push(socket.try_clone().unwrap());
                let node = Arc::clone(&served);
                thread::spawn(move || welcome(&socket, &node));
            }
        });
        Self { address, node: Some(node), door, doorman }
    }

    /// The terms of the executions on the table, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.node.as_ref().map_or_else(Vec::new, |node| node.asked.lock().unwrap().clone())
    }

    /// The shards of the executions since the last call, in order.
    pub(crate) fn take_reached(&self) -> Vec<u16> {
        take(&mut *self.node.as_ref().unwrap().reached.lock().unwrap())
    }

    /// Moves all rows of the cluster to a shard of a node.
    pub(crate) fn move_tablet(&self, node: u8, shard: u16) {
        *self.node.as_ref().unwrap().place.tablet.lock().unwrap() = Some((node, shard));
    }

    /// Changes the number of listed nodes and announces it to the subscribers of this node.
    pub(crate) fn list(&self, members: u8) {
        let node = self.node.as_ref().unwrap();
        node.place.members.store(members, Ordering::SeqCst);
        for stream in &mut *node.subscribers.lock().unwrap() {
            send(stream, [0xff, 0xff], 0, EVENT, &event());
        }
    }

    /// The remaining answers with an old version of the schema.
    pub(crate) fn late(&self) -> &AtomicU8 {
        &self.node.as_ref().unwrap().late
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.door.streams.lock().unwrap().len()
    }

    /// A server that accepts connections and sends nothing.
    pub(crate) fn mute() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let doorman = thread::spawn(move || drop(listener.incoming().collect::<Vec<_>>()));
        Self { address, node: None, door: Arc::default(), doorman }
    }

    /// Closes every connection and the listener. Returns the free address.
    pub(crate) fn stop(self) -> String {
        self.door.closed.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(&self.address));
        self.doorman.join().unwrap();
        for stream in take(&mut *self.door.streams.lock().unwrap()) {
            drop(stream.shutdown(Shutdown::Both));
        }
        self.address
    }
}

/// Listeners at 127.0.0.1, 127.0.0.2 and so on, with the same free port.
fn same_port(nodes: u8) -> Vec<TcpListener> {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let others =
            (2..=nodes).map(|host| TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), port)));
        if let Ok(others) = others.collect::<Result<Vec<_>, _>>() {
            return std::iter::once(first).chain(others).collect();
        }
    }
}

fn welcome(socket: &TcpStream, node: &Node) {
    match &node.guard.tls {
        None => serve(socket, socket, node),
        Some(tls) => {
            let connection = ServerConnection::new(Arc::clone(tls)).unwrap();
            serve(StreamOwned::new(connection, socket), socket, node);
        }
    }
}

/// The body of an error whose message is `scripted`.
fn error(code: i32, more: &[u8]) -> Vec<u8> {
    let mut body = code.to_be_bytes().to_vec();
    string(&mut body, "scripted");
    body.extend_from_slice(more);
    body
}

/// Answers until the client or the script ends.
fn serve(mut stream: impl Read + Write, socket: &TcpStream, node: &Node) {
    let mut header = [0; 9];
    let mut late = Vec::new();
    let port = socket.peer_addr().unwrap().port();
    let shard = port.checked_rem(node.place.shards).unwrap_or_default();
    let mut tablets = false;
    while stream.read_exact(&mut header).is_ok() {
        let length = u32::from_be_bytes(header[5..].try_into().unwrap());
        let mut body = vec![0; length as usize];
        if stream.read_exact(&mut body).is_err() {
            return;
        }
        let id = [header[2], header[3]];
        let mut flags = 0;
        tablets |= header[4] == 1 && body.ends_with(b"\0\x12TABLETS_ROUTING_V1\0\0");
        let (opcode, answer) = match header[4] {
            1 if node.guard.login.is_some() => (AUTHENTICATE, authenticator()),
            1 => (READY, Vec::new()),
            11 => {
                node.subscribers.lock().unwrap().push(socket.try_clone().unwrap());
                (READY, Vec::new())
            }
            5 => (SUPPORTED, supported(socket, shard, node.place.shards)),
            7 => {
                let text = long_text(&body);
                local_answer(&text, &body[4 + text.len()..], node)
            }
            9 => (RESULT, prepared(&long_text(&body))),
            10 => {
                let length = usize::from(u16::from_be_bytes([body[0], body[1]]));
                let text = String::from_utf8(body[2..2 + length].to_vec()).unwrap();
                let terms = &body[2 + length..];
                if text.contains("usertable") {
                    node.asked.lock().unwrap().push(Asked::read(terms));
                    node.reached.lock().unwrap().push(shard);
                    let tablet = *node.place.tablet.lock().unwrap();
                    let is_elsewhere = |owner: &(u8, u16)| *owner != (node.place.index, shard);
                    let named = tablet.filter(is_elsewhere).filter(|_| tablets);
                    flags = if named.is_some() { WITH_PAYLOAD } else { 0 };
                    let act = (node.script)(&text);
                    if let Act::Late(key, value) = act {
                        late.push((id, row(&text, key, value)));
                        continue;
                    }
                    for (id, row) in late.drain(..) {
                        send(&mut stream, id, 0, RESULT, &row);
                    }
                    match act_out(&mut stream, socket, id, &text, act) {
                        Some((opcode, answer)) => {
                            (opcode, [named.map(payload).unwrap_or_default(), answer].concat())
                        }
                        None => continue,
                    }
                } else {
                    local_answer(&text, terms, node)
                }
            }
            15 => logged_in(&long_text(&body), &node.guard),
            other => panic!("opcode {other}"),
        };
        send(&mut stream, id, flags, opcode, &answer);
    }
}

/// The supported options of a node; those of ScyllaDB if it has shards.
fn supported(socket: &TcpStream, shard: u16, shards: u16) -> Vec<u8> {
    let port = socket.local_addr().unwrap().port();
    let options = [
        ("SCYLLA_SHARD", shard.to_string()),
        ("SCYLLA_NR_SHARDS", shards.to_string()),
        ("SCYLLA_SHARDING_IGNORE_MSB", "12".to_owned()),
        ("SCYLLA_SHARDING_ALGORITHM", "biased-token-round-robin".to_owned()),
        ("SCYLLA_SHARD_AWARE_PORT", port.to_string()),
        ("TABLETS_ROUTING_V1", String::new()),
    ];
    let options = if shards == 0 { &[][..] } else { &options };
    let mut body = (options.len() as u16).to_be_bytes().to_vec();
    for (name, word) in options {
        string(&mut body, name);
        body.extend_from_slice(&[0, 1]);
        string(&mut body, word);
    }
    body
}

/// A payload that names the node and the shard that have the only tablet.
fn payload((node, shard): (u8, u16)) -> Vec<u8> {
    let long = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
    let pair = [long(&[node; 16]), long(&u32::from(shard).to_be_bytes())].concat();
    let list = [1_u32.to_be_bytes().to_vec(), long(&pair)].concat();
    let range = [i64::MIN, i64::MAX].map(|token| long(&token.to_be_bytes())).concat();
    let mut body = vec![0, 1];
    string(&mut body, "tablets-routing-v1");
    body.extend(long(&[range, long(&list)].concat()));
    body
}

fn authenticator() -> Vec<u8> {
    let mut body = Vec::new();
    string(&mut body, "org.apache.cassandra.auth.PasswordAuthenticator");
    body
}

fn logged_in(said: &str, guard: &Guard) -> (u8, Vec<u8>) {
    match guard.login {
        Some((user, password)) if said != format!("\0{user}\0{password}") => {
            (ERROR, error(BAD_CREDENTIALS, &[]))
        }
        _ => (AUTH_SUCCESS, (-1_i32).to_be_bytes().to_vec()),
    }
}

fn act_out(
    stream: &mut impl Write,
    socket: &TcpStream,
    id: [u8; 2],
    text: &str,
    act: Act,
) -> Option<(u8, Vec<u8>)> {
    match act {
        Act::Row(key, value) => Some((RESULT, row(text, key, value))),
        Act::Done => Some((RESULT, 1_i32.to_be_bytes().to_vec())),
        Act::Warning(warning) => {
            let mut body = vec![0, 1];
            string(&mut body, warning);
            body.extend_from_slice(&1_i32.to_be_bytes());
            send(stream, id, WITH_WARNINGS, RESULT, &body);
            None
        }
        Act::Error(code, more) => Some((ERROR, error(code, &more))),
        Act::Nonsense => Some((RESULT, 99_i32.to_be_bytes().to_vec())),
        Act::Silence | Act::Late(..) => None,
        Act::Split(key, value) => {
            let mut frame = Vec::new();
            send(&mut frame, id, 0, RESULT, &row(text, key, value));
            for byte in frame {
                drop(stream.write_all(&[byte]).and_then(|()| stream.flush()));
            }
            None
        }
        Act::AfterEvent(key, value) => {
            send(stream, [0xff, 0xff], 0, EVENT, &event());
            Some((RESULT, row(text, key, value)))
        }
        Act::Stray(key, value) => {
            send(stream, [0x7f, 0xff], 0, RESULT, &row(text, key, value));
            None
        }
        Act::TooLong => {
            drop(stream.write_all(&[0x84, 0, id[0], id[1], RESULT, 0x7f, 0xff, 0xff, 0xff]));
            None
        }
        Act::OtherVersion => {
            drop(stream.write_all(&[0x83, 0, id[0], id[1], RESULT, 0, 0, 0, 4, 0, 0, 0, 1]));
            None
        }
        Act::Deaf => loop {
            // Until the process of the test ends.
            thread::park();
        },
        Act::Garbage => {
            drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
            None
        }
        Act::Close => {
            let [high, low] = id;
            drop(stream.write_all(&[0x84, 0, high, low, RESULT, 0, 0, 1, 0, 0, 0, 0]));
            drop(socket.shutdown(Shutdown::Both));
            None
        }
    }
}

/// An event: another node is up.
fn event() -> Vec<u8> {
    let mut event = Vec::new();
    string(&mut event, "STATUS_CHANGE");
    string(&mut event, "UP");
    event.extend_from_slice(&[4, 127, 0, 0, 9, 0, 0, 0x23, 0x52]);
    event
}

/// The answer to a select with one row.
fn row(text: &str, key: &str, value: &str) -> Vec<u8> {
    let columns = columns(text);
    let value = |name: &String| if name == "y_id" { key } else { value };
    let row: Vec<_> = columns.iter().map(|name| value(name).as_bytes().to_vec()).collect();
    rows(&columns, &[row])
}

fn send(stream: &mut impl Write, id: [u8; 2], flags: u8, opcode: u8, body: &[u8]) {
    let mut frame = vec![0x84, flags, id[0], id[1], opcode];
    frame.extend_from_slice(&(body.len() as u32).to_be_bytes());
    frame.extend_from_slice(body);
    drop(stream.write_all(&frame).and_then(|()| stream.flush()));
}

fn long_text(body: &[u8]) -> String {
    let length = u32::from_be_bytes(body[..4].try_into().unwrap()) as usize;
    String::from_utf8(body[4..4 + length].to_vec()).unwrap()
}

fn string(output: &mut Vec<u8>, text: &str) {
    output.extend_from_slice(&(text.len() as u16).to_be_bytes());
    output.extend_from_slice(text.as_bytes());
}

/// Answers to the requests that a driver sends to every node. System tables have one replica, so
/// level TWO fails.
fn local_answer(text: &str, terms: &[u8], node: &Node) -> (u8, Vec<u8>) {
    if text.contains("system") && terms.starts_with(&TWO) {
        return (ERROR, error(UNAVAILABLE, &[&TWO[..], &[0, 0, 0, 2, 0, 0, 0, 1]].concat()));
    }
    answer(text, node)
}

fn answer(text: &str, node: &Node) -> (u8, Vec<u8>) {
    let unknown = ["system_views", "system.versions", "system.partitions", "scylla_", "peers_v2"];
    if unknown.iter().any(|name| text.contains(name)) {
        return (ERROR, error(INVALID, &[]));
    }
    if !text.starts_with("SELECT") {
        let kind = if text.starts_with("USE") { 3 } else { 5 };
        let mut body = i32::to_be_bytes(kind).to_vec();
        string(&mut body, "ycsb");
        return (RESULT, body);
    }
    let columns = columns(text);
    let Place { index, members, .. } = &node.place;
    let there = text.contains("system.local") || text.contains("system_schema.keyspaces");
    let told: Vec<u8> = if there {
        vec![*index]
    } else if text.contains("system.peers") {
        (0..members.load(Ordering::SeqCst)).filter(|other| other != index).collect()
    } else {
        Vec::new()
    };
    let row = |index: &u8| columns.iter().map(|name| system_value(name, *index, node)).collect();
    let found: Vec<Vec<Vec<u8>>> = told.iter().map(row).collect();
    (RESULT, rows(&columns, &found))
}

/// The columns of a select.
fn columns(text: &str) -> Vec<String> {
    let Some(rest) = text.strip_prefix("SELECT ") else { return Vec::new() };
    let (names, _) = rest.split_once(" FROM ").unwrap();
    if names == "*" {
        return vec!["y_id".to_owned(), "field0".to_owned()];
    }
    names.split(", ").map(|name| name.trim_matches('"').to_owned()).collect()
}

fn system_value(name: &str, index: u8, node: &Node) -> Vec<u8> {
    let elements = |texts: &[&str]| {
        let mut value = (texts.len() as u32).to_be_bytes().to_vec();
        for text in texts {
            value.extend_from_slice(&(text.len() as u32).to_be_bytes());
            value.extend_from_slice(text.as_bytes());
        }
        value
    };
    match name {
        "schema_version" => {
            let count = node.late.load(Ordering::SeqCst);
            node.late.store(count.saturating_sub(1), Ordering::SeqCst);
            vec![count; 16]
        }
        "rpc_address" => vec![127, 0, 0, 1 + index],
        "host_id" => vec![index; 16],
        "tokens" => {
            let part = (1_i128 << 64) / i128::from(node.place.nodes);
            let end = i128::from(i64::MIN) + (i128::from(index) + 1) * part - 1;
            elements(&[&end.to_string()])
        }
        "data_center" => vec![b'd', b'c', b'1' + index],
        "rack" => vec![b'r', b'1' + index],
        "partitioner" => b"org.apache.cassandra.dht.Murmur3Partitioner".to_vec(),
        "keyspace_name" => b"ycsb".to_vec(),
        "replication" => elements(&["class", "SimpleStrategy", "replication_factor", "1"]),
        _ => b"dc1".to_vec(),
    }
}

fn column_type(name: &str) -> &'static [u8] {
    match name {
        "schema_version" | "host_id" => &[0, 0x0c],
        "rpc_address" => &[0, 0x10],
        "tokens" => &[0, 0x22, 0, 0x0d],
        "replication" => &[0, 0x21, 0, 0x0d, 0, 0x0d],
        _ => &[0, 0x0d],
    }
}

/// Flags, number and description of columns, all of one table. Bind markers are described with
/// that of the partition key, if it is bound.
fn metadata(columns: &[String], keys: Option<Option<usize>>) -> Vec<u8> {
    let mut body = 1_i32.to_be_bytes().to_vec();
    body.extend_from_slice(&(columns.len() as u32).to_be_bytes());
    if let Some(key) = keys {
        body.extend_from_slice(&u32::from(key.is_some()).to_be_bytes());
        body.extend(key.into_iter().flat_map(|index| (index as u16).to_be_bytes()));
    }
    string(&mut body, "ycsb");
    string(&mut body, "usertable");
    for name in columns {
        string(&mut body, name);
        body.extend_from_slice(column_type(name));
    }
    body
}

fn rows(columns: &[String], rows: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut body = 2_i32.to_be_bytes().to_vec();
    body.extend(metadata(columns, None));
    body.extend_from_slice(&(rows.len() as u32).to_be_bytes());
    for value in rows.iter().flatten() {
        body.extend_from_slice(&(value.len() as u32).to_be_bytes());
        body.extend_from_slice(value);
    }
    body
}

fn prepared(text: &str) -> Vec<u8> {
    let mut body = 4_i32.to_be_bytes().to_vec();
    string(&mut body, text);
    let markers: Vec<_> = (0..text.matches('?').count()).map(|n| format!("v{n}")).collect();
    let key = text.strip_suffix("WHERE y_id = ?").map(|before| before.matches('?').count());
    body.extend(metadata(&markers, Some(key)));
    let columns = columns(text);
    body.extend(metadata(&columns, None));
    body
}
