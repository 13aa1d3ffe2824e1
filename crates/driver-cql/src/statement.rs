//! User statements: prepared, checked and bound.

use kvmark_driver::options::Given;
use kvmark_driver::{Call, OpenError, Slot};
use kvmark_driver_server::template::Names;
use kvmark_driver_server::wording::Wording;
use kvmark_plan::{Outcome, Statement};

use crate::encode;
use crate::failure::Failure;
use crate::options::statement_options;
use crate::rows::{APPLIED, Preparation, preparation};
use crate::schema::Setup;
use crate::settings::{Consistency, Settings};
use crate::text::{Batch, RowUse, Terms, Text};

/// One text of a statement: its number among the prepared texts, and its arguments.
#[derive(Debug)]
pub(crate) struct StatementText {
    pub(crate) text: u32,
    slots: Vec<Slot>,
}

/// A user statement.
#[derive(Debug)]
pub(crate) struct UserStatement {
    pub(crate) parts: Vec<StatementText>,
    /// Whether a text returns rows.
    pub(crate) selects: bool,
    /// Whether pages after the first are fetched.
    pub(crate) all_pages: bool,
    /// The batch of its commands, if they are sent together.
    pub(crate) batch: Option<Batch>,
    /// Greatest number of concurrent requests of an operation.
    pub(crate) at_once: u64,
}

impl UserStatement {
    /// Prepares a statement, checks its arguments and appends its texts to `texts`.
    pub(crate) fn prepare(
        setup: &Setup<'_>,
        statement: &Statement,
        texts: &mut Vec<Text>,
    ) -> Result<Self, OpenError> {
        let name = &statement.name;
        let wrong = |why: String| OpenError::Option(format!("statement '{name}': {why}"));
        let given = Given::parse(statement_options(), &statement.options)
            .map_err(|error| wrong(error.to_string()))?;
        let batch = batch(&given, setup.settings);
        if statement.texts.is_empty() {
            return Err(wrong("there is no text: give what is to be sent".to_owned()));
        }
        let names = Names::new(&statement.arguments);
        let mut parts = Vec::with_capacity(statement.texts.len());
        let mut selects = false;
        for text in &statement.texts {
            let wording = Wording::parse(text, &names, |_| "?".to_owned())
                .map_err(|why| wrong(format!("its text {why}")))?;
            let unprepared = |failure: Failure| wrong(format!("it can't be prepared: {failure}"));
            let body = setup.prepare(&wording.text).map_err(unprepared)?;
            let preparation = preparation(&body).map_err(unprepared)?;
            check(&wording, &preparation).map_err(wrong)?;
            let cql = wording.text.clone();
            let text = text_of(cql, preparation, &given, setup.settings);
            selects |= text.is_select();
            if batch.is_some() && selects {
                let why = "a batch can't hold a select: leave option 'batch' out";
                return Err(wrong(why.to_owned()));
            }
            let slots = wording.arguments.iter().map(|named| named.slot).collect();
            parts.push(StatementText { text: texts.len() as u32, slots });
            texts.push(text);
        }
        let at_once = if batch.is_some() { 1 } else { statement.commands.largest() };
        let all_pages = given.text("pages") == Some("all");
        Ok(Self { parts, selects, all_pages, batch, at_once })
    }
}

impl StatementText {
    /// Writes the bound values of a command.
    pub(crate) fn bind(
        &self,
        text: &Text,
        call: &Call<'_>,
        command: usize,
        output: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        for (slot, column) in self.slots.iter().zip(&text.markers) {
            let (kind, bytes) = call.argument(*slot, command, 0);
            encode::write(column, kind, bytes, output)
                .map_err(|misfit| Failure::new(Outcome::Refused, misfit.to_string()))?;
        }
        Ok(())
    }
}

/// Checks that every argument fits its bind marker.
fn check(wording: &Wording<'_>, preparation: &Preparation<'_>) -> Result<(), String> {
    let columns = &preparation.markers;
    let (markers, arguments) = (columns.len(), wording.arguments.len());
    if markers != arguments {
        return Err(format!(
            "its text has {markers} bind markers but {arguments} arguments outside quotes: write \
             every value as {{name}}, without quotes"
        ));
    }
    for (named, column) in wording.arguments.iter().zip(columns) {
        let argument = named.argument;
        encode::check(&argument.generator, &column.typ)
            .map_err(|why| format!("argument '{}' doesn't fit: {why}", argument.name))?;
    }
    Ok(())
}

fn text_of(cql: String, preparation: Preparation<'_>, given: &Given, settings: &Settings) -> Text {
    let columns = &preparation.columns;
    // A conditional write returns rows with its result.
    let is_select = columns.first().is_some_and(|column| column.name != APPLIED);
    let (level, row_use) = if is_select {
        let types = columns.iter().map(|column| column.typ.clone());
        (settings.read, RowUse::Columns(types.collect()))
    } else {
        (settings.write, RowUse::Nothing)
    };
    let page_size = given.whole("page_size").and_then(|size| size.try_into().ok());
    let page_size = is_select.then(|| page_size.unwrap_or(settings.page_size));
    Text::new(cql, preparation, terms(given, settings, level), page_size, row_use)
}

/// The terms of the statement; `level` is the driver's default.
fn terms(given: &Given, settings: &Settings, level: Consistency) -> Terms {
    Terms {
        consistency: given.own("consistency").map_or(level, Consistency::named),
        serial: given.own("serial_consistency").map_or(settings.serial, Consistency::named),
        timestamp: given.whole("timestamp").and_then(|micros| micros.try_into().ok()),
        idempotent: given.switch("idempotent"),
    }
}

fn batch(given: &Given, settings: &Settings) -> Option<Batch> {
    let kind = match given.text("batch") {
        Some("logged") => 0,
        Some("unlogged") => 1,
        Some("counter") => 2,
        _ => return None,
    };
    Some(Batch { kind, terms: terms(given, settings, settings.write) })
}
