//! The replication of a created keyspace.

use std::str::FromStr;

/// The CQL map after `REPLICATION =`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replication(pub(crate) String);

impl FromStr for Replication {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let map = if text.starts_with('{') && text.ends_with('}') {
            Some(text.to_owned())
        } else if let Some(copies) = text.strip_prefix("simple:") {
            simple(copies)
        } else {
            text.strip_prefix("network:").and_then(network)
        };
        map.map(Self).ok_or(())
    }
}

fn copies(text: &str) -> Option<u16> {
    text.parse().ok().filter(|count| *count > 0)
}

fn simple(text: &str) -> Option<String> {
    let copies = copies(text)?;
    Some(format!("{{'class': 'SimpleStrategy', 'replication_factor': {copies}}}"))
}

fn network(text: &str) -> Option<String> {
    let mut map = "{'class': 'NetworkTopologyStrategy'".to_owned();
    for part in text.split(',') {
        let (datacenter, count) = part.split_once('=')?;
        if datacenter.is_empty() || datacenter.contains('\'') {
            return None;
        }
        map.push_str(&format!(", '{datacenter}': {}", copies(count)?));
    }
    map.push('}');
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_become_maps_and_maps_stay() {
        let cql = |text: &str| text.parse::<Replication>().unwrap().0;
        assert_eq!(cql("simple:2"), "{'class': 'SimpleStrategy', 'replication_factor': 2}");
        assert_eq!(
            cql("network:dc1=3,dc2=1"),
            "{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 1}"
        );
        assert_eq!(cql("{'class': 'X'}"), "{'class': 'X'}");
    }

    #[test]
    fn an_invalid_replication_is_rejected() {
        for text in ["", "3", "simple:0", "simple:", "network:", "network:dc1", "network:a'=1"] {
            assert!(text.parse::<Replication>().is_err(), "{text}");
        }
    }
}
