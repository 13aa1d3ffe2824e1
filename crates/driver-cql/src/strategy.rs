//! The replicas of a keyspace's partitions, by its replication strategy.
//!
//! Source: Apache Cassandra, `SimpleStrategy` and `NetworkTopologyStrategy`. Both walk around the
//! ring from the token. The simple strategy takes the next nodes. The other takes nodes of each
//! datacenter: one per rack first, and as many more of a rack as there are too few racks. Transient
//! replicas don't count, because they don't store all data.

use std::collections::BTreeSet;

use crate::topology::{Node, Ring};

/// The number of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copies {
    all: usize,
    /// Those that aren't transient.
    full: usize,
}

/// The replication of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    Simple(Copies),
    /// The copies in each datacenter.
    Network(Vec<(String, Copies)>),
}

impl Copies {
    /// Parses `3`, or `3/1` with one transient replica.
    fn parse(text: &str) -> Option<Self> {
        let (all, transient) = text.split_once('/').unwrap_or((text, "0"));
        let (all, transient) = (all.parse().ok()?, transient.parse().ok()?);
        Some(Self { all, full: usize::checked_sub(all, transient)? })
    }
}

impl Strategy {
    /// The strategy in the names and values of a keyspace's replication; `None` if it doesn't
    /// choose between nodes, or is unknown.
    pub(crate) fn parse(words: &[String]) -> Option<Self> {
        let (pairs, _) = words.as_chunks::<2>();
        let (class, others): (Vec<_>, Vec<_>) = pairs.iter().partition(|[name, _]| name == "class");
        let [_, class] = class.first()?;
        match class.rsplit('.').next()? {
            "SimpleStrategy" => {
                let factor = others.iter().find(|[name, _]| name == "replication_factor")?;
                Copies::parse(&factor[1]).map(Self::Simple)
            }
            "NetworkTopologyStrategy" => {
                let copies =
                    |[name, text]: &[String; 2]| Some((name.clone(), Copies::parse(text)?));
                others.into_iter().map(copies).collect::<Option<_>>().map(Self::Network)
            }
            _ => None,
        }
    }

    /// The replicas of all token ranges.
    pub(crate) fn ring(&self, nodes: &[Node]) -> Ring {
        let mut tokens: Vec<_> = nodes
            .iter()
            .enumerate()
            .flat_map(|(index, node)| node.tokens.iter().map(move |token| (*token, index)))
            .collect();
        tokens.sort_unstable();
        let groups = self.groups(nodes);
        let mut ring = Ring::default();
        for (place, (token, _)) in tokens.iter().enumerate() {
            let (before, from) = tokens.split_at(place);
            let walk = from.iter().chain(before).map(|(_, index)| *index);
            let replicas = groups.iter().flat_map(|group| group.replicas(nodes, walk.clone()));
            ring.push(*token, replicas.map(|index| index as u32));
        }
        ring
    }

    fn groups<'a>(&'a self, nodes: &[Node]) -> Vec<Group<'a>> {
        let datacenters = match self {
            Self::Simple(copies) => {
                return vec![Group { datacenter: None, copies: *copies, repeats: usize::MAX }];
            }
            Self::Network(datacenters) => datacenters.iter(),
        };
        let group = |(name, copies): &'a (String, Copies)| {
            let here = nodes.iter().filter(|node| node.datacenter.as_ref() == Some(name));
            let racks = here.map(|node| &node.rack).collect::<BTreeSet<_>>().len();
            let repeats = copies.all.saturating_sub(racks);
            (racks > 0).then(|| Group { datacenter: Some(name), copies: *copies, repeats })
        };
        datacenters.filter_map(group).collect()
    }
}

/// The nodes that a strategy chooses from: those of a datacenter, or all.
struct Group<'a> {
    datacenter: Option<&'a str>,
    copies: Copies,
    /// The number of nodes in racks that have another replica.
    repeats: usize,
}

