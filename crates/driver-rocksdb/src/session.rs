//! One worker's way into the database: buffers and options of its own, only the database is shared.

use std::cell::RefCell;
use std::sync::Arc;

use kvmark_driver::{Columns, Reply, Request, Session};
use kvmark_plan::{Kind, Outcome};
use rocksdb::{ReadOptions, WriteOptions};

use crate::codec::{encode, fields, merge};
use crate::database::Database;
use crate::failure::Failure;

/// A worker's session. All of a worker's clients may use it; a call never waits for another.
pub struct RocksDbSession {
    database: Arc<Database>,
    reads: ReadOptions,
    writes: WriteOptions,
    /// The record being written; kept, so that writing allocates nothing.
    record: RefCell<Vec<u8>>,
    failure: RefCell<Option<String>>,
}

impl RocksDbSession {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        let writes = database.write_options();
        Self {
            database,
            reads: ReadOptions::default(),
            writes,
            record: RefCell::default(),
            failure: RefCell::default(),
        }
    }

    fn call(&self, request: &Request<'_>, reply: &mut Reply) -> Result<Outcome, Failure> {
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
        let Database { db, .. } = &*self.database;
        let found = db.get_pinned_cf_opt(self.database.family(), request.key, &self.reads)?;
        let Some(stored) = found else { return Ok(Outcome::Miss) };
        self.deliver(request, request.key, &stored, reply)?;
        Ok(Outcome::Ok)
    }

    fn update(&self, request: &Request<'_>) -> Result<Outcome, Failure> {
        let Database { db, names, .. } = &*self.database;
        let family = self.database.family();
        let found = db.get_pinned_cf_opt(family, request.key, &self.reads)?;
        let Some(stored) = found else { return Ok(Outcome::Miss) };
        let record = &mut *self.record.borrow_mut();
        merge(&stored, names, request.values, record)
            .map_err(|error| Failure::codec(error, request.key))?;
        db.put_cf_opt(family, request.key, record, &self.writes)?;
        Ok(Outcome::Ok)
    }

    fn insert(&self, request: &Request<'_>) -> Result<Outcome, Failure> {
        let Database { db, names, .. } = &*self.database;
        let record = &mut *self.record.borrow_mut();
        encode(names, request.values, record)
            .map_err(|error| Failure::codec(error, request.key))?;
        db.put_cf_opt(self.database.family(), request.key, record, &self.writes)?;
        Ok(Outcome::Ok)
    }

    fn scan(&self, request: &Request<'_>, reply: &mut Reply) -> Result<Outcome, Failure> {
        let mut rows = self.database.db.raw_iterator_cf(self.database.family());
        rows.seek(request.key);
        while reply.rows < request.scan_length {
            let Some((key, stored)) = rows.item() else { break };
            self.deliver(request, key, stored, reply)?;
            rows.next();
        }
        rows.status()?;
        Ok(Outcome::Ok)
    }

    fn delete(&self, request: &Request<'_>) -> Result<Outcome, Failure> {
        let Database { db, .. } = &*self.database;
        db.delete_cf_opt(self.database.family(), request.key, &self.writes)?;
        Ok(Outcome::Ok)
    }

    /// Decodes a record to its end and adds it to the reply, with the values where they are wanted.
    fn deliver(
        &self,
        request: &Request<'_>,
        key: &[u8],
        stored: &[u8],
        reply: &mut Reply,
    ) -> Result<(), Failure> {
        let row = u32::try_from(reply.rows).unwrap_or(u32::MAX);
        for (place, field) in fields(stored).enumerate() {
            let (name, value) = field.map_err(|error| Failure::codec(error, key))?;
            if !request.wants_values {
                continue;
            }
            let index = self.database.names.index_of(name, place);
            let index = index.filter(|index| asks_for(request.columns, *index));
            if let Some(index) = index {
                reply.push(row, index, value);
            }
        }
        reply.rows += 1;
        Ok(())
    }
}

fn asks_for(columns: Columns, index: u32) -> bool {
    match columns {
        Columns::All | Columns::AllByName => true,
        Columns::One(field) => field == index,
    }
}

impl Session for RocksDbSession {
    async fn execute(&self, _client: u32, request: &Request<'_>, reply: &mut Reply) -> Outcome {
        self.call(request, reply).unwrap_or_else(|failure| {
            *self.failure.borrow_mut() = Some(failure.to_string());
            failure.outcome()
        })
    }

    fn last_failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }
}
