//! A store in memory that records its requests, and can misbehave.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kvmark_driver::{
    AnySession, Blocking, Call, Capabilities, Description, Driver, Effect, Execution, Never,
    OpenError, Reply, Request, Slot,
};
use kvmark_plan::{Each, Kind, Outcome};

/// Key, then field by index.
pub type Store = BTreeMap<Vec<u8>, BTreeMap<u32, Vec<u8>>>;

/// One received request: number, kind, key and the written values.
pub type Asked = (u64, Kind, Vec<u8>, Vec<(u32, Vec<u8>)>);

#[derive(Clone, Default)]
pub struct Recording {
    pub store: Arc<Mutex<Store>>,
    pub asked: Arc<Mutex<Vec<Asked>>>,
    /// The request of this number panics.
    pub panics_at: Option<u64>,
    /// Reads return this instead of the value.
    pub corrupts: bool,
    /// Inserts from this number on fail.
    pub full_from: Option<u64>,
    /// Updates from this number on are acknowledged and forgotten.
    pub forgets_from: Option<u64>,
    /// Updates from this number on are executed and end as if the connection had broken.
    pub breaks_from: Option<u64>,
    /// An update with this number removes this field when it is done.
    pub loses_field: Option<(u64, u32)>,
    /// The command at this index of a writing statement isn't executed, with this outcome.
    pub refuses: Option<(u32, Outcome)>,
    /// The command at this index of a writing statement is acknowledged and forgotten.
    pub forgets_command: Option<u32>,
    /// Reads block forever after this number of requests.
    pub hangs_from: Option<usize>,
    /// The request of this number blocks forever.
    pub hangs_at: Option<u64>,
}

impl Recording {
    /// The requests, in an order that doesn't depend on timing.
    pub fn multiset(&self) -> Vec<Asked> {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.sort();
        asked
    }
}

/// The first argument of a command, and the second.
const FIRST: Slot = Slot { each: Each::Command, place: 0 };
const SECOND: Slot = Slot { each: Each::Command, place: 1 };

impl Recording {
    /// Executes a statement: a write has a key and field 0 as arguments, a read a key.
    fn call(&self, kind: Kind, call: Call<'_>, reply: &mut Reply) -> Outcome {
        let mut store = self.store.lock().unwrap();
        for command in 0..call.commands.len() {
            let key = call.argument(FIRST, command, 0).1.to_vec();
            if kind != Kind::Read {
                let place = command as u32;
                if self.refuses.is_some_and(|(refused, _)| refused == place) {
                    reply.effects.push((place, Effect::NotApplied));
                } else if self.forgets_command != Some(place) {
                    let value = call.argument(SECOND, command, 0).1.to_vec();
                    store.entry(key).or_default().insert(0, value);
                }
                continue;
            }
            let Some(record) = store.get(&key) else { return Outcome::Miss };
            let value = if self.corrupts { b"something else" } else { &record[&0][..] };
            reply.push(command as u32, 0, value);
        }
        reply.rows = call.commands.len() as u64;
        self.refuses.filter(|_| kind != Kind::Read).map_or(Outcome::Ok, |(_, outcome)| outcome)
    }
}

impl Driver for Recording {
    type Blocking = Self;
    type Session = Never;

    fn capabilities(&self) -> Capabilities {
        Capabilities::all(Execution::Blocking, true)
    }

    fn describe(&self) -> Description {
        Description {
            system: "recording".to_owned(),
            version: "1".to_owned(),
            configuration: BTreeMap::new(),
        }
    }

    fn session(&self, _: u32) -> Result<AnySession<Self, Never>, OpenError> {
        Ok(AnySession::Blocking(self.clone()))
    }
}

impl Blocking for Recording {
    fn execute(&mut self, request: &Request<'_>, reply: &mut Reply) -> Outcome {
        assert!(self.panics_at != Some(request.number), "planted");
        let values = request.values.iter().map(|(field, bytes)| (field, bytes.to_vec()));
        let values: Vec<_> = values.collect();
        let key = request.key.to_vec();
        let count = {
            let mut asked = self.asked.lock().unwrap();
            asked.push((request.number, request.kind, key.clone(), values.clone()));
            asked.len()
        };
        while self.hangs_at == Some(request.number) {
            std::thread::park();
        }
        while self.hangs_from.is_some_and(|from| count >= from) {
            std::thread::park();
        }
        if let Some(call) = request.statement {
            return self.call(request.kind, call, reply);
        }
        let reaches = |from: Option<u64>| from.is_some_and(|from| request.number >= from);
        let mut store = self.store.lock().unwrap();
        match request.kind {
            Kind::Insert if self.full_from.is_some_and(|from| request.number >= from) => {
                return Outcome::Storage;
            }
            Kind::Update if reaches(self.forgets_from) => {}
            Kind::Insert | Kind::Update => {
                let record = store.entry(key).or_default();
                record.extend(values);
                if let Some((_, field)) = self.loses_field.filter(|(at, _)| *at == request.number)
                    && request.kind == Kind::Update
                {
                    record.remove(&field);
                }
                if request.kind == Kind::Update && reaches(self.breaks_from) {
                    return Outcome::Connection;
                }
            }
            Kind::Delete => drop(store.remove(&key)),
            _ => {
                let Some(record) = store.get(&key) else { return Outcome::Miss };
                for (field, bytes) in record {
                    let bytes = if self.corrupts { b"something else" } else { &bytes[..] };
                    if request.wants_values {
                        reply.push(0, *field, bytes);
                    }
                }
            }
        }
        reply.rows = 1;
        Outcome::Ok
    }

    fn last_failure(&self) -> Option<String> {
        Some("there is no space left".to_owned())
    }
}
