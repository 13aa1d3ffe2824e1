//! What a tap changes between a client and a node, so that the client stays on the tap and all its
//! frames can be read.
//!
//! Clients see one node: the tap. Newer versions and compression are declined. All other frames
//! pass as they are, in pieces as they arrive.

use std::net::{IpAddr, SocketAddr};

use kvmark_wire::cql::errors::PROTOCOL_ERROR;
use kvmark_wire::cql::types::{ColumnType, NativeType};
use kvmark_wire::cql::{
    ANSWER, Description, ERROR, EVENT, HEADER, MORE_PAGES, NOT_DESCRIBED, ONE_TABLE, OPTIONS,
    PREPARED, RESULT, ROWS, Reader, STARTUP, SUPPORTED, VERSION, put_long, put_short, set_length,
};

use super::frames::{Frame, REPLY, length};

/// The oldest version whose frames have the same header.
const OLDEST: u8 = 3;
/// Newer versions, also as DSE numbers them.
const NEWER: [u8; 4] = [5, 6, 0x41, 0x42];
/// Beginning of a result with the names of its table.
const HEAD: usize = HEADER + 64;
/// Longest frame that is held until it is complete.
const HELD_MAX: usize = 1 << 20;

/// The bytes of a client and its node as they are forwarded.
pub(crate) struct Rewriter {
    /// The tap's address as the client sees it.
    tap: SocketAddr,
    directions: [Direction; 2],
}

/// One direction of a connection.
#[derive(Default)]
struct Direction {
    /// The beginning of a frame.
    held: Vec<u8>,
    /// Bytes that pass as they are; all that aren't CQL.
    left: usize,
}

/// What a tap does about received bytes.
#[derive(Default)]
pub(crate) struct Passed {
    /// The bytes to forward.
    pub(crate) bytes: Vec<u8>,
    /// The tap's answer to the client.
    pub(crate) answer: Vec<u8>,
    /// Whether a statement is prepared, which must be known before it is executed on another
    /// connection.
    pub(crate) is_prepared: bool,
}

/// What happens to a frame with this beginning.
enum Step {
    /// It passes as it is.
    Pass,
    /// It is held until it has this number of bytes.
    Hold(usize),
    /// It is complete, and may be replaced.
    Replace,
    /// All bytes pass, as they aren't CQL.
    Retire,
}

impl Rewriter {
    pub(crate) fn new(tap: SocketAddr) -> Self {
        Self { tap, directions: Default::default() }
    }

    /// Takes bytes of the client (0) or the node (1).
    pub(crate) fn pass(&mut self, place: usize, mut bytes: &[u8]) -> Passed {
        let mut passed = Passed::default();
        loop {
            let Direction { held, left } = &mut self.directions[place];
            let (passing, rest) = bytes.split_at(bytes.len().min(*left));
            passed.bytes.extend_from_slice(passing);
            if *left < usize::MAX {
                *left -= passing.len();
            }
            bytes = rest;
            match step(place, held) {
                Step::Hold(_) if bytes.is_empty() => return passed,
                Step::Hold(wanted) => {
                    let (more, rest) = bytes.split_at(bytes.len().min(wanted - held.len()));
                    held.extend_from_slice(more);
                    bytes = rest;
                    continue;
                }
                Step::Replace => self.replace(place, &mut passed),
                step => {
                    let length = length(held).unwrap_or(0);
                    let missing = (HEADER + length).saturating_sub(held.len());
                    *left = if matches!(step, Step::Pass) { missing } else { usize::MAX };
                    passed.bytes.extend_from_slice(held);
                }
            }
            self.directions[place].held.clear();
        }
    }

    /// Forwards, replaces or answers the held frame.
    fn replace(&self, place: usize, passed: &mut Passed) {
        let [client, node] = &self.directions;
        let held = &self.directions[place].held;
        let frame = Frame::read(held, 0);
        if place == 1 {
            passed.is_prepared |= frame.result(PREPARED).is_some();
            let from = passed.bytes.len();
            match replaced(&frame, self.tap) {
                _ if is_dropped(&frame) => {}
                None => passed.bytes.extend_from_slice(held),
                Some(new) => {
                    passed.bytes.extend_from_slice(&held[..HEADER]);
                    passed.bytes.extend_from_slice(&new);
                    set_length(&mut passed.bytes[from..]);
                }
            }
            return;
        }
        // An answer must not be in the middle of a frame of the node.
        let is_between = node.held.is_empty() && node.left == 0;
        match refusal(&frame).filter(|_| is_between) {
            Some(refusal) => passed.answer.extend_from_slice(&refusal),
            None => passed.bytes.extend_from_slice(&client.held),
        }
    }
}

fn step(place: usize, held: &[u8]) -> Step {
    let Some(first) = held.first() else { return Step::Hold(HEADER) };
    let version = first & !REPLY;
    let is_newer = place == 0 && NEWER.contains(&version);
    let is_known = is_newer || (OLDEST..=VERSION).contains(&version);
    if !is_known || usize::from(first / REPLY) != place {
        return Step::Retire;
    }
    let Some(length) = length(held) else { return Step::Hold(HEADER) };
    let total = HEADER + length;
    let is_held = match (place, held[4]) {
        (0, STARTUP) | (1, SUPPORTED | EVENT) => true,
        (0, OPTIONS) => is_newer,
        (1, RESULT) if held.len() < HEAD.min(total) => return Step::Hold(HEAD.min(total)),
        (1, RESULT) => {
            let frame = Frame::read(held, 0);
            frame.result(PREPARED).is_some() || frame.result(ROWS).and_then(system_table).is_some()
        }
        _ => false,
    };
    match is_held && total <= HELD_MAX {
        true if held.len() < total => Step::Hold(total),
        true => Step::Replace,
        false => Step::Pass,
    }
}

