//! A bare epoll loop over connections: the minimum client cost of a read.
//!
//! Each connection has one request in flight, for a uniformly drawn key `key:000000000000` and so
//! on, as in redis-benchmark. A request takes a send, a receive, a check of the reply, two time
//! stamps and a histogram record: no generator, driver, schedule, interval or timeout.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use hdrhistogram::Histogram;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use quanta::Clock;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use crate::Arguments;

/// Any error.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Greatest size of a reply.
const INPUT_BYTES: usize = 16 << 10;
const KEY_DIGITS: usize = 12;
/// The longest recorded time, one minute.
const LONGEST_NS: u64 = 60_000_000_000;

/// Whether a reply is complete and has a value; an error for any other reply.
pub type IsWhole = fn(&[u8]) -> Result<bool, Failure>;

/// Runs an example with the arguments `address=HOST:PORT records=N operations=N [connections=50]
/// [seed=1]` and prints a line of JSON. Its times exclude connecting.
///
/// `request` returns the bytes of a read, which end with the key and a line end.
///
/// # Errors
/// An argument is missing or invalid, the server failed, or a reply is unexpected.
pub fn measure(request: impl Fn(&str) -> String, is_whole: IsWhole) -> Result<(), Failure> {
    let mut given = Arguments::parse(std::env::args().skip(1))?;
    let address: String = given.take("address", None)?;
    let records = given.take("records", None)?;
    let operations = given.take("operations", None)?;
    let connections = given.take("connections", Some(50))?;
    let seed = given.take("seed", Some(1))?;
    given.finish()?;
    if records == 0 || connections == 0 || connections > operations {
        return Err(
            "give at least one record, one connection, and one operation per connection".into()
        );
    }
    let text = request(&format!("key:{}", "0".repeat(KEY_DIGITS))).into_bytes();
    let requests = Requests { text, records, chance: Uniform::new(seed) };
    let mut bare = Loop::new(&address, connections, requests, is_whole)?;
    writeln!(io::stdout(), "{}", measured(&mut bare, operations)?)?;
    Ok(())
}

fn measured(bare: &mut Loop, operations: u64) -> Result<String, Failure> {
    let (began, cpu_began_ns) = (bare.clock.raw(), cpu_ns()?);
    bare.run(operations)?;
    let seconds = bare.clock.delta_as_nanos(began, bare.clock.raw()) as f64 / 1e9;
    let (count, rate) = (bare.service_ns.len(), operations as f64 / seconds);
    let cpu_ns = cpu_ns()? - cpu_began_ns;
    let [p50, p99] = [0.5, 0.99].map(|quantile| bare.service_ns.value_at_quantile(quantile));
    Ok(format!(
        "{{\"operations\": {count}, \"seconds\": {seconds}, \"ops_per_s\": {rate}, \
         \"cpu_ns\": {cpu_ns}, \"service_ns_p50\": {p50}, \"service_ns_p99\": {p99}}}"
    ))
}

/// The requests, which differ only in the digits of the key.
struct Requests {
    text: Vec<u8>,
    records: u64,
    chance: Uniform,
}

impl Requests {
    /// The next request, with a uniformly drawn key.
    fn draw(&mut self) -> &[u8] {
        let mut number = self.chance.below(self.records);
        let end = self.text.len() - b"\r\n".len();
        for digit in self.text[end - KEY_DIGITS..end].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        &self.text
    }
}

/// A connection with one request in flight.
struct Connection {
    stream: TcpStream,
    sent: u64,
    input: Vec<u8>,
    filled: usize,
}

impl Connection {
    fn open(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, sent: 0, input: vec![0; INPUT_BYTES], filled: 0 })
    }

    /// Sends a request, which fits into the empty socket buffer.
    fn send(&mut self, request: &[u8], clock: &Clock) -> Result<(), Failure> {
        self.sent = clock.raw();
        self.filled = 0;
        let sent = self.stream.write(request)?;
        if sent == request.len() { Ok(()) } else { Err("a request was sent in part".into()) }
    }

    /// Reads once. Returns whether the reply is complete.
    fn receive(&mut self, is_whole: IsWhole) -> Result<bool, Failure> {
        let read = self.stream.read(&mut self.input[self.filled..])?;
        if read == 0 {
            return Err("the server closed a connection, or a reply is too long".into());
        }
        self.filled += read;
        is_whole(&self.input[..self.filled])
    }
}

/// The event loop over the connections.
struct Loop {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    requests: Requests,
    is_whole: IsWhole,
    clock: Clock,
    service_ns: Histogram<u64>,
}

impl Loop {
    fn new(
        address: &str,
        connections: u64,
        requests: Requests,
        is_whole: IsWhole,
    ) -> Result<Self, Failure> {
        let open = |_| Connection::open(address);
        let connections = (0..connections).map(open).collect::<Result<Vec<_>, _>>()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (place, connection) in (0..).zip(&connections) {
            let data = epoll::EventData::new_u64(place);
            epoll::add(&epoll, &connection.stream, data, epoll::EventFlags::IN)?;
        }
        let service_ns = Histogram::new_with_bounds(1, LONGEST_NS, 3)?;
        Ok(Self { epoll, connections, requests, is_whole, clock: Clock::new(), service_ns })
    }

    /// Executes operations. Each connection begins the next one when the last one ends.
    fn run(&mut self, operations: u64) -> Result<(), Failure> {
        let mut unsent = operations - self.connections.len() as u64;
        for connection in &mut self.connections {
            connection.send(self.requests.draw(), &self.clock)?;
        }
        let mut ready = Vec::with_capacity(self.connections.len());
        while self.service_ns.len() < operations {
            ready.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut ready), None)?;
            for event in &ready {
                let connection = &mut self.connections[event.data.u64() as usize];
                if !connection.receive(self.is_whole)? {
                    continue;
                }
                let took_ns = self.clock.delta_as_nanos(connection.sent, self.clock.raw());
                self.service_ns.saturating_record(took_ns);
                if unsent > 0 {
                    unsent -= 1;
                    connection.send(self.requests.draw(), &self.clock)?;
                }
            }
        }
        Ok(())
    }
}

/// Numbers by xorshift64* (S. Vigna, ACM TOMS 42, 2016).
#[derive(Debug)]
pub struct Uniform(u64);

impl Uniform {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        // The state must not be 0.
        Self(seed.wrapping_mul(2) | 1)
    }

    /// The next number, below `end`.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let uniform = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
        ((u128::from(uniform) * u128::from(end)) >> 64) as u64
    }
}

/// User and system time of this process, in nanoseconds.
///
/// # Errors
/// The system call failed.
pub fn cpu_ns() -> io::Result<i64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok(usage.user_time().num_nanoseconds() + usage.system_time().num_nanoseconds())
}
