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
    queue: VecDeque<Awaited>,
    /// Number of the queue's first place.
    first: u64,
    /// Places at the queue's end that came since the last flush.
    fresh: u32,
    /// Places that were given up.
    late: u32,
}

impl Ordered {
    /// Joins the queue for so many replies; the number of the place. `next` is the number of the
    /// first reply within what the operation sends.
    #[inline]
    pub fn enter(&mut self, ticket: Ticket, replies: u32, next: u32) -> u64 {
        let place = self.first + self.queue.len() as u64;
        self.queue.push_back(Awaited { ticket, replies, next });
        self.fresh += 1;
        place
    }

    /// Whether no answer is awaited to anything that was sent.
    #[inline]
    #[must_use]
    pub fn is_owed_nothing(&self) -> bool {
        self.queue.len() == self.fresh as usize
    }

    /// Whether a ticket waits here.
    #[must_use]
    pub fn has(&self, ticket: Ticket) -> bool {
        self.queue.iter().any(|place| place.ticket == ticket)
    }

    /// The place that the next reply belongs to, which leaves the queue with its last reply; none
    /// when nothing was asked.
    #[inline]
    pub fn answered(&mut self) -> Option<Awaited> {
        let place = self.queue.front_mut()?;
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
        if self.is_owed_nothing() { None } else { self.queue.front().copied() }
    }

    /// So many replies to the first place have come, but not its last.
    ///
    /// # Panics
    /// When there is no place.
    #[inline]
    pub fn pass(&mut self, replies: u32) {
        let place = &mut self.queue[0];
        debug_assert!(replies < place.replies);
        place.next += replies;
        place.replies -= replies;
    }

    /// The first place leaves the queue.
    pub fn leave(&mut self) {
        if let Some(place) = self.queue.pop_front() {
            self.first += 1;
            self.late -= u32::from(place.ticket == NOBODY);
        }
    }

    /// Gives up a ticket's place, which has this number.
    pub fn give_up(&mut self, ticket: Ticket, number: u64) {
        let Some(index) = number.checked_sub(self.first) else { return };
        let place = self.queue.get_mut(index as usize);
        if let Some(place) = place.filter(|place| place.ticket == ticket) {
            place.ticket = NOBODY;
            self.late += 1;
        }
    }

    /// Gives up all places of a ticket.
    pub fn give_up_all(&mut self, ticket: Ticket) {
        for place in self.queue.iter_mut().filter(|place| place.ticket == ticket) {
            place.ticket = NOBODY;
            self.late += 1;
        }
    }
}

impl Exchanges for Ordered {
    #[inline]
    fn fresh(&mut self, tell: impl FnMut(Ticket)) {
        let first = self.queue.len() - std::mem::take(&mut self.fresh) as usize;
        let tickets = self.queue.range(first..).map(|place| place.ticket);
        tickets.filter(|ticket| *ticket != NOBODY).for_each(tell);
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    fn late(&self) -> u32 {
        self.late
    }

    fn end(&mut self, mut tell: impl FnMut(Ticket)) {
        self.first += self.queue.len() as u64;
        (self.fresh, self.late) = (0, 0);
        for place in self.queue.drain(..).filter(|place| place.ticket != NOBODY) {
            tell(place.ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        exchanges.give_up(2, first);
        assert_eq!(exchanges.late(), 0);
        exchanges.give_up(1, first);
        assert_eq!((exchanges.late(), flushed(&mut exchanges)), (1, vec![2]));
        assert_eq!(exchanges.answered().map(|place| place.ticket), Some(NOBODY));
        assert_eq!(exchanges.late(), 0);
        exchanges.enter(1, 1, 0);
        exchanges.give_up(1, first);
        assert_eq!(exchanges.late(), 0);
        assert_eq!(ended(&mut exchanges), [2, 1]);
    }

    #[test]
    fn a_place_of_an_ended_connection_is_none_of_the_next_one() {
        let mut exchanges = Ordered::default();
        let first = exchanges.enter(1, 1, 0);
        assert_eq!(ended(&mut exchanges), [1]);
        assert!(exchanges.is_idle() && flushed(&mut exchanges).is_empty());
        exchanges.enter(1, 1, 0);
        exchanges.give_up(1, first);
        assert_eq!((exchanges.late(), ended(&mut exchanges)), (0, vec![1]));
    }
}
