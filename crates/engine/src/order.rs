//! Which operations of a tape may go on: those of one key, or of one client, in their order.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
/// A word has its line in the slot that its hash names; where another word is there, among `more`.
#[derive(Debug)]
pub(crate) struct Order {
    slots: Vec<(u64, Line)>,
    more: HashMap<u64, Line>,
    /// By ticket.
    places: Vec<Place>,
}

/// Slots for each client: one in so many operations finds another word's line.
const SLOTS_A_CLIENT: usize = 64;
const SLOTS_MAX: usize = 1 << 18;

/// The operations of one word: some under way, the others behind them in their order.
#[derive(Clone, Debug, Default)]
struct Line {
    /// Under way beside each other.
    together: u32,
    /// Under way alone.
    alone: bool,
    first: Option<Ticket>,
    last: Ticket,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    claim: Claim,
    behind: Option<Ticket>,
    waits: bool,
}

const NOWHERE: Place = Place { claim: Claim { word: 0, alone: false }, behind: None, waits: false };

impl Line {
    fn admits(&self, alone: bool) -> bool {
        !self.alone && (!alone || self.together == 0)
    }

    fn admit(&mut self, alone: bool) {
        self.alone = alone;
        self.together += u32::from(!alone);
    }

    /// Whether nothing of its word is under way, and so nothing waits.
    fn is_over(&self) -> bool {
        self.admits(true)
    }
}

impl Order {
    /// For so many clients, so that next to nothing is allocated later.
    pub(crate) fn new(clients: usize) -> Self {
        let slots = (clients * SLOTS_A_CLIENT).next_power_of_two().min(SLOTS_MAX);
        Self {
            slots: vec![(0, Line::default()); slots],
            more: HashMap::new(),
            places: vec![NOWHERE; clients],
        }
    }

    /// Takes a place behind all operations of the same word that came before. Whether it may go on
    /// at once.
    #[inline]
    pub(crate) fn enter(&mut self, ticket: Ticket, claim: Claim) -> bool {
        if self.places.len() <= ticket as usize {
            self.places.resize(ticket as usize + 1, NOWHERE);
        }
        let line = line(&mut self.slots, &mut self.more, claim.word);
        let waits = line.first.is_some() || !line.admits(claim.alone);
        self.places[ticket as usize] = Place { claim, behind: None, waits };
        if !waits {
            line.admit(claim.alone);
            return true;
        }
        match line.first {
            None => line.first = Some(ticket),
            Some(_) => self.places[line.last as usize].behind = Some(ticket),
        }
        line.last = ticket;
        false
    }

    /// Whether an operation that entered has to wait for others.
    pub(crate) fn waits(&self, ticket: Ticket) -> bool {
        self.places[ticket as usize].waits
    }

    /// Ends an operation that was let go on; who may go on now is added to `freed`.
    pub(crate) fn leave(&mut self, ticket: Ticket, freed: &mut Vec<Ticket>) {
        let Claim { word, alone } = self.places[ticket as usize].claim;
        let line = line(&mut self.slots, &mut self.more, word);
        if alone {
            line.alone = false;
        } else {
            line.together -= 1;
        }
        while let Some(next) = line.first {
            let place = &mut self.places[next as usize];
            if !line.admits(place.claim.alone) {
                return;
            }
            line.admit(place.claim.alone);
            place.waits = false;
            line.first = place.behind.take();
            freed.push(next);
        }
        if line.is_over() && !self.more.is_empty() {
            self.more.remove(&word);
        }
    }
}

/// The line of a word, which may be new.
#[inline]
fn line<'a>(
    slots: &'a mut [(u64, Line)],
    more: &'a mut HashMap<u64, Line>,
    word: u64,
) -> &'a mut Line {
    // The upper bits of the product depend on all of the word's.
    let place = (word.wrapping_mul(GOLDEN) >> 32) as usize & (slots.len() - 1);
    let (owner, own) = &mut slots[place];
    // A word stays among the others until its line is over there.
    if !more.is_empty() && more.contains_key(&word) || *owner != word && !own.is_over() {
        return more.entry(word).or_default();
    }
    *owner = word;
    own
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

    /// Waits until an operation that entered may go on.
    pub(crate) fn wait(&self, ticket: Ticket) {
        let waits = |shared: &mut Shared| shared.order.waits(ticket);
        drop(self.freed.wait_while(self.shared(), waits).unwrap_or_else(PoisonError::into_inner));
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
        assert!(order.more.is_empty());
        assert!(order.slots.iter().all(|(_, line)| line.is_over()));
    }

    #[test]
    fn operations_of_a_word_are_under_way_in_the_order_in_which_they_entered() {
        // With one slot, words find others there.
        for (seed, clients) in (0..200_u64).flat_map(|seed| [(seed, 6), (seed, 0)]) {
            let (mut order, mut freed) = (Order::new(clients), Vec::new());
            let (mut idle, mut going): (Vec<Ticket>, Vec<Ticket>) = ((0..6).collect(), Vec::new());
            let (mut entered, mut begun) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
            let mut of = [(0, false, 0); 6];
            let mut state = seed;
            for number in 0..300 {
                state = split_mix(state);
                let waits = number < 250 && !idle.is_empty() && !state.is_multiple_of(3);
                if waits {
                    let ticket = idle.remove(state as usize / 7 % idle.len());
                    let (word, alone) = (state / 64 % 3, state / 1024 % 2 == 0);
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
