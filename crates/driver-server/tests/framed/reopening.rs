//! Reopening of connections.

use kvmark_plan::Outcome;

use crate::lines::{PAUSE_MAX_NS, Server, Session};

#[test]
fn a_lost_connection_reopens_by_itself_if_the_protocol_requests_it() {
    let (mut session, server) = (Session::<true>::new(1), Server::new());
    let node = session.framed.open(&server.place).unwrap();
    drop(server.accept());
    session.until(|session| !session.framed.is_up(node));
    session.until(|session| session.framed.is_up(node));
    assert_eq!(session.opened, [0]);
    let mut peer = server.accept();
    session.ask(node, 5, "again").unwrap();
    session.look();
    assert_eq!(peer.hear().as_deref(), Some("0 again"));
    peer.say("0 yes\n");
    session.until(|session| session.answers == [(5, "yes".to_owned())]);
    assert!(session.lost.is_empty());
}

#[test]
fn otherwise_it_stays_closed_until_it_is_used() {
    let (mut session, server) = (Session::<false>::new(1), Server::new());
    let node = session.framed.open(&server.place).unwrap();
    drop(server.accept());
    session.until(|session| !session.framed.is_up(node));
    (0..3).for_each(|_| session.look());
    assert_eq!((session.framed.due_ns(), server.is_asked()), (u64::MAX, false));
    session.ask(node, 5, "again").unwrap();
    session.until(|session| session.framed.is_up(node));
    session.look();
    assert_eq!(server.accept().hear().as_deref(), Some("0 again"));
}

#[test]
fn exchanges_end_only_with_their_own_connection() {
    let (mut session, server) = (Session::<true>::new(2), Server::new());
    let node = session.framed.open(&server.place).unwrap();
    let mut peers = [server.accept(), server.accept()];
    (0..4).for_each(|ticket| assert!(session.ask(node, ticket, "a").is_ok()));
    session.look();
    // The numbers of the lines identify the connection of each ticket.
    let [one, other] = &mut peers;
    for peer in [&mut *one, &mut *other] {
        assert_eq!(peer.hear().as_deref(), Some("0 a"));
        assert_eq!(peer.hear().as_deref(), Some("1 a"));
    }
    one.say("0 b\n");
    session.until(|session| session.answers.len() == 1);
    let answered = session.answers[0].0;
    let [one, _other] = peers;
    drop(one);
    session.until(|session| !session.opened.is_empty());
    assert_eq!(session.lost, [(answered + 2, Outcome::Connection)]);
    assert!(session.framed.is_up(node));
}

#[test]
fn attempts_are_spaced_by_a_pause_that_doubles() {
    let (mut session, server) = (Session::<true>::new(1), Server::new());
    let node = session.framed.open(&server.place).unwrap();
    drop((server.accept(), server));
    let pauses_ns: Vec<_> = (0..4)
        .map(|_| {
            let pause_ns = session.next_pause_ns();
            session.clock.now_ns += pause_ns;
            session.look();
            pause_ns
        })
        .collect();
    assert_eq!(pauses_ns, [10_000_000, 20_000_000, PAUSE_MAX_NS, PAUSE_MAX_NS]);
    assert!(!session.framed.is_up(node));
}
