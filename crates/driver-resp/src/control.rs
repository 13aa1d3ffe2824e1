//! The store: its opening and information about the servers.

use std::sync::Arc;

use kvmark_driver::{About, Description, Durability, Layout, OpenError, Place, Scheme, Speedup};
use kvmark_driver_server::framed::Framed;
use kvmark_driver_server::{Counters, SessionOf, Store, Target};
use kvmark_plan::Outcome;
use kvmark_wire::resp::Cursor;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::commands::Fields;
use crate::console::{DEPTH_MAX, value};
use crate::failure::{Failure, is_moved};
use crate::operation::{Context, Dialect, RespOperation};
use crate::options::{PARTS_TOGETHER, PORT, Settings, encoded};
use crate::prepared::{Prepared, plain};
use crate::slots::{CLUSTER_SLOTS, Share, read_shares};

/// Configuration that describes the location of a server, not its behaviour.
const PLACES: &str = "bind bind-source-addr cluster-config-file dir logfile pidfile port tls-port \
                      unixsocket slaveof";

/// The driver's own connections.
type Lines = kvmark_driver_server::framed::Lines<Settings>;

/// A server or cluster with the Redis protocol, with the commands for a layout.
pub struct RespStore {
    fields: Arc<Fields>,
    statements: Arc<[Prepared]>,
}

impl Store for RespStore {
    type Protocol = Settings;
    type Operation = RespOperation;
    type Route = Cluster;

    const ABOUT: About = About {
        path: Some("database"),
        port: Some(PORT),
        counts_whole_server: true,
        one_thread_unless: Some("io-threads"),
        ycsb_bindings: &["redis", "site.ycsb.db.RedisClient"],
        ycsb_properties: &["redis."],
        ..About::new(
            "redis",
            Place::Hosts,
            &[
                Scheme::new("redis", "redis://host:6379"),
                Scheme {
                    implied: &[("tls", "true")],
                    ..Scheme::new("rediss", "rediss://host:6379")
                },
            ],
        )
    };
    const NUMBERS: &'static str = "aof_current_size blocked_clients connected_clients \
        evicted_keys expired_keys keyspace_hits keyspace_misses mem_fragmentation_ratio \
        rejected_connections total_commands_processed total_connections_received \
        total_error_replies total_net_input_bytes total_net_output_bytes used_cpu_sys \
        used_cpu_user used_memory used_memory_rss";
    const COMMANDS: &'static [&'static str] = &["total_commands_processed"];
    const BUSY: &'static [&'static str] = &[
        "loading",
        "async_loading",
        "rdb_bgsave_in_progress",
        "aof_rewrite_in_progress",
        "aof_rewrite_scheduled",
        "master_sync_in_progress",
    ];

    fn open(lines: &Lines, layout: &Layout) -> Result<Self, OpenError> {
        let commands = layout.prepare.iter().map(|text| plain(text));
        let commands = commands.collect::<Result<Vec<_>, _>>()?;
        let statements = layout.statements.iter().map(Prepared::new).collect::<Result<_, _>>()?;
        if lines.protocol.cluster {
            Self::nodes(lines)?;
        } else if let Err(failure) = lines.send(lines.first(), &encoded(&["PING"]))
            // `settle` waits for a server that is loading.
            && failure.outcome != Outcome::Unavailable
        {
            return Err(lines.refused(lines.first(), failure));
        }
        prepare(lines, &layout.prepare, &commands)?;
        Ok(Self { fields: Arc::new(Fields::new(layout)), statements })
    }

    fn speedups(settings: &Settings) -> Vec<Speedup> {
        if settings.pipeline_parts { Vec::new() } else { vec![PARTS_TOGETHER] }
    }

    /// Describes the server, or the first one of a cluster.
    fn describe(&self, lines: &Lines) -> Description {
        let masters = Self::nodes(lines).unwrap_or_default();
        let target = masters.first().unwrap_or(lines.first());
        let (system, version) = identity(&self.counters(lines, target).unwrap_or_default());
        let mut configuration = configuration(lines, target).unwrap_or_default();
        if let Some(durability) = durability(&configuration) {
            configuration.insert("durability".to_owned(), durability.to_string());
        }
        if lines.protocol.cluster {
            configuration.insert("cluster-primaries".to_owned(), masters.len().to_string());
        }
        Description { system, version, configuration }
    }

    fn session(&self, lines: &Lines, clients: u32) -> Result<SessionOf<Self>, OpenError> {
        let Settings { cluster, pipeline_parts, servers, .. } = &*lines.protocol;
        let dialect = Dialect {
            fields: Arc::clone(&self.fields),
            statements: Arc::clone(&self.statements),
            pipeline_parts: *pipeline_parts,
        };
        let context = Context::new(dialect, *cluster);
        if !cluster {
            return SessionOf::<Self>::open(&lines.protocol, context, clients);
        }
        let mut framed = Framed::new(Arc::clone(&lines.protocol), servers.limits.width(clients))?;
        let cluster = Cluster::open(shares(lines)?, &mut framed)?;
        Ok(SessionOf::<Self>::routed(framed, cluster, context, clients))
    }

    /// The server, or the servers with slots.
    fn nodes(lines: &Lines) -> Result<Vec<Target>, OpenError> {
        if !lines.protocol.cluster {
            return Ok(lines.protocol.servers.targets.clone());
        }
        let mut nodes: Vec<_> = shares(lines)?.into_iter().map(|(_, target)| target).collect();
        nodes.sort_by_key(Target::to_string);
        nodes.dedup();
        Ok(nodes)
    }

    fn counters(&self, lines: &Lines, node: &Target) -> Result<Counters, Failure> {
        let reply = lines.send(node, &encoded(&["INFO"]))?;
        let text = Cursor::new(&reply).text()?.unwrap_or_default();
        Ok(pairs(&String::from_utf8_lossy(text)))
    }

    fn ask(lines: &Lines, words: &[String]) -> Result<Value, OpenError> {
        let reply = lines.send(lines.first(), &encoded(words));
        let value = reply.and_then(|reply| value(&mut Cursor::new(&reply), DEPTH_MAX));
        value.map_err(|failure| failure.at(lines.first()))
    }
}

