//! Which operations of a group are a phase's, and which is next.

/// The next operation of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// The phase in which it is due, by its place in the stretch.
    pub(crate) leg: usize,
    /// Number in the group's stream of that phase.
    pub(crate) number: u64,
    /// When it is due.
    pub(crate) intended_ns: u64,
}

/// What describes a group's numbers in one phase, besides its arrival law.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbering {
    /// Operations over all shares.
    pub(crate) operations: Option<u64>,
    /// Numbers of this share, from the first on, that an earlier load has taken; 0 but in the
    /// closed model, in which loads are carried out.
    pub(crate) done: u64,
    pub(crate) seed: u64,
    pub(crate) start_ns: u64,
    /// Where the next phase of the stretch goes on.
    pub(crate) end_ns: u64,
}

impl Numbering {
    /// Of all operations, from an instant that is 0.
    pub(crate) const WHOLE: Self =
        Self { operations: None, done: 0, seed: 0, start_ns: 0, end_ns: u64::MAX };
}
