//! Deadlines of requests in flight: a list in the order of instants.
//!
//! All requests have the same limit, so a later request has a later deadline. Arming and disarming
//! one takes a few stores, independent of their number.

use crate::Ticket;

/// No entry.
const NONE: u32 = u32::MAX;
/// A read this long after a deadline was delayed: there may be more data than one read takes.
const AWAY_NS: u64 = 1_000_000;
/// Most reads before due requests are given up.
const LOOKS_MAX: u32 = 64;

/// The deadlines of one worker's clients, one each at most.
#[derive(Debug)]
pub struct Deadlines {
    limit_ns: u64,
    /// By ticket.
    entries: Vec<Entry>,
    first: u32,
    last: u32,
    /// Reads since the first deadline was due.
    looks: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at_ns: u64,
    before: u32,
    behind: u32,
    armed: bool,
}

impl Deadlines {
    /// Deadlines for this number of clients, with the limit on a request.
    #[must_use]
    pub fn new(clients: usize, limit_ns: Option<u64>) -> Self {
        let entry = Entry { at_ns: 0, before: NONE, behind: NONE, armed: false };
        let entries = vec![entry; if limit_ns.is_some() { clients } else { 0 }];
        Self { limit_ns: limit_ns.unwrap_or(u64::MAX), entries, first: NONE, last: NONE, looks: 0 }
    }

    /// The first deadline.
    #[inline]
    #[must_use]
    pub fn next_ns(&self) -> u64 {
        self.entries.get(self.first as usize).map_or(u64::MAX, |entry| entry.at_ns)
    }

    /// The deadline of a request that is issued at an instant.
    #[inline]
    #[must_use]
    pub fn of(&self, issued_ns: u64) -> u64 {
        issued_ns.saturating_add(self.limit_ns).saturating_add(1)
    }

    /// Arms the deadline of an issued request. Requests must be armed in the order of issue.
    #[inline]
    pub fn arm(&mut self, ticket: Ticket, issued_ns: u64) {
        self.disarm(ticket);
        let at_ns = self.of(issued_ns);
        let Some(entry) = self.entries.get_mut(ticket as usize) else { return };
        *entry = Entry { at_ns, before: self.last, behind: NONE, armed: true };
        match self.entries.get_mut(self.last as usize) {
            Some(last) => last.behind = ticket,
            None => self.first = ticket,
        }
        self.last = ticket;
    }

    /// Disarms the deadline of a request that has ended.
    #[inline]
    pub fn disarm(&mut self, ticket: Ticket) {
        let Some(entry) = self.entries.get_mut(ticket as usize) else { return };
        if !entry.armed {
            return;
        }
        entry.armed = false;
        let Entry { before, behind, .. } = *entry;
        match self.entries.get_mut(before as usize) {
            Some(other) => other.behind = behind,
            None => self.first = behind,
        }
        match self.entries.get_mut(behind as usize) {
            Some(other) => other.before = before,
            None => self.last = before,
        }
    }

    /// Whether due requests are given up after a read that began at this instant: it found all
    /// answers that arrived in time. `has_read` is true if the read returned data; after a late
    /// read, there may be more.
    #[inline]
    pub fn are_over(&mut self, looked_ns: u64, has_read: bool) -> bool {
        let due_ns = self.next_ns();
        let goes_on = has_read && self.looks < LOOKS_MAX;
        if due_ns <= looked_ns && goes_on && looked_ns - due_ns > AWAY_NS {
            self.looks += 1;
            return false;
        }
        self.looks = 0;
        due_ns <= looked_ns
    }

    /// Disarms the next request whose time is up.
    pub fn take_due(&mut self, now_ns: u64) -> Option<Ticket> {
        if self.first == NONE || self.next_ns() > now_ns {
            return None;
        }
        let ticket = self.first;
        self.disarm(ticket);
        Some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn due_requests_match_a_map_of_instants() {
        let mut deadlines = Deadlines::new(8, Some(100));
        let mut expected = BTreeMap::new();
        let mut chance = 1u64;
        for now_ns in 0..5_000 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let ticket = (chance >> 61) as u32;
            if chance >> 40 & 3 == 0 {
                deadlines.disarm(ticket);
                expected.retain(|_, other| *other != ticket);
            } else if chance >> 40 & 3 == 1 {
                deadlines.arm(ticket, now_ns);
                expected.retain(|_, other| *other != ticket);
                expected.insert(now_ns + 101, ticket);
            }
            assert_eq!(deadlines.next_ns(), expected.keys().next().copied().unwrap_or(u64::MAX));
            let due = expected.remove(&now_ns);
            assert_eq!(deadlines.take_due(now_ns), due);
        }
    }

    /// One request that is due at 101.
    fn one() -> Deadlines {
        let mut deadlines = Deadlines::new(1, Some(100));
        deadlines.arm(0, 0);
        deadlines
    }

    #[test]
    fn a_due_request_is_given_up_after_a_read_that_began_no_earlier() {
        assert!(!one().are_over(100, false));
        assert!(one().are_over(101, false));
        assert!(one().are_over(101 + AWAY_NS, true));
    }

    #[test]
    fn after_a_delay_reading_continues_until_no_data_comes_or_the_limit_is_reached() {
        let late_ns = 102 + AWAY_NS;
        let mut deadlines = one();
        assert!(!deadlines.are_over(late_ns, true));
        assert!(deadlines.are_over(late_ns, false));
        for _ in 0..2 {
            assert!((0..LOOKS_MAX).all(|_| !deadlines.are_over(late_ns, true)));
            assert!(deadlines.are_over(late_ns, true));
        }
    }

    #[test]
    fn without_a_limit_nothing_is_ever_due() {
        let mut deadlines = Deadlines::new(2, None);
        deadlines.arm(1, 5);
        assert_eq!((deadlines.next_ns(), deadlines.take_due(u64::MAX)), (u64::MAX, None));
        deadlines.disarm(1);
    }
}
