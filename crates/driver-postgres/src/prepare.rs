//! The required table, and the texts that are prepared for it and for the user's statements.
//!
//! Without user statements, a missing table of YCSB is created, and an existing one must fit. With
//! user statements, the workload's preparation creates everything, and operations on records use
//! YCSB's table if it exists and fits.

use std::sync::Arc;

use kvmark_driver::{Layout, OpenError, Slot};
use kvmark_driver_server::template::{Named, Names};
use kvmark_driver_server::wording::Wording;
use kvmark_plan::{Generator, Statement};

use crate::connect::preparation;
use crate::control::{Lines, PostgresStore, Rows, describe_text, query};
use crate::failure::Failure;
use crate::operation::Prepared;
use crate::options::Settings;
use crate::records::{self, Records, columns_query, creation, difference};
use crate::text::Text;

/// Sends the workload's preparation, creates the table if it is missing, and describes all texts.
pub(crate) fn prepare(lines: &Lines, layout: &Layout) -> Result<PostgresStore, OpenError> {
    for text in &layout.prepare {
        query(lines, text).map_err(|failure| {
            let start: String = text.trim().chars().take(60).collect();
            let why = failure.text;
            OpenError::System(format!("the preparation '{start}' failed: {why}"))
        })?;
    }
    let columns = columns(lines, layout)?;
    let is_lost = columns.iter().flatten().any(|column| column["is_lost"] == "t");
    let records = columns.map(|_| Records::new(layout));
    let mut prepared = Prepared { texts: Vec::new(), records, statements: Vec::new() };
    for sql in records.map(|_| records::texts(layout)).unwrap_or_default() {
        let text = describe_text(lines, prepared.texts.len(), sql);
        prepared.texts.push(text.map_err(|failure| refused(layout, &failure))?);
    }
    for statement in &layout.statements {
        let own = compile(lines, statement, &mut prepared.texts);
        let wrong = |why| OpenError::Option(format!("statement '{}': {why}", statement.name));
        prepared.statements.push(own.map_err(wrong)?);
    }
    let preparation = preparation(&prepared.texts);
    let settings = Arc::new(Settings { preparation, ..Settings::clone(&lines.protocol) });
    Ok(PostgresStore { settings, prepared: Arc::new(prepared), is_lost })
}

/// The columns of YCSB's table, if it exists and fits. It is created if missing, but not for a
/// workload with its own tables.
fn columns(lines: &Lines, layout: &Layout) -> Result<Option<Rows>, OpenError> {
    let has_own = !layout.statements.is_empty() || !layout.prepare.is_empty();
    let find = || query(lines, &columns_query(layout)).map_err(|why| refused(layout, &why));
    let mut columns = find()?;
    if columns.is_empty() && !has_own {
        let created = query(lines, &creation(layout));
        columns = find()?;
        // Another engine may have created it at the same time.
        if let (Err(failure), true) = (created, columns.is_empty()) {
            return Err(refused(layout, &failure));
        }
    }
    match difference(layout, &columns) {
        None => Ok(Some(columns)),
        Some(_) if has_own => Ok(None),
        Some(difference) => Err(OpenError::System(format!(
            "the table {} doesn't fit this workload, because {difference}: drop it or name \
             another database",
            layout.table
        ))),
    }
}

fn refused(layout: &Layout, failure: &Failure) -> OpenError {
    OpenError::System(format!("the table {} can't be used: {failure}", layout.table))
}

/// Appends the texts of a user's statement to the others. Returns their numbers and arguments.
fn compile(
    lines: &Lines,
    statement: &Statement,
    texts: &mut Vec<Text>,
) -> Result<Vec<(u32, Vec<Slot>)>, String> {
    if let Some(option) = statement.options.keys().next() {
        return Err(format!("it has an option '{option}', and there are none"));
    }
    if statement.texts.is_empty() {
        return Err("there is no text: give what is to be sent".to_owned());
    }
    let names = Names::new(&statement.arguments);
    let compile = |text: &String| {
        let Wording { text, arguments } =
            Wording::parse(text, &names, |number| format!("${number}"))
                .map_err(|why| format!("its text {why}"))?;
        let number = texts.len();
        let text = describe_text(lines, number, text);
        let text = text.map_err(|failure| format!("it can't be prepared: {failure}"))?;
        check(&arguments, &text)?;
        texts.push(text);
        Ok((number as u32, arguments.iter().map(|named| named.slot).collect()))
    };
    statement.texts.iter().map(compile).collect()
}

/// Checks that every argument has a parameter and a text.
fn check(arguments: &[Named<'_>], text: &Text) -> Result<(), String> {
    let (parameters, count) = (text.parameters.len(), arguments.len());
    if parameters != count {
        return Err(format!(
            "its text has {parameters} parameters but {count} arguments: write every value as \
             {{name}}, without quotes"
        ));
    }
    let has_no_text = |named: &&Named<'_>| {
        matches!(named.argument.generator, Generator::Map { .. } | Generator::Tuple { .. })
    };
    arguments.iter().find(has_no_text).map_or(Ok(()), |named| {
        Err(format!("argument '{}' is a map or a tuple: use several", named.argument.name))
    })
}
