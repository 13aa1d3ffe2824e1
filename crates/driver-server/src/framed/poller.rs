//! Waits for readable connections, with a time limit in nanoseconds.

use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::{Errno, Result};

/// The number of the connector's bell.
pub const BELL: u64 = u64::MAX;

const SECOND_NS: u64 = 1_000_000_000;

/// A set of numbered connections.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance.
    pub fn new() -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::new() })
    }

    /// Watches a connection for input.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn watch(&self, number: u64, source: impl AsFd) -> Result<()> {
        epoll::add(&self.epoll, source, EventData::new_u64(number), EventFlags::IN)
    }

    /// Watches a connection for other events than before; without events it isn't watched.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn change(
        &self,
        number: u64,
        source: impl AsFd,
        before: EventFlags,
        now: EventFlags,
    ) -> Result<()> {
        match (before.is_empty(), now.is_empty()) {
            (true, _) => epoll::add(&self.epoll, source, EventData::new_u64(number), now),
            (_, true) => self.forget(source),
            _ => epoll::modify(&self.epoll, source, EventData::new_u64(number), now),
        }
    }

    /// Starts or stops watching whether a connection is writable.
    pub(crate) fn want_room(&self, number: u64, source: impl AsFd, wants: bool) -> Result<()> {
        let flags = if wants { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        self.change(number, source, EventFlags::IN, flags)
    }

    /// Stops watching a connection.
    pub(crate) fn forget(&self, source: impl AsFd) -> Result<()> {
        epoll::delete(&self.epoll, source)
    }

    /// Waits until a connection is ready or the limit has passed. Returns the number of ready ones.
    ///
    /// # Errors
    /// The kernel lacks the system call.
    pub fn wait(&mut self, watched: usize, limit_ns: u64) -> Result<usize> {
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

    /// The number of the ready connection of this index, and its readiness.
    pub fn ready(&self, index: usize) -> (u64, EventFlags) {
        let Event { flags, data } = self.events[index];
        (data.u64(), flags)
    }
}
