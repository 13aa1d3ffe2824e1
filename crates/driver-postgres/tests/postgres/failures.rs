//! Errors, lost connections and time limits.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use kvmark_driver::Values;
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::{Bound, layout_of};
use serde_json::json;

use crate::common::{
    ask, execute, open, open_layout, outcome, read, refusal, run, session, with_session, writing,
};
use crate::real::Server;

const WITHIN: Duration = Duration::from_secs(60);

#[test]
#[ignore = "needs postgres"]
fn an_error_fails_only_its_operation_on_a_shared_connection() {
    let server = Server::start(&[]);
    let layout = layout_of(&["SELECT 10 / ({key}::text)::int"]);
    let driver = open_layout(&server.address, json!({ "connections": 1 }), &layout).unwrap();
    run(async {
        let session = session(&driver, 8);
        let client = async |client: u32| {
            for _ in 0..50 {
                let bound = Bound::new(0).command(&client.to_string(), "", &[]);
                let found = execute(&session, client, &bound.request(Kind::Read)).await;
                match 10_u32.checked_div(client) {
                    None => assert_eq!(found.0, Outcome::Refused),
                    Some(value) => assert_eq!(found, (Outcome::Ok, vec![format!("0.0={value}")])),
                }
            }
        };
        join_all((0..8).map(client)).await;
        assert_eq!(
            session.last_failure().unwrap(),
            "the server answered: division by zero (22012)"
        );
        let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kvmark'";
        // The session's connection, the driver's own, and this one.
        assert_eq!(ask(&server.address, count).unwrap(), json!([{ "count": "3" }]));
    });
}

#[test]
#[ignore = "needs postgres"]
fn a_request_that_the_server_limits_times_out() {
    let server = Server::start(&["statement_timeout=20"]);
    let driver = open_layout(&server.address, json!({}), &layout_of(&["SELECT pg_sleep(60)"]));
    with_session(&driver.unwrap(), async |session| {
        let bound = Bound::new(0).command("", "", &[]);
        assert_eq!(outcome(&session, &bound.request(Kind::Read)).await, Outcome::Timeout);
    });
}

#[test]
#[ignore = "needs postgres"]
fn a_lost_connection_fails_its_request_and_is_reopened() {
    let mut server = Server::start(&[]);
    let driver = open(&server.address, json!({})).unwrap();
    let values = Values { bytes: b"abc", places: &[(0, 0..1), (1, 1..2), (2, 2..3)] };
    with_session(&driver, async |session| {
        assert_eq!(outcome(&session, &writing(Kind::Insert, "k", values)).await, Outcome::Ok);
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE application_name = 'kvmark' AND pid <> pg_backend_pid()";
        ask(&server.address, end).unwrap();
        let until = Instant::now() + WITHIN;
        // The end may be noticed before or after the next request.
        while read(&session, "k").await.0 != Outcome::Ok {
            assert!(Instant::now() < until);
        }
        server.kill();
        assert_eq!(read(&session, "k").await.0, Outcome::Connection);
        server.start_again();
        let until = Instant::now() + WITHIN;
        while read(&session, "k").await.0 != Outcome::Ok {
            assert!(Instant::now() < until);
        }
    });
}

#[test]
fn an_unreachable_or_mute_server_is_named_when_opening() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = mute.local_addr().unwrap().to_string();
    let error = refusal(&address, json!({ "connect_timeout_ms": 20 }));
    assert_eq!(error, format!("can't use the server at {address}: no connection within 20 ms"));
    drop(mute);
    let expected = format!("can't use the server at {address}: it can't be reached (");
    assert!(refusal(&address, json!({})).starts_with(&expected));
}
