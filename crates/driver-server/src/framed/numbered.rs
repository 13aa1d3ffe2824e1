//! Exchanges of a protocol that numbers them, so that replies come in any order.

use kvmark_driver::Ticket;

use super::protocol::{Exchanges, NOBODY};

/// One exchange.
#[derive(Clone, Copy, Debug)]
struct Place {
    ticket: Ticket,
    tag: u32,
    /// Its number among all that were ever entered.
    entered: u64,
    /// Whether it went out with a flush: before that there is no answer to it.
    is_sent: bool,
}

/// A slab of exchanges by their number.
///
/// A number that is free again is taken before one that never was, so that the slab is as long as
/// the most that were ever under way together.
#[derive(Debug, Default)]
pub struct Numbered {
    /// By number; none where it is free.
    places: Vec<Option<Place>>,
    free: Vec<u16>,
    /// Numbers taken since the last flush.
    fresh: Vec<u16>,
    entered: u64,
    /// Exchanges that were given up.
    late: u32,
}

impl Numbered {
    /// Exchanges that a connection can have at once: the numbers of a signed 16-bit field that
    /// aren't negative.
    pub const MOST: usize = 1 << 15;

    /// Takes a number for a ticket's exchange; none when all are taken. `tag` is whatever the
    /// session wants to know again when the reply comes.
    #[inline]
    pub fn enter(&mut self, ticket: Ticket, tag: u32) -> Option<u16> {
        let place = Some(Place { ticket, tag, entered: self.entered + 1, is_sent: false });
        let number = match self.free.pop() {
            Some(number) => {
                self.places[usize::from(number)] = place;
                number
            }
            None => {
                let number = u16::try_from(self.places.len()).ok()?;
                if self.places.len() == Self::MOST {
                    return None;
                }
                self.places.push(place);
                number
            }
        };
        self.entered += 1;
        self.fresh.push(number);
        Some(number)
    }

    /// The ticket and tag of the exchange that a reply with this number ends, [`NOBODY`]'s if it
    /// was given up. None when nothing was sent with this number: the reply is no answer.
    #[inline]
    pub fn answered(&mut self, number: u16) -> Option<(Ticket, u32)> {
        let place = self.places.get_mut(usize::from(number))?;
        let Place { ticket, tag, .. } = place.take_if(|place| place.is_sent)?;
        self.free.push(number);
        self.late -= u32::from(ticket == NOBODY);
        Some((ticket, tag))
    }
}

impl Exchanges for Numbered {
    type Key = u16;

    fn entered(&self) -> u64 {
        self.entered
    }

    /// The number stays taken until the late reply has come, or the request is withdrawn.
    fn give_up(&mut self, number: u16) -> Option<u64> {
        let place = self.places.get_mut(usize::from(number)).and_then(Option::as_mut);
        let place = place.filter(|place| place.ticket != NOBODY)?;
        place.ticket = NOBODY;
        self.late += 1;
        Some(place.entered)
    }

    fn withdraw(&mut self, number: u16) {
        let place = self.places.get_mut(usize::from(number));
        let is_late = |place: &mut Place| place.ticket == NOBODY;
        if place.and_then(|place| place.take_if(is_late)).is_some() {
            self.late -= 1;
            self.free.push(number);
            // It may be taken again before the next flush, which must not tell of it twice.
            self.fresh.retain(|fresh| *fresh != number);
        }
    }

