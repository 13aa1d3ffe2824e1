//! Ordered exchanges, whose replies arrive in the order of the requests.

use std::collections::VecDeque;

use kvmark_driver::Ticket;

use super::protocol::{ABANDONED, Exchanges};

/// An exchange in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedExchange {
    /// Its ticket.
    pub ticket: Ticket,
    /// OrderedExchange replies.
    pub replies: u32,
    /// Number of the next reply within the operation.
    pub next: u32,
}

/// A queue of exchanges with one reply or more.
#[derive(Debug, Default)]
pub struct Ordered {
    /// The exchanges with their sequence numbers.
    queue: VecDeque<(u64, OrderedExchange)>,
    entered: u64,
    /// Exchanges at the end of the queue since the last flush.
    fresh: u32,
    /// Abandoned exchanges without a reply.
    late: u32,
    /// The first client that gave up since replies are late, and the number of times.
    doubted: Option<(Ticket, u32)>,
}

/// The number of times a client gives up before the order is in doubt.
const DOUBTS_MAX: u32 = 10;

impl Ordered {
    /// Begins an exchange and returns its number. `next` is the number of its first reply within
    /// the operation.
    #[inline]
    pub fn enter(&mut self, ticket: Ticket, replies: u32, next: u32) -> u64 {
        self.entered += 1;
        self.queue.push_back((self.entered, OrderedExchange { ticket, replies, next }));
        self.fresh += 1;
        self.entered
    }

    /// Whether every sent request has its reply.
    #[inline]
    pub fn is_answered(&self) -> bool {
        self.queue.len() == self.fresh as usize
    }

    /// The number of a ticket's first exchange.
    pub fn find(&self, ticket: Ticket) -> Option<u64> {
        let mut exchanges = self.queue.iter();
        exchanges.find(|(_, exchange)| exchange.ticket == ticket).map(|(number, _)| *number)
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.queue.binary_search_by_key(&number, |(number, _)| *number).ok()
    }

    /// Takes a reply and returns its exchange, which leaves the queue with its last reply. `None`
    /// if no exchange is outstanding.
    #[inline]
    pub fn answered(&mut self) -> Option<OrderedExchange> {
        let (_, exchange) = self.queue.front_mut()?;
        let answered = *exchange;
        exchange.next += 1;
        exchange.replies -= 1;
        if exchange.replies == 0 {
            self.leave();
        }
        Some(answered)
    }

    /// The exchange of the next reply, if its request was sent.
    #[inline]
    pub fn first(&self) -> Option<OrderedExchange> {
        if self.is_answered() { None } else { self.queue.front().map(|(_, exchange)| *exchange) }
    }

    /// Takes replies to the first exchange, except its last one.
    ///
    /// # Panics
    /// If there is no exchange.
    #[inline]
    pub fn pass(&mut self, replies: u32) {
        let (_, exchange) = &mut self.queue[0];
        debug_assert!(replies < exchange.replies);
        exchange.next += replies;
        exchange.replies -= replies;
    }

    /// Removes the first exchange.
    pub fn leave(&mut self) {
        if let Some((_, exchange)) = self.queue.pop_front() {
            self.late -= u32::from(exchange.ticket == ABANDONED);
        }
    }
}

impl Exchanges for Ordered {
    /// The number of an exchange.
    type Key = u64;

    /// A reply is expected only after a request.
    #[inline]
    fn awaits_frame(&self) -> bool {
        !self.is_answered()
    }

    #[inline]
    fn entered(&self) -> u64 {
        self.entered
    }

    fn give_up(&mut self, number: u64) -> Option<u64> {
        let exchange = self.position(number)?;
        let (_, exchange) = &mut self.queue[exchange];
        if exchange.ticket == ABANDONED {
            return None;
        }
        let ticket = std::mem::replace(&mut exchange.ticket, ABANDONED);
        self.doubted = match self.doubted.filter(|_| self.late > 0) {
            Some((first, times)) => Some((first, times + u32::from(first == ticket))),
            None => Some((ticket, 1)),
        };
        self.late += 1;
        Some(number)
    }

    fn withdraw(&mut self, number: u64) {
        let Some(exchange) = self.position(number) else { return };
        if self.queue[exchange].1.ticket == ABANDONED {
            self.late -= 1;
            self.fresh -= u32::from(exchange + self.fresh as usize >= self.queue.len());
            self.queue.remove(exchange);
        }
    }

