//! The interface between a connection and its protocol.

use kvmark_wire::Malformed;

use crate::recorder::Recorder;

/// Greatest number of requests that wait for a reply.
pub(crate) const IN_FLIGHT_MAX: usize = 1 << 20;

/// The reason why the recording of a connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Its bytes don't follow the protocol.
    Garbage(&'static str),
    /// It uses an unsupported feature, with its name.
    Unsupported(String),
}

/// A connection's requests and replies, each in pieces of any length.
pub(crate) trait Side {
    /// Takes bytes of a client up to the end of the next request. Returns their number.
    fn request(&mut self, bytes: &[u8], recorder: &mut Recorder) -> Result<usize, Ends>;

    /// Takes the next bytes of the server.
    fn replies(&mut self, bytes: &[u8], recorder: &mut Recorder) -> Result<(), Ends>;

    /// Whether every request has its reply.
    fn is_idle(&self) -> bool;

    /// Gives up all requests without a reply.
    fn give_up(&mut self, recorder: &mut Recorder);
}

impl From<Malformed> for Ends {
    fn from(malformed: Malformed) -> Self {
        Self::Garbage(malformed.0)
    }
}

/// The reason for a connection with [`IN_FLIGHT_MAX`] requests.
pub(crate) fn too_many_requests() -> Ends {
    Ends::Unsupported("more than a million requests under way".to_owned())
}
