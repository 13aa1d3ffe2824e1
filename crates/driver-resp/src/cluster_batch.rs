//! The commands of one operation on their way through a cluster.

use std::ops::Range;

use kvmark_driver::Call;
use kvmark_plan::Outcome;

use crate::failure::Failure;
use crate::prepared::Prepared;
use crate::slots::slot_of;
use kvmark_wire::resp::{Cursor, Scan};

/// Commands, encoded, and what became of them. Used again from operation to operation.
#[derive(Debug, Default)]
pub(crate) struct ClusterBatch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) parts: Vec<SlotBatch>,
    commands: u32,
}

/// Commands that go to the same server.
#[derive(Clone, Debug)]
pub(crate) struct SlotBatch {
    /// Its place in the parcel's bytes.
    bytes: Range<usize>,
    /// Its commands.
    pub(crate) commands: Range<u32>,
    /// The slot of its keys; none without a key, until a neighbour's is taken.
    slot: Option<u16>,
    /// Where it is to be sent now; none when that is done.
    pub(crate) to: Option<Destination>,
}

/// A server, by its index, and whether to ask for a slot that isn't its own yet.
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

    /// Fills the parcel with commands whose first argument is their key.
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
        self.settle();
        Ok(())
    }

    /// Fills the parcel with the commands of a statement.
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
                if !prepared.is_transaction() {
                    self.add(start..self.bytes.len(), 1, slot);
                } else if common.is_some() && slot.is_some() && common != slot {
                    let text = "the keys of a transaction are in different slots";
                    return Err(Failure::new(Outcome::Refused, text));
                }
                common = common.or(slot);
            }
            if prepared.is_transaction() {
                self.add(first..self.bytes.len(), prepared.texts() as u32, common);
            }
        }
        self.settle();
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

    /// Sends what has no key along with what stands before it, or else behind it.
    fn settle(&mut self) {
        let mut known = self.parts.iter().find_map(|part| part.slot);
        for part in &mut self.parts {
            known = part.slot.or(known);
            part.slot = known;
        }
    }

    /// Appends what goes to a destination.
    pub(crate) fn put(&self, output: &mut Vec<u8>, to: Destination) {
        for part in self.parts.iter().filter(|part| part.to == Some(to)) {
            if to.asking {
                output.extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
            }
            output.extend_from_slice(&self.bytes[part.bytes.clone()]);
        }
    }

    /// The commands whose replies come from a destination, in order; none for a reply to ASKING.
    pub(crate) fn answered_by(&self, to: Destination) -> impl Iterator<Item = Option<u32>> {
        let parts = self.parts.iter().filter(move |part| part.to == Some(to));
        parts.flat_map(move |part| {
            let asking = if to.asking { Some(None) } else { None };
            asking.into_iter().chain(part.commands.clone().map(Some))
        })
    }

    /// The destinations of what is still to be sent, each once.
    pub(crate) fn destinations(&self, found: &mut Vec<Destination>) {
        found.clear();
        for to in self.parts.iter().filter_map(|part| part.to) {
            if !found.contains(&to) {
                found.push(to);
            }
        }
    }
}

/// The replies to a parcel's commands.
#[derive(Debug, Default)]
pub(crate) struct BatchReplies {
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl BatchReplies {
    pub(crate) fn clear(&mut self, commands: usize) {
        self.bytes.clear();
        self.places.clear();
        self.places.resize(commands, 0..0);
    }

    pub(crate) fn put(&mut self, command: u32, reply: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(reply);
        self.places[command as usize] = start..self.bytes.len();
    }

    pub(crate) fn of(&self, command: u32) -> &[u8] {
        &self.bytes[self.places[command as usize].clone()]
    }

    /// All of them, in the order of the commands.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|place| &self.bytes[place.clone()])
    }
}
