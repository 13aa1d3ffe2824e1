//! The counts and problems of a recording.

use std::collections::BTreeMap;

use serde::Serialize;

/// Counts, and the first problem of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TapReport {
    /// Start of the recording, since the Unix epoch.
    pub start_unix_ns: u64,
    /// Connections that clients made.
    pub connections: u64,
    /// Operations on the tapes.
    pub operations: u64,
    /// Operations without a reply in time.
    pub unanswered: u64,
    /// Keys that exceed the limit of an operation.
    pub cut_keys: u64,
    /// Keys and values that weren't kept because they were too long or memory was exhausted.
    pub cut_contents: u64,
    /// Commands unknown to the server, which aren't recorded.
    pub unknown_commands: u64,
    /// Commands of abandoned transactions, which aren't recorded.
    pub not_carried_out: u64,
    /// Replies that redirected a client permanently (`MOVED`).
    pub moved: u64,
    /// Replies that redirected one request (`ASK`).
    pub asked: u64,
    /// Connections whose recording ended early, by the unsupported feature.
    pub not_recorded: BTreeMap<String, u64>,
    /// Connections whose bytes didn't follow the protocol.
    pub garbage: u64,
    /// The reason of the first of them.
    pub first_garbage: Option<String>,
    /// Connections for which the server was unreachable.
    pub unreachable: u64,
    /// The reason of the first of them.
    pub first_unreachable: Option<String>,
    /// Rows dropped because the disk was too slow.
    pub lost: u64,
    /// Why recording ended before forwarding.
    pub ended: Option<String>,
}

impl TapReport {
    /// Adds the report of another thread.
    pub(crate) fn add(&mut self, other: Self) {
        self.connections += other.connections;
        self.operations += other.operations;
        self.unanswered += other.unanswered;
        self.cut_keys += other.cut_keys;
        self.cut_contents += other.cut_contents;
        self.unknown_commands += other.unknown_commands;
        self.not_carried_out += other.not_carried_out;
        self.moved += other.moved;
        self.asked += other.asked;
        self.garbage += other.garbage;
        self.unreachable += other.unreachable;
        self.lost += other.lost;
        for (reason, count) in other.not_recorded {
            *self.not_recorded.entry(reason).or_default() += count;
        }
        self.first_garbage = self.first_garbage.take().or(other.first_garbage);
        self.first_unreachable = self.first_unreachable.take().or(other.first_unreachable);
    }
}
