//! Fuzz checks of the decoder.
//!
//! The input is a server's output. Its frames must not depend on how the bytes are split, and every
//! operation must accept each frame as a reply.

use std::cell::RefCell;
use std::sync::Arc;

use kvmark_driver::{Columns, Request};
use kvmark_driver_server::framed::fuzz::{self, Feed, layout, request};
use kvmark_plan::Kind;

use crate::control::rows;
use crate::message::Scan;
use crate::operation::{PostgresOperation, Prepared};
use crate::options::Settings;
use crate::records::Records;
use crate::text::Text;

pub use kvmark_driver_server::framed::fuzz::MEMORY_MAX;

thread_local! {
    static FEED: RefCell<Feed<Settings>> = RefCell::new(Feed::ordered());
}

/// Checks one input.
///
/// # Panics
/// If a check fails.
pub fn check(bytes: &[u8]) {
    let frames = FEED.with_borrow_mut(|feed| feed.frames(bytes));
    for frame in &frames {
        assert_eq!(Scan::default().advance(frame).ok().flatten(), Some(frame.len()));
        drop((rows(frame), Text::new(0, String::new(), frame)));
        take(frame, Kind::Read, Columns::All);
        take(frame, Kind::Read, Columns::One(0));
        take(frame, Kind::Scan, Columns::All);
        take(frame, Kind::Delete, Columns::All);
    }
}

/// Passes a frame as the reply to an operation.
fn take(frame: &[u8], kind: Kind, columns: Columns) {
    let records = Some(Records::new(&layout(&["f"])));
    let mut prepared = Arc::new(Prepared { texts: Vec::new(), records, statements: Vec::new() });
    let request = Request { columns, ..request(kind) };
    fuzz::take::<PostgresOperation>(frame, &request, &mut prepared);
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_seed_is_taken() {
        kvmark_testing::check_seeds(env!("CARGO_MANIFEST_DIR"), super::check);
    }
}
