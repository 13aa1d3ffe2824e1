//! RocksDB with YCSB's record format, without a driver.

use kvmark_plan::Kind;
use rocksdb::{BlockBasedOptions, Cache, ColumnFamily, DB, DBCompressionType, Options};
use rocksdb::{ReadOptions, WaitForCompactOptions, WriteOptions};

use crate::Failure;
use crate::arguments::Arguments;
use crate::operations::Operation;

/// YCSB's table.
pub(crate) const TABLE: &str = "usertable";

/// An open database.
pub(crate) struct Store {
    db: DB,
    reads: ReadOptions,
    writes: WriteOptions,
    field_names: Vec<String>,
}

impl Store {
    pub(crate) fn open(arguments: &Arguments) -> Result<Self, Failure> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_hyper_clock_cache(arguments.block_cache_bytes, 0));
        let mut options = Options::default();
        options.create_if_missing(arguments.loads());
        options.create_missing_column_families(arguments.loads());
        options.set_write_buffer_size(arguments.write_buffer_bytes);
        options.set_compression_type(compression(&arguments.compression)?);
        options.set_block_based_table_factory(&blocks);
        let table = (TABLE, options.clone());
        Ok(Self {
            db: DB::open_cf_with_opts(&options, &arguments.path, [table])?,
            reads: ReadOptions::default(),
            writes: WriteOptions::default(),
            field_names: (0..10).map(|n| format!("field{n}")).collect(),
        })
    }

    pub(crate) fn table(&self) -> &ColumnFamily {
        self.db.cf_handle(TABLE).expect("the table was opened with the database")
    }

    /// Flushes and waits for compactions.
    pub(crate) fn settle(&self) -> Result<(), rocksdb::Error> {
        let mut wait = WaitForCompactOptions::default();
        wait.set_flush(true);
        self.db.wait_for_compact(&wait)
    }

    pub(crate) fn execute(
        &self,
        table: &ColumnFamily,
        operation: &Operation<'_>,
        record: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let key = operation.key;
        record.clear();
        if operation.kind == Kind::Insert {
            let values = operation.values;
            for (field, place) in &values.places {
                put(record, self.name(*field));
                put(record, &values.bytes[place.clone()]);
            }
            return Ok(self.db.put_cf_opt(table, key, record, &self.writes)?);
        }
        let stored = self.db.get_pinned_cf_opt(table, key, &self.reads)?;
        let stored = stored.ok_or("a record is missing: load first, with the same records")?;
        if operation.kind == Kind::Read {
            return Ok(());
        }
        let new = &operation.values.bytes[operation.values.places[0].1.clone()];
        let (before, after) = around(&stored, self.name(operation.field))?;
        record.extend_from_slice(before);
        put(record, new);
        record.extend_from_slice(after);
        Ok(self.db.put_cf_opt(table, key, record, &self.writes)?)
    }

    fn name(&self, field: u32) -> &[u8] {
        self.field_names[field as usize].as_bytes()
    }
}

fn compression(word: &str) -> Result<DBCompressionType, String> {
    Ok(match word {
        "none" => DBCompressionType::None,
        "snappy" => DBCompressionType::Snappy,
        "lz4" => DBCompressionType::Lz4,
        "zstd" => DBCompressionType::Zstd,
        other => return Err(format!("'compression' can't be '{other}'")),
    })
}

fn put(record: &mut Vec<u8>, bytes: &[u8]) {
    record.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    record.extend_from_slice(bytes);
}

/// The bytes before and after the value of a field and its length.
fn around<'a>(stored: &'a [u8], wanted: &[u8]) -> Result<(&'a [u8], &'a [u8]), Failure> {
    let mut rest = stored;
    loop {
        let name = cut(&mut rest)?;
        let before = &stored[..stored.len() - rest.len()];
        cut(&mut rest)?;
        if name == wanted {
            return Ok((before, rest));
        }
    }
}

fn cut<'a>(stored: &mut &'a [u8]) -> Result<&'a [u8], Failure> {
    let (length, rest) = stored.split_first_chunk().ok_or("a record is damaged")?;
    let cut = rest.split_at_checked(u32::from_be_bytes(*length) as usize);
    let (bytes, rest) = cut.ok_or("a record is damaged")?;
    *stored = rest;
    Ok(bytes)
}
