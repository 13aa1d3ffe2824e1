//! One client's session: only the store is shared, not buffers and handles.

use std::sync::Arc;

use kvmark_driver::{Blocking, Columns, Expected, OpenError, Reply, Request};
use kvmark_plan::{Kind, Outcome};

use crate::codec::{CodecError, Names, encode, field, fields, merge};
use crate::{ByteHandle as _, ByteStore, Shared, StoreError};

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("the record of key {0:?} can't be decoded: a length in it points past its end")]
    Damaged(String),
    #[error("a field of 2 GiB or more doesn't fit the record format")]
    TooLong,
    /// The engine executes the parts of a read-modify-write.
    #[error("a read-modify-write is executed as a read and an update")]
    Composed,
}

impl Failure {
    /// Decoding or encoding the record of this key failed.
    fn codec(error: CodecError, key: &[u8]) -> Self {
        match error {
            CodecError::Damaged => Self::Damaged(String::from_utf8_lossy(key).into_owned()),
            CodecError::TooLong => Self::TooLong,
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Self::Store(error) => error.outcome,
            Self::Damaged(_) => Outcome::Protocol,
            Self::TooLong | Self::Composed => Outcome::Refused,
        }
    }
}

/// A client's session. A write holds the record's lock, so that no other write comes between the
/// read and the write of an update.
pub struct EmbeddedSession<S: ByteStore> {
    // Dropped first: the folder's lock in `shared` outlives the store.
    handle: S::Handle,
    shared: Arc<Shared<S>>,
    /// The record being written; kept, so that writing allocates nothing.
    record: Vec<u8>,
    failure: Option<String>,
}

impl<S: ByteStore> EmbeddedSession<S> {
    pub(crate) fn open(shared: Arc<Shared<S>>) -> Result<Self, OpenError> {
        let handle = S::handle(&shared.store)?;
        Ok(Self { shared, handle, record: Vec::new(), failure: None })
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

    #[inline]
    fn read(&mut self, request: &Request<'_>, reply: &mut Reply) -> Result<Outcome, Failure> {
        let names = &self.shared.names;
        let found = self.handle.get(request.key, |stored| {
            deliver(names, request, stored, reply)?;
            let Some(expected) = request.expected else { return Ok(Outcome::Ok) };
            compare(names, request.columns, stored, expected)
        })?;
        found.unwrap_or(Ok(Outcome::Miss)).map_err(|error| Failure::codec(error, request.key))
    }

    #[inline]
    fn update(&mut self, request: &Request<'_>) -> Result<Outcome, Failure> {
        let Self { shared, handle, record, .. } = self;
        let _held = shared.locks.hold(request.key);
        let merged = handle
            .get(request.key, |stored| merge(stored, &shared.names, request.values, record))?;
        let Some(merged) = merged else { return Ok(Outcome::Miss) };
        merged.map_err(|error| Failure::codec(error, request.key))?;
        handle.put(request.key, record)?;
        Ok(Outcome::Ok)
    }

    #[inline]
    fn insert(&mut self, request: &Request<'_>) -> Result<Outcome, Failure> {
        encode(&self.shared.names, request.values, &mut self.record)
            .map_err(|error| Failure::codec(error, request.key))?;
        let _held = self.shared.locks.hold(request.key);
        self.handle.put(request.key, &self.record)?;
        Ok(Outcome::Ok)
    }

    fn scan(&mut self, request: &Request<'_>, reply: &mut Reply) -> Result<Outcome, Failure> {
        if request.scan_length == 0 {
            return Ok(Outcome::Ok);
        }
        let names = &self.shared.names;
        let mut failed = None;
        self.handle.scan(request.key, |key, stored| {
            if let Err(error) = deliver(names, request, stored, reply) {
                failed = Some(Failure::codec(error, key));
            }
            failed.is_none() && reply.rows < request.scan_length
        })?;
        failed.map_or(Ok(Outcome::Ok), Err)
    }

    fn delete(&mut self, request: &Request<'_>) -> Result<Outcome, Failure> {
        let _held = self.shared.locks.hold(request.key);
        self.handle.delete(request.key)?;
        Ok(Outcome::Ok)
    }
}

/// Compares a stored record with the expected properties.
#[inline]
fn compare(
    names: &Names,
    columns: Columns,
    stored: &[u8],
    expected: &Expected,
) -> Result<Outcome, CodecError> {
    let mut comparison = expected.compare();
    if let Columns::One(index) = columns {
        let value = field(stored, names.name(index))?;
        value.into_iter().for_each(|value| comparison.see(value));
    } else {
        for field in fields(stored) {
            comparison.see(field?.1);
        }
    }
    Ok(comparison.outcome())
}

/// Adds a record to the reply, and decodes the values that are wanted.
#[inline]
fn deliver(
    names: &Names,
    request: &Request<'_>,
    stored: &[u8],
    reply: &mut Reply,
) -> Result<(), CodecError> {
    let row = u32::try_from(reply.rows).unwrap_or(u32::MAX);
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

impl<S: ByteStore> Blocking for EmbeddedSession<S> {
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
