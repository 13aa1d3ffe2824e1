//! Fuzz checks of the decoder.
//!
//! The input is a server's output. Its frames must not depend on how the bytes are split, and every
//! operation must accept each frame as a reply.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{Columns, Reply, Request};
use kvmark_driver_server::framed::fuzz::{Feed, layout, request};
use kvmark_driver_server::framed::{Exchanges as _, InFlightOperation as _, RequestReply as _};
use kvmark_plan::Kind;

use crate::connect::Wire;
use crate::control::rows;
use crate::message::Scan;
use crate::operation::{PostgresOperation, Prepared};
use crate::options::Settings;
use crate::records::Records;
use crate::text::Text;

pub use kvmark_driver_server::framed::fuzz::MEMORY_MAX;

thread_local! {
    static FEED: RefCell<Feed<Wire>> = RefCell::new(feed());
}

/// Checks one input.
///
/// # Panics
/// If a check fails.
pub fn check(bytes: &[u8]) {
    let frames = FEED.with_borrow_mut(|feed| feed.frames(bytes));
    for frame in &frames {
        assert_eq!(Scan::default().advance(frame).ok().flatten(), Some(frame.len()));
        drop((rows(frame), Text::new(0, frame)));
        take(frame, Kind::Read, Columns::All);
        take(frame, Kind::Read, Columns::One(0));
        take(frame, Kind::Scan, Columns::All);
        take(frame, Kind::Delete, Columns::All);
    }
}

fn feed() -> Feed<Wire> {
    let settings = Settings::parse(&BTreeMap::new()).expect("each option has a default");
    let target = settings.target.clone();
    let wire = Wire::new(Arc::new(settings), std::iter::empty());
    Feed::new(wire, target, |exchanges| {
        exchanges.enter(0, u32::MAX, 0);
        exchanges.fresh(|_| ());
    })
}

/// Passes a frame as the reply to an operation.
fn take(frame: &[u8], kind: Kind, columns: Columns) {
    let records = Some(Records::new(&layout(&["f"])));
    let mut prepared = Arc::new(Prepared { texts: Vec::new(), records, statements: Vec::new() });
    let request = Request { columns, ..request(kind) };
    let (mut operation, mut single) = (PostgresOperation::default(), Reply::default());
    operation.begin(&request, &mut prepared).expect("a record can be read and deleted");
    match operation.take(0, frame, &mut prepared, &mut single) {
        Err(failure) => assert!(failure.text.len() < 2000, "a failure is short"),
        Ok(()) => {
            operation.outcome(&mut single);
            assert!(single.cells.iter().all(|cell| cell.place.end <= single.bytes.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use kvmark_driver_server::framed::fuzz::seeds;

    #[test]
    fn every_seed_is_taken() {
        for (path, bytes) in seeds(env!("CARGO_MANIFEST_DIR")) {
            println!("{}", path.display());
            super::check(&bytes);
        }
    }
}
