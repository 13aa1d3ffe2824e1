//! The driver's own connections, for information about the servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{Description, Durability, OpenError};
use kvmark_driver_server::framed::Lines;
use kvmark_driver_server::{Load, Target, TlsProbe, settle};
use kvmark_plan::Outcome;

use crate::connect::{encoded, send};
use crate::failure::{Failure, is_forbidden, is_moved};
use crate::options::Settings;
use crate::slots::{CLUSTER_SLOTS, Share, read_shares};
use kvmark_wire::resp::Cursor;

/// Configuration that describes the location of a server, not its behaviour.
const PLACES: &str = "bind bind-source-addr cluster-config-file dir logfile pidfile port tls-port \
                      unixsocket slaveof";

/// The numbers of INFO that become statistics.
const NUMBERS: &str = "aof_current_size blocked_clients connected_clients evicted_keys \
                       expired_keys keyspace_hits keyspace_misses mem_fragmentation_ratio \
                       rejected_connections total_commands_processed total_connections_received \
                       total_error_replies total_net_input_bytes total_net_output_bytes \
                       used_cpu_sys used_cpu_user used_memory used_memory_rss";

const TLS_PROBE: TlsProbe =
    TlsProbe { request: b"PING\r\n", without: "use redis:// without tls", with: "use rediss://" };

/// The number that measures the load of a server.
const COMMANDS: [&str; 1] = ["total_commands_processed"];

/// Background work that `settle` waits for.
const BUSY: [&str; 6] = [
    "loading",
    "async_loading",
    "rdb_bgsave_in_progress",
    "aof_rewrite_in_progress",
    "aof_rewrite_scheduled",
    "master_sync_in_progress",
];

pub(crate) struct Control {
    settings: Arc<Settings>,
    lines: Lines<Settings>,
    load: Load,
}

impl Control {
    /// Connects to the server.
    pub(crate) fn open(settings: Arc<Settings>) -> Result<Self, OpenError> {
        let lines = Lines::new(Arc::clone(&settings));
        let control = Self { settings, lines, load: Load::default() };
        if control.settings.cluster {
            control.masters().map(drop)?;
            return Ok(control);
        }
        let target = control.settings.target();
        match control.greet(target, &["PING"]) {
            // `settle` waits for a server that is loading.
            Err(failure) if failure.outcome != Outcome::Unavailable => Err(failure.at(target)),
            _ => Ok(control),
        }
    }

    /// Sends a command. A failed connection is reopened once.
    fn ask(&self, target: &Target, command: &[&str]) -> Result<Vec<u8>, Failure> {
        self.lines.ask(target, &encoded(command), send)
    }

    /// Sends a command that may be the first one to a server.
    fn greet(&self, target: &Target, command: &[&str]) -> Result<Vec<u8>, Failure> {
        let encrypts = self.settings.tls.is_some();
        self.ask(target, command).map_err(|failure| TLS_PROBE.explain(failure, target, encrypts))
    }

    /// The slots of a cluster, according to the first server that answers.
    pub(crate) fn shares(&self) -> Result<Vec<Share>, OpenError> {
        let known = self.lines.open();
        let mut refusal = None;
        for target in self.settings.targets.iter().chain(&known) {
            let reply = self.greet(target, &CLUSTER_SLOTS);
            refusal = Some(match reply.and_then(|reply| read_shares(&reply, target)) {
                Ok(shares) if !shares.is_empty() => return Ok(shares),
                Ok(_) => OpenError::System(format!(
                    "the cluster at {target} has no slots yet: give them to its servers first"
                )),
                Err(failure) => failure.at(target),
            });
        }
        Err(refusal.expect("an address names at least one server"))
    }

    /// The server, or the servers with slots.
    fn masters(&self) -> Result<Vec<Target>, OpenError> {
        if !self.settings.cluster {
            return Ok(self.settings.targets.clone());
        }
        let mut masters: Vec<_> = self.shares()?.into_iter().map(|(_, target)| target).collect();
        masters.sort_by_key(Target::to_string);
        masters.dedup();
        Ok(masters)
    }

    /// Sends each command to every server, in order. In a cluster, one server executes a command
    /// with a key and the others redirect it.
    pub(crate) fn prepare(&self, texts: &[String], commands: &[Vec<u8>]) -> Result<(), OpenError> {
        if commands.is_empty() {
            return Ok(());
        }
        let masters = self.masters()?;
        for (text, command) in texts.iter().zip(commands) {
            let mut refusal = None;
            let mut is_executed = false;
            for target in &masters {
                match self.lines.ask(target, command, send) {
                    Ok(_) => is_executed = true,
                    Err(failure) if is_moved(&failure) => refusal = Some((failure, target)),
                    Err(failure) => return Err(unprepared(text, &failure, target)),
                }
            }
            if let (false, Some((failure, target))) = (is_executed, refusal) {
                return Err(unprepared(text, &failure, target));
            }
        }
        Ok(())
    }

    fn info(&self, target: &Target) -> Result<BTreeMap<String, String>, Failure> {
        let reply = self.ask(target, &["INFO"])?;
        let text = Cursor::new(&reply).text()?.unwrap_or_default();
        Ok(pairs(&String::from_utf8_lossy(text)))
    }

