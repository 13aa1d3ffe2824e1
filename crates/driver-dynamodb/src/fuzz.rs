//! Fuzz checks of the decoder.
//!
//! The input is a server's output. Its frames must not depend on how the bytes are split, each
//! frame must be readable, and every operation must accept it as a response.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use kvmark_driver::{Columns, Layout, Reply, Request, Values};
use kvmark_driver_server::Target;
use kvmark_driver_server::framed::Exchanges as _;
use kvmark_driver_server::framed::fuzz::Feed;
use kvmark_plan::Kind;

use crate::http::Response;
use crate::operation::{Dialect, DynamoDbOperation};
use crate::options::{PORT, Settings};
use crate::records::Records;
use crate::signature::Requests;

pub use kvmark_driver_server::framed::fuzz::MEMORY_MAX;

const KINDS: [Kind; 3] = [Kind::Read, Kind::Scan, Kind::Delete];

thread_local! {
    static FEED: RefCell<Feed<Settings>> = RefCell::new(feed());
    static DIALECT: RefCell<Dialect> = RefCell::new(dialect());
}

/// Checks one input.
///
/// # Panics
/// If a check fails.
pub fn check(bytes: &[u8]) {
    let frames = FEED.with_borrow_mut(|feed| feed.frames(bytes));
    for frame in frames {
        KINDS
            .iter()
            .for_each(|kind| DIALECT.with_borrow_mut(|dialect| take(dialect, *kind, &frame)));
    }
}

fn settings() -> Settings {
    let options = BTreeMap::from([("address".to_owned(), "localhost".into())]);
    Settings::parse(&options).expect("only the address is required")
}

fn feed() -> Feed<Settings> {
    let server = Target::list("localhost", PORT).expect("it is an address").remove(0);
    Feed::new(settings(), server, |exchanges| {
        exchanges.enter(0, u32::MAX, 0);
        exchanges.fresh(|_| ());
    })
}

fn dialect() -> Dialect {
    let (table, field_names) = ("t".to_owned(), vec!["f".to_owned(), "g\"".to_owned()]);
    let layout = Layout { table, field_names, prepare: Vec::new(), statements: Vec::new() };
    let settings = Arc::new(settings());
    Dialect {
        records: Arc::new(Records::new(&layout, &settings)),
        requests: vec![Requests::new(Arc::clone(&settings), settings.target())],
        body: Vec::new(),
        capacity: Arc::new(AtomicU64::new(0)),
    }
}

/// Passes a frame as both responses to an operation.
fn take(dialect: &mut Dialect, kind: Kind, frame: &[u8]) {
    let request = Request {
        number: 0,
        at_us: 0,
        kind,
        key: b"k",
        columns: Columns::All,
        values: Values::NONE,
        scan_length: 3,
        wants_values: true,
        expected: None,
        statement: None,
    };
    let (mut operation, mut single) = (DynamoDbOperation::default(), Reply::default());
    operation.begin(&request, dialect).expect("its texts are UTF-8");
    for _ in 0..2 {
        let response = Response::read(frame).ok().flatten().expect("a whole frame can be read");
        match operation.take(&response, dialect, &mut single) {
            Ok(()) => drop(operation.put_more(dialect)),
            Err(failure) => assert!(failure.text.len() < 2000, "a failure is one line"),
        }
    }
    assert!(single.cells.iter().all(|cell| cell.place.end <= single.bytes.len()));
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
