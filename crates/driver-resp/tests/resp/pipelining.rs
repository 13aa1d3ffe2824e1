//! Clients that share a connection.

use std::pin::pin;
use std::sync::mpsc::channel;

use futures_util::future::{Either, join, join_all, select};
use kvmark_plan::Outcome;
use serde_json::json;

use crate::common::{heard, open, read, run, session};
use crate::scripted::{Server, record};

#[test]
fn requests_of_all_clients_are_in_flight_on_one_connection_and_replies_keep_their_order() {
    let server = Server::of_sessions(|_, peer| {
        loop {
            let batch: Option<Vec<_>> = (0..8).map(|_| peer.hear()).collect();
            let Some(batch) = batch else { return };
            let reply = |command: &String| record(command.rsplit(' ').next().unwrap());
            peer.say(&batch.iter().map(reply).collect::<String>());
        }
    });
    let driver = open(&server.address, json!({ "connections": 1 })).unwrap();
    run(async {
        let session = session(&driver, 8);
        let client = async |client: u32| {
            for round in 0..50 {
                let key = format!("{client}-{round}");
                let expected = (Outcome::Ok, vec![format!("0.0={key}")]);
                assert_eq!(read(&session, client, &key).await, expected);
            }
        };
        join_all((0..8).map(client)).await;
        assert_eq!(server.session_connections(), 1);
    });
}

#[test]
fn giving_up_a_request_keeps_the_replies_of_the_others_in_order() {
    let (arrived, signal) = channel();
    let server = Server::of_sessions(move |_, peer| {
        let batch: Vec<_> = (0..3).map(|_| peer.hear().unwrap()).collect();
        arrived.send(()).unwrap();
        peer.hear();
        let reply = |command: &String| record(command.rsplit(' ').next().unwrap());
        peer.say(&(batch.iter().map(reply).collect::<String>() + &record("d")));
        peer.echo();
    });
    let driver = open(&server.address, json!({ "connections": 1 })).unwrap();
    run(async {
        let session = session(&driver, 4);
        let gives_up = async {
            let Either::Right((_, given_up)) =
                select(Box::pin(read(&session, 0, "a")), pin!(heard(&signal))).await
            else {
                panic!("the server answered")
            };
            drop(given_up);
            read(&session, 0, "d").await
        };
        let stay = join(read(&session, 1, "b"), read(&session, 2, "c"));
        let (last, (second, third)) = join(gives_up, stay).await;
        let ok = |key: &str| (Outcome::Ok, vec![format!("0.0={key}")]);
        assert_eq!((second, third, last), (ok("b"), ok("c"), ok("d")));
    });
}

#[test]
fn a_failed_shared_connection_fails_all_of_its_requests() {
    let server = Server::of_sessions(|number, peer| {
        if number == 0 {
            (0..3).for_each(|_| drop(peer.hear()));
            peer.say(&(record("a") + "garbage\r\n"));
        }
        peer.echo();
    });
    let driver = open(&server.address, json!({ "connections": 1 })).unwrap();
    run(async {
        let session = session(&driver, 3);
        let all = join_all((0..3).map(|client| read(&session, client, "a"))).await;
        let outcomes: Vec<_> = all.into_iter().map(|(outcome, _)| outcome).collect();
        assert_eq!(outcomes, [Outcome::Ok, Outcome::Protocol, Outcome::Connection]);
        assert_eq!(read(&session, 2, "b").await.0, Outcome::Ok);
        assert_eq!(server.session_connections(), 2);
    });
}

#[test]
fn each_client_of_a_later_worker_has_a_separate_connection() {
    let server = Server::of_sessions(|number, peer| peer.repeat(&record(&number.to_string())));
    let driver = open(&server.address, json!({})).unwrap();
    run(async {
        let _earlier = session(&driver, 4);
        let session = session(&driver, 3);
        let mut used = Vec::new();
        for client in 0..3 {
            used.push(read(&session, client, "a").await.1);
        }
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), 3);
    });
}
