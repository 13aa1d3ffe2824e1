//! A redis-server for tests, on a free loopback port and in a temporary folder.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use kvmark_driver::AnyConsole;
use kvmark_driver_resp::Resp;
use kvmark_plan::Outcome;
use kvmark_testing::client::Open;
use kvmark_testing::server::{ServerProcess, TestServer, free_port, reply_to};
use tempfile::TempDir;

const PORTS_TRIED: usize = 10;

pub(crate) struct Redis {
    child: ServerProcess,
    pub(crate) folder: TempDir,
    pub(crate) address: String,
}

impl Redis {
    /// Starts a server with these arguments. If another program takes the port, or the second port
    /// of a cluster member, other ports are tried.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let started = (0..PORTS_TRIED).find_map(|_| Self::start_at(free_port(), arguments));
        started.expect("redis-server ended early at every port")
    }

    /// `None` if the server ends before it is ready.
    fn start_at(port: u16, arguments: &[&str]) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let mut child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(arguments)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server must be installed (Debian's package redis-server)");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        if !lines.any(|line| line.unwrap().contains("Ready to accept connections")) {
            drop(child.wait());
            return None;
        }
        // The pipe stays open while the server writes to it.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { child: ServerProcess(child), folder, address: format!("127.0.0.1:{port}") })
    }

    /// Another connection with a line interface.
    pub(crate) fn raw(&self) -> Raw {
        let stream = TcpStream::connect(&self.address).unwrap();
        Raw { input: BufReader::new(stream.try_clone().unwrap()), output: stream }
    }
}

impl TestServer for Redis {
    type Driver = Resp;

    const OPEN: Open<Resp> = Resp::open;
    const VARIANTS: &'static [&'static str] =
        &["{}", r#"{ "protocol": 3, "pipeline_parts": true, "database": 5 }"#];
    const MISSING: [Outcome; 2] = [Outcome::Ok, Outcome::Miss];

    fn start() -> Self {
        Self::start(&[])
    }

    fn start_encrypted(certificate: &str, key: &str) -> Self {
        let port = free_port().to_string();
        let files = ["--tls-cert-file", certificate, "--tls-key-file", key];
        let ports = ["--tls-port", &port, "--tls-auth-clients", "no"];
        let mut server = Self::start(&[&files[..], &ports[..]].concat());
        server.address = format!("127.0.0.1:{port}");
        server
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    fn kill(&mut self) {
        self.child.kill();
    }

    fn start_again(&mut self) {
        let port = self.address.rsplit(':').next().unwrap().parse().unwrap();
        *self = Self::start_at(port, &[]).unwrap();
    }

    fn count(&self, console: &mut AnyConsole) -> u64 {
        reply_to(console, &["ZCARD", "_indices"]).as_u64().unwrap()
    }

    fn connections(&self, console: &mut AnyConsole) -> u64 {
        let clients = reply_to(console, &["INFO", "clients"]);
        let mut lines = clients.as_str().unwrap().lines();
        lines.find_map(|line| line.strip_prefix("connected_clients:")).unwrap().parse().unwrap()
    }

    fn removal(&self, key: &str) -> Vec<String> {
        ["DEL", key].map(str::to_owned).into()
    }

    fn change(&self, key: &str) -> Vec<String> {
        ["HSET", key, "field0", "changed"].map(str::to_owned).into()
    }
}

kvmark_testing::server_conformance!(Redis, "needs redis-server");

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

    /// Sends a command and returns the text of its reply.
    pub(crate) fn text(&mut self, command: &str) -> String {
        let header = self.ask(command);
        let length: usize = header.strip_prefix('$').unwrap().parse().unwrap();
        let mut text = vec![0; length + 2];
        self.input.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap().trim_end().to_owned()
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.input.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The commands on a monitor up to one that echoes `end`.
    pub(crate) fn monitored(&mut self) -> Vec<String> {
        let command = |line: String| line.split_once("] ").unwrap().1.replace('"', "");
        let lines = std::iter::repeat_with(|| self.line()).map(command);
        lines.take_while(|command| command != "ECHO end").collect()
    }
}