/// The tap's error for a client that begins with a newer version or with compression.
fn refusal(frame: &Frame<'_>) -> Option<Vec<u8>> {
    let message = if frame.version > VERSION {
        format!(
            "Invalid or unsupported protocol version ({}); the lowest supported version is \
             {OLDEST} and the greatest is {VERSION}",
            frame.version
        )
    } else {
        let mut options = Reader(frame.body()?);
        let count = options.short()?;
        let mut option = || Some((options.short_bytes()?, options.short_bytes()?));
        let mut names = (0..count).map_while(|_| option().map(|(name, _)| name));
        names.find(|name| *name == b"COMPRESSION")?;
        "kvmark's tap can't read compressed frames: switch the client's compression off".to_owned()
    };
    let mut answer = vec![ANSWER.min(0x80 | frame.version), 0, 0, 0, ERROR, 0, 0, 0, 0];
    answer[2..4].copy_from_slice(&frame.stream.to_be_bytes());
    answer.extend_from_slice(&PROTOCOL_ERROR.to_be_bytes());
    put_short(&mut answer, message.as_bytes());
    set_length(&mut answer);
    Some(answer)
}

/// Whether an event has an address of a node.
fn is_dropped(frame: &Frame<'_>) -> bool {
    let event = frame.body().and_then(|body| Reader(body).short_bytes());
    frame.opcode == EVENT && event != Some(b"SCHEMA_CHANGE")
}

/// The new contents of a node's frame; `None` if it stays as it is.
fn replaced(frame: &Frame<'_>, tap: SocketAddr) -> Option<Vec<u8>> {
    match frame.opcode {
        SUPPORTED => supported(Reader(frame.body()?)),
        RESULT => {
            let (mut new, body) = (Vec::new(), frame.body()?);
            new.extend_from_slice(frame.extensions()?);
            new.extend_from_slice(&node(body, tap)?);
            Some(new)
        }
        _ => None,
    }
}

/// The options of a node without compression, newer versions and the ports of shards.
fn supported(mut body: Reader<'_>) -> Option<Vec<u8>> {
    let (mut new, mut kept) = (vec![0, 0], 0_u16);
    for _ in 0..body.short()? {
        let name = body.short_bytes()?;
        let values = (0..body.short()?).map(|_| body.short_bytes()).collect::<Option<Vec<_>>>()?;
        if name.starts_with(b"SCYLLA_") {
            continue;
        }
        let is_kept = |value: &&&[u8]| match name {
            b"COMPRESSION" => false,
            b"PROTOCOL_VERSIONS" => value.first().is_some_and(|digit| *digit <= b'0' + VERSION),
            _ => true,
        };
        let values: Vec<_> = values.iter().filter(is_kept).collect();
        put_short(&mut new, name);
        new.extend_from_slice(&(values.len() as u16).to_be_bytes());
        values.iter().for_each(|value| put_short(&mut new, value));
        kept += 1;
    }
    new[..2].copy_from_slice(&kept.to_be_bytes());
    Some(new)
}

/// The table of rows of `system` that describe nodes: whether it is that of the other nodes.
fn system_table(mut body: Reader<'_>) -> Option<bool> {
    let flags = body.int()? & (ONE_TABLE | MORE_PAGES | NOT_DESCRIBED);
    body.int()?;
    if flags != ONE_TABLE || body.short_bytes()? != b"system" {
        return None;
    }
    match body.short_bytes()? {
        b"local" => Some(false),
        b"peers" | b"peers_v2" => Some(true),
        _ => None,
    }
}

/// Rows of `system.local` with the tap's address, and no rows of other nodes.
fn node(body: &[u8], tap: SocketAddr) -> Option<Vec<u8>> {
    let mut rest = Reader(body.get(4..)?);
    let are_others = system_table(rest)?;
    let columns = Description::read(&mut rest)?.columns;
    let mut new = body[..body.len() - rest.0.len()].to_vec();
    let count = rest.int()?;
    if are_others {
        new.extend_from_slice(&[0; 4]);
        return Some(new);
    }
    new.extend_from_slice(&count.to_be_bytes());
    for _ in 0..count {
        for column in &columns {
            let value = rest.bytes()?;
            let ColumnType::Native(native) = column.typ else {
                put_value(&mut new, value);
                continue;
            };
            match (native, column.name, tap.ip()) {
                (NativeType::Inet, _, IpAddr::V4(ip)) => put_long(&mut new, &ip.octets()),
                (NativeType::Inet, _, IpAddr::V6(ip)) => put_long(&mut new, &ip.octets()),
                (NativeType::Int, b"rpc_port" | b"native_port", _) => {
                    put_long(&mut new, &u32::from(tap.port()).to_be_bytes());
                }
                _ => put_value(&mut new, value),
            }
        }
    }
    Some(new)
}

fn put_value(output: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(value) => put_long(output, value),
        None => output.extend_from_slice(&[0xff; 4]),
    }
}
