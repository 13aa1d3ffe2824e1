//! A connection as it is recorded: for as long as its bytes are the protocol, and no longer.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use crate::memcached::Memcached;
use crate::recorder::Recorder;
use crate::resp::Redis;
use crate::settings::Spoken;
use crate::side::{Ends, Side};

/// What one connection says. It is told what went by, and can't hold it up.
pub(crate) struct Connection {
    recorder: Rc<RefCell<Recorder>>,
    /// None once it isn't recorded any more.
    side: Option<Box<dyn Side>>,
    /// Whether only replies to what was asked before still count.
    has_left: bool,
    client: Option<u32>,
}

impl Connection {
    pub(crate) fn new(spoken: Spoken, recorder: Rc<RefCell<Recorder>>) -> Self {
        let keeper = recorder.borrow().keeper.clone();
        let side: Box<dyn Side> = match spoken {
            Spoken::Redis => Box::new(Redis::new(keeper)),
            Spoken::Memcached => {
                let start_unix_s = recorder.borrow().shared.start_unix_ns / 1_000_000_000;
                Box::new(Memcached::new(start_unix_s as i64, keeper))
            }
        };
        Self { recorder, side: Some(side), has_left: false, client: None }
    }

    /// Bytes of the client went by.
    pub(crate) fn requests(&mut self, bytes: &[u8], at_ns: u64) {
        let Self { recorder, side: place, has_left, client } = self;
        let Some(side) = place.as_mut().filter(|_| !*has_left) else { return };
        let recorder = &mut *recorder.borrow_mut();
        if !recorder.is_recording() {
            *place = None;
            return;
        }
        let clients = &recorder.shared.clients;
        let client = *client.get_or_insert_with(|| clients.fetch_add(1, Relaxed));
        match guarded(|| side.requests(bytes, at_ns, client, recorder)) {
            Ok(()) => {}
            Err(Ends::Left(what)) => {
                *recorder.told.not_recorded.entry(what).or_default() += 1;
                *has_left = true;
                if side.owes_nothing() {
                    *place = None;
                }
            }
            Err(Ends::Garbage(why)) => turn_off(place, why, recorder),
        }
    }

    /// Bytes of the server went by.
    pub(crate) fn replies(&mut self, bytes: &[u8], at_ns: u64) {
        let Self { recorder, side: place, has_left, .. } = self;
        let Some(side) = place.as_mut() else { return };
        let recorder = &mut *recorder.borrow_mut();
        let read = guarded(|| side.replies(bytes, at_ns, recorder));
        if *has_left {
            // What comes behind the last reply that is owed is of another kind.
            if read.is_err() || side.owes_nothing() {
                end(place, recorder);
            }
        } else if let Err(Ends::Garbage(why)) = read {
            turn_off(place, why, recorder);
        }
        recorder.release(at_ns);
    }

    /// The connection was closed.
    pub(crate) fn end(&mut self) {
        end(&mut self.side, &mut self.recorder.borrow_mut());
    }
}

fn end(place: &mut Option<Box<dyn Side>>, recorder: &mut Recorder) {
    if let Some(mut side) = place.take() {
        side.give_up(recorder);
    }
}

fn turn_off(place: &mut Option<Box<dyn Side>>, why: &str, recorder: &mut Recorder) {
    end(place, recorder);
    recorder.told.garbage += 1;
    recorder.told.first_garbage.get_or_insert_with(|| why.to_owned());
}

/// A defect ends a connection's recording and nothing else.
fn guarded(read: impl FnOnce() -> Result<(), Ends>) -> Result<(), Ends> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or(Err(Ends::Garbage("a defect in kvmark: please tell us")))
}
