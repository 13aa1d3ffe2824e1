//! The driver's own connections, for information about the servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{Description, Durability, OpenError};
use kvmark_driver_server::framed::Lines;
use kvmark_driver_server::{Load, Target, TlsProbe, settle};
use kvmark_plan::Outcome;
use serde_json::Value;

use crate::connect::send;
use crate::failure::Failure;
use crate::options::Settings;
use kvmark_wire::memcached::stats;

/// Settings that describe the location or uptime of a server, not its behaviour.
const PLACES: &str = "auth_enabled_ascii domain_socket inter memory_file oldest ssl_ca_cert \
                      ssl_chain_cert ssl_key tcpport udpport";

/// The numbers of `stats` that become statistics.
const NUMBERS: &str = "bytes bytes_read bytes_written cas_badval cas_hits cas_misses cmd_get \
                       cmd_set cmd_touch conn_yields curr_connections curr_items decr_hits \
                       delete_hits delete_misses direct_reclaims evicted_unfetched evictions \
                       expired_unfetched get_expired get_hits get_misses incr_hits \
                       listen_disabled_num reclaimed rejected_connections rusage_system \
                       rusage_user total_connections total_items";

const TLS_PROBE: TlsProbe =
    TlsProbe { request: b"version\r\n", without: "leave tls out", with: "give tls=true" };

/// The numbers that measure the load of a server.
const COMMANDS: [&str; 2] = ["cmd_get", "cmd_set"];

/// Background work that `settle` waits for.
const BUSY: [&str; 2] = ["hash_is_expanding", "slab_reassign_running"];

/// The console of a server: a connection to the first configured one.
pub(crate) struct Console(pub(crate) Lines<Settings>);

impl kvmark_driver::Console for Console {
    fn ask(&mut self, words: &[String]) -> Result<Value, OpenError> {
        let target = self.0.protocol.target();
        let request = format!("{}\r\n", words.join(" "));
        let reply = self.0.ask(target, request.as_bytes(), send);
        let reply = reply.map_err(|failure| failure.at(target))?;
        Ok(String::from_utf8_lossy(&reply).trim_end().into())
    }
}

/// The driver's own connections.
pub(crate) struct Control {
    settings: Arc<Settings>,
    lines: Lines<Settings>,
    load: Load,
}

impl Control {
    /// Connects to the servers.
    pub(crate) fn open(settings: Arc<Settings>) -> Result<Self, OpenError> {
        let lines = Lines::new(Arc::clone(&settings));
        let control = Self { settings, lines, load: Load::default() };
        for target in &control.settings.targets {
            control.ask(target, b"version\r\n").map_err(|failure| {
                TLS_PROBE.explain(failure, target, control.settings.tls.is_some()).at(target)
            })?;
        }
        Ok(control)
    }

    /// Sends a line. A failed connection is reopened once.
    fn ask(&self, target: &Target, command: &[u8]) -> Result<Vec<u8>, Failure> {
        self.lines.ask(target, command, send)
    }

    /// Sends each line to every server, in order.
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

    /// Rejects a server without meta commands, which a statement uses.
    pub(crate) fn needs_meta(&self, statement: &str) -> Result<(), OpenError> {
        for target in &self.settings.targets {
            if let Err(failure) = self.ask(target, b"mn\r\n") {
                if failure.outcome != Outcome::Refused {
                    return Err(failure.at(target));
                }
                let version = self.version(target).unwrap_or_else(|_| "unknown".to_owned());
                return Err(OpenError::System(format!(
                    "the server at {target}, version {version}, doesn't support meta \
                     commands, which statement '{statement}' uses: use GET, SET, DELETE or INCR"
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

    /// Describes the first server, as far as known.
    pub(crate) fn describe(&self) -> Description {
        let targets = &self.settings.targets;
        let target = self.settings.target();
        let version = self.version(target).unwrap_or_else(|_| "unknown".to_owned());
        let mut configuration = self.stats(target, b"stats settings\r\n").unwrap_or_default();
        configuration.retain(|name, _| !PLACES.split(' ').any(|place| place == name));
        configuration.insert("durability".to_owned(), Durability::None.to_string());
        if targets.len() > 1 {
            configuration.insert("servers".to_owned(), targets.len().to_string());
        }
        Description { system: "memcached".to_owned(), version, configuration }
    }

    /// The statistics, summed over the servers. With several servers, `node_share_max` is the
    /// busiest server's share of the commands since the last call.
    pub(crate) fn statistics(&self) -> BTreeMap<String, f64> {
        let targets = &self.settings.targets;
        let stats = |target: &Target| self.stats(target, b"stats\r\n").unwrap_or_default();
        let (mut sums, share) = self.load.sums(targets, NUMBERS, &COMMANDS, stats);
        sums.extend(share.filter(|_| targets.len() > 1));
        sums
    }

    /// Waits until no server expands its hash table or moves memory between slab classes.
    pub(crate) fn settle(&self) -> Result<(), OpenError> {
        self.settings.targets.iter().try_for_each(|target| {
            settle(target, || {
                let stats = self.stats(target, b"stats\r\n")?;
                Ok(BUSY.iter().any(|name| stats.get(*name).is_some_and(|number| number != "0")))
            })
        })
    }
}
