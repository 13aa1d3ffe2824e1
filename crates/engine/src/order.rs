//! Which operations of a tape may go on: those of one key, or of one client, in their order.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kvmark_driver::Ticket;
use kvmark_plan::GOLDEN;

/// What an operation of a tape must not overtake others on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The key, or the client.
    pub(crate) word: u64,
    /// Whether nothing else may be under way with it.
    pub(crate) alone: bool,
}

/// The operations that are under way or wait for others, by what they claim.
///
/// Most find nobody whose word has the same hash: they note themselves in its slot, no more.
/// Where somebody is there, both are in the lines of their words, until nobody is there any more.
#[derive(Debug)]
pub(crate) struct Order {
    /// By hash: who is there by himself, [`NOBODY`], or [`CROWD`] and how many are in lines.
    slots: Vec<u32>,
    lines: HashMap<u64, Line, BuildHasherDefault<WordHasher>>,
    /// By ticket.
    places: Vec<Place>,
}

/// Slots for each client: one in so many operations finds another word's.
const SLOTS_A_CLIENT: usize = 64;
const SLOTS_MAX: usize = 1 << 18;
const NOBODY: Ticket = Ticket::MAX;
/// Tickets are below it.
const CROWD: u32 = 1 << 31;

/// The operations of one word: some under way, the others behind them in their order.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// How many are under way, or [`ALONE`].
    going: u32,
    /// Who waits and came last, or [`NOBODY`].
    last: Ticket,
}

/// One is under way, and no other may be.
const ALONE: u32 = u32::MAX;
const EMPTY: Line = Line { going: 0, last: NOBODY };

#[derive(Clone, Copy, Debug)]
struct Place {
    word: u64,
    slot: u32,
    /// Who waits behind it; behind the last is the first.
    behind: Ticket,
    alone: bool,
    waits: bool,
}

const NOWHERE: Place = Place { word: 0, slot: 0, behind: 0, alone: false, waits: false };

/// Words are hashes already, or few.
#[derive(Clone, Copy, Debug, Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 << 8 | u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        let product = word.wrapping_mul(GOLDEN);
        // The upper bits depend on all of the word's, and the map looks at the lower ones, too.
        self.0 = product ^ product >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Line {
    fn admits(&self, alone: bool) -> bool {
        self.going == 0 || !alone && self.going != ALONE
    }

    fn admit(&mut self, alone: bool) {
        self.going = if alone { ALONE } else { self.going + 1 };
    }
}

impl Order {
    /// For so many clients, so that next to nothing is allocated later.
    pub(crate) fn new(clients: usize) -> Self {
        let slots = (clients * SLOTS_A_CLIENT).next_power_of_two().min(SLOTS_MAX);
        Self {
            slots: vec![NOBODY; slots],
            lines: HashMap::with_capacity_and_hasher(clients, BuildHasherDefault::default()),
            places: vec![NOWHERE; clients],
        }
    }

    /// Takes a place behind all operations of the same word that came before. Whether it may go on
    /// at once.
    #[inline]
    pub(crate) fn enter(&mut self, ticket: Ticket, claim: Claim) -> bool {
        if self.places.len() <= ticket as usize {
            self.make_room(ticket);
        }
        let Claim { word, alone } = claim;
        // The upper bits of the product depend on all of the word's.
        let slot = (word.wrapping_mul(GOLDEN) >> 32) as usize & (self.slots.len() - 1);
        let place = Place { word, slot: slot as u32, behind: ticket, alone, waits: false };
        self.places[ticket as usize] = place;
        if self.slots[slot] == NOBODY {
            self.slots[slot] = ticket;
            return true;
        }
        self.join(ticket)
    }

    /// Whether an operation that entered has to wait for others.
    pub(crate) fn waits(&self, ticket: Ticket) -> bool {
        self.places[ticket as usize].waits
    }

    /// Ends an operation that was let go on; who may go on now is added to `freed`.
    #[inline]
    pub(crate) fn leave(&mut self, ticket: Ticket, freed: &mut Vec<Ticket>) {
        let slot = self.places[ticket as usize].slot as usize;
        if self.slots[slot] == ticket {
            self.slots[slot] = NOBODY;
        } else {
            self.leave_line(ticket, freed);
        }
    }

    #[cold]
    fn make_room(&mut self, ticket: Ticket) {
        self.places.resize(ticket as usize + 1, NOWHERE);
    }

    /// Enters where somebody is; as [`Self::enter`].
    #[inline(never)]
    fn join(&mut self, ticket: Ticket) -> bool {
        let Place { word, slot, alone, .. } = self.places[ticket as usize];
        let there = self.slots[slot as usize];
        if there < CROWD {
            let Place { word, alone, .. } = self.places[there as usize];
            self.lines.entry(word).or_insert(EMPTY).admit(alone);
            self.slots[slot as usize] = CROWD + 1;
        }
        self.slots[slot as usize] += 1;
        let line = self.lines.entry(word).or_insert(EMPTY);
        if line.last == NOBODY && line.admits(alone) {
            line.admit(alone);
            return true;
        }
        self.places[ticket as usize].waits = true;
        let last = std::mem::replace(&mut line.last, ticket);
        if last != NOBODY {
            let first = std::mem::replace(&mut self.places[last as usize].behind, ticket);
            self.places[ticket as usize].behind = first;
        }
        false
    }

