//! The driver's own connection, on which it asks the server about itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use kvmark_driver::{Description, OpenError};
use kvmark_plan::Outcome;
use tokio::runtime::{Builder, Runtime};

use crate::alarm::within;
use crate::connect::{call, connect, too_slow};
use crate::failure::Failure;
use crate::options::Settings;
use crate::resp::Cursor;
use crate::stream::Stream;

/// Configuration that says where a server is, not how it works.
const PLACES: [&str; 10] = [
    "bind",
    "bind-source-addr",
    "cluster-config-file",
    "dir",
    "logfile",
    "pidfile",
    "port",
    "tls-port",
    "unixsocket",
    "slaveof",
];

/// Numbers of INFO that are kept.
const NUMBERS: [&str; 18] = [
    "aof_current_size",
    "blocked_clients",
    "connected_clients",
    "evicted_keys",
    "expired_keys",
    "keyspace_hits",
    "keyspace_misses",
    "mem_fragmentation_ratio",
    "rejected_connections",
    "total_commands_processed",
    "total_connections_received",
    "total_error_replies",
    "total_net_input_bytes",
    "total_net_output_bytes",
    "used_cpu_sys",
    "used_cpu_user",
    "used_memory",
    "used_memory_rss",
];

/// Work of the server that `settle` waits for.
const BUSY: [&str; 6] = [
    "loading",
    "async_loading",
    "rdb_bgsave_in_progress",
    "aof_rewrite_in_progress",
    "aof_rewrite_scheduled",
    "master_sync_in_progress",
];

/// How often `settle` looks.
const LOOK: Duration = Duration::from_millis(100);
/// Answers in a row that `settle` goes without before it gives up.
const UNANSWERED_MAX: u32 = 10;

pub(crate) struct Control {
    settings: Arc<Settings>,
    line: Mutex<Line>,
}

struct Line {
    runtime: Runtime,
    stream: Option<Stream>,
}

impl Control {
    /// Connects to the server.
    pub(crate) fn open(settings: Arc<Settings>) -> Result<Self, OpenError> {
        let runtime = Builder::new_current_thread().enable_io().build();
        let runtime = runtime.map_err(|error| {
            OpenError::System(format!("no event loop for the server's connection ({error})"))
        })?;
        let control = Self { settings, line: Mutex::new(Line { runtime, stream: None }) };
        match control.ask(&["PING"]) {
            // A server that is loading is there; settling waits for it.
            Err(failure) if failure.outcome != Outcome::Unavailable => {
                Err(failure.at(&control.settings.target))
            }
            _ => Ok(control),
        }
    }

    /// The reply to one command. A connection that failed is opened again, once.
    fn ask(&self, command: &[&str]) -> Result<Vec<u8>, Failure> {
        let limit = self.settings.connect_timeout;
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let Line { runtime, stream } = &mut *line;
        let kept = stream.is_some();
        let work = async {
            let mut open = match stream.take() {
                Some(open) => open,
                None => connect(&self.settings).await?,
            };
            let mut answer = call(&mut open, command).await;
            if kept && answer.as_ref().is_err_and(Failure::ends_connection) {
                open = connect(&self.settings).await?;
                answer = call(&mut open, command).await;
            }
            if !answer.as_ref().is_err_and(Failure::ends_connection) {
                *stream = Some(open);
            }
            answer
        };
        runtime.block_on(within(limit, work)).unwrap_or_else(|| Err(too_slow(limit)))
    }

    fn info(&self) -> Result<BTreeMap<String, String>, Failure> {
        let reply = self.ask(&["INFO"])?;
        let text = Cursor::new(&reply).text()?.unwrap_or_default();
        Ok(pairs(&String::from_utf8_lossy(text)))
    }

    /// What the server says it is. What it doesn't say is left out.
    pub(crate) fn describe(&self) -> Description {
        let info = self.info().unwrap_or_default();
        let (system, version) = identity(&info);
        Description { system, version, configuration: self.configuration().unwrap_or_default() }
    }

    fn configuration(&self) -> Result<BTreeMap<String, String>, Failure> {
        let reply = self.ask(&["CONFIG", "GET", "*"])?;
        let mut cursor = Cursor::new(&reply);
        let mut configuration = BTreeMap::new();
        for _ in 0..cursor.elements()? / 2 {
            let mut text = || Ok::<_, Failure>(cursor.text()?.unwrap_or_default().to_vec());
            let (name, value) = (text()?, text()?);
            let name = String::from_utf8_lossy(&name).into_owned();
            if !is_secret(&name) && !PLACES.contains(&name.as_str()) {
                configuration.insert(name, String::from_utf8_lossy(&value).into_owned());
            }
        }
        Ok(configuration)
    }

    pub(crate) fn statistics(&self) -> BTreeMap<String, f64> {
        let info = self.info().unwrap_or_default();
        let number = |name: &&str| Some(((*name).to_owned(), info.get(*name)?.parse().ok()?));
        NUMBERS.iter().filter_map(number).collect()
    }

    /// Waits until the server neither loads, saves, rewrites its log nor copies from a primary.
    pub(crate) fn settle(&self) -> Result<(), OpenError> {
        let mut unanswered = 0;
        loop {
            match self.info() {
                Ok(info) if BUSY.iter().all(|name| info.get(*name).is_none_or(|n| n == "0")) => {
                    return Ok(());
                }
                Ok(_) => unanswered = 0,
                Err(failure) if failure.outcome == Outcome::Refused => {
                    return Err(failure.at(&self.settings.target));
                }
                Err(failure) => {
                    unanswered += 1;
                    if unanswered >= UNANSWERED_MAX {
                        return Err(failure.at(&self.settings.target));
                    }
                }
            }
            thread::sleep(LOOK);
        }
    }
}

/// `name:value` lines.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// System and version. Those that speak Redis's protocol say which Redis they resemble, too.
fn identity(info: &BTreeMap<String, String>) -> (String, String) {
    let says = |part: &str| {
        info.iter()
            .any(|(name, value)| name.contains(part) || value.to_ascii_lowercase().contains(part))
    };
    let version = |name: &str| info.get(name).cloned();
    if let Some(version) = version("valkey_version") {
        return ("Valkey".to_owned(), version);
    }
    let own = version("redis_version").unwrap_or_else(|| "unknown".to_owned());
    if says("yugabyte") {
        return ("YugabyteDB".to_owned(), version("yugabyte_version").unwrap_or(own));
    }
    let name = if info.contains_key("redis_version") { "Redis" } else { "unknown" };
    (name.to_owned(), own)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("pass") || name.contains("secret") || name.ends_with("auth")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_told_from_other_configuration() {
        let secrets = ["requirepass", "masterauth", "primaryauth", "tls-key-file-pass"];
        assert!(secrets.iter().all(|name| is_secret(name)));
        assert!(!is_secret("maxmemory") && !is_secret("tls-auth-clients"));
    }

    #[test]
    fn a_system_is_named_by_its_own_version_line() {
        let named = |text: &str| identity(&pairs(text));
        let pair = |system: &str, version: &str| (system.to_owned(), version.to_owned());
        assert_eq!(named("# Server\r\nredis_version:7.0.15\r\n"), pair("Redis", "7.0.15"));
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n";
        assert_eq!(named(valkey), pair("Valkey", "8.0.1"));
        assert_eq!(named("build:YugabyteDB\r\n").0, "YugabyteDB");
        assert_eq!(named(""), pair("unknown", "unknown"));
    }
}
