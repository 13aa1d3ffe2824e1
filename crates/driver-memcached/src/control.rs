//! The store: its opening, information about the servers, and the console.

use std::sync::Arc;

use kvmark_driver::{
    About, Description, Durability, Layout, Never, OpenError, Place, Scheme, Speedup,
};
use kvmark_driver_server::framed::RequestReplySession;
use kvmark_driver_server::{Counters, SessionOf, Store, Target};
use kvmark_plan::{Kind, Outcome};
use kvmark_wire::memcached::stats;
use serde_json::Value;

use crate::failure::Failure;
use crate::operation::{Dialect, MemcachedOperation};
use crate::options::{PORT, REPLACING, Settings};
use crate::records::Records;
use crate::statements::{Prepared, plain};

/// The driver's own connections.
type Lines = kvmark_driver_server::framed::Lines<Settings>;

/// Settings that describe the location or uptime of a server, not its behaviour.
const PLACES: &str = "auth_enabled_ascii domain_socket inter memory_file oldest ssl_ca_cert \
                      ssl_chain_cert ssl_key tcpport udpport";

/// Servers with memcached's text protocol.
pub struct MemcachedStore {
    records: Arc<Records>,
    statements: Arc<[Prepared]>,
}

impl Store for MemcachedStore {
    type Protocol = Settings;
    type Operation = MemcachedOperation;
    type Route = Never;

    const ABOUT: About = About {
        port: Some(PORT),
        counts_whole_server: true,
        lacks: &[Kind::Scan],
        ycsb_bindings: &["memcached", "site.ycsb.db.MemcachedClient"],
        ycsb_properties: &["memcached."],
        stores_text: true,
        ..About::new(
            "memcached",
            Place::Hosts,
            &[Scheme::new("memcached", "memcached://host:11211")],
        )
    };
    const NUMBERS: &'static str = "bytes bytes_read bytes_written cas_badval cas_hits cas_misses \
        cmd_get cmd_set cmd_touch conn_yields curr_connections curr_items decr_hits delete_hits \
        delete_misses direct_reclaims evicted_unfetched evictions expired_unfetched get_expired \
        get_hits get_misses incr_hits listen_disabled_num reclaimed rejected_connections \
        rusage_system rusage_user total_connections total_items";
    const COMMANDS: &'static [&'static str] = &["cmd_get", "cmd_set"];
    /// Expansion of the hash table, and moves of memory between slab classes.
    const BUSY: &'static [&'static str] = &["hash_is_expanding", "slab_reassign_running"];

    fn open(lines: &Lines, layout: &Layout) -> Result<Self, OpenError> {
        let Settings { servers, ttl_s, replaces, .. } = &*lines.protocol;
        let records = Arc::new(Records::new(layout, *ttl_s, *replaces)?);
        let statements = layout.statements.iter().map(Prepared::new);
        let statements: Arc<[Prepared]> = statements.collect::<Result<_, _>>()?;
        let prepare = layout.prepare.iter().map(|text| plain(text));
        let prepare = prepare.collect::<Result<Vec<_>, _>>()?;
        for target in &servers.targets {
            let answer = lines.send(target, b"version\r\n");
            answer.map_err(|failure| lines.refused(target, failure))?;
        }
        if let Some(statement) = statements.iter().find(|statement| statement.is_meta()) {
            servers
                .targets
                .iter()
                .try_for_each(|target| check_meta(lines, target, &statement.name))?;
        }
        for (text, line) in layout.prepare.iter().zip(&prepare) {
            for target in &servers.targets {
                lines.send(target, line).map_err(|failure| {
                    let why = &failure.text;
                    OpenError::System(format!("'{text}' of prepare failed at {target}: {why}"))
                })?;
            }
        }
        Ok(Self { records, statements })
    }

    fn speedups(settings: &Settings) -> Vec<Speedup> {
        if settings.replaces { Vec::new() } else { vec![REPLACING] }
    }

    /// Describes the first server.
    fn describe(&self, lines: &Lines) -> Description {
        let servers = lines.protocol.servers.targets.len();
        let version = version(lines, lines.first());
        let mut configuration =
            counters(lines, lines.first(), b"stats settings\r\n").unwrap_or_default();
        configuration.retain(|name, _| !PLACES.split(' ').any(|place| place == name));
        configuration.insert("durability".to_owned(), Durability::None.to_string());
        if servers > 1 {
            configuration.insert("servers".to_owned(), servers.to_string());
        }
        Description { system: "memcached".to_owned(), version, configuration }
    }

    fn session(&self, lines: &Lines, clients: u32) -> Result<SessionOf<Self>, OpenError> {
        let Self { records, statements, .. } = self;
        let dialect = Dialect {
            records: Arc::clone(records),
            statements: Arc::clone(statements),
            servers: lines.protocol.servers.targets.len(),
            merged: Vec::new(),
            unique: Vec::new(),
        };
        RequestReplySession::open(&lines.protocol, dialect, clients)
    }

    fn counters(&self, lines: &Lines, node: &Target) -> Result<Counters, Failure> {
        counters(lines, node, b"stats\r\n")
    }

    fn ask(lines: &Lines, words: &[String]) -> Result<Value, OpenError> {
        let request = format!("{}\r\n", words.join(" "));
        let reply = lines.send(lines.first(), request.as_bytes());
        let reply = reply.map_err(|failure| failure.at(lines.first()))?;
        Ok(String::from_utf8_lossy(&reply).trim_end().into())
    }
}

/// Rejects a server without meta commands, which a statement uses.
fn check_meta(lines: &Lines, target: &Target, statement: &str) -> Result<(), OpenError> {
    let Err(failure) = lines.send(target, b"mn\r\n") else { return Ok(()) };
    if failure.outcome != Outcome::Refused {
        return Err(failure.at(target));
    }
    let version = version(lines, target);
    Err(OpenError::System(format!(
        "the server at {target}, version {version}, doesn't support meta commands, which \
         statement '{statement}' uses: use GET, SET, DELETE or INCR"
    )))
}

fn version(lines: &Lines, target: &Target) -> String {
    let reply = lines.send(target, b"version\r\n").unwrap_or_default();
    let text = String::from_utf8_lossy(&reply);
    text.trim_end().strip_prefix("VERSION ").unwrap_or("unknown").to_owned()
}

fn counters(lines: &Lines, target: &Target, command: &[u8]) -> Result<Counters, Failure> {
    lines.send(target, command).map(|reply| stats(&reply).collect())
}
