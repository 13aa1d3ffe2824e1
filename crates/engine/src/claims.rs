//! Order of a tape's operations: operations of one key, or of one client, run in tape order.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kvmark_driver::Ticket;
use kvmark_plan::GOLDEN;

/// The key or client on which an operation of a tape must not overtake others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The key, or the client.
    pub(crate) word: u64,
    /// Whether no other operation of the word may be in flight with it.
    pub(crate) alone: bool,
}

/// The operations that are in flight or wait for others, by their claims.
///
/// Most words are uncontended: the operation registers itself in the slot of the word's hash and
/// returns. If the slot is taken, its operations join the queues of their words until the slot is
/// empty again.
#[derive(Debug)]
pub(crate) struct ClaimTable {
    /// By hash: a single ticket, [`NO_TICKET`], or [`QUEUED`] plus the number of queued operations.
    slots: Vec<u32>,
    queues: HashMap<u64, ClaimQueue, BuildHasherDefault<WordHasher>>,
    /// By ticket.
    entries: Vec<ClaimEntry>,
}

/// Slots for each client: about one in 64 operations collides with another word.
const SLOTS_A_CLIENT: usize = 64;
const SLOTS_MAX: usize = 1 << 18;
const NO_TICKET: Ticket = Ticket::MAX;
/// Tickets are below it.
const QUEUED: u32 = 1 << 31;

/// The operations of one word: some in flight, the others waiting in order.
#[derive(Clone, Copy, Debug)]
struct ClaimQueue {
    /// Operations in flight, or [`ALONE`].
    going: u32,
    /// The last ticket that waits, or [`NO_TICKET`].
    last: Ticket,
}

/// One operation is in flight and excludes all others.
const ALONE: u32 = u32::MAX;
const EMPTY: ClaimQueue = ClaimQueue { going: 0, last: NO_TICKET };

#[derive(Clone, Copy, Debug)]
struct ClaimEntry {
    word: u64,
    slot: u32,
    /// The ticket that waits behind it; the last ticket links to the first.
    behind: Ticket,
    alone: bool,
    waits: bool,
}

const NO_ENTRY: ClaimEntry = ClaimEntry { word: 0, slot: 0, behind: 0, alone: false, waits: false };

/// Hashes words, which are hashes already, or few.
#[derive(Clone, Copy, Debug, Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 << 8 | u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        let product = word.wrapping_mul(GOLDEN);
        // Only the upper bits depend on all bits of the word, and the map uses the lower ones, too.
        self.0 = product ^ product >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl ClaimQueue {
    fn admits(&self, alone: bool) -> bool {
        self.going == 0 || !alone && self.going != ALONE
    }

    fn admit(&mut self, alone: bool) {
        self.going = if alone { ALONE } else { self.going + 1 };
    }
}

impl ClaimTable {
    /// A table for this number of clients. Later operations hardly allocate.
    pub(crate) fn new(clients: usize) -> Self {
        let slots = (clients * SLOTS_A_CLIENT).next_power_of_two().min(SLOTS_MAX);
        Self {
            slots: vec![NO_TICKET; slots],
            queues: HashMap::with_capacity_and_hasher(clients, BuildHasherDefault::default()),
            entries: vec![NO_ENTRY; clients],
        }
    }

    /// Adds an operation behind all earlier ones of the same word. Returns whether it may run now.
    #[inline]
    pub(crate) fn enter(&mut self, ticket: Ticket, claim: Claim) -> bool {
        if self.entries.len() <= ticket as usize {
            self.make_room(ticket);
        }
        let Claim { word, alone } = claim;
        // The upper bits of the product depend on all bits of the word.
        let slot = (word.wrapping_mul(GOLDEN) >> 32) as usize & (self.slots.len() - 1);
        let entry = ClaimEntry { word, slot: slot as u32, behind: ticket, alone, waits: false };
        self.entries[ticket as usize] = entry;
        if self.slots[slot] == NO_TICKET {
            self.slots[slot] = ticket;
            return true;
        }
        self.join(ticket)
    }

    /// Whether an entered operation has to wait for others.
    pub(crate) fn waits(&self, ticket: Ticket) -> bool {
        self.entries[ticket as usize].waits
    }

    /// Ends a running operation and adds the tickets that may run now to `freed`.
    #[inline]
    pub(crate) fn leave(&mut self, ticket: Ticket, freed: &mut Vec<Ticket>) {
        let slot = self.entries[ticket as usize].slot as usize;
        if self.slots[slot] == ticket {
            self.slots[slot] = NO_TICKET;
        } else {
            self.leave_queue(ticket, freed);
        }
    }

    #[cold]
    fn make_room(&mut self, ticket: Ticket) {
        self.entries.resize(ticket as usize + 1, NO_ENTRY);
    }

