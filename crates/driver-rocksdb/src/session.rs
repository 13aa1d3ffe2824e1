//! One client's session: only the database is shared, not buffers and options.

use std::sync::Arc;

use kvmark_driver::{Blocking, Columns, Expected, Reply, Request};
use kvmark_plan::{Kind, Outcome};
use rocksdb::{ReadOptions, WriteOptions};

use crate::codec::{CodecError, encode, field, fields, merge};
use crate::database::Database;
use crate::failure::Failure;

/// A client's session. A write holds the record's lock, so that no other write comes between the
/// read and the write of an update.
pub struct RocksDbSession {
    database: Arc<Database>,
    reads: ReadOptions,
    writes: WriteOptions,
    /// The record being written; kept, so that writing allocates nothing.
    record: Vec<u8>,
    failure: Option<String>,
}

impl RocksDbSession {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        let writes = database.write_options();
        Self { database, reads: ReadOptions::default(), writes, record: Vec::new(), failure: None }
    }

    fn call(&mut self, request: &Request<'_>, reply: &mut Reply) -> Result<Outcome, Failure> {
        match request.kind {
            Kind::Read => self.read(request, reply),
            Kind::Update => self.update(request),
            Kind::Insert => self.insert(request),
            Kind::Scan => self.scan(request, reply),
            Kind::Delete => self.delete(request),
            Kind::ReadModifyWrite => Err(Failure::Composed),
        }
    }

    fn read(&self, request: &Request<'_>, reply: &mut Reply) -> Result<Outcome, Failure> {
        let (db, family) = (self.database.db(), self.database.family());
        let found = db.get_pinned_cf_opt(family, request.key, &self.reads)?;
        let Some(stored) = found else { return Ok(Outcome::Miss) };
        let failed = |error| Failure::codec(error, request.key);
        self.deliver(request, &stored, reply).map_err(failed)?;
        let Some(expected) = request.expected else { return Ok(Outcome::Ok) };
        self.compare(request.columns, &stored, expected).map_err(failed)
    }

    /// Compares a stored record with the expected properties.
    #[inline]
    fn compare(
        &self,
        columns: Columns,
        stored: &[u8],
        expected: &Expected,
    ) -> Result<Outcome, CodecError> {
        let mut comparison = expected.compare();
        if let Columns::One(index) = columns {
            field(stored, self.database.names.name(index))?
                .into_iter()
                .for_each(|value| comparison.see(value));
        } else {
            for field in fields(stored) {
                comparison.see(field?.1);
            }
        }
        Ok(comparison.outcome())
    }

    fn update(&mut self, request: &Request<'_>) -> Result<Outcome, Failure> {
        let Database { names, locks, .. } = &*self.database;
        let (db, family) = (self.database.db(), self.database.family());
        let _held = locks.hold(request.key);
        let found = db.get_pinned_cf_opt(family, request.key, &self.reads)?;
        let Some(stored) = found else { return Ok(Outcome::Miss) };
        merge(&stored, names, request.values, &mut self.record)
            .map_err(|error| Failure::codec(error, request.key))?;
        db.put_cf_opt(family, request.key, &self.record, &self.writes)?;
        Ok(Outcome::Ok)
    }

    fn insert(&mut self, request: &Request<'_>) -> Result<Outcome, Failure> {
        let Database { names, locks, .. } = &*self.database;
        let (db, family) = (self.database.db(), self.database.family());
        encode(names, request.values, &mut self.record)
            .map_err(|error| Failure::codec(error, request.key))?;
        let _held = locks.hold(request.key);
        db.put_cf_opt(family, request.key, &self.record, &self.writes)?;
        Ok(Outcome::Ok)
    }

    fn scan(&self, request: &Request<'_>, reply: &mut Reply) -> Result<Outcome, Failure> {
        let mut rows = self.database.db().raw_iterator_cf(self.database.family());
        rows.seek(request.key);
        while reply.rows < request.scan_length {
            let Some((key, stored)) = rows.item() else { break };
            self.deliver(request, stored, reply).map_err(|error| Failure::codec(error, key))?;
            rows.next();
        }
        rows.status()?;
        Ok(Outcome::Ok)
    }

    fn delete(&self, request: &Request<'_>) -> Result<Outcome, Failure> {
        let (db, family) = (self.database.db(), self.database.family());
        let _held = self.database.locks.hold(request.key);
        db.delete_cf_opt(family, request.key, &self.writes)?;
        Ok(Outcome::Ok)
    }

    /// Adds a record to the reply, and decodes the values that are wanted.
    fn deliver(
        &self,
        request: &Request<'_>,
        stored: &[u8],
        reply: &mut Reply,
    ) -> Result<(), CodecError> {
        let (names, row) = (&self.database.names, u32::try_from(reply.rows).unwrap_or(u32::MAX));
        match request.columns {
            _ if !request.wants_values => {}
            Columns::One(index) => {
                if let Some(value) = field(stored, names.name(index))? {
                    reply.push(row, index, value);
                }
            }
            Columns::All | Columns::AllByName => {
                for (place, field) in fields(stored).enumerate() {
                    let (name, value) = field?;
                    if let Some(index) = names.index_of(name, place) {
                        reply.push(row, index, value);
                    }
                }
            }
        }
        reply.rows += 1;
        Ok(())
    }
}

impl Blocking for RocksDbSession {
    #[inline]
    fn execute(&mut self, request: &Request<'_>, reply: &mut Reply) -> Outcome {
        self.call(request, reply).unwrap_or_else(|failure| {
            self.failure = Some(failure.to_string());
            failure.outcome()
        })
    }

    fn last_failure(&self) -> Option<String> {
        self.failure.clone()
    }
}
