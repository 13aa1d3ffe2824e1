//! A redis-server for tests, on a free loopback port and in a temporary folder.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

const PORTS_TRIED: usize = 10;

pub(crate) struct Redis {
    child: Child,
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
        Some(Self { child, folder, address: format!("127.0.0.1:{port}") })
    }

    /// Kills the server, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Another connection with a line interface.
    pub(crate) fn raw(&self) -> Raw {
        let stream = TcpStream::connect(&self.address).unwrap();
        Raw { input: BufReader::new(stream.try_clone().unwrap()), output: stream }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
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
