//! Options in the requests to nodes.

use kvmark_driver::Driver;
use kvmark_plan::{Kind, Outcome};
use serde_json::{Value, json};

use crate::common::{Drawn, execute, layout, node, open, request, run, session, statement};
use crate::peer::{Act, Asked, Peer};

const ONE: u16 = 1;
const QUORUM: u16 = 4;
const ALL: u16 = 5;
const SERIAL: u16 = 8;
const LOCAL_SERIAL: u16 = 9;
const LOCAL_ONE: u16 = 10;

fn obey(text: &str) -> Act {
    if text.starts_with("SELECT") { Act::Row("k", "v") } else { Act::Done }
}

/// The terms of these operations at a node.
fn asked(kinds: &[Kind], options: Value) -> Vec<Asked> {
    let peer = Peer::new(obey);
    let driver = open(&peer.address, options, &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        for kind in kinds {
            assert_eq!(execute(&session, &request(*kind, "k")).await.0, Outcome::Ok);
        }
    });
    peer.asked()
}

#[test]
fn consistency_levels_are_the_configured_ones() {
    let cases = [
        (json!({}), [QUORUM, QUORUM], SERIAL),
        (json!({"consistency": "one"}), [ONE, ONE], SERIAL),
        (json!({"consistency": "one", "write_consistency": "all"}), [ONE, ALL], SERIAL),
        (json!({"read_consistency": "local_one"}), [LOCAL_ONE, QUORUM], SERIAL),
        (json!({"serial_consistency": "local_serial"}), [QUORUM, QUORUM], LOCAL_SERIAL),
    ];
    for (options, levels, serial) in cases {
        let asked = asked(&[Kind::Read, Kind::Delete], options.clone());
        assert_eq!([asked[0].level, asked[1].level], levels, "{options}");
        assert_eq!(asked[1].serial, Some(serial), "{options}");
    }
}

#[test]
fn a_page_has_the_configured_number_of_rows() {
    let asked = asked(&[Kind::Scan], json!({"page_size": 7}));
    assert_eq!(asked[0].page_size, Some(7));
}

#[test]
fn client_timestamps_are_optional_and_increase() {
    let writes = [Kind::Delete, Kind::Delete];
    let of =
        |word| asked(&writes, json!({ "timestamps": word })).into_iter().map(|one| one.timestamp);
    assert!(of("server").all(|time| time.is_none()));
    let times: Vec<_> = of("client").map(Option::unwrap).collect();
    assert!(times[0] < times[1], "{times:?}");
}

#[test]
fn the_number_of_connections_is_the_configured_one() {
    let connections = |options| {
        let peer = Peer::new(obey);
        let driver = open(&peer.address, options, &layout(1)).unwrap();
        drop(session(&driver));
        peer.connections()
    };
    let one = connections(json!({}));
    assert_eq!(connections(json!({"connections_per_node": 5})), one + 4);
}

#[test]
fn nodes_of_the_datacenter_and_the_rack_receive_requests() {
    let shares = |options| {
        let peers = Peer::cluster(2, |_, text| obey(text));
        let driver = open(&peers[0].address, options, &layout(1)).unwrap();
        run(async {
            let session = session(&driver);
            for number in 0..40 {
                let key = format!("k{number}");
                assert_eq!(execute(&session, &request(Kind::Read, &key)).await.0, Outcome::Ok);
            }
        });
        [peers[0].asked().len(), peers[1].asked().len()]
    };
    assert_eq!(shares(json!({"datacenter": "dc2"})), [0, 40]);
    assert_eq!(shares(json!({"datacenter": "dc1"})), [40, 0]);
    for options in [json!({}), json!({"token_aware": false})] {
        let [first, second] = shares(options);
        assert!(first > 0 && second > 0, "{first} and {second}");
    }
    assert_eq!(shares(json!({"rack": "r2", "token_aware": false})), [0, 40]);
    assert_eq!(shares(json!({"rack": "r2", "datacenter": "dc1"})), [40, 0]);
}

#[test]
#[ignore = "needs a node of Cassandra"]
fn a_node_receives_the_configured_compression() {
    let address = node("kvmark_test_wire");
    for name in ["none", "lz4", "snappy"] {
        let read = "SELECT client_options['COMPRESSION'] FROM system_views.clients";
        let statements = vec![statement(&[read], &[], json!({"consistency": "one"}))];
        let layout = kvmark_driver::Layout { statements, ..layout(1) };
        let driver = open(&address, json!({ "compression": name }), &layout).unwrap();
        let (outcome, cells, _) = run(async {
            let session = session(&driver);
            Drawn::default().command(&[]).execute(&session, 0, Kind::Scan).await
        });
        assert_eq!(outcome, Outcome::Ok);
        let heard = cells.iter().any(|cell| cell.ends_with(&format!("={name}")));
        assert_eq!(heard, name != "none", "{name}: {cells:?}");
        assert!(driver.statistics().contains_key("warnings"));
    }
}
