//! Each rank equally likely.

use crate::random::Random;

#[derive(Clone, Debug)]
pub(crate) struct Uniform {
    count: u64,
}

impl Uniform {
    pub(crate) const fn new(count: u64) -> Self {
        Self { count }
    }

    #[inline]
    pub(crate) const fn rank(&self, random: &mut Random) -> u64 {
        random.below(self.count)
    }
}