    /// Describes the server, or the first one of a cluster, as far as known.
    pub(crate) fn describe(&self) -> Description {
        let masters = self.masters().unwrap_or_default();
        let target = masters.first().unwrap_or(self.settings.target());
        let (system, version) = identity(&self.info(target).unwrap_or_default());
        let mut configuration = self.configuration(target).unwrap_or_default();
        if let Some(durability) = durability(&configuration) {
            configuration.insert("durability".to_owned(), durability.to_string());
        }
        if self.settings.cluster {
            configuration.insert("cluster-primaries".to_owned(), masters.len().to_string());
        }
        Description { system, version, configuration }
    }

    fn configuration(&self, target: &Target) -> Result<BTreeMap<String, String>, Failure> {
        let reply = self.ask(target, &["CONFIG", "GET", "*"])?;
        let mut cursor = Cursor::new(&reply);
        let mut configuration = BTreeMap::new();
        for _ in 0..cursor.elements()? / 2 {
            let mut text = || Ok::<_, Failure>(cursor.text()?.unwrap_or_default().to_vec());
            let (name, value) = (text()?, text()?);
            let name = String::from_utf8_lossy(&name).into_owned();
            if !is_secret(&name) && !PLACES.split(' ').any(|place| place == name) {
                configuration.insert(name, String::from_utf8_lossy(&value).into_owned());
            }
        }
        Ok(configuration)
    }

    /// The statistics of the server. In a cluster they are summed over the servers with slots, and
    /// `node_share_max` is the busiest server's share of the commands since the last call.
    pub(crate) fn statistics(&self) -> BTreeMap<String, f64> {
        let masters = self.masters().unwrap_or_default();
        let info = |target: &Target| self.info(target).unwrap_or_default();
        let (mut sums, share) = self.load.sums(&masters, NUMBERS, &COMMANDS, info);
        sums.extend(share.filter(|_| self.settings.cluster));
        sums
    }

    /// Waits until no server loads, saves, rewrites its log or copies from a primary. Doesn't wait
    /// for a server that denies this user the information.
    pub(crate) fn settle(&self) -> Result<(), OpenError> {
        for target in self.masters()? {
            settle(&target, || match self.info(&target) {
                Ok(info) => {
                    Ok(BUSY.iter().any(|name| info.get(*name).is_some_and(|number| number != "0")))
                }
                Err(failure) if is_forbidden(&failure) => Ok(false),
                Err(failure) => Err(failure),
            })?;
        }
        Ok(())
    }
}

/// What acknowledged writes survive. The log is written before the reply; with `everysec` not while
/// a sync is slow (`flushAppendOnlyFile` of Redis postpones the write by up to two seconds).
fn durability(settings: &BTreeMap<String, String>) -> Option<Durability> {
    let logs = settings.get("appendonly")? == "yes";
    Some(match settings.get("appendfsync")?.as_str() {
        "always" if logs => Durability::Sync,
        "no" if logs => Durability::Process,
        _ => Durability::None,
    })
}

fn unprepared(text: &str, failure: &Failure, target: &Target) -> OpenError {
    let why = &failure.text;
    OpenError::System(format!("'{text}' of prepare failed at {target}: {why}"))
}

/// `name:value` lines.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Name and version of the system. Compatible systems report a Redis version as well.
fn identity(info: &BTreeMap<String, String>) -> (String, String) {
    // A path, such as that of the configuration, may contain any name.
    let mentions = |part: &str| {
        info.iter().any(|(name, value)| {
            name.contains(part) || !value.contains('/') && value.to_ascii_lowercase().contains(part)
        })
    };
    let version = |name: &str| info.get(name).cloned();
    if let Some(version) = version("valkey_version") {
        return ("Valkey".to_owned(), version);
    }
    let own = version("redis_version").unwrap_or_else(|| "unknown".to_owned());
    if mentions("yugabyte") {
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
    fn secrets_are_distinguished_from_other_configuration() {
        let secrets = ["requirepass", "masterauth", "primaryauth", "tls-key-file-pass"];
        assert!(secrets.iter().all(|name| is_secret(name)));
        assert!(!is_secret("maxmemory") && !is_secret("tls-auth-clients"));
    }

    #[test]
    fn the_log_and_its_syncs_decide_what_writes_survive() {
        let level = |settings: &str| durability(&pairs(settings)).map(|level| level.to_string());
        for (settings, expected) in [
            ("appendonly:no\nappendfsync:always", Some("none")),
            ("appendonly:yes\nappendfsync:everysec", Some("none")),
            ("appendonly:yes\nappendfsync:no", Some("process")),
            ("appendonly:yes\nappendfsync:always", Some("sync")),
            ("maxmemory:0", None),
        ] {
            assert_eq!(level(settings).as_deref(), expected, "{settings}");
        }
    }

    #[test]
    fn a_system_is_identified_by_its_version_line() {
        let named = |text: &str| identity(&pairs(text));
        let pair = |system: &str, version: &str| (system.to_owned(), version.to_owned());
        assert_eq!(named("# Server\r\nredis_version:7.0.15\r\n"), pair("Redis", "7.0.15"));
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n";
        assert_eq!(named(valkey), pair("Valkey", "8.0.1"));
        assert_eq!(named("build:YugabyteDB\r\n").0, "YugabyteDB");
        let folder = "redis_version:7.0.15\r\nconfig_file:/tmp/study-yugabyte-1.0.7/redis.conf\r\n";
        assert_eq!(named(folder), pair("Redis", "7.0.15"));
        assert_eq!(named(""), pair("unknown", "unknown"));
    }
}
