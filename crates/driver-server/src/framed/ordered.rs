//! Exchanges of a protocol whose replies come in the order of the requests.

use std::collections::VecDeque;

use kvmark_driver::Ticket;

use super::protocol::{Exchanges, NOBODY};

/// A place in the queue of exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Whose place it is.
    pub ticket: Ticket,
    /// Replies that are still to come.
    pub replies: u32,
    /// Number of the next one within what its operation sent.
    pub next: u32,
}

/// A queue of places, each of one reply or more.
#[derive(Debug, Default)]
pub struct Ordered {
    /// With the number of each among all that were ever entered.
    queue: VecDeque<(u64, Awaited)>,
    entered: u64,
    /// Places at the queue's end that came since the last flush.
    fresh: u32,
    /// Places that were given up.
    late: u32,
    /// Who gave up first since replies are late, and how often since then.
    doubted: Option<(Ticket, u32)>,
}

/// One client gives up so often before the order is in doubt for good.
const DOUBTS_MAX: u32 = 10;

impl Ordered {
    /// Joins the queue for so many replies; the number of the place. `next` is the number of the
    /// first reply within what the operation sends.
    #[inline]
    pub fn enter(&mut self, ticket: Ticket, replies: u32, next: u32) -> u64 {
        self.entered += 1;
        self.queue.push_back((self.entered, Awaited { ticket, replies, next }));
        self.fresh += 1;
        self.entered
    }

    /// Whether no answer is awaited to anything that was sent.
    #[inline]
    #[must_use]
    pub fn is_owed_nothing(&self) -> bool {
        self.queue.len() == self.fresh as usize
    }

    /// The number of a ticket's first place, if it waits here.
    #[must_use]
    pub fn find(&self, ticket: Ticket) -> Option<u64> {
        let mut places = self.queue.iter();
        places.find(|(_, place)| place.ticket == ticket).map(|(number, _)| *number)
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.queue.binary_search_by_key(&number, |(number, _)| *number).ok()
    }

    /// The place that the next reply belongs to, which leaves the queue with its last reply; none
    /// when nothing was asked.
    #[inline]
    pub fn answered(&mut self) -> Option<Awaited> {
        let (_, place) = self.queue.front_mut()?;
        let answered = *place;
        place.next += 1;
        place.replies -= 1;
        if place.replies == 0 {
            self.leave();
        }
        Some(answered)
    }

    /// The place that the next reply belongs to, if what it is a reply to was sent.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<Awaited> {
        if self.is_owed_nothing() { None } else { self.queue.front().map(|(_, place)| *place) }
    }

    /// So many replies to the first place have come, but not its last.
    ///
    /// # Panics
    /// When there is no place.
    #[inline]
    pub fn pass(&mut self, replies: u32) {
        let (_, place) = &mut self.queue[0];
        debug_assert!(replies < place.replies);
        place.next += replies;
        place.replies -= replies;
    }

    /// The first place leaves the queue.
    pub fn leave(&mut self) {
        if let Some((_, place)) = self.queue.pop_front() {
            self.late -= u32::from(place.ticket == NOBODY);
        }
    }
}

impl Exchanges for Ordered {
    /// The number of a place.
    type Key = u64;

    #[inline]
    fn entered(&self) -> u64 {
        self.entered
    }

    fn give_up(&mut self, number: u64) -> Option<u64> {
        let place = self.position(number)?;
        let (_, place) = &mut self.queue[place];
        if place.ticket == NOBODY {
            return None;
        }
        let ticket = std::mem::replace(&mut place.ticket, NOBODY);
        self.doubted = match self.doubted.filter(|_| self.late > 0) {
            Some((first, times)) => Some((first, times + u32::from(first == ticket))),
            None => Some((ticket, 1)),
        };
        self.late += 1;
        Some(number)
    }

    fn withdraw(&mut self, number: u64) {
        let Some(place) = self.position(number) else { return };
        if self.queue[place].1.ticket == NOBODY {
            self.late -= 1;
            self.fresh -= u32::from(place + self.fresh as usize >= self.queue.len());
            self.queue.remove(place);
        }
    }

