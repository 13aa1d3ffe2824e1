//! The limit on concurrent requests of a connection.

use kvmark_driver::OpenError;
use kvmark_driver_server::framed::Numbered;

/// Numbers that are reserved for late replies.
const RESERVED: usize = 2048;

/// Checks that a connection can number all concurrent requests of its clients. `at_once` is the
/// number of concurrent requests of an operation, and `texts` the number of prepared texts.
///
/// # Errors
/// [`OpenError::Option`] with the required setting.
pub(crate) fn check(
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
        check(clients, connections, at_once, 2).err().map(|error| error.to_string())
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