    /// [`Self::enter`] for a slot that is taken.
    #[inline(never)]
    fn join(&mut self, ticket: Ticket) -> bool {
        let ClaimEntry { word, slot, alone, .. } = self.entries[ticket as usize];
        let there = self.slots[slot as usize];
        if there < QUEUED {
            let ClaimEntry { word, alone, .. } = self.entries[there as usize];
            self.queues.entry(word).or_insert(EMPTY).admit(alone);
            self.slots[slot as usize] = QUEUED + 1;
        }
        self.slots[slot as usize] += 1;
        let queue = self.queues.entry(word).or_insert(EMPTY);
        if queue.last == NO_TICKET && queue.admits(alone) {
            queue.admit(alone);
            return true;
        }
        self.entries[ticket as usize].waits = true;
        let last = std::mem::replace(&mut queue.last, ticket);
        if last != NO_TICKET {
            let first = std::mem::replace(&mut self.entries[last as usize].behind, ticket);
            self.entries[ticket as usize].behind = first;
        }
        false
    }

    /// [`Self::leave`] for a slot that had several operations.
    #[inline(never)]
    fn leave_queue(&mut self, ticket: Ticket, freed: &mut Vec<Ticket>) {
        let ClaimEntry { word, slot, alone, .. } = self.entries[ticket as usize];
        let queue = self.queues.get_mut(&word).expect("a ticket without a slot is in a queue");
        queue.going = if alone { 0 } else { queue.going - 1 };
        while queue.last != NO_TICKET {
            let first = self.entries[queue.last as usize].behind;
            let ClaimEntry { alone, behind, .. } = self.entries[first as usize];
            if !queue.admits(alone) {
                break;
            }
            queue.admit(alone);
            self.entries[first as usize].waits = false;
            if first == queue.last {
                queue.last = NO_TICKET;
            } else {
                self.entries[queue.last as usize].behind = behind;
            }
            freed.push(first);
        }
        if queue.going == 0 {
            self.queues.remove(&word);
        }
        let there = &mut self.slots[slot as usize];
        *there -= 1;
        if *there == QUEUED {
            *there = NO_TICKET;
        }
    }
}

/// A [`ClaimTable`] that threads share.
#[derive(Debug)]
pub(crate) struct SharedClaims {
    /// The table, and the tickets released by the operation that ended last.
    shared: Mutex<(ClaimTable, Vec<Ticket>)>,
    freed: Condvar,
}

impl SharedClaims {
    /// A table for this number of clients.
    pub(crate) fn new(clients: usize) -> Self {
        let shared = Mutex::new((ClaimTable::new(clients), Vec::new()));
        Self { shared, freed: Condvar::new() }
    }

    /// [`ClaimTable::enter`].
    pub(crate) fn enter(&self, ticket: Ticket, claim: Claim) {
        self.shared().0.enter(ticket, claim);
    }

    /// [`ClaimTable::waits`].
    pub(crate) fn waits(&self, ticket: Ticket) -> bool {
        self.shared().0.waits(ticket)
    }

    /// Waits until an entered operation may run, up to the time limit. Returns whether it may.
    pub(crate) fn wait_within(&self, ticket: Ticket, patience: Duration) -> bool {
        let waits = |(table, _): &mut (ClaimTable, Vec<Ticket>)| table.waits(ticket);
        let waited = self.freed.wait_timeout_while(self.shared(), patience, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// [`ClaimTable::leave`].
    pub(crate) fn leave(&self, ticket: Ticket) {
        let mut shared = self.shared();
        let (table, freed) = &mut *shared;
        freed.clear();
        table.leave(ticket, freed);
        if !freed.is_empty() {
            self.freed.notify_all();
        }
    }

    fn shared(&self) -> MutexGuard<'_, (ClaimTable, Vec<Ticket>)> {
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
    fn reads_run_together_and_nothing_overtakes_a_write() {
        let (mut table, mut freed) = (ClaimTable::new(5), Vec::new());
        assert!(table.enter(0, claim(7, READ)));
        assert!(table.enter(1, claim(7, READ)));
        assert!(!table.enter(2, claim(7, WRITE)));
        assert!(!table.enter(3, claim(7, READ)));
        assert!(table.enter(4, claim(8, WRITE)));
        table.leave(0, &mut freed);
        assert!(freed.is_empty());
        table.leave(1, &mut freed);
        assert_eq!(freed, [2]);
        assert!(table.waits(3));
        table.leave(2, &mut freed);
        assert_eq!(freed, [2, 3]);
        table.leave(3, &mut freed);
        table.leave(4, &mut freed);
        assert!(table.queues.is_empty());
        assert!(table.slots.iter().all(|slot| *slot == NO_TICKET));
    }

    #[test]
    fn operations_of_a_word_run_in_the_order_in_which_they_entered() {
        // With one slot, all words collide.
        for (seed, clients) in (0..200_u64).flat_map(|seed| [(seed, 6), (seed, 0)]) {
            let (mut table, mut freed) = (ClaimTable::new(clients), Vec::new());
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
                    if table.enter(ticket, claim(word, alone)) {
                        going.push(ticket);
                        begun[word as usize].push(number);
                    }
                } else if !going.is_empty() {
                    let ticket = going.remove(state as usize / 7 % going.len());
                    freed.clear();
                    table.leave(ticket, &mut freed);
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
