//! A bare epoll loop over CQL: the minimum client cost of an operation.
//!
//! It prepares one statement and keeps `in_flight` executions of it in flight. Of each reply it
//! reads the header, the kind of result and the number of rows. An operation takes two time stamps
//! and a histogram record: no generator, driver, schedule, interval or timeout. Keys are `user0`,
//! `user1`, … drawn uniformly, followed by `fields` values of `field_bytes` zero bytes.
//!
//! ```text
//! bare_wire address=HOST:PORT statement=CQL records=N operations=N
//!           [in_flight=64] [connections=1] [fields=0] [field_bytes=34] [seed=1]
//! ```
//!
//! Prints one line of JSON. Its times exclude connecting and preparing.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use hdrhistogram::Histogram;
use kvmark_testing::{Arguments, Uniform, cpu_ns};
use quanta::Clock;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use serde_json::{Value, json};

/// Any error.
type Failure = Box<dyn Error + Send + Sync>;

const HEADER: usize = 9;
const STARTUP: u8 = 1;
const RESULT: u8 = 8;
const PREPARE: u8 = 9;
const EXECUTE: u8 = 10;
/// Size of the read buffer.
const INPUT_BYTES: usize = 256 << 10;
/// The longest recorded time, one minute.
const LONGEST_NS: u64 = 60_000_000_000;
const ONE: [u8; 2] = [0, 1];
/// Flags: with values, and without a description of rows.
const FLAGS: u8 = 0x03;

fn main() -> Result<(), Failure> {
    let mut given = Arguments::parse(std::env::args().skip(1))?;
    let address: String = given.take("address", None)?;
    let statement: String = given.take("statement", None)?;
    let records: u64 = given.take("records", None)?;
    let operations: u64 = given.take("operations", None)?;
    let in_flight: u16 = given.take("in_flight", Some(64))?;
    let connections: u16 = given.take("connections", Some(1))?;
    let fields: u16 = given.take("fields", Some(0))?;
    let field_bytes: u32 = given.take("field_bytes", Some(34))?;
    let seed: u64 = given.take("seed", Some(1))?;
    given.finish()?;
    if records == 0 || connections == 0 || in_flight < connections {
        return Err("give a record, a connection, and an operation for each connection".into());
    }
    let open = |_| Connection::open(&address, &statement);
    let connections = (0..connections).map(open).collect::<Result<Vec<_>, _>>()?;
    let head = head(&connections[0].id, fields + 1);
    let zeros = vec![0; (4 + field_bytes as usize) * usize::from(fields)];
    let mut tail = zeros;
    for field in tail.chunks_mut(4 + field_bytes as usize) {
        field[..4].copy_from_slice(&field_bytes.to_be_bytes());
    }
    let requests = Requests { head, tail, records, chance: Uniform::new(seed) };
    let mut bare = Loop::new(connections, requests)?;
    let report = measured(&mut bare, operations, in_flight)?;
    writeln!(io::stdout(), "{report}")?;
    Ok(())
}

fn measured(bare: &mut Loop, operations: u64, in_flight: u16) -> Result<Value, Failure> {
    let (began, cpu_began_ns) = (bare.clock.raw(), cpu_ns()?);
    bare.run(operations, in_flight)?;
    let seconds = bare.clock.delta_as_nanos(began, bare.clock.raw()) as f64 / 1e9;
    Ok(json!({
        "operations": bare.service_ns.len(),
        "rows": bare.rows,
        "seconds": seconds,
        "ops_per_s": operations as f64 / seconds,
        "cpu_ns": cpu_ns()? - cpu_began_ns,
        "service_ns_p50": bare.service_ns.value_at_quantile(0.5),
        "service_ns_p99": bare.service_ns.value_at_quantile(0.99),
    }))
}

/// A frame up to the values.
fn head(id: &[u8], values: u16) -> Vec<u8> {
    let mut head = vec![4, 0, 0, 0, EXECUTE, 0, 0, 0, 0];
    head.extend_from_slice(&(id.len() as u16).to_be_bytes());
    head.extend_from_slice(id);
    head.extend_from_slice(&ONE);
    head.push(FLAGS);
    head.extend_from_slice(&values.to_be_bytes());
    head
}

/// The requests.
struct Requests {
    head: Vec<u8>,
    tail: Vec<u8>,
    records: u64,
    chance: Uniform,
}

impl Requests {
    /// Appends the next request, with a uniformly drawn key.
    fn draw(&mut self, stream: u16, output: &mut Vec<u8>) -> io::Result<()> {
        let number = self.chance.below(self.records);
        let from = output.len();
        output.extend_from_slice(&self.head);
        output[from + 2..from + 4].copy_from_slice(&stream.to_be_bytes());
        let key = output.len();
        output.extend_from_slice(&[0; 4]);
        write!(output, "user{number}")?;
        let length = (output.len() - key - 4) as u32;
        output[key..key + 4].copy_from_slice(&length.to_be_bytes());
        output.extend_from_slice(&self.tail);
        let length = (output.len() - from - HEADER) as u32;
        output[from + 5..from + HEADER].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }
}

/// A connection with one prepared statement.
struct Connection {
    stream: TcpStream,
    id: Vec<u8>,
    /// The time of sending, by stream.
    sent: Vec<u64>,
    output: Vec<u8>,
    input: Vec<u8>,
    filled: usize,
}