    #[inline]
    fn fresh(&mut self, tell: impl FnMut(Ticket)) {
        let first = self.queue.len() - std::mem::take(&mut self.fresh) as usize;
        let tickets = self.queue.range(first..).map(|(_, exchange)| exchange.ticket);
        tickets.filter(|ticket| *ticket != ABANDONED).for_each(tell);
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    fn late(&self) -> u32 {
        self.late
    }

    /// A missing reply makes each later reply look late, because it is assigned to the request
    /// before.
    fn is_in_doubt(&self) -> bool {
        self.late > 0 && self.doubted.is_some_and(|(_, times)| times > DOUBTS_MAX)
    }

    fn end(&mut self, tell: impl FnMut(Ticket)) {
        (self.fresh, self.late) = (0, 0);
        let tickets = self.queue.drain(..).map(|(_, exchange)| exchange.ticket);
        tickets.filter(|ticket| *ticket != ABANDONED).for_each(tell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_in_doubt_after_ten_timeouts_of_a_client_with_late_replies_throughout() {
        let mut exchanges = Ordered::default();
        let lose = |exchanges: &mut Ordered, ticket| {
            let number = exchanges.enter(ticket, 1, 0);
            exchanges.fresh(|_| {});
            exchanges.give_up(number);
        };
        // The first reply is lost, so each later one is assigned to the request before.
        lose(&mut exchanges, 1);
        for _ in 0..DOUBTS_MAX {
            assert!(!exchanges.is_in_doubt());
            lose(&mut exchanges, 2);
            lose(&mut exchanges, 1);
            exchanges.answered();
            exchanges.answered();
        }
        assert!(exchanges.is_in_doubt());
        exchanges.answered();
        assert!(!exchanges.is_in_doubt() && exchanges.is_idle());
        lose(&mut exchanges, 1);
        assert!(!exchanges.is_in_doubt());
    }

    fn ended(exchanges: &mut Ordered) -> Vec<Ticket> {
        let mut ended = Vec::new();
        exchanges.end(|ticket| ended.push(ticket));
        ended
    }

    fn flushed(exchanges: &mut Ordered) -> Vec<Ticket> {
        let mut flushed = Vec::new();
        exchanges.fresh(|ticket| flushed.push(ticket));
        flushed
    }

    #[test]
    fn replies_belong_to_exchanges_in_order() {
        let mut exchanges = Ordered::default();
        exchanges.enter(7, 2, 0);
        exchanges.enter(3, 1, 5);
        let awaited: Vec<_> = std::iter::from_fn(|| exchanges.answered()).collect();
        let exchange = |ticket, replies, next| OrderedExchange { ticket, replies, next };
        assert_eq!(awaited, [exchange(7, 2, 0), exchange(7, 1, 1), exchange(3, 1, 5)]);
    }

    #[test]
    fn several_replies_are_taken_at_once_up_to_the_last_of_an_exchange() {
        let mut exchanges = Ordered::default();
        exchanges.enter(7, 5, 0);
        assert_eq!(exchanges.first(), None);
        assert_eq!(flushed(&mut exchanges), [7]);
        exchanges.enter(3, 1, 0);
        exchanges.answered();
        exchanges.pass(3);
        assert_eq!(exchanges.first(), Some(OrderedExchange { ticket: 7, replies: 1, next: 4 }));
        exchanges.answered();
        assert_eq!(exchanges.first(), None);
    }

    #[test]
    fn an_abandoned_exchange_is_late_until_its_reply() {
        let mut exchanges = Ordered::default();
        let first = exchanges.enter(1, 1, 0);
        exchanges.enter(2, 1, 0);
        assert_eq!((exchanges.give_up(first), exchanges.give_up(first)), (Some(first), None));
        assert_eq!((exchanges.late(), flushed(&mut exchanges)), (1, vec![2]));
        assert_eq!(exchanges.answered().map(|exchange| exchange.ticket), Some(ABANDONED));
        assert_eq!(exchanges.late(), 0);
        exchanges.enter(1, 1, 0);
        assert_eq!((exchanges.give_up(first), exchanges.late()), (None, 0));
        assert_eq!(ended(&mut exchanges), [2, 1]);
    }

    #[test]
    fn a_withdrawn_exchange_expects_no_reply() {
        let mut exchanges = Ordered::default();
        exchanges.enter(1, 1, 0);
        let flushed_before = exchanges.enter(2, 2, 0);
        assert_eq!(flushed(&mut exchanges), [1, 2]);
        let fresh = exchanges.enter(3, 1, 0);
        exchanges.enter(4, 1, 0);
        exchanges.withdraw(flushed_before);
        for number in [flushed_before, fresh] {
            assert_eq!(exchanges.give_up(number), Some(number));
            exchanges.withdraw(number);
            exchanges.withdraw(number);
        }
        assert_eq!((exchanges.late(), flushed(&mut exchanges)), (0, vec![4]));
        let awaited = std::iter::from_fn(|| exchanges.answered());
        assert_eq!(awaited.map(|exchange| exchange.ticket).collect::<Vec<_>>(), [1, 4]);
        let alone = exchanges.enter(5, 1, 0);
        exchanges.give_up(alone);
        exchanges.withdraw(alone);
        assert!(exchanges.is_idle() && exchanges.is_answered());
    }

    #[test]
    fn an_exchange_of_an_ended_connection_does_not_exist_on_the_next() {
        let mut exchanges = Ordered::default();
        let first = exchanges.enter(1, 1, 0);
        assert_eq!(ended(&mut exchanges), [1]);
        assert!(exchanges.is_idle() && flushed(&mut exchanges).is_empty());
        exchanges.enter(1, 1, 0);
        assert_eq!(exchanges.give_up(first), None);
        assert_eq!((exchanges.late(), ended(&mut exchanges)), (0, vec![1]));
    }
}
