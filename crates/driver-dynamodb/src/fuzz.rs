//! Fuzz checks of the scanner: a server's output, whose frames must not depend on how the bytes are
//! split, and must be readable.

use std::cell::RefCell;

use kvmark_driver_server::framed::fuzz::Feed;

use crate::http::Response;
use crate::options::Settings;

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
        let response = Response::read(&frame).ok().flatten().expect("a frame is a response");
        assert!(response.body.len() < frame.len(), "a body follows its headers");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_seed_is_taken() {
        kvmark_testing::check_seeds(env!("CARGO_MANIFEST_DIR"), super::check);
    }
}
