//! The driver's own connection, for information about the server, and the console.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{Description, Durability, OpenError};
use kvmark_driver_server::TlsProbe;
use kvmark_driver_server::framed::Lines;
use serde_json::{Value as Json, json};

use crate::connect::send;
use crate::failure::Failure;
use crate::message::{HELLO, command, reply};
use crate::options::Settings;

const TLS_PROBE: TlsProbe =
    TlsProbe { request: HELLO, without: "leave tls out", with: "give tls=true" };

/// The members of `hello` and `serverStatus` that describe the server's behaviour.
const SETTINGS: &str = "maxBsonObjectSize maxMessageSizeBytes maxWireVersion msg setName \
                        storageEngine/name wiredTiger/cache/maximum_bytes_configured";

/// The members of `serverStatus` that become statistics.
const NUMBERS: &str = "connections/current connections/totalCreated mem/resident \
                       metrics/document/deleted metrics/document/inserted \
                       metrics/document/returned metrics/document/updated network/bytesIn \
                       network/bytesOut network/numRequests opcounters/command opcounters/query \
                       opcounters/update wiredTiger/cache/bytes_currently_in_the_cache \
                       wiredTiger/cache/tracked_dirty_bytes_in_the_cache";

/// A connection to the server.
pub(crate) struct Control(Lines<Settings>);

impl Control {
    /// Connects with the first command.
    pub(crate) fn new(settings: &Arc<Settings>) -> Self {
        Self(Lines::new(Arc::clone(settings)))
    }

    /// Connects.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let Settings { target, tls, .. } = &*self.0.protocol;
        let explain = |failure| TLS_PROBE.explain(failure, target, tls.is_some()).at(target);
        self.command("listCollections", &json!({ "nameOnly": true })).map(drop).map_err(explain)
    }

    /// The reply to a command with these members. A failed connection is reopened once.
    fn command(&self, name: &str, members: &Json) -> Result<Json, Failure> {
        let Settings { target, database, .. } = &*self.0.protocol;
        let frame = self.0.ask(target, &command(name, members, database), send)?;
        reply(&frame)?.1.json(0)
    }

    /// The reply to a command about the server; null if it fails.
    fn ask(&self, name: &str) -> Json {
        self.command(name, &json!({ "$db": "admin" })).unwrap_or_default()
    }

    /// Describes the server, as far as known.
    pub(crate) fn describe(&self) -> Description {
        let build = self.ask("buildInfo");
        let (hello, status) = (self.ask("hello"), self.ask("serverStatus"));
        let ferret = build.get("ferretdbVersion").or(build.pointer("/ferretdb/version"));
        let system = if ferret.is_some() { "FerretDB" } else { "MongoDB" };
        let version = ferret.or(build.get("version"));
        let version = version.and_then(Json::as_str).unwrap_or("unknown").to_owned();
        let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let settings = members(&hello, SETTINGS).chain(members(&status, SETTINGS));
        let mut configuration: BTreeMap<_, _> =
            settings.map(|(name, value)| (name, text(value))).collect();
        let mut concern = self.ask("getDefaultRWConcern")["defaultWriteConcern"].take();
        let own = &self.0.protocol.concern;
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

    pub(crate) fn statistics(&self) -> BTreeMap<String, f64> {
        let status = self.ask("serverStatus");
        let numbers = members(&status, NUMBERS);
        numbers.filter_map(|(name, value)| Some((name, value.as_f64()?))).collect()
    }
}

/// The members at these paths, whose blanks are written as `_`.
fn members<'a>(
    document: &'a Json,
    paths: &'static str,
) -> impl Iterator<Item = (String, &'a Json)> {
    paths.split(' ').filter_map(|path| {
        let value = document.pointer(&format!("/{}", path.replace('_', " ")))?;
        Some((path.replace('/', "."), value))
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

/// A command's name and the JSON of its members, among which its own value may be; the reply as
/// JSON.
impl kvmark_driver::Console for Control {
    fn ask(&mut self, words: &[String]) -> Result<Json, OpenError> {
        let wrong = || {
            let text = "give a command's name and its members as a JSON object";
            OpenError::System(text.to_owned())
        };
        let [name, members] = words else { return Err(wrong()) };
        let members = serde_json::from_str(members).map_err(|_| wrong())?;
        self.command(name, &members).map_err(|failure| failure.at(&self.0.protocol.target))
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
