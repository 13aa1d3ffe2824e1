//! Which of a group's arrivals belong to some of its clients.

/// The arrivals that some of a group's clients take, in turns over all clients of all shares:
/// numbers that modulo `cycle` are `first`, `first + step` and so on, below `cycle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first of these clients.
    pub first: u64,
    /// From one of them to the next, at least 1.
    pub step: u64,
    /// How many clients take turns, at least 1.
    pub cycle: u64,
}

impl Part {
    /// All of them.
    pub const WHOLE: Self = Self { first: 0, step: 1, cycle: 1 };

    /// Whether nobody is among these clients, so that no number belongs to the part.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.first >= self.cycle
    }

    /// How many of the first `count` numbers belong to the part.
    #[must_use]
    pub const fn of_first(self, count: u64) -> u64 {
        let whole = (count / self.cycle).saturating_mul(self.turns_below(self.cycle));
        whole.saturating_add(self.turns_below(count % self.cycle))
    }

    /// The number of the part's turn `turn`, counted from 0.
    #[must_use]
    pub const fn nth(self, turn: u64) -> u64 {
        let each = self.turns_below(self.cycle);
        let each = if each == 0 { 1 } else { each };
        turn / each * self.cycle + self.first + turn % each * self.step
    }

    /// How many turns of one cycle it has before a place of it.
    const fn turns_below(self, place: u64) -> u64 {
        if place > self.first { (place - self.first - 1) / self.step + 1 } else { 0 }
    }
}
