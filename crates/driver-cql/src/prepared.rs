//! The prepared statements, shared by all workers.

use kvmark_driver::Request;
use kvmark_plan::Outcome;

use crate::failure::Failure;
use crate::records::Records;
use crate::statement::UserStatement;
use crate::text::Text;

/// The prepared texts, and their use.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) texts: Vec<Text>,
    /// The operations on YCSB's table, if it exists.
    pub(crate) records: Option<Records>,
    pub(crate) statements: Vec<UserStatement>,
}

impl Prepared {
    /// Adds a text and returns its number.
    pub(crate) fn add(&mut self, text: Text) -> u32 {
        self.texts.push(text);
        (self.texts.len() - 1) as u32
    }

    /// Greatest number of concurrent requests of an operation.
    pub(crate) fn at_once(&self) -> u64 {
        self.statements.iter().map(|own| own.at_once).max().unwrap_or(1)
    }

    #[inline]
    pub(crate) fn text(&self, number: u32) -> &Text {
        &self.texts[number as usize]
    }

    /// The number of the text with this id.
    pub(crate) fn find(&self, id: &[u8]) -> Option<u32> {
        let found = self.texts.iter().position(|text| text.id == id)?;
        u32::try_from(found).ok()
    }

    /// The text of an operation on a record.
    #[inline]
    pub(crate) fn of_record(&self, request: &Request<'_>) -> Result<u32, Failure> {
        let Some(records) = &self.records else {
            let text = "there is no table with YCSB's columns: create it in the workload's \
                        preparation or use statements only";
            return Err(Failure::new(Outcome::Refused, text));
        };
        records.text(request)
    }
}
