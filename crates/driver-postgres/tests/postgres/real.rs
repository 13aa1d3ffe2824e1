//! A PostgreSQL for tests, on a free loopback port, in a temporary folder.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use tempfile::TempDir;

use crate::common::ask;

/// The folder of Debian's versions, whose programs aren't on the search path.
const PROGRAMS: &str = "/usr/lib/postgresql";

pub(crate) struct Server {
    child: Child,
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
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port().to_string();
        drop(free);
        let mut all: Vec<_> =
            ["-D", data, "-c", "listen_addresses=127.0.0.1"].map(str::to_owned).into();
        all.extend(["-c", "unix_socket_directories=", "-p", &port].map(str::to_owned));
        all.extend(settings.iter().flat_map(|one| ["-c".to_owned(), (*one).to_owned()]));
        let address = format!("127.0.0.1:{port}");
        let child = started(&all, &address);
        Self { child, _folder: folder, settings: all, address }
    }

    /// Kills the server, as `kill -9` does; its other processes notice it.
    pub(crate) fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Restarts it at its address.
    pub(crate) fn start_again(&mut self) {
        self.child = started(&self.settings, &self.address);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A private file.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// Starts a server and waits until it answers. It may end early while the processes of a killed one
/// still exist.
fn started(arguments: &[String], address: &str) -> Child {
    let start = || command("postgres").args(arguments).stderr(Stdio::null()).spawn().unwrap();
    let mut child = start();
    while ask(address, "SELECT 1").is_err() {
        if child.try_wait().unwrap().is_some() {
            child = start();
        }
        thread::yield_now();
    }
    child
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
