//! The null driver: does nothing, so that a run measures the engine's own cost.

use std::collections::{BTreeMap, VecDeque};
use std::thread::sleep;
use std::time::Duration;

use kvmark_plan::{Kind, Outcome};
use serde_json::Value;

use crate::options::{Accepts, Given, OptionDoc, option};
use crate::{
    About, AnySession, Blocking, Capabilities, Completions, Description, Driver, Execution,
    OpenError, Place, Reply, Request, Scheme, Session, Ticket,
};

/// Every option of this driver.
#[must_use]
pub fn options() -> Vec<&'static OptionDoc> {
    TABLE.iter().collect()
}

static TABLE: [OptionDoc; 1] =
    [option("yields", Accepts::Text("a count such as 0 or 1"), Some("0"))
        .meaning("Turns of its worker that an operation takes; 0 makes the driver blocking.")];

/// A system without a store.
#[derive(Clone, Debug)]
pub struct Null {
    turns: u32,
}

impl Null {
    /// The driver's static properties.
    pub const ABOUT: About = About {
        ycsb_bindings: &["basic", "site.ycsb.BasicDB"],
        ycsb_properties: &["basicdb."],
        ..About::new("null", Place::Nothing, &[Scheme::new("null", "null:")])
    };

    /// Opens the null driver.
    ///
    /// # Errors
    /// [`OpenError::Option`] for an unknown option or a value that can't be used.
    pub fn open(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        Ok(Self { turns: Given::parse(&TABLE, options)?.read("yields")? })
    }
}

impl Driver for Null {
    type Blocking = NullCalls;
    type Session = NullSession;

    fn capabilities(&self) -> Capabilities {
        let blocking = self.turns == 0;
        let execution = if blocking { Execution::Blocking } else { Execution::Asynchronous };
        Capabilities { compares: false, ..Capabilities::all(execution, true) }
    }

    fn describe(&self) -> Description {
        Description {
            system: "null".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: BTreeMap::from([("yields".to_owned(), self.turns.to_string())]),
        }
    }

    fn session(&self, _clients: u32) -> Result<AnySession<NullCalls, NullSession>, OpenError> {
        Ok(match self.turns {
            0 => AnySession::Blocking(NullCalls),
            turns => AnySession::Asynchronous(NullSession { turns, ..NullSession::default() }),
        })
    }
}

/// Blocking sessions of the null driver.
#[derive(Debug)]
pub struct NullCalls;

impl Blocking for NullCalls {
    #[inline]
    fn execute(&mut self, request: &Request<'_>, reply: &mut Reply) -> Outcome {
        reply.rows = rows(request);
        Outcome::Ok
    }
}

fn rows(request: &Request<'_>) -> u64 {
    if request.kind == Kind::Scan { request.scan_length } else { 1 }
}

/// A session of the null driver for many clients.
#[derive(Debug, Default)]
pub struct NullSession {
    turns: u32,
    turn: u64,
    /// The turn in which each is done, in order.
    under_way: VecDeque<(u64, Ticket, u64)>,
    /// Those at the end that aren't issued yet.
    submitted: usize,
    reply: Reply,
}

impl Session for NullSession {
    #[inline]
    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        self.under_way.push_back((self.turn + u64::from(self.turns), ticket, rows(request)));
        self.submitted += 1;
    }

    fn poll(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool {
        self.turn += 1;
        if self.submitted > 0 {
            let at_ns = done.stamp();
            let issued = self.under_way.len() - std::mem::take(&mut self.submitted);
            for (_, ticket, _) in self.under_way.range(issued..) {
                done.issued(*ticket, at_ns);
            }
        }
        if self.under_way.is_empty() {
            if patience_ns > 0 {
                sleep(Duration::from_nanos(patience_ns));
            }
            return false;
        }
        let at_ns = done.stamp();
        let under_way = self.under_way.len();
        while let Some((done_in, ticket, rows)) = self.under_way.front().copied() {
            if done_in > self.turn {
                break;
            }
            self.under_way.pop_front();
            self.reply.rows = rows;
            done.completed(ticket, at_ns, Outcome::Ok, &self.reply);
        }
        self.under_way.len() < under_way
    }

    fn give_up(&mut self, ticket: Ticket) {
        let issued = self.under_way.len() - self.submitted;
        if let Some(place) = self.under_way.iter().position(|(_, other, _)| *other == ticket) {
            self.under_way.remove(place);
            self.submitted -= usize::from(place >= issued);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_count_of_turns_is_refused() {
        let options = BTreeMap::from([("yields".to_owned(), Value::from(-1))]);
        let error = Null::open(&options).unwrap_err().to_string();
        assert_eq!(error, "option 'yields' can't be '-1': give a count such as 0 or 1");
    }
}
