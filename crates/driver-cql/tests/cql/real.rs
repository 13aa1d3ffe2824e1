//! What all drivers of servers pass, on the real node.

use std::sync::atomic::{AtomicU32, Ordering};

use kvmark_driver::AnyConsole;
use kvmark_driver_cql::Cql;
use kvmark_plan::Outcome;
use kvmark_testing::client::Open;
use kvmark_testing::server::{TestServer, reply_to};

use crate::common::node;

static KEYSPACES: AtomicU32 = AtomicU32::new(0);

/// A keyspace of the node.
struct Keyspace(String);

impl TestServer for Keyspace {
    type Driver = Cql;

    const OPEN: Open<Cql> = Cql::open;
    const SKIPS: &'static [(&'static str, &'static str)] = &[
        ("a_scan_reads_the_requested_number_of_records", "a scan is in the order of the tokens"),
        ("each_client_has_a_connection_unless_they_share", "all clients share a pool"),
        ("a_restarted_server_is_used_again", "tests share the node: outages.rs has a peer"),
        ("large_values_are_written_and_read_over_tls", "encrypted.rs has a peer with TLS"),
        ("wrong_options_are_rejected_in_a_sentence", "other options: settings.rs"),
        ("an_unreachable_or_mute_server_is_named_when_opening", "several nodes: failures.rs"),
    ];
    const IS_TEXT: bool = true;
    const MISSING: [Outcome; 2] = [Outcome::Ok, Outcome::Ok];

    fn start() -> Self {
        let number = KEYSPACES.fetch_add(1, Ordering::SeqCst);
        Self(format!("kvmark_suite_{}_{number}", std::process::id()))
    }

    fn address(&self) -> String {
        node(&self.0)
    }

    fn count(&self, console: &mut AnyConsole) -> u64 {
        let rows = reply_to(console, &[&format!("SELECT count(*) AS n FROM {}.usertable", self.0)]);
        rows[0]["n"].as_u64().unwrap()
    }

    fn removal(&self, key: &str) -> Vec<String> {
        vec![format!("DELETE FROM {}.usertable WHERE y_id = '{key}'", self.0)]
    }

    fn change(&self, key: &str) -> Vec<String> {
        let table = format!("{}.usertable", self.0);
        vec![format!("UPDATE {table} SET field0 = 'changed' WHERE y_id = '{key}'")]
    }
}

kvmark_testing::server_conformance!(Keyspace, "needs a node of Cassandra");