    #[inline]
    fn fresh(&mut self, tell: impl FnMut(Ticket)) {
        let first = self.queue.len() - std::mem::take(&mut self.fresh) as usize;
        let tickets = self.queue.range(first..).map(|(_, place)| place.ticket);
        tickets.filter(|ticket| *ticket != NOBODY).for_each(tell);
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    fn late(&self) -> u32 {
        self.late
    }

    /// A reply that never comes makes each later one look late: its request's place has the next.
    fn is_in_doubt(&self) -> bool {
        self.late > 0 && self.doubted.is_some_and(|(_, times)| times > DOUBTS_MAX)
    }

    fn end(&mut self, mut tell: impl FnMut(Ticket)) {
        (self.fresh, self.late) = (0, 0);
        for (_, place) in self.queue.drain(..).filter(|(_, place)| place.ticket != NOBODY) {
            tell(place.ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_in_doubt_when_a_client_gave_up_ten_times_and_a_reply_was_late_throughout() {
        let mut exchanges = Ordered::default();
        let lose = |exchanges: &mut Ordered, ticket| {
            let number = exchanges.enter(ticket, 1, 0);
            exchanges.fresh(|_| {});
            exchanges.give_up(number);
        };
        // The first reply is lost: each later one is taken for that of the request before.
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
    fn replies_belong_to_places_in_the_order_of_entering() {
        let mut exchanges = Ordered::default();
        exchanges.enter(7, 2, 0);
        exchanges.enter(3, 1, 5);
        let awaited: Vec<_> = std::iter::from_fn(|| exchanges.answered()).collect();
        let place = |ticket, replies, next| Awaited { ticket, replies, next };
        assert_eq!(awaited, [place(7, 2, 0), place(7, 1, 1), place(3, 1, 5)]);
    }

    #[test]
    fn replies_may_be_passed_over_at_once_up_to_a_places_last() {
        let mut exchanges = Ordered::default();
        exchanges.enter(7, 5, 0);
        assert_eq!(exchanges.first(), None);
        assert_eq!(flushed(&mut exchanges), [7]);
        exchanges.enter(3, 1, 0);
        exchanges.answered();
        exchanges.pass(3);
        assert_eq!(exchanges.first(), Some(Awaited { ticket: 7, replies: 1, next: 4 }));
        exchanges.answered();
        assert_eq!(exchanges.first(), None);
    }

    #[test]
    fn what_was_given_up_is_nobodys_and_late_until_its_reply_has_come() {
        let mut exchanges = Ordered::default();
        let first = exchanges.enter(1, 1, 0);
        exchanges.enter(2, 1, 0);
        assert_eq!((exchanges.give_up(first), exchanges.give_up(first)), (Some(first), None));
        assert_eq!((exchanges.late(), flushed(&mut exchanges)), (1, vec![2]));
        assert_eq!(exchanges.answered().map(|place| place.ticket), Some(NOBODY));
        assert_eq!(exchanges.late(), 0);
        exchanges.enter(1, 1, 0);
        assert_eq!((exchanges.give_up(first), exchanges.late()), (None, 0));
        assert_eq!(ended(&mut exchanges), [2, 1]);
    }

    #[test]
    fn what_was_withdrawn_has_no_place_and_no_reply_is_awaited_to_it() {
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
        assert_eq!(awaited.map(|place| place.ticket).collect::<Vec<_>>(), [1, 4]);
        let alone = exchanges.enter(5, 1, 0);
        exchanges.give_up(alone);
        exchanges.withdraw(alone);
        assert!(exchanges.is_idle() && exchanges.is_owed_nothing());
    }

    #[test]
    fn a_place_of_an_ended_connection_is_none_of_the_next_one() {
        let mut exchanges = Ordered::default();
        let first = exchanges.enter(1, 1, 0);
        assert_eq!(ended(&mut exchanges), [1]);
        assert!(exchanges.is_idle() && flushed(&mut exchanges).is_empty());
        exchanges.enter(1, 1, 0);
        assert_eq!(exchanges.give_up(first), None);
        assert_eq!((exchanges.late(), ended(&mut exchanges)), (0, vec![1]));
    }
}
