//! The null driver: does nothing, so that what a run costs is the engine's own cost.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;

use kvmark_plan::{Kind, Outcome};
use serde_json::Value;

use crate::options::Options;
use crate::{
    Capabilities, Description, Driver, Execution, OpenError, Reply, Request, Session, Time,
};

/// A system without a store. Options: `yields`, how often an operation gives way to the other
/// clients of its worker before it completes (0 makes the driver blocking).
#[derive(Clone, Debug)]
pub struct Null {
    yields: u32,
}

impl Null {
    /// Opens the null driver.
    ///
    /// # Errors
    /// [`OpenError::Option`] for an unknown option or a value that can't be used.
    pub fn open(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        let mut options = Options::new(options);
        let yields = options.take("yields", "a count such as 0 or 1", 0)?;
        options.finish()?;
        Ok(Self { yields })
    }
}

impl Driver for Null {
    type Session = NullSession;

    fn capabilities(&self) -> Capabilities {
        let blocking = self.yields == 0;
        let execution = if blocking { Execution::Blocking } else { Execution::Asynchronous };
        Capabilities::all(execution, true)
    }

    fn describe(&self) -> Description {
        Description {
            system: "null".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: BTreeMap::from([("yields".to_owned(), self.yields.to_string())]),
        }
    }

    async fn session(
        &self,
        _clients: Range<u32>,
        _time: Rc<dyn Time>,
    ) -> Result<NullSession, OpenError> {
        Ok(NullSession { yields: self.yields })
    }
}

/// A session of the null driver.
#[derive(Debug)]
pub struct NullSession {
    yields: u32,
}

impl Session for NullSession {
    #[inline]
    async fn execute(&self, _client: u32, request: &Request<'_>, reply: &mut Reply) -> Outcome {
        let mut left = self.yields;
        if left > 0 {
            poll_fn(|context| {
                if left == 0 {
                    return Poll::Ready(());
                }
                left -= 1;
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
        reply.rows = if request.kind == Kind::Scan { request.scan_length } else { 1 };
        Outcome::Ok
    }
}
