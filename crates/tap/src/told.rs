//! What is to be known of a recording beside its operations.

use std::collections::BTreeMap;

use serde::Serialize;

/// Counts, and the first of each kind of problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Instant of the beginning, since the Unix epoch.
    pub start_unix_ns: u64,
    /// Connections that clients made.
    pub connections: u64,
    /// Operations on the tapes.
    pub operations: u64,
    /// Those of them that nobody answered in time.
    pub unanswered: u64,
    /// Keys beyond those that one operation can have.
    pub cut_keys: u64,
    /// Keys and values that were to be kept and aren't: they were too long, or memory was full.
    pub cut_contents: u64,
    /// Commands that the server doesn't know, which aren't recorded.
    pub unknown_commands: u64,
    /// Commands of transactions that were given up, which aren't recorded.
    pub not_carried_out: u64,
    /// Replies that sent a client to another server, for good and for once.
    pub moved: u64,
    /// See `moved`.
    pub asked: u64,
    /// Connections that weren't recorded any more, by what they used.
    pub not_recorded: BTreeMap<String, u64>,
    /// Connections whose bytes weren't the protocol, and the first reason.
    pub garbage: u64,
    /// See `garbage`.
    pub first_garbage: Option<String>,
    /// Connections for which the server couldn't be reached, and the first reason.
    pub unreachable: u64,
    /// See `unreachable`.
    pub first_unreachable: Option<String>,
    /// Rows that were dropped because the disk didn't keep up.
    pub lost: u64,
    /// Why recording ended before forwarding did.
    pub ended: Option<String>,
}

impl Told {
    /// With what another thread tells.
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
