//! Statements: their names on tapes, and the markers of their keys and values.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kvmark_trace::verbs::{DELETE, OTHER, READ, UPDATE};
use kvmark_wire::cql::{Preparation, put_part};

/// Greatest number of prepared statements.
const STATEMENTS_MAX: usize = 1 << 16;
/// Longest name of a table, with that of its keyspace.
const TABLE_MAX: usize = 128;
/// The first words of statements that read or write rows, and the words before their tables.
const VERBS: [(&str, &str); 5] =
    [("SELECT", "FROM"), ("INSERT", "INTO"), ("UPDATE", ""), ("DELETE", "FROM"), ("BEGIN", "INTO")];
/// The names of markers that are no columns begin with it.
const NO_COLUMN: u8 = b'[';

/// The first word of a statement, and its table. Nothing else of a text is kept, as it may have
/// secrets.
#[derive(Debug)]
pub(super) struct Draft {
    verb: &'static str,
    pub(super) table: String,
}

/// A prepared statement.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(super) name: String,
    pub(super) kind: u8,
    /// `ks.table`.
    pub(super) table: String,
    /// The markers of the partition key, in its order; empty if it isn't bound completely.
    pub(super) key: Vec<u16>,
    /// For each marker whether it is a value.
    pub(super) is_value: Vec<bool>,
    /// The marker of the time to live.
    pub(super) ttl: Option<usize>,
}

/// The prepared statements of all connections by id: clients prepare a statement on one of them.
#[derive(Debug, Default)]
pub(crate) struct Statements(Mutex<HashMap<Vec<u8>, Arc<Statement>>>);

impl Draft {
    /// Reads a text; `None` unless it reads or writes rows.
    pub(super) fn of(text: &[u8]) -> Option<Self> {
        let separates = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'(' | b';');
        let mut words = text.split(separates).filter(|word| !word.is_empty());
        let first = words.next()?;
        let is = |verb: &&(&str, &str)| first.eq_ignore_ascii_case(verb.0.as_bytes());
        let (verb, before) = VERBS.iter().find(is)?;
        let is_last = |word: &&[u8]| word.eq_ignore_ascii_case(before.as_bytes());
        let table =
            if before.is_empty() { words.next() } else { words.find(is_last).and(words.next()) };
        let table = table.filter(|table| table.len() <= TABLE_MAX).unwrap_or(b"?");
        Some(Self { verb, table: String::from_utf8_lossy(table).replace('"', "") })
    }

    /// The name of a statement whose key is unknown.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.verb, self.table)
    }
}

impl Statement {
    fn new(draft: &Draft, prepared: &Preparation<'_>) -> Self {
        let Preparation { key, markers, columns, .. } = prepared;
        let name = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let place = markers.first().or(columns.first());
        let place = place.map(|one| format!("{}.{}", name(one.keyspace), name(one.table)));
        let table = place.unwrap_or_else(|| draft.table.clone());
        let draft = Draft { verb: draft.verb, table };
        let (kind, value) = match draft.verb {
            _ if key.is_empty() => (OTHER, ""),
            "SELECT" => (READ, ""),
            "INSERT" | "UPDATE" => (UPDATE, " {value}"),
            "DELETE" => (DELETE, ""),
            _ => (OTHER, ""),
        };
        let ttl = markers.iter().position(|marker| marker.name == b"[ttl]");
        let mut text = draft.name();
        if kind != OTHER {
            text += &format!(" {{key}}{value}{}", if ttl.is_some() { " {ttl}" } else { "" });
        }
        let is_key = |place: usize| key.iter().any(|index| usize::from(*index) == place);
        let values = markers.iter().enumerate();
        let is_value = values.map(|(place, one)| {
            kind == UPDATE && !is_key(place) && one.name.first() != Some(&NO_COLUMN)
        });
        let is_value = is_value.collect();
        Self { name: text, kind, table: draft.table, key: key.clone(), is_value, ttl }
    }

    /// The partition key of bound values, as nodes hash it; `None` if a part is missing.
    pub(super) fn key(&self, values: &[Option<&[u8]>]) -> Option<Vec<u8>> {
        let value = |index: &u16| values.get(usize::from(*index)).copied().flatten();
        if let [index] = &self.key[..] {
            return value(index).map(<[u8]>::to_vec);
        }
        let mut key = Vec::new();
        for index in &self.key {
            put_part(&mut key, value(index)?);
        }
        (!key.is_empty()).then_some(key)
    }
}

impl Statements {
    /// Adds a prepared statement.
    pub(super) fn add(&self, draft: &Draft, prepared: &Preparation<'_>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < STATEMENTS_MAX {
            known.insert(prepared.id.to_vec(), Arc::new(Statement::new(draft, prepared)));
        }
    }

    /// The statement with this id.
    pub(super) fn find(&self, id: &[u8]) -> Option<Arc<Statement>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).map(Arc::clone)
    }
}