impl Connection {
    fn open(address: &str, statement: &str) -> Result<Self, Failure> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        ask(&mut stream, STARTUP, b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0")?;
        let mut text = (statement.len() as u32).to_be_bytes().to_vec();
        text.extend_from_slice(statement.as_bytes());
        let answer = ask(&mut stream, PREPARE, &text)?;
        let length = answer.get(4..6).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
        let id = answer.get(6..6 + usize::from(length)).ok_or("it isn't prepared")?.to_vec();
        stream.set_nonblocking(true)?;
        let (input, output) = (vec![0; INPUT_BYTES], Vec::new());
        Ok(Self { stream, id, sent: Vec::new(), output, input, filled: 0 })
    }

    /// Sends a request, which fits because the previous one was answered.
    fn flush(&mut self, clock: &Clock, fresh: &[u16]) -> Result<(), Failure> {
        let now = clock.raw();
        for stream in fresh {
            self.sent[usize::from(*stream)] = now;
        }
        let sent = self.stream.write(&self.output)?;
        let whole = sent == self.output.len();
        self.output.clear();
        if whole { Ok(()) } else { Err("requests were sent in part".into()) }
    }
}

/// Sends a request and waits for its reply.
fn ask(stream: &mut TcpStream, opcode: u8, body: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut request = vec![4, 0, 0, 0, opcode];
    request.extend_from_slice(&(body.len() as u32).to_be_bytes());
    request.extend_from_slice(body);
    stream.write_all(&request)?;
    let mut header = [0; HEADER];
    stream.read_exact(&mut header)?;
    let [.., kind, a, b, c, d] = header;
    let mut answer = vec![0; u32::from_be_bytes([a, b, c, d]) as usize];
    stream.read_exact(&mut answer)?;
    if kind == 0 {
        return Err(format!("refused: {}", String::from_utf8_lossy(&answer)).into());
    }
    Ok(answer)
}

/// A big-endian number in a body.
fn number(body: &[u8], at: usize) -> Result<u32, Failure> {
    let bytes = body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    Ok(u32::from_be_bytes(bytes.ok_or("an answer ends too early")?))
}

/// The number of rows of a result without a description.
fn rows_of(body: &[u8]) -> Result<u32, Failure> {
    match number(body, 0)? {
        1 => Ok(0),
        2 if number(body, 4)? & 0x06 == 0x04 => number(body, 12),
        other => Err(format!("a result of kind {other}, or with more than its rows").into()),
    }
}

/// The event loop over the connections.
struct Loop {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    requests: Requests,
    clock: Clock,
    service_ns: Histogram<u64>,
    rows: u64,
}

impl Loop {
    fn new(connections: Vec<Connection>, requests: Requests) -> Result<Self, Failure> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (place, connection) in (0..).zip(&connections) {
            let data = epoll::EventData::new_u64(place);
            epoll::add(&epoll, &connection.stream, data, epoll::EventFlags::IN)?;
        }
        let service_ns = Histogram::new_with_bounds(1, LONGEST_NS, 3)?;
        Ok(Self { epoll, connections, requests, clock: Clock::new(), service_ns, rows: 0 })
    }

    /// Executes operations. Each stream begins the next one when the last one ends.
    fn run(&mut self, operations: u64, in_flight: u16) -> Result<(), Failure> {
        let count = self.connections.len() as u16;
        let mut unsent = operations - u64::from(in_flight);
        let mut fresh = Vec::new();
        for (place, connection) in (0..).zip(&mut self.connections) {
            fresh.clear();
            fresh.extend(0..in_flight / count + u16::from(place < in_flight % count));
            connection.sent = vec![0; fresh.len()];
            for stream in &fresh {
                self.requests.draw(*stream, &mut connection.output)?;
            }
            connection.flush(&self.clock, &fresh)?;
        }
        let mut ready = Vec::with_capacity(self.connections.len());
        while self.service_ns.len() < operations {
            ready.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut ready), None)?;
            for event in &ready {
                self.serve(event.data.u64() as usize, &mut unsent, &mut fresh)?;
            }
        }
        Ok(())
    }

    /// Reads a connection once and replaces the answered requests.
    fn serve(
        &mut self,
        place: usize,
        unsent: &mut u64,
        fresh: &mut Vec<u16>,
    ) -> Result<(), Failure> {
        let connection = &mut self.connections[place];
        let read = connection.stream.read(&mut connection.input[connection.filled..])?;
        if read == 0 {
            return Err("the server closed a connection, or an answer is too long".into());
        }
        let now = self.clock.raw();
        connection.filled += read;
        fresh.clear();
        let mut taken = 0;
        while let Some(header) = connection.input[taken..connection.filled].first_chunk::<HEADER>()
        {
            let [_, _, high, low, opcode, a, b, c, d] = *header;
            let end = taken + HEADER + u32::from_be_bytes([a, b, c, d]) as usize;
            if end > connection.filled {
                break;
            }
            let body = &connection.input[taken + HEADER..end];
            if opcode != RESULT {
                return Err(format!("refused: {}", String::from_utf8_lossy(body)).into());
            }
            self.rows += u64::from(rows_of(body)?);
            let stream = u16::from_be_bytes([high, low]);
            let sent = connection.sent[usize::from(stream)];
            self.service_ns.saturating_record(self.clock.delta_as_nanos(sent, now));
            taken = end;
            if *unsent > 0 {
                *unsent -= 1;
                self.requests.draw(stream, &mut connection.output)?;
                fresh.push(stream);
            }
        }
        connection.input.copy_within(taken..connection.filled, 0);
        connection.filled -= taken;
        if fresh.is_empty() { Ok(()) } else { connection.flush(&self.clock, fresh) }
    }
}