    #[inline]
    fn fresh(&mut self, mut tell: impl FnMut(Ticket)) {
        for number in self.fresh.drain(..) {
            if let Some(place) = &mut self.places[usize::from(number)] {
                place.is_sent = true;
                if place.ticket != NOBODY {
                    tell(place.ticket);
                }
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.free.len() == self.places.len()
    }

    fn late(&self) -> u32 {
        self.late
    }

    fn end(&mut self, mut tell: impl FnMut(Ticket)) {
        for place in self.places.drain(..).flatten().filter(|place| place.ticket != NOBODY) {
            tell(place.ticket);
        }
        self.free.clear();
        self.fresh.clear();
        self.late = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchanges of tickets 0, 1, … that were sent, with ten times as much as tag.
    fn sent(count: u32) -> Numbered {
        let mut exchanges = Numbered::default();
        (0..count).for_each(|ticket| assert!(exchanges.enter(ticket, 10 * ticket).is_some()));
        assert_eq!(flushed(&mut exchanges), (0..count).collect::<Vec<_>>());
        exchanges
    }

    fn flushed(exchanges: &mut Numbered) -> Vec<Ticket> {
        let mut flushed = Vec::new();
        exchanges.fresh(|ticket| flushed.push(ticket));
        flushed
    }

    #[test]
    fn replies_find_their_exchange_in_any_order() {
        let mut exchanges = sent(4);
        let answered: Vec<_> = [2, 0, 3, 1].map(|number| exchanges.answered(number)).into();
        assert_eq!(answered, [Some((2, 20)), Some((0, 0)), Some((3, 30)), Some((1, 10))]);
        assert!(exchanges.is_idle());
    }

    #[test]
    fn a_number_that_nobody_waits_for_is_no_answer() {
        let mut exchanges = sent(2);
        assert_eq!(exchanges.answered(2), None);
        assert_eq!(exchanges.answered(u16::MAX), None);
        assert_eq!(exchanges.answered(1), Some((1, 10)));
        assert_eq!(exchanges.answered(1), None);
        let unsent = exchanges.enter(5, 0).unwrap();
        assert_eq!(exchanges.answered(unsent), None);
        assert_eq!(flushed(&mut exchanges), [5]);
        assert_eq!(exchanges.answered(unsent), Some((5, 0)));
    }

    #[test]
    fn free_numbers_are_used_again_before_new_ones() {
        let mut exchanges = sent(3);
        for ticket in 3..1000 {
            assert!(exchanges.answered(1).is_some());
            assert_eq!(exchanges.enter(ticket, 0), Some(1));
            assert_eq!(flushed(&mut exchanges), [ticket]);
        }
        assert_eq!(exchanges.enter(1000, 0), Some(3));
    }

    #[test]
    fn what_was_given_up_keeps_its_number_until_its_late_reply_has_come() {
        let mut exchanges = sent(2);
        exchanges.give_up(1);
        exchanges.give_up(1);
        exchanges.give_up(9);
        assert_eq!(exchanges.late(), 1);
        assert_eq!(exchanges.enter(7, 0), Some(2));
        assert_eq!(exchanges.answered(1), Some((NOBODY, 10)));
        assert_eq!(exchanges.late(), 0);
        assert_eq!(exchanges.enter(8, 0), Some(1));
    }

    #[test]
    fn what_was_given_up_before_it_was_sent_is_not_told_and_its_reply_is_late() {
        let mut exchanges = Numbered::default();
        let number = exchanges.enter(1, 0).unwrap();
        exchanges.give_up(number);
        exchanges.enter(1, 1);
        assert_eq!(flushed(&mut exchanges), [1]);
        assert_eq!(exchanges.answered(number), Some((NOBODY, 0)));
        assert_eq!(exchanges.answered(1), Some((1, 1)));
    }

    #[test]
    fn the_number_of_what_was_withdrawn_is_free_and_told_of_once() {
        let mut exchanges = sent(1);
        assert_eq!(exchanges.enter(1, 0), Some(1));
        exchanges.withdraw(1);
        assert_eq!(exchanges.give_up(1), Some(2));
        exchanges.withdraw(1);
        exchanges.withdraw(1);
        assert_eq!((exchanges.late(), exchanges.enter(2, 5)), (0, Some(1)));
        assert_eq!(flushed(&mut exchanges), [2]);
        assert_eq!((exchanges.answered(1), exchanges.entered()), (Some((2, 5)), 3));
    }

    #[test]
    fn there_are_32768_numbers() {
        let mut exchanges = sent(1 << 15);
        assert_eq!(exchanges.enter(0, 0), None);
        assert_eq!(exchanges.answered(0x7FFF), Some((0x7FFF, 10 * 0x7FFF)));
        assert_eq!(exchanges.enter(0, 0), Some(0x7FFF));
    }

    #[test]
    fn the_end_of_a_connection_ends_all_of_its_exchanges() {
        let mut exchanges = sent(5);
        exchanges.give_up(3);
        exchanges.answered(0);
        exchanges.enter(9, 0);
        let mut ended = Vec::new();
        exchanges.end(|ticket| ended.push(ticket));
        assert_eq!(ended, [9, 1, 2, 4]);
        assert!(exchanges.is_idle() && exchanges.late() == 0);
        assert_eq!(flushed(&mut exchanges), [0; 0]);
        assert_eq!(exchanges.answered(1), None);
        assert_eq!(exchanges.enter(1, 0), Some(0));
    }
}
