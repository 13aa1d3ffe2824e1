//! The prepared statements, shared by all workers.

use std::net::SocketAddr;

use kvmark_driver::{OpenError, Request};
use kvmark_driver_server::framed::{Lines, Numbered};
use kvmark_plan::Outcome;

use crate::failure::Failure;
use crate::records::Records;
use crate::statement::UserStatement;
use crate::text::Text;
use crate::wire::Wire;

/// Numbers that are reserved for late replies.
const RESERVED: usize = 2048;

/// The prepared texts, and their use.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) texts: Vec<Text>,
    /// The operations on YCSB's table, if it exists.
    pub(crate) records: Option<Records>,
    pub(crate) statements: Vec<UserStatement>,
}

impl Prepared {
    /// Checks that the connections to a node can number all concurrent requests of the clients.
    pub(crate) fn check_streams(
        &self,
        clients: usize,
        connections: usize,
    ) -> Result<(), OpenError> {
        let at_once = self.statements.iter().map(|statement| statement.at_once).max();
        check_streams(clients, connections, at_once.unwrap_or(1), self.texts.len())
    }

    /// Prepares all texts at other nodes, too. A node that is down prepares them with the first
    /// execution.
    pub(crate) fn repeat_at(&self, nodes: &[SocketAddr], lines: &Lines<Wire>) {
        for node in nodes {
            let prepared = lines.ask(&(*node).into(), &[], |stream, _| {
                let mut texts = self.texts.iter();
                texts.try_for_each(|text| lines.protocol.prepare(stream, &text.cql).map(drop))
            });
            prepared.ok();
        }
    }

    #[inline]
    pub(crate) fn text(&self, number: u32) -> &Text {
        &self.texts[number as usize]
    }

    /// The number of the text with this id.
    pub(crate) fn find(&self, id: &[u8]) -> Option<u32> {
        let found = self.texts.iter().position(|text| text.id == id)?;
        u32::try_from(found).ok()
    }

    /// The text of an operation on a record.
    #[inline]
    pub(crate) fn of_record(&self, request: &Request<'_>) -> Result<u32, Failure> {
        let Some(records) = &self.records else {
            let text = "there is no table with YCSB's columns: create it in the workload's \
                        preparation or use statements only";
            return Err(Failure::new(Outcome::Refused, text));
        };
        records.text(request)
    }
}

/// Checks that a connection can number all concurrent requests of its clients. `at_once` is the
/// number of concurrent requests of an operation, and `texts` the number of prepared texts.
fn check_streams(
    clients: usize,
    connections: usize,
    at_once: u64,
    texts: usize,
) -> Result<(), OpenError> {
    let room = Numbered::MOST.saturating_sub(RESERVED + texts);
    let at_once = usize::try_from(at_once).unwrap_or(usize::MAX).max(1);
    let each = room / at_once;
    if clients.div_ceil(connections) <= each {
        return Ok(());
    }
    if each == 0 {
        return Err(OpenError::Option(format!(
            "an operation of {at_once} commands at once has more requests than a connection can \
             have in flight ({room}): give its statement fewer commands, or 'batch'"
        )));
    }
    let needed = clients.div_ceil(each);
    Err(OpenError::Option(format!(
        "a worker's {clients} clients may have {} requests in flight to a node, and its \
         connections to it can have {}: give connections_per_node={needed}",
        clients.saturating_mul(at_once),
        connections.saturating_mul(room)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(clients: usize, connections: usize, at_once: u64) -> Option<String> {
        check_streams(clients, connections, at_once, 2).err().map(|error| error.to_string())
    }

    #[test]
    fn a_number_of_clients_within_the_limit_is_accepted() {
        assert_eq!(refusal(30_000, 1, 1), None);
        assert_eq!(refusal(60_000, 2, 1), None);
        assert_eq!(refusal(300, 1, 100), None);
    }

    #[test]
    fn more_clients_are_rejected_with_the_required_connections() {
        let text = refusal(40_000, 1, 1).unwrap();
        assert!(text.contains("40000 clients"), "{text}");
        assert!(text.ends_with("give connections_per_node=2"), "{text}");
        assert_eq!(refusal(40_000, 2, 1), None);
        let text = refusal(1_000, 1, 100).unwrap();
        assert!(text.contains("100000 requests in flight to a node"), "{text}");
        assert!(text.ends_with("give connections_per_node=4"), "{text}");
        assert_eq!(refusal(1_000, 4, 100), None);
    }

    #[test]
    fn an_operation_beyond_the_limit_is_rejected() {
        let text = refusal(1, 10_000, 40_000).unwrap();
        assert!(text.starts_with("an operation of 40000 commands at once"), "{text}");
    }
}
