//! Marks on positions, and how many lie before one (P. Fenwick, "A New Data Structure for
//! Cumulative Frequency Tables", 1994).

/// A fixed number of positions, each marked or not.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    sums: Vec<u32>,
    marked: u32,
}

impl Marks {
    pub(crate) fn new(positions: usize) -> Self {
        Self { sums: vec![0; positions + 1], marked: 0 }
    }

    pub(crate) fn positions(&self) -> usize {
        self.sums.len() - 1
    }

    pub(crate) fn clear(&mut self) {
        self.sums.fill(0);
        self.marked = 0;
    }

    /// Marks a position that isn't marked (1), or takes a mark away that is there (-1).
    pub(crate) fn add(&mut self, position: usize, mark: i32) {
        self.marked = self.marked.wrapping_add_signed(mark);
        let mut at = position + 1;
        while at < self.sums.len() {
            self.sums[at] = self.sums[at].wrapping_add_signed(mark);
            at += at & at.wrapping_neg();
        }
    }

    /// How many marks lie behind a position.
    pub(crate) fn behind(&self, position: usize) -> u32 {
        let (mut upto, mut at) = (0, position + 1);
        while at > 0 {
            upto += self.sums[at];
            at &= at - 1;
        }
        self.marked - upto
    }
}
