//! Errors, lost connections and time limits.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::{Bound, layout_of};
use serde_json::json;

use crate::common::{ask, execute, open, open_layout, outcome, read, run, session, with_session};
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
fn a_connection_that_the_server_ends_is_reopened() {
    let server = Server::start(&[]);
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE application_name = 'kvmark' AND pid <> pg_backend_pid()";
        ask(&server.address, end).unwrap();
        let until = Instant::now() + WITHIN;
        // The end may be noticed before or after the next request.
        while read(&session, 0, "k").await.0 != Outcome::Miss {
            assert!(Instant::now() < until);
        }
    });
}