    /// Leaves where others are or were; as [`Self::leave`].
    #[inline(never)]
    fn leave_line(&mut self, ticket: Ticket, freed: &mut Vec<Ticket>) {
        let Place { word, slot, alone, .. } = self.places[ticket as usize];
        let line = self.lines.get_mut(&word).expect("who has left no slot is in a line");
        line.going = if alone { 0 } else { line.going - 1 };
        while line.last != NOBODY {
            let first = self.places[line.last as usize].behind;
            let Place { alone, behind, .. } = self.places[first as usize];
            if !line.admits(alone) {
                break;
            }
            line.admit(alone);
            self.places[first as usize].waits = false;
            if first == line.last {
                line.last = NOBODY;
            } else {
                self.places[line.last as usize].behind = behind;
            }
            freed.push(first);
        }
        if line.going == 0 {
            self.lines.remove(&word);
        }
        let there = &mut self.slots[slot as usize];
        *there -= 1;
        if *there == CROWD {
            *there = NOBODY;
        }
    }
}

/// An order that threads share.
#[derive(Debug)]
pub(crate) struct Turnstile {
    shared: Mutex<Shared>,
    freed: Condvar,
}

#[derive(Debug)]
struct Shared {
    order: Order,
    /// Who was let go on by the operation that ended last.
    freed: Vec<Ticket>,
}

impl Turnstile {
    /// For so many clients.
    pub(crate) fn new(clients: usize) -> Self {
        let shared = Shared { order: Order::new(clients), freed: Vec::new() };
        Self { shared: Mutex::new(shared), freed: Condvar::new() }
    }

    /// [`Order::enter`].
    pub(crate) fn enter(&self, ticket: Ticket, claim: Claim) {
        self.shared().order.enter(ticket, claim);
    }

    /// [`Order::waits`].
    pub(crate) fn waits(&self, ticket: Ticket) -> bool {
        self.shared().order.waits(ticket)
    }

    /// Waits until an operation that entered may go on, but no longer than this; whether it may.
    pub(crate) fn wait_within(&self, ticket: Ticket, patience: Duration) -> bool {
        let waits = |shared: &mut Shared| shared.order.waits(ticket);
        let waited = self.freed.wait_timeout_while(self.shared(), patience, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// [`Order::leave`].
    pub(crate) fn leave(&self, ticket: Ticket) {
        let mut shared = self.shared();
        let Shared { order, freed } = &mut *shared;
        freed.clear();
        order.leave(ticket, freed);
        if !freed.is_empty() {
            self.freed.notify_all();
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use kvmark_plan::split_mix;

    use super::*;

    const READ: bool = false;
    const WRITE: bool = true;

    fn claim(word: u64, alone: bool) -> Claim {
        Claim { word, alone }
    }

    #[test]
    fn reads_go_together_and_nothing_passes_a_write() {
        let (mut order, mut freed) = (Order::new(5), Vec::new());
        assert!(order.enter(0, claim(7, READ)));
        assert!(order.enter(1, claim(7, READ)));
        assert!(!order.enter(2, claim(7, WRITE)));
        assert!(!order.enter(3, claim(7, READ)));
        assert!(order.enter(4, claim(8, WRITE)));
        order.leave(0, &mut freed);
        assert!(freed.is_empty());
        order.leave(1, &mut freed);
        assert_eq!(freed, [2]);
        assert!(order.waits(3));
        order.leave(2, &mut freed);
        assert_eq!(freed, [2, 3]);
        order.leave(3, &mut freed);
        order.leave(4, &mut freed);
        assert!(order.lines.is_empty());
        assert!(order.slots.iter().all(|slot| *slot == NOBODY));
    }

    #[test]
    fn operations_of_a_word_are_under_way_in_the_order_in_which_they_entered() {
        // With one slot, words find others there.
        for (seed, clients) in (0..200_u64).flat_map(|seed| [(seed, 6), (seed, 0)]) {
            let (mut order, mut freed) = (Order::new(clients), Vec::new());
            let (mut idle, mut going): (Vec<Ticket>, Vec<Ticket>) = ((0..9).collect(), Vec::new());
            let (mut entered, mut begun) = (vec![Vec::new(); 6], vec![Vec::new(); 6]);
            let mut of = [(0, false, 0); 9];
            let mut state = seed;
            for number in 0..300 {
                state = split_mix(state);
                let waits = number < 250 && !idle.is_empty() && !state.is_multiple_of(3);
                if waits {
                    let ticket = idle.remove(state as usize / 7 % idle.len());
                    let (word, alone) = (state / 64 % 6, state / 1024 % 2 == 0);
                    of[ticket as usize] = (word as usize, alone, number);
                    entered[word as usize].push(number);
                    if order.enter(ticket, claim(word, alone)) {
                        going.push(ticket);
                        begun[word as usize].push(number);
                    }
                } else if !going.is_empty() {
                    let ticket = going.remove(state as usize / 7 % going.len());
                    freed.clear();
                    order.leave(ticket, &mut freed);
                    idle.push(ticket);
                    for next in &freed {
                        going.push(*next);
                        let (word, _, number) = of[*next as usize];
                        begun[word].push(number);
                    }
                }
                for (word, _) in entered.iter().enumerate() {
                    let here = going.iter().map(|one| of[*one as usize]);
                    let here: Vec<_> = here.filter(|one| one.0 == word).collect();
                    assert!(here.len() < 2 || here.iter().all(|one| !one.1), "{here:?}");
                }
            }
            for (entered, begun) in entered.iter().zip(&begun) {
                assert_eq!(begun[..], entered[..begun.len()]);
            }
        }
    }
}