/// The slots of a cluster, according to the first server that answers.
fn shares(lines: &Lines) -> Result<Vec<Share>, OpenError> {
    let known = lines.open();
    let mut refusal = None;
    for target in lines.protocol.servers.targets.iter().chain(&known) {
        let reply = lines.send(target, &encoded(&CLUSTER_SLOTS));
        refusal = Some(match reply.and_then(|reply| read_shares(&reply, target)) {
            Ok(shares) if !shares.is_empty() => return Ok(shares),
            Ok(_) => OpenError::System(format!(
                "the cluster at {target} has no slots yet: give them to its servers first"
            )),
            Err(failure) => lines.refused(target, failure),
        });
    }
    Err(refusal.expect("an address names at least one server"))
}

/// Sends each command to every server, in order. In a cluster, one server executes a command with a
/// key and the others redirect it.
fn prepare(lines: &Lines, texts: &[String], commands: &[Vec<u8>]) -> Result<(), OpenError> {
    if commands.is_empty() {
        return Ok(());
    }
    let masters = RespStore::nodes(lines)?;
    for (text, command) in texts.iter().zip(commands) {
        let mut refusal = None;
        let mut is_executed = false;
        for target in &masters {
            match lines.send(target, command) {
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

fn configuration(lines: &Lines, target: &Target) -> Result<Counters, Failure> {
    let reply = lines.send(target, &encoded(&["CONFIG", "GET", "*"]))?;
    let mut cursor = Cursor::new(&reply);
    let mut configuration = Counters::new();
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

/// What acknowledged writes survive. The log is written before the reply; with `everysec` not while
/// a sync is slow (`flushAppendOnlyFile` of Redis postpones the write by up to two seconds).
fn durability(settings: &Counters) -> Option<Durability> {
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
fn pairs(text: &str) -> Counters {
    let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Name and version of the system. Compatible systems report a Redis version as well.
fn identity(info: &Counters) -> (String, String) {
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
