//! The driver of a store behind servers with ordered replies.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::options::OptionDoc;
use kvmark_driver::{
    About, AnyConsole, AnySession, Capabilities, Console, Description, Driver, Execution, Layout,
    Never, OpenError, Speedup,
};
use kvmark_plan::{Kind, Outcome};
use serde_json::Value;

use crate::address::Target;
use crate::failure::Failure;
use crate::framed::{Lines, RequestReply, RequestReplySession, Route, Server};
use crate::status::{Load, settle};

/// A store, which [`ServerDriver`] makes a driver of. `lines` are the driver's own connections.
pub trait Store: Sized + Send + Sync + 'static {
    /// The settings with the protocol.
    type Protocol: Server;
    /// The operation of a client.
    type Operation: RequestReply;
    /// The route of operations to servers that aren't in the address; [`Never`] without one.
    type Route: Route<Self::Protocol, Self::Operation>;

    /// Its properties.
    const ABOUT: About;
    /// Whether it executes the user's statements.
    const HAS_STATEMENTS: bool = true;
    /// Counters that become statistics, separated by blanks.
    const NUMBERS: &'static str;
    /// Counters of executed commands, which measure the load of a server.
    const COMMANDS: &'static [&'static str] = &[];
    /// Counters that are above zero during background work.
    const BUSY: &'static [&'static str] = &[];

    /// Connects to the servers and prepares them for a layout.
    ///
    /// # Errors
    /// [`OpenError::Option`] if the layout is unsuitable; [`OpenError::System`] if a server is
    /// unreachable, isn't trusted or rejects a request.
    fn open(lines: &Lines<Self::Protocol>, layout: &Layout) -> Result<Self, OpenError>;

    /// Options that would make it faster and weren't given.
    fn speedups(_settings: &Self::Protocol) -> Vec<Speedup> {
        Vec::new()
    }

    /// Describes the servers, as far as known.
    fn describe(&self, lines: &Lines<Self::Protocol>) -> Description;

    /// Opens a worker's session.
    ///
    /// # Errors
    /// [`OpenError::System`] if a connection can't be opened.
    fn session(
        &self,
        lines: &Lines<Self::Protocol>,
        clients: u32,
    ) -> Result<SessionOf<Self>, OpenError>;

    /// The servers with data.
    ///
    /// # Errors
    /// [`OpenError::System`] if they aren't known.
    fn nodes(lines: &Lines<Self::Protocol>) -> Result<Vec<Target>, OpenError> {
        Ok(lines.protocol.servers().targets.clone())
    }

    /// The counters of a server.
    ///
    /// # Errors
    /// The server can't be reached or rejects the request.
    fn counters(&self, lines: &Lines<Self::Protocol>, node: &Target) -> Result<Counters, Failure>;

    /// The reply of the first server to a command of the user.
    ///
    /// # Errors
    /// [`OpenError::System`] if the server can't be reached or rejects it.
    fn ask(lines: &Lines<Self::Protocol>, words: &[String]) -> Result<Value, OpenError>;
}

/// Texts by name: the counters or the configuration of a server.
pub type Counters = BTreeMap<String, String>;

/// A worker's session.
pub type SessionOf<S> =
    RequestReplySession<<S as Store>::Protocol, <S as Store>::Operation, <S as Store>::Route>;

/// The driver of a store, opened.
pub struct ServerDriver<S: Store> {
    store: S,
    lines: Lines<S::Protocol>,
    load: Load,
}

impl<S: Store> ServerDriver<S> {
    /// The description of the driver.
    pub const ABOUT: About = S::ABOUT;

    /// All options, in the order of the documentation.
    pub fn options() -> Vec<&'static OptionDoc> {
        S::Protocol::options()
    }

    /// Connects to the servers.
    ///
    /// # Errors
    /// [`OpenError::Option`] if an option is unknown or invalid; otherwise as [`Store::open`].
    pub fn open(options: &BTreeMap<String, Value>, layout: &Layout) -> Result<Self, OpenError> {
        let lines = Lines::new(Arc::new(S::Protocol::parse(options)?));
        Ok(Self { store: S::open(&lines, layout)?, lines, load: Load::default() })
    }
}

impl<S: Store> Driver for ServerDriver<S> {
    type Blocking = Never;
    type Session = SessionOf<S>;

    fn capabilities(&self) -> Capabilities {
        let has = |kind: &Kind| !S::ABOUT.lacks.contains(kind);
        Capabilities {
            speedups: S::speedups(&self.lines.protocol),
            kinds: Kind::ALL.into_iter().filter(has).collect(),
            statements: S::HAS_STATEMENTS,
            ..Capabilities::all(Execution::Asynchronous, false)
        }
    }

    fn describe(&self) -> Description {
        self.store.describe(&self.lines)
    }

    fn session(&self, clients: u32) -> Result<AnySession<Never, SessionOf<S>>, OpenError> {
        self.store.session(&self.lines, clients).map(AnySession::Asynchronous)
    }

    /// Doesn't wait for a server that rejects the request for counters.
    fn settle(&self) -> Result<(), OpenError> {
        if S::BUSY.is_empty() {
            return Ok(());
        }
        S::nodes(&self.lines)?.iter().try_for_each(|node| {
            settle(node, || match self.store.counters(&self.lines, node) {
                Ok(counters) => Ok(S::BUSY
                    .iter()
                    .any(|name| counters.get(*name).is_some_and(|count| count != "0"))),
                Err(failure) if failure.outcome == Outcome::Refused => Ok(false),
                Err(failure) => Err(failure),
            })
        })
    }

    /// Sums the counters over the servers. With several servers, `node_share_max` is the busiest
    /// server's share of the commands since the last call.
    fn statistics(&self) -> BTreeMap<String, f64> {
        let nodes = S::nodes(&self.lines).unwrap_or_default();
        let counters = |node: &Target| self.store.counters(&self.lines, node).unwrap_or_default();
        self.load.sums(&nodes, S::NUMBERS, S::COMMANDS, counters)
    }

    fn console(options: &BTreeMap<String, Value>) -> Result<Option<AnyConsole>, OpenError> {
        let lines = Lines::new(Arc::new(S::Protocol::parse(options)?));
        Ok(Some(Box::new(StoreConsole::<S>(lines))))
    }
}

/// The console of a store.
struct StoreConsole<S: Store>(Lines<S::Protocol>);

impl<S: Store> Console for StoreConsole<S> {
    fn ask(&mut self, words: &[String]) -> Result<Value, OpenError> {
        S::ask(&self.0, words)
    }
}
