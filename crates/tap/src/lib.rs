//! A tap between clients and a server: it forwards bytes, and records what they ask on tapes.
//!
//! Bytes go on before they are looked at, and what can't be understood goes on, too: it ends the
//! recording of its connection and nothing else. Each thread has its own connections and its own
//! tape, which another thread writes, so that no client waits for a disk. Of keys only hashes are
//! kept, of values only lengths, unless [`Settings::keep`] says more.

mod connection;
mod content;
mod forward;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod memcached;
mod recorder;
mod resp;
mod settings;
mod shared;
mod side;
mod store;
#[cfg(test)]
mod tests;
mod told;
mod verbs;
mod word;

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
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
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use content::Keeper;
use recorder::Recorder;
use shared::Shared;
use store::Files;

pub use settings::{Keep, Settings, Spoken};
pub use told::Told;

/// How often it is asked whether to go on.
const ASKED: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// A pause where no client can be taken: too many files are open.
const PAUSE: Duration = Duration::from_millis(10);

/// Why a tap can't begin, or go on.
#[derive(Debug, Error)]
pub enum TapError {
    /// The port can't be used.
    #[error("clients can't be taken at {0}:{1}: {2}")]
    Listen(String, u16, io::Error),
    /// The folder can't be written.
    #[error("the tapes can't be made: {0}")]
    Tapes(io::Error),
    /// A thread can't be had, or ended by a defect.
    #[error("a thread of the tap ended: {0}")]
    Thread(String),
}

/// How far it is.
#[derive(Clone, Debug, Serialize)]
pub struct Progress {
    /// Where clients are taken.
    pub listens: SocketAddr,
    /// Since the beginning.
    pub elapsed_ns: u64,
    /// Clients that connected.
    pub connections: u64,
    /// Operations on tapes, or on their way there.
    pub operations: u64,
    /// Bytes that went through, both ways.
    pub bytes: u64,
    /// Whether operations are still recorded.
    pub recording: bool,
}

/// Forwards and records for as long as `goes_on` says so, which is asked about ten times a second.
/// The tapes, and the statements that they name by number, lie in the folder then.
///
/// # Errors
/// It can't begin, or a defect ended a thread.
pub fn run(
    settings: &Settings,
    folder: &Path,
    hash_key: HashKey,
    goes_on: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Told, TapError> {
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
    let mut threads = Vec::new();
    for number in 0..settings.threads {
        let memory_bytes = settings.memory_bytes / settings.threads;
        let of_thread = (Arc::clone(&shared), pieces.clone());
        let keeper = Keeper::new(settings.keep, Arc::clone(&shared));
        let (shared, pieces) = of_thread;
        let recorder = Recorder::new(hash_key, keeper, shared, pieces, number, memory_bytes);
        let (sender, clients) = unbounded_channel();
        let settings = settings.clone();
        threads.push((sender, begin("kvmark-tap", || forward::run(settings, recorder, clients))?));
    }
    drop(pieces);
    let senders: Vec<_> = threads.iter().map(|(sender, _)| sender.clone()).collect();
    accept_all(&listener, listens, &senders, &shared, goes_on);
    drop((listener, senders));
    let mut told = Told { start_unix_ns: shared.start_unix_ns, ..Told::default() };
    for (sender, thread) in threads {
        drop(sender);
        let ended = joined(thread)?;
        told.add(ended.map_err(|problem| TapError::Thread(problem.to_string()))?);
    }
    told.ended = joined(store)?;
    told.cut_contents = shared.cut_contents.load(Relaxed);
    Ok(told)
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

/// Hands clients to the threads in turn.
fn accept_all(
    listener: &TcpListener,
    listens: SocketAddr,
    threads: &[UnboundedSender<TcpStream>],
    shared: &Shared,
    goes_on: &mut dyn FnMut(&Progress) -> bool,
) {
    let mut turns = threads.iter().cycle();
    let mut asked_ns = 0;
    loop {
        let now_ns = shared.now_ns();
        if asked_ns == 0 || now_ns - asked_ns >= ASKED.tv_nsec as u64 {
            asked_ns = now_ns;
            let progress = Progress {
                listens,
                elapsed_ns: now_ns,
                connections: shared.connections.load(Relaxed),
                operations: shared.operations.load(Relaxed),
                bytes: shared.bytes.load(Relaxed),
                recording: shared.recording.load(Relaxed),
            };
            if !goes_on(&progress) {
                return;
            }
        }
        let mut waited = [PollFd::new(listener, PollFlags::IN)];
        // An interrupted wait is asked about like one that ended.
        if !matches!(poll(&mut waited, Some(&ASKED)), Ok(1..)) {
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
                let thread = turns.next().expect("a tap has threads");
                // A thread that ended by a defect is told of at the end.
                drop(thread.send(client));
            }
            Err(problem) if problem.kind() == ErrorKind::WouldBlock => {}
            Err(_) => thread::sleep(PAUSE),
        }
    }
}
