//! Waits until a connection can be read, with a limit in nanoseconds.

use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::{Errno, Result};

/// The number by which the connector's bell is told from connections.
pub(crate) const BELL: u64 = u64::MAX;

const SECOND_NS: u64 = 1_000_000_000;

/// A set of connections, each known by a number.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

/// A connection that is ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) number: u64,
    /// Whether it takes what it didn't take before.
    pub(crate) takes: bool,
    /// Whether there is something to be read, if only its end.
    pub(crate) has: bool,
}

impl Poller {
    pub(crate) fn new() -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::new() })
    }

    /// Adds what is to be waited for.
    pub(crate) fn watch(&self, number: u64, source: impl AsFd) -> Result<()> {
        epoll::add(&self.epoll, source, EventData::new_u64(number), EventFlags::IN)
    }

    /// Waits for a connection to take bytes, too, or no longer.
    pub(crate) fn want_room(&self, number: u64, source: impl AsFd, wants: bool) -> Result<()> {
        let flags = if wants { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        epoll::modify(&self.epoll, source, EventData::new_u64(number), flags)
    }

    /// Waits for a connection no more.
    pub(crate) fn forget(&self, source: impl AsFd) -> Result<()> {
        epoll::delete(&self.epoll, source)
    }

    /// Waits until one of so many is ready, this long at most; how many are.
    pub(crate) fn wait(&mut self, watched: usize, limit_ns: u64) -> Result<usize> {
        self.events.clear();
        self.events.reserve(watched);
        let limit = Timespec {
            tv_sec: (limit_ns / SECOND_NS) as i64,
            tv_nsec: (limit_ns % SECOND_NS) as _,
        };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&limit)) {
            Err(Errno::INTR) => Ok(0),
            other => other,
        }
    }

    /// The ready one at this place.
    pub(crate) fn ready(&self, place: usize) -> Ready {
        let Event { flags, data } = self.events[place];
        Ready {
            number: data.u64(),
            takes: flags.contains(EventFlags::OUT),
            has: flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR),
        }
    }
}
