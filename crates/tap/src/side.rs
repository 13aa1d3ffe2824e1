//! What a protocol does with the bytes of a connection.

use crate::recorder::Recorder;
use crate::word::Garbage;

/// Why a connection isn't recorded any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Its bytes aren't the protocol.
    Garbage(&'static str),
    /// It uses what isn't recorded: the name of that.
    Left(String),
}

/// A connection's requests and replies, each in pieces of any length.
pub(crate) trait Side {
    /// The next bytes of a client, which came at this instant.
    fn requests(
        &mut self,
        bytes: &[u8],
        at_ns: u64,
        client: u32,
        recorder: &mut Recorder,
    ) -> Result<(), Ends>;

    /// The next bytes of the server.
    fn replies(&mut self, bytes: &[u8], at_ns: u64, recorder: &mut Recorder) -> Result<(), Ends>;

    /// Whether every request has its reply.
    fn owes_nothing(&self) -> bool;

    /// No reply comes any more.
    fn give_up(&mut self, recorder: &mut Recorder);
}

impl From<Garbage> for Ends {
    fn from(garbage: Garbage) -> Self {
        Self::Garbage(garbage.0)
    }
}
