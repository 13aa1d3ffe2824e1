//! A PostgreSQL for tests, on a free loopback port, in a temporary folder.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::thread;

use kvmark_driver::AnyConsole;
use kvmark_driver_postgres::Postgres;
use kvmark_plan::Outcome;
use kvmark_testing::client::Open;
use kvmark_testing::server::{ServerProcess, TestServer, free_port, reply_to};
use tempfile::TempDir;

use crate::common::ask;

/// The folder of Debian's versions, whose programs aren't on the search path.
const PROGRAMS: &str = "/usr/lib/postgresql";

pub(crate) struct Server {
    child: ServerProcess,
    _folder: TempDir,
    settings: Vec<String>,
    pub(crate) address: String,
}

impl Server {
    /// Starts a server with these settings.
    pub(crate) fn start(settings: &[&str]) -> Self {
        Self::with_logins("", settings)
    }

    /// Starts a server with these lines of `pg_hba.conf`; other users need no password.
    pub(crate) fn with_logins(logins: &str, settings: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let data = data.to_str().unwrap();
        let login = ["--username=postgres", "--auth=trust", "--no-sync"];
        let created = command("initdb")
            .args(["-D", data, "--encoding=UTF8", "--locale=C"])
            .args(login)
            .stdout(Stdio::null())
            .status();
        assert!(created.unwrap().success());
        let rules = format!("{logins}\nhost all all all trust\n");
        fs::write(folder.path().join("data/pg_hba.conf"), rules).unwrap();
        let port = free_port().to_string();
        let mut all: Vec<_> =
            ["-D", data, "-c", "listen_addresses=127.0.0.1"].map(str::to_owned).into();
        all.extend(["-c", "unix_socket_directories=", "-p", &port].map(str::to_owned));
        all.extend(settings.iter().flat_map(|one| ["-c".to_owned(), (*one).to_owned()]));
        let address = format!("127.0.0.1:{port}");
        let child = started(&all, &address);
        Self { child, _folder: folder, settings: all, address }
    }
}

/// The number in the only row of a query.
fn number(console: &mut AnyConsole, query: &str) -> u64 {
    reply_to(console, &[query])[0]["count"].as_str().unwrap().parse().unwrap()
}

impl TestServer for Server {
    type Driver = Postgres;

    const OPEN: Open<Postgres> = Postgres::open;
    const RESTARTED: Outcome = Outcome::Ok;

    fn start() -> Self {
        Self::start(&[])
    }

    fn start_encrypted(certificate: &str, key: &str) -> Self {
        let [certificate, key] = [("cert", certificate), ("key", key)]
            .map(|(name, path)| format!("ssl_{name}_file={path}"));
        Self::start(&["ssl=on", &certificate, &key])
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    /// Its other processes notice the end.
    fn kill(&mut self) {
        self.child.kill();
    }

    fn start_again(&mut self) {
        self.child = started(&self.settings, &self.address);
    }

    fn count(&self, console: &mut AnyConsole) -> u64 {
        number(console, "SELECT count(*) FROM usertable")
    }

    fn connections(&self, console: &mut AnyConsole) -> u64 {
        number(console, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kvmark'")
    }

    fn removal(&self, key: &str) -> Vec<String> {
        vec![format!("DELETE FROM usertable WHERE ycsb_key = '{key}'")]
    }

    fn change(&self, key: &str) -> Vec<String> {
        vec![format!("UPDATE usertable SET field0 = 'changed' WHERE ycsb_key = '{key}'")]
    }
}

kvmark_testing::server_conformance!(Server, "needs postgres");

/// Starts a server and waits until it answers. It may end early while the processes of a killed one
/// still exist.
fn started(arguments: &[String], address: &str) -> ServerProcess {
    let start = || command("postgres").args(arguments).stderr(Stdio::null()).spawn().unwrap();
    let mut child = start();
    while ask(address, "SELECT 1").is_err() {
        if child.try_wait().unwrap().is_some() {
            child = start();
        }
        thread::yield_now();
    }
    ServerProcess(child)
}

/// A program of PostgreSQL. It refuses to run as root, so root needs a user namespace.
fn command(program: &str) -> Command {
    let versions = fs::read_dir(PROGRAMS).into_iter().flatten();
    let found = versions.map(|version| version.unwrap().path().join("bin").join(program));
    let found = found.filter(|path| path.exists()).max();
    let program = found.unwrap_or_else(|| program.into());
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-user=1", "--map-group=1"]).arg(program);
    command
}
