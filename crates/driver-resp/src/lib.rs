//! Systems that speak the Redis protocol: Redis, Valkey, YugabyteDB's Redis API.
//!
//! A record is stored as YCSB's own Redis binding stores it (see `commands.rs`), so that either can
//! read what the other loaded. A table's name isn't part of the keys. Each client has a connection
//! of its own, or the clients of a worker share a few and their requests are pipelined in order
//! (see `connection.rs`).
//!
//! A request on a connection that is down waits for the attempt under way to open it and ends with
//! that attempt's outcome if it fails; a request is never sent twice.

mod address;
mod alarm;
mod commands;
mod connect;
mod connection;
mod control;
mod failure;
mod options;
mod resp;
mod secret;
mod session;
mod stream;
mod tls;

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use kvmark_driver::{Capabilities, Description, Driver, Execution, Layout, OpenError, Time};
use kvmark_plan::Kind;

use commands::Fields;
use control::Control;

pub use options::{Accepts, OptionDoc, options};
pub use session::RespSession;

/// A server that speaks the Redis protocol, reached.
pub struct Resp {
    settings: Arc<options::Settings>,
    fields: Arc<Fields>,
    control: Control,
}

impl Resp {
    /// Reaches the server and logs in. Not to be called within an asynchronous runtime, nor are
    /// `describe`, `statistics` and `settle`.
    ///
    /// # Errors
    /// [`OpenError::Option`] when an option is unknown or has a wrong value;
    /// [`OpenError::System`] when the server can't be reached, isn't trusted or refuses.
    pub fn open(
        options: &BTreeMap<String, serde_json::Value>,
        layout: &Layout,
    ) -> Result<Self, OpenError> {
        let settings = Arc::new(options::Settings::parse(options)?);
        let control = Control::open(Arc::clone(&settings))?;
        Ok(Self { settings, fields: Arc::new(Fields::new(layout)), control })
    }
}

impl Driver for Resp {
    type Session = RespSession;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            execution: Execution::Asynchronous,
            embedded: false,
            kinds: Kind::ALL.to_vec(),
            cancels: true,
            simulated_time: false,
        }
    }

    fn describe(&self) -> Description {
        self.control.describe()
    }

    async fn session(
        &self,
        clients: Range<u32>,
        time: Rc<dyn Time>,
    ) -> Result<RespSession, OpenError> {
        RespSession::open(&self.settings, &self.fields, clients, &time).await
    }

    fn settle(&self) -> Result<(), OpenError> {
        self.control.settle()
    }

    fn statistics(&self) -> BTreeMap<String, f64> {
        self.control.statistics()
    }
}
