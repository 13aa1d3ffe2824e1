//! Allocations of exchanges.

use kvmark_testing::{CountingAllocator, allocations};

use crate::lines::{Server, Session};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn an_exchange_allocates_nothing_in_steady_state() {
    let (mut session, server) = (Session::<true>::new(1), Server::new());
    session.framed.open(&server.place).unwrap();
    let mut peer = server.accept();
    let mut allocated = 0;
    for round in 0..100 {
        let before = allocations();
        for ticket in 0..8 {
            session.ask(0, ticket, "").unwrap();
        }
        session.look();
        let asked = allocations();
        (0..8).for_each(|_| assert!(peer.hear().is_some()));
        (0..8).rev().for_each(|number| peer.say(&format!("{number} \n")));
        let answering = allocations();
        session.until(|session| session.answers.len() == 8);
        session.answers.clear();
        if round >= 10 {
            allocated += asked - before + allocations() - answering;
        }
    }
    assert_eq!(allocated, 0);
}
