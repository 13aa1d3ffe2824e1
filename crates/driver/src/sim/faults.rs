//! Faults of a simulated store, in the numbers that the user sets.

use crate::options::{Accepts, Given, OptionDoc, option};

/// A kind of fault. Each is planted at a separate record, where a client that remembers
/// acknowledged writes can detect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    LoseRecord,
    LoseField,
    ReturnOlder,
    SwapRecords,
    TearValue,
    ResurrectRecord,
    ApplyFailed,
}

impl Fault {
    pub(super) const ALL: [Self; 7] = [
        Self::LoseRecord,
        Self::LoseField,
        Self::ReturnOlder,
        Self::SwapRecords,
        Self::TearValue,
        Self::ResurrectRecord,
        Self::ApplyFailed,
    ];

    /// The option that gives its number.
    pub(super) const fn option(self) -> &'static str {
        FAULT_OPTIONS[self as usize].name
    }
}

const COUNT: Accepts = Accepts::Whole { min: 0, max: 1_000_000_000 };

const fn fault(name: &'static str, meaning: &'static str) -> OptionDoc {
    option(name, COUNT, Some("0")).meaning(meaning)
}

/// By [`Fault`].
pub(super) static FAULT_OPTIONS: [OptionDoc; Fault::ALL.len()] = [
    fault("lose_record", "Acknowledged records that are lost."),
    fault("lose_field", "Acknowledged records that lose one field."),
    fault(
        "return_older",
        "Records with a field that returns the value before the acknowledged one.",
    ),
    fault("swap_records", "Pairs of records, each of which returns the other's fields."),
    fault("tear_value", "Records with a field of which only the first half was written."),
    fault("resurrect_record", "Removed records that return."),
    fault("apply_failed", "Records that hold an update which was answered `unavailable`."),
];

/// When the first fault is planted.
pub(super) static FAULTS_AFTER: OptionDoc =
    fault("faults_after", "Acknowledged writes before the first fault.");

/// How many of each to plant, by [`Fault`], and after how many acknowledged writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FaultCounts {
    pub(super) wanted: [u64; Fault::ALL.len()],
    pub(super) after: u64,
}

impl FaultCounts {
    pub(super) fn read(given: &Given) -> Self {
        let count = |name| given.whole(name).unwrap_or(0);
        let wanted = Fault::ALL.map(|fault| count(fault.option()));
        Self { wanted, after: count(FAULTS_AFTER.name) }
    }

    /// The option of a fault that is wanted.
    pub(super) fn first(&self) -> Option<&'static str> {
        let mut faults = Fault::ALL.into_iter();
        faults.find(|fault| self.wanted[*fault as usize] > 0).map(Fault::option)
    }
}
