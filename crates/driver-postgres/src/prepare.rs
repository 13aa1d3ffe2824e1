//! The required table, and the texts that are prepared for it and for the user's statements.
//!
//! Without user statements, a missing table of YCSB is created, and an existing one must fit. With
//! user statements, the workload's preparation creates everything, and operations on records use
//! YCSB's table if it exists and fits.

use kvmark_driver::{Layout, OpenError, Slot};
use kvmark_driver_server::template::{Named, Names};
use kvmark_driver_server::wording::Wording;
use kvmark_plan::{Generator, Statement};

use crate::control::{Control, Rows};
use crate::failure::Failure;
use crate::operation::Prepared;
use crate::records::{self, Records, columns_query, creation, difference};
use crate::text::Text;

/// The opening of a database for a workload.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    pub(crate) control: &'a Control,
    pub(crate) layout: &'a Layout,
}

/// All prepared texts in their order, their use, and whether the table is lost in a crash.
pub(crate) struct Ready {
    pub(crate) texts: Vec<String>,
    pub(crate) prepared: Prepared,
    pub(crate) is_lost: bool,
}

impl Setup<'_> {
    /// Sends the workload's preparation, creates the table if it is missing, and describes all
    /// texts.
    pub(crate) fn run(self) -> Result<Ready, OpenError> {
        let Self { control, layout } = self;
        for text in &layout.prepare {
            control.query(text).map_err(|failure| {
                let start: String = text.trim().chars().take(60).collect();
                let why = failure.text;
                OpenError::System(format!("the preparation '{start}' failed: {why}"))
            })?;
        }
        let own = !layout.statements.is_empty() || !layout.prepare.is_empty();
        let columns = self.columns(own)?;
        let is_lost = columns.iter().flatten().any(|column| column["is_lost"] == "t");
        let records = columns.map(|_| Records::new(layout));
        let mut texts = records.map(|_| records::texts(layout)).unwrap_or_default();
        let describe = |number, text: &str| Text::new(number, &control.describe_text(text)?);
        let described = texts.iter().enumerate().map(|(number, text)| describe(number, text));
        let described = described.collect::<Result<Vec<_>, _>>();
        let described = described.map_err(|failure| self.refused(&failure))?;
        let mut prepared = Prepared { texts: described, records, statements: Vec::new() };
        for statement in &layout.statements {
            let own = self.statement(statement, &mut texts, &mut prepared.texts)?;
            prepared.statements.push(own);
        }
        Ok(Ready { texts, prepared, is_lost })
    }

    /// The columns of YCSB's table, if it exists and fits. It is created if missing, but not for a
    /// workload with `own` tables.
    fn columns(self, own: bool) -> Result<Option<Rows>, OpenError> {
        let Self { control, layout } = self;
        let find = || control.query(&columns_query(layout)).map_err(|why| self.refused(&why));
        let mut columns = find()?;
        if columns.is_empty() && !own {
            let created = control.query(&creation(layout));
            columns = find()?;
            // Another engine may have created it at the same time.
            if let (Err(failure), true) = (created, columns.is_empty()) {
                return Err(self.refused(&failure));
            }
        }
        match difference(layout, &columns) {
            None => Ok(Some(columns)),
            Some(_) if own => Ok(None),
            Some(difference) => Err(OpenError::System(format!(
                "the table {} doesn't fit this workload, because {difference}: drop it or name \
                 another database",
                layout.table
            ))),
        }
    }

    fn refused(self, failure: &Failure) -> OpenError {
        let why = &failure.text;
        OpenError::System(format!("the table {} can't be used: {why}", self.layout.table))
    }

    /// The texts of a user's statement, which are appended to the others, with their arguments.
    fn statement(
        self,
        statement: &Statement,
        texts: &mut Vec<String>,
        described: &mut Vec<Text>,
    ) -> Result<Vec<(u32, Vec<Slot>)>, OpenError> {
        let wrong = |why| OpenError::Option(format!("statement '{}': {why}", statement.name));
        if let Some(option) = statement.options.keys().next() {
            return Err(wrong(format!("it has an option '{option}', and there are none")));
        }
        if statement.texts.is_empty() {
            return Err(wrong("there is no text: give what is to be sent".to_owned()));
        }
        let names = Names::new(&statement.arguments);
        let mut compile = |text: &String| {
            let wording = Wording::parse(text, &names, |number| format!("${number}"))
                .map_err(|why| format!("its text {why}"))?;
            let number = texts.len();
            let description = self.control.describe_text(&wording.text);
            let text = description.and_then(|description| Text::new(number, &description));
            let text = text.map_err(|failure| format!("it can't be prepared: {failure}"))?;
            check(&wording, &text)?;
            described.push(text);
            texts.push(wording.text);
            let slots = wording.arguments.iter().map(|named| named.slot).collect();
            Ok((number as u32, slots))
        };
        statement.texts.iter().map(|text| compile(text).map_err(wrong)).collect()
    }
}

/// Checks that every argument has a parameter and a text.
fn check(wording: &Wording<'_>, text: &Text) -> Result<(), String> {
    let (parameters, arguments) = (text.parameters.len(), wording.arguments.len());
    if parameters != arguments {
        return Err(format!(
            "its text has {parameters} parameters but {arguments} arguments: write every value as \
             {{name}}, without quotes"
        ));
    }
    let has_no_text = |named: &&Named<'_>| {
        matches!(named.argument.generator, Generator::Map { .. } | Generator::Tuple { .. })
    };
    wording.arguments.iter().find(has_no_text).map_or(Ok(()), |named| {
        Err(format!("argument '{}' is a map or a tuple: use several", named.argument.name))
    })
}
