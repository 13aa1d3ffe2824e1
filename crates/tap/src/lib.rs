//! A tap between clients and a server. It forwards bytes and records requests on tapes.
//!
//! Bytes are forwarded before they are recorded, as they are, except for what would make clients of
//! CQL leave the tap. Bytes that don't follow the protocol are forwarded too; they end only the
//! recording of their connection. Each thread has its own connections and
//! its own tape. A separate thread writes the tapes, so no client waits for a disk. Only hashes of
//! keys and lengths of values are kept, unless [`Settings::keep`] requests more.

mod connection;
mod content;
mod cql;
mod forward;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod memcached;
mod recorder;
mod report;
mod resp;
mod settings;
mod shared;
mod side;
mod store;
#[cfg(test)]
mod tests;
mod verbs;
mod word;

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kvmark_trace::HashKey;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use thiserror::Error;

use content::Keeper;
use forward::Inbox;
use recorder::Recorder;
use shared::Shared;
use store::Files;

pub use report::TapReport;
pub use settings::{Keep, Settings, TapProtocol};

/// Interval between calls of `is_wanted`.
const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Pause when no client can be accepted because too many files are open.
const PAUSE: Duration = Duration::from_millis(10);

/// Why a tap can't start or continue.
#[derive(Debug, Error)]
pub enum TapError {
    /// The port can't be used.
    #[error("can't listen at {0}:{1}: {2}")]
    Listen(String, u16, io::Error),
    /// The folder can't be written.
    #[error("can't create the tapes: {0}")]
    Tapes(io::Error),
    /// A thread can't be started, or a defect ended it.
    #[error("a thread of the tap ended: {0}")]
    Thread(String),
}

/// The progress of a tap.
#[derive(Clone, Debug, Serialize)]
pub struct Progress {
    /// The address at which it listens.
    pub listens: SocketAddr,
    /// Time since the start.
    pub elapsed_ns: u64,
    /// Clients that connected.
    pub connections: u64,
    /// Recorded operations, including those not written yet.
    pub operations: u64,
    /// Forwarded bytes in both directions.
    pub bytes: u64,
    /// Whether operations are still recorded.
    pub recording: bool,
    /// A request with a short answer.
    pub probe: &'static [u8],
    /// Whether drivers spread the requests of all clients over a pool of connections.
    pub pools_clients: bool,
}

/// Forwards and records until `is_wanted`, called about ten times a second, returns false. Writes
/// the tapes and their numbered statements into the folder.
///
/// # Errors
/// The tap can't start, or a defect ended a thread.
pub fn run(
    settings: &Settings,
    folder: &Path,
    hash_key: HashKey,
    is_wanted: &mut dyn FnMut(&Progress) -> bool,
) -> Result<TapReport, TapError> {
    let (host, port) = &settings.listen;
    let bound = TcpListener::bind((host.as_str(), *port)).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok((listener.local_addr()?, listener))
    });
    let (listens, listener) =
        bound.map_err(|problem| TapError::Listen(host.clone(), *port, problem))?;
    let shared = Arc::new(Shared::new(settings.memory_bytes));
    let files = (0..settings.threads).map(|number| Files::create(folder, number));
    let files = files.collect::<io::Result<Vec<_>>>().map_err(TapError::Tapes)?;
    let (pieces, written) = mpsc::channel();
    let (of_store, disk_bytes) = (Arc::clone(&shared), settings.disk_bytes);
    let store =
        begin("kvmark-tape", move || store::write_all(files, &written, disk_bytes, &of_store))?;
    let (mut inboxes, mut threads) = (Vec::new(), Vec::new());
    for number in 0..settings.threads {
        let memory_bytes = settings.memory_bytes / settings.threads;
        let keeper = Keeper::new(settings.keep, hash_key, Arc::clone(&shared));
        let recorder = Recorder::new(keeper, pieces.clone(), number, memory_bytes);
        let (inbox, outbox) =
            Inbox::new().map_err(|problem| TapError::Thread(problem.to_string()))?;
        let protocol = settings.protocol;
        inboxes.push(inbox);
        threads.push(begin("kvmark-tap", move || forward::run(protocol, recorder, outbox))?);
    }
    drop(pieces);
    accept_all(&listener, listens, &inboxes, &shared, settings, is_wanted);
    drop(listener);
    inboxes.iter().for_each(|inbox| inbox.send(None));
    let start_unix_ns = shared.start_unix_ns;
    let mut report = TapReport { start_unix_ns, ..TapReport::default() };
    for thread in threads {
        let ended = joined(thread)?;
        report.add(ended.map_err(|problem| TapError::Thread(problem.to_string()))?);
    }
    report.ended = joined(store)?;
    report.cut_contents = shared.cut_contents.load(Relaxed);
    Ok(report)
}

fn begin<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, TapError> {
    let begun = thread::Builder::new().name(name.to_owned()).spawn(work);
    begun.map_err(|problem| TapError::Thread(problem.to_string()))
}

fn joined<T>(thread: JoinHandle<T>) -> Result<T, TapError> {
    thread.join().map_err(|_| TapError::Thread("by a defect in kvmark".to_owned()))
}

/// Distributes clients over the threads, round-robin. Each is connected on a thread of its own, so
/// that none waits for another.
fn accept_all(
    listener: &TcpListener,
    listens: SocketAddr,
    inboxes: &[Inbox],
    shared: &Shared,
    settings: &Settings,
    is_wanted: &mut dyn FnMut(&Progress) -> bool,
) {
    let mut next_inbox = inboxes.iter().cycle();
    let settings = Arc::new(settings.clone());
    let mut asked_ns = 0;
    loop {
        let now_ns = shared.now_ns();
        if asked_ns == 0 || now_ns - asked_ns >= INTERVAL.tv_nsec as u64 {
            asked_ns = now_ns;
            let progress = Progress {
                listens,
                elapsed_ns: now_ns,
                connections: shared.connections.load(Relaxed),
                operations: shared.operations.load(Relaxed),
                bytes: shared.bytes.load(Relaxed),
                recording: shared.recording.load(Relaxed),
                probe: settings.protocol.probe(),
                pools_clients: settings.protocol.pools_clients(),
            };
            if !is_wanted(&progress) {
                return;
            }
        }
        let mut waited = [PollFd::new(listener, PollFlags::IN)];
        // An interrupted wait counts as ended.
        if !matches!(poll(&mut waited, Some(&INTERVAL)), Ok(1..)) {
            continue;
        }
        let taken = listener.accept().and_then(|(client, _)| {
            client.set_nodelay(true)?;
            client.set_nonblocking(true)?;
            Ok(client)
        });
        match taken {
            Ok(client) => {
                shared.connections.fetch_add(1, Relaxed);
                let inbox = next_inbox.next().expect("a tap has threads");
                let (target, settings) = (inbox.clone(), Arc::clone(&settings));
                let reach = move || target.send(Some(forward::reach(client, &settings)));
                if let Err(problem) = begin("kvmark-reach", reach) {
                    inbox.send(Some(Err(problem.to_string())));
                }
            }
            Err(problem) if problem.kind() == ErrorKind::WouldBlock => {}
            Err(_) => thread::sleep(PAUSE),
        }
    }
}
