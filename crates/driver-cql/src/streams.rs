//! How many requests a connection can have in flight, and how many its clients may want.

use kvmark_driver::OpenError;
use kvmark_driver_server::framed::Numbered;

/// What is left for others than the clients: late replies, which are waited for up to some number.
const RESERVED: usize = 2048;

/// Refuses clients that may have more requests in flight on one of a worker's connections to a
/// node than it can number. `at_once` is how many an operation sends at once, and `texts` how many
/// a node may have to prepare again.
///
/// # Errors
/// [`OpenError::Option`], with what to give.
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
    fn clients_that_a_connection_can_number_are_taken() {
        assert_eq!(refusal(30_000, 1, 1), None);
        assert_eq!(refusal(60_000, 2, 1), None);
        assert_eq!(refusal(300, 1, 100), None);
    }

    #[test]
    fn more_clients_are_refused_with_the_connections_that_they_need() {
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
    fn an_operation_that_no_connection_can_carry_is_refused() {
        let text = refusal(1, 10_000, 40_000).unwrap();
        assert!(text.starts_with("an operation of 40000 commands at once"), "{text}");
    }
}
