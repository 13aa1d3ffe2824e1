//! A recorded connection. Its recording ends when its bytes don't follow the protocol.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use crate::cql::Cql;
use crate::memcached::Memcached;
use crate::recorder::{Origin, Recorder};
use crate::resp::Redis;
use crate::settings::TapProtocol;
use crate::side::{Ends, Side};

/// The recording of one connection. It receives copies of the bytes and can't delay them.
pub(crate) struct Connection {
    recorder: Rc<RefCell<Recorder>>,
    /// `None` when the recording has ended.
    side: Option<Box<dyn Side>>,
    /// Whether only replies to earlier requests are still recorded.
    is_ending: bool,
    client: Option<u32>,
}

impl Connection {
    pub(crate) fn new(protocol: TapProtocol, recorder: Rc<RefCell<Recorder>>) -> Self {
        let keeper = recorder.borrow().keeper.clone();
        let side: Box<dyn Side> = match protocol {
            TapProtocol::Redis => Box::new(Redis::new(keeper)),
            TapProtocol::Memcached => {
                let start_unix_s = recorder.borrow().shared.start_unix_ns / 1_000_000_000;
                Box::new(Memcached::new(start_unix_s as i64, keeper))
            }
            TapProtocol::Cql => Box::new(Cql::new(keeper)),
        };
        Self { recorder, side: Some(side), is_ending: false, client: None }
    }

    /// Takes bytes of the client.
    pub(crate) fn requests(&mut self, bytes: &[u8], at_ns: u64) {
        let Self { recorder, side: place, is_ending, client } = self;
        let Some(side) = place.as_mut().filter(|_| !*is_ending) else { return };
        let recorder = &mut *recorder.borrow_mut();
        if !recorder.is_recording() {
            *place = None;
            return;
        }
        let clients = &recorder.shared.clients;
        let client = *client.get_or_insert_with(|| clients.fetch_add(1, Relaxed));
        recorder.origin = Origin { client, at_ns };
        let read = || {
            let mut at = 0;
            while at < bytes.len() {
                at += side.request(&bytes[at..], recorder)?;
            }
            Ok(())
        };
        match guarded(read) {
            Ok(()) => {}
            Err(Ends::Unsupported(feature)) => {
                *recorder.report.not_recorded.entry(feature).or_default() += 1;
                *is_ending = true;
                if side.is_idle() {
                    *place = None;
                }
            }
            Err(Ends::Garbage(why)) => turn_off(place, why, recorder),
        }
    }

    /// Takes bytes of the server.
    pub(crate) fn replies(&mut self, bytes: &[u8], at_ns: u64) {
        let Self { recorder, side: place, is_ending, .. } = self;
        let Some(side) = place.as_mut() else { return };
        let recorder = &mut *recorder.borrow_mut();
        recorder.origin.at_ns = at_ns;
        let read = guarded(|| side.replies(bytes, recorder));
        if *is_ending {
            // Bytes after the last expected reply have another format.
            if read.is_err() || side.is_idle() {
                end(place, recorder);
            }
        } else if let Err(Ends::Garbage(why)) = read {
            turn_off(place, why, recorder);
        }
        recorder.release(at_ns);
    }

    /// Ends the recording because the connection was closed.
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
    recorder.report.garbage += 1;
    recorder.report.first_garbage.get_or_insert_with(|| why.to_owned());
}

/// Limits a defect to the recording of one connection.
fn guarded(read: impl FnOnce() -> Result<(), Ends>) -> Result<(), Ends> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or(Err(Ends::Garbage("a defect in kvmark: please report it")))
}
