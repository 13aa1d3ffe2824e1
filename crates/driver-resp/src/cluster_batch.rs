//! The commands of one operation in a cluster, and the replies to them.

use std::ops::Range;

use kvmark_driver::Call;
use kvmark_plan::Outcome;

use crate::failure::Failure;
use crate::prepared::Prepared;
use crate::slots::slot_of;
use kvmark_wire::resp::{Cursor, Scan};

/// Encoded commands, grouped by server. Operations reuse its memory.
#[derive(Debug, Default)]
pub(crate) struct ClusterBatch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) parts: Vec<SlotBatch>,
    commands: u32,
}

/// Commands for one server.
#[derive(Clone, Debug)]
pub(crate) struct SlotBatch {
    /// Its range in the bytes of the batch.
    bytes: Range<usize>,
    /// Its commands.
    pub(crate) commands: Range<u32>,
    /// The slot of its keys. Without a key, a neighbour's slot is used.
    slot: Option<u16>,
    /// Its destination; `None` once it is sent and answered.
    pub(crate) to: Option<Destination>,
}

/// The index of a server, and whether ASKING precedes the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) node: usize,
    pub(crate) asking: bool,
}

impl SlotBatch {
    pub(crate) fn slot(&self) -> u16 {
        self.slot.unwrap_or(0)
    }
}

impl ClusterBatch {
    pub(crate) fn commands(&self) -> usize {
        self.commands as usize
    }

    /// Fills the batch with commands whose first argument is the key.
    pub(crate) fn fill(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<(), Failure> {
        self.clear();
        encode(&mut self.bytes);
        let mut at = 0;
        while at < self.bytes.len() {
            let bytes = &self.bytes[at..];
            let length = Scan::START.clone().advance(bytes)?.unwrap_or(bytes.len());
            let mut cursor = Cursor::new(bytes);
            let parts = cursor.elements()?;
            cursor.text()?;
            let key = if parts > 1 { cursor.text()? } else { None };
            let slot = key.map(slot_of);
            self.add(at..at + length, 1, slot);
            at += length;
        }
        self.assign_slots();
        Ok(())
    }

    /// Fills the batch with the commands of a statement.
    pub(crate) fn fill_with(
        &mut self,
        prepared: &Prepared,
        call: &Call<'_>,
    ) -> Result<(), Failure> {
        self.clear();
        for round in 0..call.commands.len() {
            let first = self.bytes.len();
            let mut common = None;
            for text in 0..prepared.texts() {
                let start = self.bytes.len();
                let key = prepared.put(&mut self.bytes, call, round, text);
                let slot = match key {
                    Some(key) => Cursor::new(&self.bytes[key..]).text()?.map(slot_of),
                    None => None,
                };
                if !prepared.is_transaction {
                    self.add(start..self.bytes.len(), 1, slot);
                } else if common.is_some() && slot.is_some() && common != slot {
                    let text = "the keys of a transaction are in different slots";
                    return Err(Failure::new(Outcome::Refused, text));
                }
                common = common.or(slot);
            }
            if prepared.is_transaction {
                self.add(first..self.bytes.len(), prepared.texts() as u32, common);
            }
        }
        self.assign_slots();
        Ok(())
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.parts.clear();
        self.commands = 0;
    }

    fn add(&mut self, bytes: Range<usize>, commands: u32, slot: Option<u16>) {
        let commands = self.commands..self.commands + commands;
        self.commands = commands.end;
        self.parts.push(SlotBatch { bytes, commands, slot, to: None });
    }

    /// Assigns commands without a key to the slot of the command before, or else after them.
    fn assign_slots(&mut self) {
        let mut known = self.parts.iter().find_map(|part| part.slot);
        for part in &mut self.parts {
            known = part.slot.or(known);
            part.slot = known;
        }
    }

    /// Appends the commands for a destination.
    pub(crate) fn put(&self, output: &mut Vec<u8>, to: Destination) {
        for part in self.parts.iter().filter(|part| part.to == Some(to)) {
            if to.asking {
                output.extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
            }
            output.extend_from_slice(&self.bytes[part.bytes.clone()]);
        }
    }

    /// The commands of the replies from a destination, in order; `None` for a reply to ASKING.
    pub(crate) fn answered_by(&self, to: Destination) -> impl Iterator<Item = Option<u32>> {
        let parts = self.parts.iter().filter(move |part| part.to == Some(to));
        parts.flat_map(move |part| {
            let asking = if to.asking { Some(None) } else { None };
            asking.into_iter().chain(part.commands.clone().map(Some))
        })
    }

    /// Collects the destinations of unsent commands.
    pub(crate) fn destinations(&self, list: &mut Vec<Destination>) {
        list.clear();
        for to in self.parts.iter().filter_map(|part| part.to) {
            if !list.contains(&to) {
                list.push(to);
            }
        }
    }
}

/// The replies to the commands of a batch.
#[derive(Debug, Default)]
pub(crate) struct BatchReplies {
    bytes: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

impl BatchReplies {
    pub(crate) fn clear(&mut self, commands: usize) {
        self.bytes.clear();
        self.ranges.clear();
        self.ranges.resize(commands, 0..0);
    }

    pub(crate) fn put(&mut self, command: u32, reply: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(reply);
        self.ranges[command as usize] = start..self.bytes.len();
    }

    pub(crate) fn of(&self, command: u32) -> &[u8] {
        &self.bytes[self.ranges[command as usize].clone()]
    }

    /// The replies in the order of the commands.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges.iter().map(|range| &self.bytes[range.clone()])
    }
}
