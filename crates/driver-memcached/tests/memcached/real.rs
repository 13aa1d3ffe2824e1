//! A memcached for tests, on a free loopback port or a socket, in a temporary folder.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use kvmark_driver::AnyConsole;
use kvmark_driver_memcached::Memcached;
use kvmark_testing::client::Open;
use kvmark_testing::server::{ServerProcess, TestServer, free_port, reply_to};
use tempfile::TempDir;

const PORTS_TRIED: usize = 10;

pub(crate) struct Server {
    child: ServerProcess,
    _folder: TempDir,
    pub(crate) address: String,
}

impl Server {
    /// Starts a server with these arguments. If another program takes the port, other ports are
    /// tried.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let started = (0..PORTS_TRIED).find_map(|_| {
            let port = free_port().to_string();
            let place = ["-p", &port, "-l", "127.0.0.1"];
            let address = format!("127.0.0.1:{port}");
            // A server with TLS doesn't answer plain text.
            let tls = arguments.contains(&"-Z");
            let is_there = || TcpStream::connect(&address).is_ok_and(|it| tls || answers(it));
            Self::start_at(&address, &[&place, arguments].concat(), is_there)
        });
        started.expect("memcached ended early at every port")
    }

    /// Starts a server on a Unix socket.
    pub(crate) fn on_socket() -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("socket");
        let address = path.to_str().unwrap();
        let is_there = || UnixStream::connect(&path).is_ok_and(answers);
        let mut server = Self::start_at(address, &["-s", address], is_there).unwrap();
        server._folder = folder;
        server
    }

    /// `None` if the server ends before it is ready.
    fn start_at(address: &str, arguments: &[&str], is_there: impl Fn() -> bool) -> Option<Self> {
        let mut child = Command::new("memcached")
            // As root it requires a user.
            .args(["-u", "root", "-U", "0"])
            .args(arguments)
            .stderr(Stdio::null())
            .spawn()
            .expect("memcached must be installed (Debian's package memcached)");
        while !is_there() {
            if child.try_wait().unwrap().is_some() {
                return None;
            }
            thread::yield_now();
        }
        let folder = TempDir::new().unwrap();
        Some(Self { child: ServerProcess(child), _folder: folder, address: address.to_owned() })
    }

    /// Another connection with a line interface.
    pub(crate) fn raw(&self) -> Raw {
        let stream = TcpStream::connect(&self.address).unwrap();
        Raw { input: BufReader::new(stream.try_clone().unwrap()), output: stream }
    }
}

/// A number of `stats`.
fn stat(console: &mut AnyConsole, name: &str) -> u64 {
    let stats = reply_to(console, &["stats"]);
    let prefix = format!("STAT {name} ");
    let number = stats.as_str().unwrap().lines().find_map(|line| line.strip_prefix(&prefix));
    number.unwrap().parse().unwrap()
}

impl TestServer for Server {
    type Driver = Memcached;

    const OPEN: Open<Memcached> = Memcached::open;
    const SKIPS: &'static [(&'static str, &'static str)] =
        &[("a_scan_reads_the_requested_number_of_records", "memcached has no scan")];
    const IS_TEXT: bool = true;
    const LARGEST: usize = 1_000_000;
    const TOO_LARGE: Option<(usize, &'static str)> =
        Some((3_000_000, "the server answered: SERVER_ERROR object too large for cache"));

    fn start() -> Self {
        Self::start(&[])
    }

    fn start_encrypted(certificate: &str, key: &str) -> Self {
        Self::start(&["-Z", "-o", &format!("ssl_chain_cert={certificate},ssl_key={key}")])
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    fn kill(&mut self) {
        self.child.kill();
    }

    fn start_again(&mut self) {
        let (_, port) = self.address.split_once(':').unwrap();
        let is_there = || TcpStream::connect(&self.address).is_ok_and(answers);
        let place = ["-p", port, "-l", "127.0.0.1"];
        self.child = Self::start_at(&self.address, &place, is_there).unwrap().child;
    }

    fn count(&self, console: &mut AnyConsole) -> u64 {
        stat(console, "curr_items")
    }

    fn connections(&self, console: &mut AnyConsole) -> u64 {
        stat(console, "curr_connections")
    }

    fn removal(&self, key: &str) -> Vec<String> {
        vec![format!("delete usertable-{key}")]
    }

    fn change(&self, key: &str) -> Vec<String> {
        let json = "{\"field0\":\"changed\",\"field1\":\"x\",\"field2\":\"x\"}";
        vec![format!("set usertable-{key} 0 0 {}\r\n{json}", json.len())]
    }
}

kvmark_testing::server_conformance!(Server, "needs memcached");

/// Waits for a reply, after which the server has counted the connection.
fn answers(mut stream: impl Read + Write) -> bool {
    stream.write_all(b"version\r\n").is_ok() && stream.read(&mut [0]).is_ok()
}

/// A file with its temporary folder.
pub(crate) fn file(name: &str, text: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

pub(crate) struct Raw {
    input: BufReader<TcpStream>,
    output: TcpStream,
}

impl Raw {
    /// Sends a command and returns the reply's first line.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.output.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        self.line()
    }

    /// The value of a key, with its flags.
    pub(crate) fn get(&mut self, key: &str) -> Option<(String, String)> {
        let head = self.ask(&format!("get {key}"));
        let mut words = head.split(' ').skip(2);
        let (flags, length) = (words.next()?.to_owned(), words.next()?.parse().unwrap());
        let mut value = vec![0; length];
        self.input.read_exact(&mut value).unwrap();
        assert_eq!((self.line(), self.line()), (String::new(), "END".to_owned()));
        Some((String::from_utf8(value).unwrap(), flags))
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.input.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}
