//! Servers that are added and forgotten.

use kvmark_driver_server::Failure;
use kvmark_plan::Outcome;

use crate::lines::{Lines, Server, Session};

#[test]
fn an_added_server_is_connected_by_itself_or_on_first_use() {
    let server = Server::new();
    let mut session = Session::<true>::new(3);
    let node = session.framed.find_or_add(&server.place);
    session.until(|session| session.opened.len() == 3);
    assert!(session.framed.is_up(node));
    assert_eq!(session.framed.find_or_add(&server.place), node);
    let mut session = Session::<false>::new(3);
    let node = session.framed.find_or_add(&server.place);
    session.look();
    assert_eq!(session.framed.due_ns(), u64::MAX);
    session.ask(node, 1, "a").unwrap();
    session.until(|session| session.framed.is_up(node));
    assert_eq!(session.opened, [1]);
}

#[test]
fn a_forgotten_server_is_closed_and_returns_its_lost_exchanges() {
    let (mut session, servers) = (Session::<true>::new(1), [Server::new(), Server::new()]);
    let [left, stays] = [0, 1].map(|n| session.framed.open(&servers[n].place).unwrap());
    let (mut peer, other) = (servers[0].accept(), servers[1].accept());
    session.ask(left, 7, "a").unwrap();
    session.look();
    assert_eq!(peer.hear().as_deref(), Some("0 a"));
    let lost = session.framed.forget(left);
    let lost: Vec<_> =
        lost.into_iter().map(|lost| (lost.ticket, lost.failure.to_string())).collect();
    assert_eq!(lost, [(7, "the server has left the cluster".to_owned())]);
    assert_eq!(peer.hear(), None);
    // The other connection reopens.
    drop(other);
    session.until(|session| session.opened == [stays]);
    session.look();
    assert_eq!((session.framed.is_up(left), servers[0].is_asked()), (false, false));
    assert_eq!(session.framed.find(&servers[0].place), None);
    assert_eq!(session.ask(left, 7, "b").unwrap_err().outcome, Outcome::Connection);
    assert_eq!(session.framed.target(left), &servers[0].place);
}

#[test]
fn servers_with_outstanding_replies_or_without_a_connection_are_awaited() {
    let (mut session, servers) = (Session::<false>::new(1), [Server::new(), Server::new()]);
    let [asked, idle] = [0, 1].map(|n| session.framed.open(&servers[n].place).unwrap());
    let (mut peer, _other) = (servers[0].accept(), servers[1].accept());
    assert_eq!(session.framed.awaited(), [""; 0]);
    let number = session.ask(asked, 7, "a").unwrap();
    session.look();
    let name = servers[0].place.to_string();
    assert_eq!(session.framed.awaited(), [name.as_str()]);
    // The reply to an abandoned request is still outstanding.
    let index = session.framed.index(asked, 7);
    session.framed.give_up(index, number);
    assert_eq!(session.framed.awaited(), [name.as_str()]);
    assert_eq!(peer.hear().as_deref(), Some("0 a"));
    let index = session.framed.index(idle, 7);
    drop(session.framed.fail(index, &Failure::closed(false), true));
    assert_eq!(session.framed.awaited().len(), 2);
    drop(session.framed.forget(idle));
    assert_eq!(session.framed.awaited(), [name.as_str()]);
}

#[test]
fn a_server_forgotten_during_an_attempt_stays_closed() {
    let lines = Lines { greets: true, ..Lines::PLAIN };
    let (mut session, server) = (Session::<true>::of(lines, 1), Server::new());
    let node = session.framed.find_or_add(&server.place);
    session.look();
    assert_eq!(session.framed.forget(node).len(), 0);
    let mut peer = server.accept();
    peer.say("hello\n");
    while !peer.is_left() {
        session.look();
    }
    assert_eq!((session.framed.is_up(node), session.opened.len()), (false, 0));
}

#[test]
fn a_server_that_returns_keeps_its_index() {
    let (mut session, server) = (Session::<true>::new(1), Server::new());
    let node = session.framed.open(&server.place).unwrap();
    drop(session.framed.forget(node));
    assert_eq!(session.framed.find_or_add(&server.place), node);
    assert_eq!(session.framed.nodes(), 1);
    session.until(|session| session.framed.is_up(node));
    assert_eq!(session.framed.find(&server.place), Some(node));
}

#[test]
fn an_unreachable_server_is_named_and_another_one_can_be_opened() {
    let (mut session, server, gone) = (Session::<true>::new(4), Server::new(), Server::new());
    let place = gone.place.clone();
    drop(gone);
    let error = session.framed.open(&place).unwrap_err().to_string();
    assert!(error.starts_with(&format!("can't use the server at {place}: it can't be reached (")));
    let node = session.framed.open(&server.place).unwrap();
    session.look();
    assert!(session.framed.is_up(node));
}
