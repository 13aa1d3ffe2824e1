//! The driver's own connections, on which it asks the servers about themselves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use kvmark_driver::{Description, OpenError};
use kvmark_driver_server::framed::Lines;
use kvmark_driver_server::{Target, largest_share};
use kvmark_plan::Outcome;

use crate::connect::send;
use crate::failure::Failure;
use crate::options::Settings;
use kvmark_wire::memcached::stats;

/// Settings that say where a server is or how long it has run, not how it works.
const PLACES: [&str; 10] = [
    "auth_enabled_ascii",
    "domain_socket",
    "inter",
    "memory_file",
    "oldest",
    "ssl_ca_cert",
    "ssl_chain_cert",
    "ssl_key",
    "tcpport",
    "udpport",
];

/// Numbers of `stats` that are kept.
const NUMBERS: [&str; 30] = [
    "bytes",
    "bytes_read",
    "bytes_written",
    "cas_badval",
    "cas_hits",
    "cas_misses",
    "cmd_get",
    "cmd_set",
    "cmd_touch",
    "conn_yields",
    "curr_connections",
    "curr_items",
    "decr_hits",
    "delete_hits",
    "delete_misses",
    "direct_reclaims",
    "evicted_unfetched",
    "evictions",
    "expired_unfetched",
    "get_expired",
    "get_hits",
    "get_misses",
    "incr_hits",
    "listen_disabled_num",
    "reclaimed",
    "rejected_connections",
    "rusage_system",
    "rusage_user",
    "total_connections",
    "total_items",
];

/// The numbers that tell how busy a server was.
const COMMANDS: [&str; 2] = ["cmd_get", "cmd_set"];

/// Work of a server that `settle` waits for.
const BUSY: [&str; 2] = ["hash_is_expanding", "slab_reassign_running"];

/// How often `settle` looks.
const LOOK: Duration = Duration::from_millis(100);
/// Answers in a row that `settle` goes without before it gives up.
const UNANSWERED_MAX: u32 = 10;

pub(crate) struct Control {
    settings: Arc<Settings>,
    lines: Lines<Settings>,
    /// Commands that each server had carried out when it was last asked.
    commands: Mutex<BTreeMap<String, f64>>,
}

impl Control {
    /// Connects to the servers.
    pub(crate) fn open(settings: Arc<Settings>) -> Result<Self, OpenError> {
        let lines = Lines::new(Arc::clone(&settings))?;
        let control = Self { settings, lines, commands: Mutex::default() };
        for target in &control.settings.targets {
            control.ask(target, b"version\r\n").map_err(|failure| failure.at(target))?;
        }
        Ok(control)
    }

    /// The reply to one line. A connection that failed is opened again, once.
    fn ask(&self, target: &Target, command: &[u8]) -> Result<Vec<u8>, Failure> {
        self.lines.ask(target, command, send)
    }

    /// Sends lines, each to every server, in order.
    pub(crate) fn prepare(&self, texts: &[String], lines: &[Vec<u8>]) -> Result<(), OpenError> {
        for (text, line) in texts.iter().zip(lines) {
            for target in &self.settings.targets {
                self.ask(target, line).map_err(|failure| {
                    let why = &failure.text;
                    OpenError::System(format!("'{text}' of prepare failed at {target}: {why}"))
                })?;
            }
        }
        Ok(())
    }

    /// Refuses a server without meta commands, of which a statement has one.
    pub(crate) fn needs_meta(&self, statement: &str) -> Result<(), OpenError> {
        for target in &self.settings.targets {
            if let Err(failure) = self.ask(target, b"mn\r\n") {
                if failure.outcome != Outcome::Refused {
                    return Err(failure.at(target));
                }
                let version = self.version(target).unwrap_or_else(|_| "unknown".to_owned());
                return Err(OpenError::System(format!(
                    "the server at {target}, version {version}, has no meta commands, which \
                     statement '{statement}' is of: use GET, SET, DELETE or INCR"
                )));
            }
        }
        Ok(())
    }

    fn version(&self, target: &Target) -> Result<String, Failure> {
        let reply = self.ask(target, b"version\r\n")?;
        let text = String::from_utf8_lossy(&reply);
        Ok(text.trim_end().strip_prefix("VERSION ").unwrap_or("unknown").to_owned())
    }

    fn stats(&self, target: &Target, command: &[u8]) -> Result<BTreeMap<String, String>, Failure> {
        self.ask(target, command).map(|reply| stats(&reply).collect())
    }

    /// What the first server says it is. What it doesn't say is left out.
    pub(crate) fn describe(&self) -> Description {
        let targets = &self.settings.targets;
        let target = targets.first().expect("an address names at least one server");
        let version = self.version(target).unwrap_or_else(|_| "unknown".to_owned());
        let mut configuration = self.stats(target, b"stats settings\r\n").unwrap_or_default();
        configuration.retain(|name, _| !PLACES.contains(&name.as_str()));
        if targets.len() > 1 {
            configuration.insert("servers".to_owned(), targets.len().to_string());
        }
        Description { system: "memcached".to_owned(), version, configuration }
    }

    /// The sums of the servers' numbers; of several also `node_share_max`, the busiest one's share
    /// of the commands since this was last asked.
    pub(crate) fn statistics(&self) -> BTreeMap<String, f64> {
        let targets = &self.settings.targets;
        let mut sums = BTreeMap::new();
        let mut commands = BTreeMap::new();
        for target in targets {
            let told = self.stats(target, b"stats\r\n").unwrap_or_default();
            for name in NUMBERS {
                let number = told.get(name).and_then(|text| text.parse::<f64>().ok());
                let Some(number) = number else { continue };
                *sums.entry(name.to_owned()).or_insert(0.0) += number;
                if COMMANDS.contains(&name) {
                    *commands.entry(target.to_string()).or_insert(0.0) += number;
                }
            }
        }
        if targets.len() > 1 {
            let mut before = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
            let share = largest_share(&before, &commands);
            *before = commands;
            sums.extend(share.map(|share| ("node_share_max".to_owned(), share)));
        }
        sums
    }

    /// Waits until no server makes its hash table larger or moves memory between sizes.
    pub(crate) fn settle(&self) -> Result<(), OpenError> {
        self.settings.targets.iter().try_for_each(|target| self.settle_one(target))
    }

    fn settle_one(&self, target: &Target) -> Result<(), OpenError> {
        let mut unanswered = 0;
        loop {
            match self.stats(target, b"stats\r\n") {
                Ok(told) if BUSY.iter().all(|name| told.get(*name).is_none_or(|n| n == "0")) => {
                    return Ok(());
                }
                Ok(_) => unanswered = 0,
                Err(failure) => {
                    unanswered += 1;
                    if unanswered >= UNANSWERED_MAX || failure.outcome == Outcome::Refused {
                        return Err(failure.at(target));
                    }
                }
            }
            thread::sleep(LOOK);
        }
    }
}
