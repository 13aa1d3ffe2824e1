//! One rank after the other, over and over.

#[derive(Clone, Debug)]
pub(crate) struct Sequential {
    count: u64,
}

impl Sequential {
    pub(crate) const fn new(count: u64) -> Self {
        Self { count }
    }

    #[inline]
    pub(crate) const fn rank(&self, number: u64) -> u64 {
        number % self.count
    }
}
