//! The store: its opening, information about the server, and the console.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{About, Description, Durability, Layout, Never, OpenError, Place, Scheme};
use kvmark_driver_server::framed::RequestReplySession;
use kvmark_driver_server::{Counters, SessionOf, Store, Target};
use serde_json::{Value as Json, json};

use crate::failure::Failure;
use crate::message::{command, reply};
use crate::operation::{Dialect, MongoDbOperation};
use crate::options::{PORT, Settings};
use crate::records::Records;

/// The driver's own connections.
type Lines = kvmark_driver_server::framed::Lines<Settings>;

/// The members of `hello` and `serverStatus` that describe the server's behaviour.
const SETTINGS: &str = "maxBsonObjectSize maxMessageSizeBytes maxWireVersion msg setName \
                        storageEngine.name wiredTiger.cache.maximum_bytes_configured";

/// The reply to a command with these members.
fn execute(lines: &Lines, name: &str, members: &Json) -> Result<Json, Failure> {
    let request = command(name, members, &lines.protocol.database);
    reply(&lines.send(lines.first(), &request)?)?.1.json(0)
}

/// The reply to a command about the server; null if it fails.
fn ask(lines: &Lines, name: &str) -> Json {
    execute(lines, name, &json!({ "$db": "admin" })).unwrap_or_default()
}

/// A server with MongoDB's protocol, with the commands for a layout.
pub struct MongoDbStore(Arc<Records>);

impl Store for MongoDbStore {
    type Protocol = Settings;
    type Operation = MongoDbOperation;
    type Route = Never;

    const ABOUT: About = About {
        path: Some("database"),
        port: Some(PORT),
        counts_whole_server: true,
        ycsb_bindings: &["mongodb", "site.ycsb.db.MongoDbClient"],
        ycsb_properties: &["mongodb."],
        ..About::new(
            "mongodb",
            Place::Hosts,
            &[Scheme::new("mongodb", "mongodb://user@host:27017/database")],
        )
    };
    const HAS_STATEMENTS: bool = false;
    /// Members of `serverStatus`.
    const NUMBERS: &'static str = "connections.current connections.totalCreated mem.resident \
        metrics.document.deleted metrics.document.inserted metrics.document.returned \
        metrics.document.updated network.bytesIn network.bytesOut network.numRequests \
        opcounters.command opcounters.query opcounters.update \
        wiredTiger.cache.bytes_currently_in_the_cache \
        wiredTiger.cache.tracked_dirty_bytes_in_the_cache";

    fn open(lines: &Lines, layout: &Layout) -> Result<Self, OpenError> {
        let records = Arc::new(Records::new(layout, &lines.protocol)?);
        let answer = execute(lines, "listCollections", &json!({ "nameOnly": true }));
        answer.map_err(|failure| lines.refused(lines.first(), failure))?;
        Ok(Self(records))
    }

    fn describe(&self, lines: &Lines) -> Description {
        let build = ask(lines, "buildInfo");
        let (hello, status) = (ask(lines, "hello"), ask(lines, "serverStatus"));
        let ferret = build.get("ferretdbVersion").or(build.pointer("/ferretdb/version"));
        let system = if ferret.is_some() { "FerretDB" } else { "MongoDB" };
        let version = ferret.or(build.get("version"));
        let version = version.and_then(Json::as_str).unwrap_or("unknown").to_owned();
        let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let settings = members(&hello, SETTINGS).chain(members(&status, SETTINGS));
        let mut configuration: BTreeMap<_, _> =
            settings.map(|(name, value)| (name, text(value))).collect();
        let mut concern = ask(lines, "getDefaultRWConcern")["defaultWriteConcern"].take();
        let own = &lines.protocol.concern;
        if own.contains_key("w") || concern.is_null() {
            concern = json!({ "w": own.get("w") });
        }
        if let Some(journal) = own.get("j") {
            concern["j"] = journal.clone();
        }
        configuration
            .extend(own.iter().map(|(name, value)| (format!("write_concern.{name}"), text(value))));
        // FerretDB ignores the write concern.
        if let Some(durability) = durability(&concern).filter(|_| system == "MongoDB") {
            configuration.insert("durability".to_owned(), durability.to_string());
        }
        Description { system: system.to_owned(), version, configuration }
    }

    fn session(&self, lines: &Lines, clients: u32) -> Result<SessionOf<Self>, OpenError> {
        let dialect = Dialect { records: Arc::clone(&self.0), latest: 0 };
        RequestReplySession::open(&lines.protocol, dialect, clients)
    }

    fn counters(&self, lines: &Lines, _: &Target) -> Result<Counters, Failure> {
        let status = execute(lines, "serverStatus", &json!({ "$db": "admin" }))?;
        let numbers = members(&status, Self::NUMBERS);
        Ok(numbers.map(|(name, value)| (name, value.to_string())).collect())
    }

    /// A command's name and the JSON of its members, among which its own value may be; the reply as
    /// JSON.
    fn ask(lines: &Lines, words: &[String]) -> Result<Json, OpenError> {
        let wrong = || {
            let text = "give a command's name and its members as a JSON object";
            OpenError::System(text.to_owned())
        };
        let [name, members] = words else { return Err(wrong()) };
        let members = serde_json::from_str(members).map_err(|_| wrong())?;
        execute(lines, name, &members).map_err(|failure| failure.at(lines.first()))
    }
}

/// The members at these paths, whose blanks are written as `_`.
fn members<'a>(
    document: &'a Json,
    paths: &'static str,
) -> impl Iterator<Item = (String, &'a Json)> {
    paths.split(' ').filter_map(|path| {
        let value = document.pointer(&format!("/{}", path.replace('.', "/").replace('_', " ")))?;
        Some((path.to_owned(), value))
    })
}

/// What an acknowledged write survives: the journal is flushed every 100 ms, and before the
/// acknowledgement with `j`, or with a majority unless `j` is false.
fn durability(concern: &Json) -> Option<Durability> {
    match (&concern["w"], concern["j"].as_bool()) {
        (_, Some(true)) => Some(Durability::Sync),
        (_, Some(false)) => Some(Durability::None),
        (Json::String(word), None) => (word == "majority").then_some(Durability::Sync),
        (Json::Number(_), None) => Some(Durability::None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_write_concern_implies_what_an_acknowledged_write_survives() {
        let cases = [
            (json!({ "w": 1 }), Some("none")),
            (json!({ "w": "majority" }), Some("sync")),
            (json!({ "w": "majority", "j": false }), Some("none")),
            (json!({ "w": 1, "j": true }), Some("sync")),
            (json!({ "j": true }), Some("sync")),
            (json!({ "w": "tag" }), None),
            (json!({}), None),
        ];
        for (concern, expected) in cases {
            let found = durability(&concern).map(|level| level.to_string());
            assert_eq!(found.as_deref(), expected, "{concern}");
        }
    }
}
