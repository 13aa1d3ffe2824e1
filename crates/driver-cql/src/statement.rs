//! Statements in the user's own words: prepared, checked and bound.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use kvmark_driver::options::Given;
use kvmark_driver::{Call, OpenError, Slot};
use kvmark_plan::Statement;
use scylla::client::session::Session;
use scylla::frame::response::result::ColumnSpec;
use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use crate::encode;
use crate::failure::Failure;
use crate::options::statement_options;
use crate::settings::{Settings, consistency, serial};
use crate::wording::{Wording, slot};

/// One text of a statement.
pub(crate) struct Text {
    pub(crate) prepared: PreparedStatement,
    slots: Vec<Slot>,
    /// Whether it returns rows of the user's; a conditional write returns its own.
    pub(crate) is_select: bool,
}

/// A statement, prepared for one session.
pub(crate) struct Prepared {
    pub(crate) texts: Vec<Text>,
    /// Whether pages after the first are fetched.
    pub(crate) all_pages: bool,
    batch: Option<Batches>,
}

/// The batch of each number of commands that was needed so far.
struct Batches {
    empty: Batch,
    by_commands: RefCell<BTreeMap<usize, Rc<Batch>>>,
}

/// What the options of a statement and of the driver say, put on a prepared statement.
struct Terms<'a> {
    given: Given,
    settings: &'a Settings,
}

impl Prepared {
    /// Prepares a statement and checks what is bound to it.
    pub(crate) async fn new(
        session: &Session,
        statement: &Statement,
        settings: &Settings,
    ) -> Result<Self, OpenError> {
        let name = &statement.name;
        let wrong = |why: String| OpenError::Option(format!("statement '{name}': {why}"));
        let given = Given::parse(statement_options(), &statement.options)
            .map_err(|error| wrong(error.to_string()))?;
        let terms = Terms { given, settings };
        if statement.texts.is_empty() {
            return Err(wrong("there is no text: give what is to be sent".to_owned()));
        }
        let mut texts = Vec::with_capacity(statement.texts.len());
        for text in &statement.texts {
            let wording = Wording::parse(text, &statement.arguments)
                .map_err(|why| wrong(format!("its text {why}")))?;
            let prepared = session.prepare(wording.cql.as_str()).await.map_err(|error| {
                wrong(format!("it can't be prepared: {}", Failure::from(&error).text))
            })?;
            check(&wording, &prepared, statement).map_err(wrong)?;
            let slots = wording.arguments.iter();
            let slots = slots.map(|index| slot(*index, &statement.arguments)).collect();
            texts.push(terms.text(prepared, slots));
        }
        let batch = terms.batch();
        if batch.is_some() && texts.iter().any(|text| text.is_select) {
            return Err(wrong("a batch can't hold a select: leave option 'batch' out".to_owned()));
        }
        Ok(Self { texts, all_pages: terms.given.text("pages") == Some("all"), batch })
    }

    /// The batch of this many commands, if they go out in one.
    pub(crate) fn batch(&self, commands: usize) -> Option<Rc<Batch>> {
        let batches = self.batch.as_ref()?;
        let mut by_commands = batches.by_commands.borrow_mut();
        let batch = by_commands.entry(commands).or_insert_with(|| {
            let mut batch = batches.empty.clone();
            for text in (0..commands).flat_map(|_| &self.texts) {
                batch.append_statement(text.prepared.clone());
            }
            Rc::new(batch)
        });
        Some(Rc::clone(batch))
    }
}

/// Whether every marker can take what its argument draws.
fn check(
    wording: &Wording,
    prepared: &PreparedStatement,
    statement: &Statement,
) -> Result<(), String> {
    let columns = prepared.get_variable_col_specs();
    let (markers, arguments) = (columns.len(), wording.arguments.len());
    if markers != arguments {
        return Err(format!(
            "its text has {markers} bind markers but {arguments} arguments outside quotes: write \
             every value as {{name}}, without quotes"
        ));
    }
    for (index, column) in wording.arguments.iter().zip(columns.iter()) {
        let argument = &statement.arguments[*index];
        encode::check(&argument.generator, column.typ())
            .map_err(|why| format!("argument '{}' doesn't fit: {why}", argument.name))?;
    }
    Ok(())
}

impl Terms<'_> {
    fn text(&self, mut prepared: PreparedStatement, slots: Vec<Slot>) -> Text {
        let settings = self.settings;
        let first = |columns: &[ColumnSpec<'_>]| Some(columns.first()?.name() != "[applied]");
        let is_select =
            first(prepared.get_current_result_set_col_specs().get().as_slice()).unwrap_or(false);
        let level = self.given.own("consistency").map(consistency);
        prepared.set_consistency(level.unwrap_or(if is_select {
            settings.read
        } else {
            settings.write
        }));
        if let Some(level) = self.given.own("serial_consistency") {
            prepared.set_serial_consistency(Some(serial(level)));
        }
        let page_size = self.given.whole("page_size").and_then(|size| size.try_into().ok());
        prepared.set_page_size(page_size.unwrap_or(settings.page_size));
        prepared.set_timestamp(self.timestamp());
        prepared.set_is_idempotent(self.given.switch("idempotent"));
        prepared.set_use_cached_result_metadata(is_select);
        Text { prepared, slots, is_select }
    }

    fn timestamp(&self) -> Option<i64> {
        self.given.whole("timestamp").and_then(|micros| micros.try_into().ok())
    }

    fn batch(&self) -> Option<Batches> {
        let mut batch = Batch::new(match self.given.text("batch") {
            Some("unlogged") => BatchType::Unlogged,
            Some("logged") => BatchType::Logged,
            Some("counter") => BatchType::Counter,
            _ => return None,
        });
        let level = self.given.own("consistency").map(consistency);
        batch.set_consistency(level.unwrap_or(self.settings.write));
        if let Some(level) = self.given.own("serial_consistency") {
            batch.set_serial_consistency(Some(serial(level)));
        }
        batch.set_timestamp(self.timestamp());
        batch.set_is_idempotent(self.given.switch("idempotent"));
        Some(Batches { empty: batch, by_commands: RefCell::default() })
    }
}

/// A text's arguments in one command of a call.
pub(crate) struct Bound<'a> {
    pub(crate) text: &'a Text,
    pub(crate) call: &'a Call<'a>,
    pub(crate) command: usize,
}

impl SerializeRow for Bound<'_> {
    fn serialize(
        &self,
        context: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Result<(), SerializationError> {
        for (slot, column) in self.text.slots.iter().zip(context.columns()) {
            let (kind, bytes) = self.call.argument(*slot, self.command, 0);
            encode::write(column.typ(), kind, bytes, writer.make_cell_writer())
                .map_err(SerializationError::new)?;
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.text.slots.is_empty()
    }
}