impl Group<'_> {
    /// The replicas among the owners of the tokens on a walk around the ring.
    fn replicas(&self, nodes: &[Node], walk: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut repeats = self.repeats;
        let (mut chosen, mut racks) = (Vec::new(), BTreeSet::new());
        for index in walk {
            let node = &nodes[index];
            let is_here =
                self.datacenter.is_none_or(|name| node.datacenter.as_deref() == Some(name));
            if !is_here || chosen.contains(&index) {
                continue;
            }
            if chosen.len() == self.copies.all {
                break;
            }
            if !racks.insert(&node.rack) {
                if repeats == 0 {
                    continue;
                }
                repeats -= 1;
            }
            chosen.push(index);
        }
        chosen.truncate(self.copies.full);
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seven nodes A to G with their datacenters, racks and tokens. The ring and the replicas are
    /// those of the tests of the Rust driver.
    const NODES: [(&str, &str, &[i64]); 7] = [
        ("eu", "r1", &[50, 250, 400]),
        ("eu", "r1", &[100, 600, 900]),
        ("eu", "r1", &[300, 650, 700]),
        ("us", "r1", &[350, 550]),
        ("us", "r1", &[150, 750]),
        ("us", "r2", &[200, 450]),
        ("eu", "r2", &[500, 800]),
    ];

    fn nodes() -> Vec<Node> {
        let node = |(host, (datacenter, rack, tokens)): (u8, &(&str, &str, &[i64]))| Node {
            address: ([127, 0, 0, host], 9042).into(),
            datacenter: Some((*datacenter).to_owned()),
            rack: Some((*rack).to_owned()),
            host: None,
            sharding: None,
            tokens: tokens.to_vec(),
        };
        (1..).zip(&NODES).map(node).collect()
    }

    fn parse(words: &str) -> Option<Strategy> {
        Strategy::parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    /// The replicas of a token as letters.
    fn replicas(words: &str, token: i64) -> String {
        let ring = parse(words).unwrap().ring(&nodes());
        let mut letters: Vec<_> =
            ring.replicas(token).iter().map(|index| char::from(b'A' + *index as u8)).collect();
        letters.sort_unstable();
        letters.into_iter().collect()
    }

    #[test]
    fn the_simple_strategy_takes_the_next_nodes() {
        let cases = [
            (160, 2, "AF"),
            (200, 1, "F"),
            (200, 5, "ACDFG"),
            (200, 7, "ABCDEFG"),
            (450, 3, "DFG"),
            (450, 4, "BDFG"),
            (201, 4, "ACDF"),
            (201, 0, ""),
            (50, 3, "ABE"),
            (701, 4, "ABEG"),
            (701, 8, "ABCDEFG"),
            (901, 1, "A"),
        ];
        for (token, copies, expected) in cases {
            let words = format!(
                "class org.apache.cassandra.locator.SimpleStrategy replication_factor {copies}"
            );
            assert_eq!(replicas(&words, token), expected, "{copies} of {token}");
        }
    }

    #[test]
    fn each_rack_of_a_datacenter_has_a_replica_first() {
        let cases = [
            (160, "eu 0", ""),
            (160, "eu 1", "A"),
            (160, "eu 2", "AG"),
            (160, "eu 3", "ACG"),
            (160, "eu 4", "ABCG"),
            (160, "eu 5", "ABCG"),
            (160, "us 0", ""),
            (160, "us 1", "F"),
            (160, "us 2", "DF"),
            (160, "us 3", "DEF"),
            (160, "us 4", "DEF"),
            (75, "eu 1 us 1", "BE"),
            (75, "eu 2 us 1", "BEG"),
            (75, "unknown 2 us 1", "E"),
            (800, "eu 1 us 1", "EG"),
            (75, "eu 69 us 1", "ABCEG"),
            (160, "eu 3/1 us 2/1", "ACF"),
        ];
        for (token, copies, expected) in cases {
            let words =
                format!("{copies} class org.apache.cassandra.locator.NetworkTopologyStrategy");
            assert_eq!(replicas(&words, token), expected, "{copies} of {token}");
        }
    }

    #[test]
    fn other_strategies_have_no_ring() {
        for words in [
            "class LocalStrategy",
            "class EverywhereStrategy",
            "dc1 3",
            "class SimpleStrategy replication_factor x",
            "class NetworkTopologyStrategy dc1 1/3",
        ] {
            assert_eq!(parse(words), None, "{words}");
        }
    }
}
