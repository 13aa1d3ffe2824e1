//! The operations of requests: QUERY, EXECUTE and BATCH.

use std::collections::HashMap;
use std::sync::Arc;

use kvmark_trace::tape::Record;
use kvmark_trace::verbs::{OTHER, READ, UPDATE};
use kvmark_wire::cql::{EXECUTE, QUERY, Reader, WITH_STATE, WITH_VALUES};

use crate::content::{Contents, Keeper, Role};
use crate::recorder::{Key, Keys, Operation, Recorder};

use super::frames::{Frame, text};
use super::statement::{Draft, Statement};

/// The flag of an execution whose values have names, in any order.
const WITH_NAMES: u8 = 0x40;

/// A request as an operation.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) operation: Operation,
    /// Whether it reads by a key, the first page.
    pub(super) looks: bool,
}

/// Reads the requests of a connection.
pub(super) struct Requests {
    keeper: Keeper,
    /// The statements that the connection has executed, with the numbers of their names.
    executed: HashMap<Vec<u8>, (Arc<Statement>, u16)>,
}

/// What the parts of a request add up to.
#[derive(Default)]
struct Sum {
    keys: Keys,
    contents: Contents,
    /// Bytes of the values.
    value_bytes: usize,
    ttl_ms: u64,
}

impl Requests {
    pub(super) fn new(keeper: Keeper) -> Self {
        Self { keeper, executed: HashMap::new() }
    }

    /// The operation of a request; `None` if it is malformed, or a driver's own.
    pub(super) fn read(&mut self, frame: &Frame<'_>, recorder: &mut Recorder) -> Option<Request> {
        let mut body = Reader(frame.body()?);
        match frame.opcode {
            QUERY => {
                let draft = Draft::of(text(&mut body)?)?;
                let verb = recorder.verbs.of_kind(&draft.name(), OTHER);
                let request = Sum::default().request(verb, OTHER, false);
                (!is_of_system(&draft.table)).then_some(request)
            }
            EXECUTE => {
                let id = body.short_bytes()?;
                let Some((statement, verb)) = self.statement(id, recorder) else {
                    let verb = recorder.verbs.of_kind("EXECUTE", OTHER);
                    return Some(Sum::default().request(verb, OTHER, false));
                };
                // The consistency level.
                body.short()?;
                let flags = body.take(1)?[0];
                let mut sum = Sum::default();
                if flags & (WITH_VALUES | WITH_NAMES) == WITH_VALUES {
                    sum.add(&statement, &values(&mut body), &self.keeper);
                }
                sum.cut(frame);
                let looks = statement.kind == READ && flags & WITH_STATE == 0;
                let request = sum.request(verb, statement.kind, looks);
                (!is_of_system(&statement.table)).then_some(request)
            }
            _ => self.batch(body, frame, recorder),
        }
    }

    /// The operation of a batch: that of all keys, if all are known.
    fn batch(
        &mut self,
        mut body: Reader<'_>,
        frame: &Frame<'_>,
        recorder: &mut Recorder,
    ) -> Option<Request> {
        body.take(1)?;
        let (mut sum, mut tables, mut is_known) = (Sum::default(), Vec::new(), true);
        let count = body.short()?;
        for _ in 0..count {
            let Some(kind) = body.take(1) else { break };
            let statement = if kind == [0] {
                text(&mut body)?;
                None
            } else {
                let id = body.short_bytes()?;
                self.statement(id, recorder).map(|(statement, _)| statement)
            };
            let values = values(&mut body);
            match statement.filter(|one| one.kind != OTHER) {
                Some(statement) => {
                    is_known &= sum.add(&statement, &values, &self.keeper);
                    if !tables.contains(&statement.table) {
                        tables.push(statement.table.clone());
                    }
                }
                None => is_known = false,
            }
        }
        sum.cut(frame);
        let table = if let [table] = &tables[..] { format!(" {table}") } else { String::new() };
        let (name, kind) = if is_known && count > 0 {
            (format!("BATCH{table} {{key}} {{value}}"), UPDATE)
        } else {
            (format!("BATCH{table}"), OTHER)
        };
        let verb = recorder.verbs.of_kind(&name, kind);
        let sum = if kind == OTHER { Sum::default() } else { sum };
        Some(sum.request(verb, kind, false))
    }

    /// A prepared statement, and the number of its name.
    fn statement(&mut self, id: &[u8], recorder: &mut Recorder) -> Option<(Arc<Statement>, u16)> {
        if let Some((statement, verb)) = self.executed.get(id) {
            return Some((Arc::clone(statement), *verb));
        }
        let statement = recorder.shared.statements.find(id)?;
        let verb = recorder.verbs.of_kind(&statement.name, statement.kind);
        self.executed.insert(id.to_vec(), (Arc::clone(&statement), verb));
        Some((statement, verb))
    }
}

impl Sum {
    /// Adds the values of a statement. Returns whether its key is known.
    fn add(&mut self, statement: &Statement, values: &[Option<&[u8]>], keeper: &Keeper) -> bool {
        let Some(key) = statement.key(values) else { return false };
        let size = u32::try_from(key.len()).unwrap_or(u32::MAX);
        let is_recorded = self.keys.push(Key { hash: keeper.hash_key.hash(&key), size });
        let content = |role, bytes: &[u8]| keeper.begin(role).and_then(|one| one.with(bytes));
        if is_recorded && keeper.keeps(Role::Key) {
            self.contents.add_key(content(Role::Key, &key));
        }
        let pairs = statement.is_value.iter().zip(values);
        for value in pairs.filter_map(|(is_value, value)| value.filter(|_| *is_value)) {
            self.value_bytes += value.len();
            if keeper.keeps(Role::Value) {
                self.contents.add_value(content(Role::Value, value));
            }
        }
        let ttl = statement.ttl.and_then(|place| Reader(values.get(place).copied()??).int());
        self.ttl_ms = ttl.map_or(self.ttl_ms, |ttl| u64::try_from(ttl).unwrap_or(0) * 1000);
        true
    }

    /// Takes the values of a frame that wasn't kept to its end to be all of it.
    fn cut(&mut self, frame: &Frame<'_>) {
        if frame.cut > 0 {
            self.value_bytes = frame.length();
        }
    }

    fn request(mut self, verb: u16, kind: u8, looks: bool) -> Request {
        let keys = self.keys.len().max(1);
        let size = u32::try_from(self.value_bytes / keys).unwrap_or(Record::UNKNOWN - 1);
        let value_size = if kind == UPDATE { size } else { Record::UNKNOWN };
        let (ttl_ms, contents) = (self.ttl_ms, self.contents.take());
        let operation = Operation { verb, keys: self.keys, value_size, ttl_ms, contents };
        Request { operation, looks }
    }
}

/// Bound values; those that are null, unset or weren't kept are `None`.
fn values<'a>(body: &mut Reader<'a>) -> Vec<Option<&'a [u8]>> {
    (0..body.short().unwrap_or(0)).map_while(|_| body.bytes()).collect()
}

/// Whether a table is of the system, as only drivers read them.
fn is_of_system(table: &str) -> bool {
    let keyspace = table.split('.').next().unwrap_or_default();
    keyspace == "system" || keyspace.starts_with("system_")
}
