//! YCSB's layout of a record: a document whose `_id` is the key, with a binary value per field.
//!
//! Source: YCSB 0.17.0, `MongoDbClient`. An insert replaces an existing document, so that a load
//! can be repeated, as with YCSB's `mongodb.upsert`.

use kvmark_driver::{Columns, Comparison, Layout, OpenError, Reply, Request};
use kvmark_driver_server::text::find_near;
use kvmark_plan::Kind;

use crate::bson::{
    ARRAY, DOCUMENT, Document, put_binary, put_boolean, put_int32, put_int64, put_json, put_nested,
    put_text,
};
use crate::failure::Failure;
use crate::message::put_message;
use crate::options::Settings;

/// The member that is the key.
const KEY: &str = "_id";

/// The commands of operations.
#[derive(Debug)]
pub(crate) struct Records {
    database: String,
    collection: String,
    names: Vec<String>,
    /// The element `writeConcern`, if there is one.
    concern: Vec<u8>,
}

impl Records {
    pub(crate) fn new(layout: &Layout, settings: &Settings) -> Result<Self, OpenError> {
        let is_bad = |name: &&String| {
            **name == KEY || name.is_empty() || name.starts_with('$') || name.contains(['.', '\0'])
        };
        if let Some(name) = layout.field_names.iter().find(is_bad) {
            let text = format!("'{name}' can't be a field of MongoDB: give another prefix");
            return Err(OpenError::Option(text));
        }
        let mut concern = Vec::new();
        if !settings.concern.is_empty() {
            put_json(&mut concern, "writeConcern", &settings.concern.clone().into());
        }
        let (database, collection) = (settings.database.clone(), layout.table.clone());
        Ok(Self { database, collection, names: layout.field_names.clone(), concern })
    }

    /// Appends the command of an operation.
    #[inline]
    pub(crate) fn put(&self, output: &mut Vec<u8>, id: u32, request: &Request<'_>) {
        let key = |output: &mut Vec<u8>| put_text(output, KEY, request.key);
        let fields = |output: &mut Vec<u8>| {
            for (field, value) in request.values.iter() {
                put_binary(output, &self.names[field as usize], value);
            }
        };
        match request.kind {
            Kind::Read | Kind::Scan => self.put_find(output, id, request),
            Kind::Delete => self.put_write(output, id, ["delete", "deletes"], |output| {
                put_nested(output, DOCUMENT, "q", key);
                put_int32(output, "limit", 1);
            }),
            Kind::Insert => self.put_write(output, id, ["update", "updates"], |output| {
                put_nested(output, DOCUMENT, "q", key);
                put_nested(output, DOCUMENT, "u", |output| {
                    key(output);
                    fields(output);
                });
                put_boolean(output, "upsert", true);
            }),
            Kind::Update | Kind::ReadModifyWrite => {
                self.put_write(output, id, ["update", "updates"], |output| {
                    put_nested(output, DOCUMENT, "q", key);
                    put_nested(output, DOCUMENT, "u", |output| {
                        put_nested(output, DOCUMENT, "$set", fields);
                    });
                });
            }
        }
    }

    /// Appends a command with one write, whose members `write` appends.
    fn put_write(
        &self,
        output: &mut Vec<u8>,
        id: u32,
        [command, writes]: [&str; 2],
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        put_message(output, id, |output| {
            put_text(output, command, self.collection.as_bytes());
            put_nested(output, ARRAY, writes, |output| put_nested(output, DOCUMENT, "0", write));
            output.extend_from_slice(&self.concern);
            put_text(output, "$db", self.database.as_bytes());
        });
    }

    fn put_find(&self, output: &mut Vec<u8>, id: u32, request: &Request<'_>) {
        put_message(output, id, |output| {
            put_text(output, "find", self.collection.as_bytes());
            put_nested(output, DOCUMENT, "filter", |output| match request.kind {
                Kind::Scan => put_nested(output, DOCUMENT, KEY, |output| {
                    put_text(output, "$gte", request.key);
                }),
                _ => put_text(output, KEY, request.key),
            });
            let names = match request.columns {
                Columns::All => &[],
                Columns::AllByName => &self.names[..],
                Columns::One(field) => std::slice::from_ref(&self.names[field as usize]),
            };
            if !names.is_empty() {
                put_nested(output, DOCUMENT, "projection", |output| {
                    names.iter().for_each(|name| put_int32(output, name, 1));
                });
            }
            if request.kind == Kind::Scan {
                put_nested(output, DOCUMENT, "sort", |output| put_int32(output, KEY, 1));
                put_int64(output, "limit", request.scan_length as i64);
                put_int64(output, "batchSize", request.scan_length as i64);
            } else {
                put_int32(output, "limit", 1);
                put_boolean(output, "singleBatch", true);
            }
            put_text(output, "$db", self.database.as_bytes());
        });
    }

    /// Appends the command for the next documents of a scan.
    pub(crate) fn put_more(&self, output: &mut Vec<u8>, id: u32, cursor: i64) {
        put_message(output, id, |output| {
            put_int64(output, "getMore", cursor);
            put_text(output, "collection", self.collection.as_bytes());
            put_text(output, "$db", self.database.as_bytes());
        });
    }

    /// Takes a document as a row of the reply, where its values are wanted, and compares it.
    #[inline]
    pub(crate) fn take(
        &self,
        document: Document<'_>,
        reply: &mut Reply,
        wants_values: bool,
        comparison: Option<&mut Comparison>,
    ) -> Result<(), Failure> {
        let row = reply.rows as u32;
        reply.rows += 1;
        if !wants_values && comparison.is_none() {
            return Ok(());
        }
        let (mut place, mut comparison) = (0, comparison);
        for element in document {
            let (name, value) = element?;
            let is_it = |index: usize| self.names[index].as_bytes() == name;
            let field = find_near(place, self.names.len(), is_it);
            let (Some(field), Some(value)) = (field, value.bytes()) else { continue };
            place = field as usize + 1;
            if let Some(comparison) = &mut comparison {
                comparison.see(value);
            }
            if wants_values {
                reply.push(row, field, value);
            }
        }
        Ok(())
    }
}
