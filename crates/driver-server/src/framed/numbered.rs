//! Numbered exchanges, whose replies arrive in any order.

use kvmark_driver::Ticket;

use super::protocol::{ABANDONED, Exchanges};

/// One exchange.
#[derive(Clone, Copy, Debug)]
struct NumberedExchange {
    ticket: Ticket,
    tag: u32,
    /// Its sequence number.
    entered: u64,
    /// Whether a flush sent it; before that it has no reply.
    is_sent: bool,
}

/// A slab of exchanges by their number.
///
/// Free numbers are reused first, so the slab is as long as the greatest number of concurrent
/// exchanges.
#[derive(Debug, Default)]
pub struct Numbered {
    /// The exchanges by number; `None` is a free number.
    slots: Vec<Option<NumberedExchange>>,
    free: Vec<u16>,
    /// Numbers used since the last flush.
    fresh: Vec<u16>,
    entered: u64,
    /// Abandoned exchanges without a reply.
    late: u32,
}

impl Numbered {
    /// Greatest number of concurrent exchanges: the non-negative numbers of a signed 16-bit field.
    pub const MOST: usize = 1 << 15;

    /// Begins an exchange and returns its number; `None` if all numbers are in use. The reply
    /// returns `tag` to the session.
    #[inline]
    pub fn enter(&mut self, ticket: Ticket, tag: u32) -> Option<u16> {
        let exchange =
            Some(NumberedExchange { ticket, tag, entered: self.entered + 1, is_sent: false });
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[usize::from(number)] = exchange;
                number
            }
            None => {
                let number = u16::try_from(self.slots.len()).ok()?;
                if self.slots.len() == Self::MOST {
                    return None;
                }
                self.slots.push(exchange);
                number
            }
        };
        self.entered += 1;
        self.fresh.push(number);
        Some(number)
    }

    /// Ends the exchange of a reply and returns its ticket, [`ABANDONED`] if it was given up, and
    /// its tag. `None` if no request was sent with this number.
    #[inline]
    pub fn answered(&mut self, number: u16) -> Option<(Ticket, u32)> {
        let exchange = self.slots.get_mut(usize::from(number))?;
        let NumberedExchange { ticket, tag, .. } = exchange.take_if(|exchange| exchange.is_sent)?;
        self.free.push(number);
        self.late -= u32::from(ticket == ABANDONED);
        Some((ticket, tag))
    }
}

impl Exchanges for Numbered {
    type Key = u16;

    fn entered(&self) -> u64 {
        self.entered
    }

    /// The number stays in use until the late reply arrives or the request is withdrawn.
    fn give_up(&mut self, number: u16) -> Option<u64> {
        let exchange = self.slots.get_mut(usize::from(number)).and_then(Option::as_mut);
        let exchange = exchange.filter(|exchange| exchange.ticket != ABANDONED)?;
        exchange.ticket = ABANDONED;
        self.late += 1;
        Some(exchange.entered)
    }

    fn withdraw(&mut self, number: u16) {
        let exchange = self.slots.get_mut(usize::from(number));
        let is_late = |exchange: &mut NumberedExchange| exchange.ticket == ABANDONED;
        if exchange.and_then(|exchange| exchange.take_if(is_late)).is_some() {
            self.late -= 1;
            self.free.push(number);
            // It may be reused before the next flush, which must not report it twice.
            self.fresh.retain(|fresh| *fresh != number);
        }
    }

    #[inline]
    fn fresh(&mut self, mut tell: impl FnMut(Ticket)) {
        for number in self.fresh.drain(..) {
            if let Some(exchange) = &mut self.slots[usize::from(number)] {
                exchange.is_sent = true;
                if exchange.ticket != ABANDONED {
                    tell(exchange.ticket);
                }
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    fn late(&self) -> u32 {
        self.late
    }

    fn end(&mut self, tell: impl FnMut(Ticket)) {
        let tickets = self.slots.drain(..).flatten().map(|exchange| exchange.ticket);
        tickets.filter(|ticket| *ticket != ABANDONED).for_each(tell);
        self.free.clear();
        self.fresh.clear();
        self.late = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sent exchanges of tickets 0, 1, …; the tag is ten times the ticket.
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
    fn a_reply_with_an_unused_number_is_rejected() {
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
    fn an_abandoned_exchange_keeps_its_number_until_its_late_reply() {
        let mut exchanges = sent(2);
        exchanges.give_up(1);
        exchanges.give_up(1);
        exchanges.give_up(9);
        assert_eq!(exchanges.late(), 1);
        assert_eq!(exchanges.enter(7, 0), Some(2));
        assert_eq!(exchanges.answered(1), Some((ABANDONED, 10)));
        assert_eq!(exchanges.late(), 0);
        assert_eq!(exchanges.enter(8, 0), Some(1));
    }

    #[test]
    fn an_exchange_abandoned_before_the_flush_is_not_reported_and_its_reply_is_late() {
        let mut exchanges = Numbered::default();
        let number = exchanges.enter(1, 0).unwrap();
        exchanges.give_up(number);
        exchanges.enter(1, 1);
        assert_eq!(flushed(&mut exchanges), [1]);
        assert_eq!(exchanges.answered(number), Some((ABANDONED, 0)));
        assert_eq!(exchanges.answered(1), Some((1, 1)));
    }

    #[test]
    fn the_number_of_a_withdrawn_exchange_is_free_and_reported_once() {
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
