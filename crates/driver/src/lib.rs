//! The trait of a system under test.
//!
//! A [`Driver`] is opened before the clock starts and reports its system's capabilities. Each
//! worker gets a session with the connections of its clients: a [`Blocking`] session executes a
//! request in one call, a [`Session`] serves many clients in turns. A driver reads no clock: the
//! engine stamps around [`Blocking::execute`], and in the callbacks of a turn.

pub mod null;
pub mod options;
pub mod sim;

mod about;
mod deadlines;
mod durability;
mod elements;
mod reply;
mod request;
mod session;

use std::collections::BTreeMap;

use kvmark_plan::{Kind, Plan, Statement};
use serde::Serialize;

pub use about::{About, Files, Place, Scheme};
pub use deadlines::Deadlines;
pub use durability::Durability;
pub use elements::Elements;
pub use reply::{Cell, Effect, Reply};
pub use request::{Call, Columns, Comparison, Expected, Request, Slot, Values};
pub use session::{AnySession, Blocking, Completions, Never, Session, Ticket};

/// How a driver's calls behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// A call returns when the operation is done: one thread per client.
    Blocking,
    /// A request waits without holding its thread: many clients per worker.
    Asynchronous,
}

/// An option that makes some operations faster and changes the measurement, so that the user
/// decides.
#[derive(Clone, Debug, Serialize)]
pub struct Speedup {
    /// The option with its value, as written in a URL.
    pub option: &'static str,
    /// The kinds of operation that it makes quicker.
    pub kinds: &'static [Kind],
    /// Its effect, worded to follow the option in a sentence.
    pub meaning: &'static str,
}

/// A system's native capabilities, stated by its driver.
#[derive(Clone, Debug, Serialize)]
pub struct Capabilities {
    /// How calls behave.
    pub execution: Execution,
    /// Whether the system runs inside this process and so shares its processor time and memory.
    pub embedded: bool,
    /// The kinds of operation it can execute.
    pub kinds: Vec<Kind>,
    /// Whether a request can be given up at its deadline; if not, a late completion counts as
    /// timeout.
    pub cancels: bool,
    /// Whether it executes the user's statements.
    pub statements: bool,
    /// Whether the system lives in simulated time, which the engine then advances itself.
    pub simulated_time: bool,
    /// Whether it compares reads with [`Request::expected`].
    pub compares: bool,
    /// Options that would make it faster and weren't given.
    pub speedups: Vec<Speedup>,
}

impl Capabilities {
    /// Every kind and statements, in real time; calls can be ended unless they block.
    #[must_use]
    pub fn all(execution: Execution, embedded: bool) -> Self {
        Self {
            execution,
            embedded,
            kinds: Kind::ALL.to_vec(),
            cancels: execution == Execution::Asynchronous,
            statements: true,
            simulated_time: false,
            compares: true,
            speedups: Vec::new(),
        }
    }
}

/// The description of the opened system: kept in the manifest, and the source of the system's
/// fingerprint.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// The system's name, for example `RocksDB`.
    pub system: String,
    /// Its version as it reports it.
    pub version: String,
    /// Its effective configuration by name.
    pub configuration: BTreeMap<String, String>,
}

/// Errors of opening or connecting to a system. The texts are complete sentences without
/// credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// An option is unknown or its value can't be used: the user's mistake.
    #[error("{0}")]
    Option(String),
    /// The system isn't there, is locked, or refuses: the system's state.
    #[error("{0}")]
    System(String),
}

/// A system under test, opened.
pub trait Driver: Send + Sync + 'static {
    /// The session of a client with its own thread; [`Never`] if there is none.
    type Blocking: Blocking;
    /// The session of many clients; [`Never`] where there is none.
    type Session: Session;

    /// What the system can do.
    fn capabilities(&self) -> Capabilities;

    /// What was opened.
    fn describe(&self) -> Description;

    /// Creates the session of a worker with this number of clients, with every connection open and
    /// every statement prepared. Called on the worker's thread before the clock starts.
    ///
    /// # Errors
    /// [`OpenError`] when a connection can't be made.
    fn session(&self, clients: u32)
    -> Result<AnySession<Self::Blocking, Self::Session>, OpenError>;

    /// Returns when the system is quiet: no compaction, no replication in progress. May take
    /// minutes.
    ///
    /// # Errors [`OpenError::System`] if the system fails during the wait.
    fn settle(&self) -> Result<(), OpenError> {
        Ok(())
    }

    /// The system's own counters, by name; the engine takes them when a phase begins and when it
    /// ends.
    fn statistics(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }

    /// A console of the server that the options name first, or of an embedded database; none of a
    /// system that can't be asked. Nothing is connected or opened yet.
    ///
    /// # Errors
    /// [`OpenError::Option`] when an option is unknown or has a wrong value.
    fn console(
        _options: &BTreeMap<String, serde_json::Value>,
    ) -> Result<Option<AnyConsole>, OpenError>
    where
        Self: Sized,
    {
        Ok(None)
    }
}

/// A connection to one server or embedded database for administrative commands. Not used for
/// measurements.
pub trait Console: Send {
    /// The answer to a command's words, or to a statement: texts, numbers, and lists of them. The
    /// first one connects, and what comes after a connection was lost connects again.
    ///
    /// # Errors
    /// [`OpenError::System`] when the server can't be reached, doesn't answer in time, or refuses.
    fn ask(&mut self, words: &[String]) -> Result<serde_json::Value, OpenError>;
}

/// A console of any driver's.
pub type AnyConsole = Box<dyn Console>;

/// The properties that all requests share, given to a driver when it opens.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Table name.
    pub table: String,
    /// Names of the fields, in order.
    pub field_names: Vec<String>,
    /// Sent once, in order, before sessions are made.
    pub prepare: Vec<String>,
    /// The user's statements.
    pub statements: Vec<Statement>,
}

impl Layout {
    /// The layout of a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let dataset = &plan.dataset;
        let prefix = &dataset.fields.name_prefix;
        let field_names = (0..dataset.fields.count).map(|n| format!("{prefix}{n}")).collect();
        Self {
            table: dataset.table.clone(),
            field_names,
            prepare: plan.prepare.clone(),
            statements: plan.statements.clone(),
        }
    }
}
