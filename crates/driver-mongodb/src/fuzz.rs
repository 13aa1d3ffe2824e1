//! Fuzz checks of the decoder.
//!
//! The input is a server's output. Its frames must not depend on how the bytes are split, and every
//! operation must accept each frame as a reply.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{Columns, Request};
use kvmark_driver_server::framed::Server as _;
use kvmark_driver_server::framed::fuzz::{self, Feed, layout, request};
use kvmark_plan::Kind;

use crate::message::{complete, reply};
use crate::operation::{Dialect, MongoDbOperation};
use crate::options::Settings;
use crate::records::Records;

pub use kvmark_driver_server::framed::fuzz::MEMORY_MAX;

thread_local! {
    static FEED: RefCell<Feed<Settings>> = RefCell::new(Feed::ordered());
}

/// Checks one input.
///
/// # Panics
/// If a check fails.
pub fn check(bytes: &[u8]) {
    for frame in FEED.with_borrow_mut(|feed| feed.frames(bytes)) {
        assert_eq!(complete(&frame).ok().flatten(), Some(frame.len()));
        if let Ok((id, document)) = reply(&frame) {
            drop(document.json(0));
            for kind in [Kind::Read, Kind::Scan, Kind::Insert] {
                take(&frame, kind, id);
            }
        }
    }
}

/// Passes a frame as the reply to an operation.
fn take(frame: &[u8], kind: Kind, id: u32) {
    let settings = Settings::parse(&BTreeMap::new()).expect("each option has a default");
    let records = Records::new(&layout(&["f"]), &settings).expect("the name is valid");
    let mut dialect = Dialect { records: Arc::new(records), latest: id.wrapping_sub(1) };
    let request = Request { columns: Columns::One(0), ..request(kind) };
    fuzz::take::<MongoDbOperation>(frame, &request, &mut dialect);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use crate::message::command;

    #[test]
    fn every_seed_is_taken() {
        kvmark_testing::check_seeds(env!("CARGO_MANIFEST_DIR"), super::check);
    }

    proptest! {
        #[test]
        fn damaged_bytes_are_an_error_without_a_panic(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let documents = json!([{ "_id": "k", "f": "v", "n": [1, 2.5, null, true] }]);
            let cursor = json!({ "id": 0, "ns": "d.c", "firstBatch": documents });
            let mut bytes = command("ok", &json!({ "cursor": cursor, "n": 1 }), "d");
            super::check(&bytes);
            for (place, byte) in &changes {
                // The header stays, so that the document is read.
                let place = 16 + place.index(bytes.len() - 16);
                bytes[place] = *byte;
            }
            super::check(&bytes);
            super::check(&bytes[..cut.index(bytes.len())]);
        }
    }
}
