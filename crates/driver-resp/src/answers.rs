//! What the replies to a statement say: how its operation ended, and which values came back.
//!
//! The first error is the operation's outcome, wherever it stands: EXEC answers with the errors of
//! the commands between. A reply of nothing makes a read, update or delete a miss: null, an array
//! that holds nothing but nulls, for a read an empty array, for a delete a removed count of 0. An
//! insert never misses, nor does a scan. Texts such as `OK` and `QUEUED`, which aren't strings of
//! bytes, are no values.

use kvmark_driver::{Call, Reply};
use kvmark_plan::{Kind, Outcome};

use crate::failure::Failure;
use crate::prepared::Prepared;
use crate::resp::{Cursor, Token, append_number};

/// Takes the replies to one operation in order.
pub(crate) struct Answers<'a> {
    prepared: &'a Prepared,
    call: &'a Call<'a>,
    kind: Kind,
    wants_values: bool,
    /// Whether all elements of a reply are looked at: values are wanted, or may be errors.
    looks_at_all: bool,
    reply: &'a mut Reply,
    /// Which time over the next reply belongs to, and to which text.
    round: usize,
    text: usize,
    /// Values of this time over so far.
    values: u32,
    /// Whether a reply of this time over, and of the operation, was nothing.
    missed: [bool; 2],
}

/// What was seen of a reply's elements.
#[derive(Default)]
struct Seen {
    something: bool,
    elements: bool,
}

impl<'a> Answers<'a> {
    pub(crate) fn new(
        prepared: &'a Prepared,
        call: &'a Call<'a>,
        kind: Kind,
        wants_values: bool,
        reply: &'a mut Reply,
    ) -> Self {
        let looks_at_all = wants_values || prepared.is_transaction();
        let (round, text, values, missed) = (0, 0, 0, [false; 2]);
        Self {
            prepared,
            call,
            kind,
            wants_values,
            looks_at_all,
            reply,
            round,
            text,
            values,
            missed,
        }
    }

    /// Takes the next reply.
    #[inline]
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let seen = match bytes {
            // What most writes get, and there is nothing in it.
            [b'+', ..] => Ok(Seen { something: true, elements: true }),
            // What most reads get, and nobody asks what it is.
            [b'$', b'0'..=b'9', ..] if !self.looks_at_all => {
                Ok(Seen { something: true, elements: true })
            }
            _ => self.look(bytes),
        };
        if let Ok(Seen { something: false, elements }) = seen {
            self.missed[0] |= match self.kind {
                Kind::Read => true,
                Kind::Update | Kind::Delete => elements,
                Kind::Insert | Kind::Scan | Kind::ReadModifyWrite => false,
            };
        }
        self.text += 1;
        if self.text == self.prepared.texts() {
            if !self.missed[0] && seen.is_ok() {
                self.reply.rows += self.prepared.rows(self.call, self.round);
            }
            self.missed = [false, self.missed[0] || self.missed[1]];
            (self.text, self.values) = (0, 0);
            self.round += 1;
        }
        seen.map(drop)
    }

    /// Looks at the elements of a reply, until something is found or at all of them.
    fn look(&mut self, bytes: &[u8]) -> Result<Seen, Failure> {
        let mut cursor = Cursor::new(bytes);
        let mut seen = Seen::default();
        let mut left = 1_usize;
        while left > 0 && (self.looks_at_all || !seen.something) {
            left -= 1;
            match cursor.token()? {
                Token::List(count) => {
                    left += count;
                    continue;
                }
                Token::Map(pairs) => {
                    left += 2 * pairs;
                    continue;
                }
                Token::Error(message) => return Err(Failure::said(message)),
                Token::Null => self.values += 1,
                Token::Integer(number) => {
                    seen.something |= number != 0 || self.kind != Kind::Delete;
                    self.push(|bytes| append_number(bytes, number));
                }
                Token::Bulk(text) | Token::Other(text) => {
                    seen.something = true;
                    self.push(|bytes| bytes.extend_from_slice(text));
                }
                Token::Simple(_) => seen.something = true,
            }
            seen.elements = true;
        }
        Ok(seen)
    }

    fn push(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        let field = self.values;
        self.values += 1;
        if self.wants_values {
            let row = u32::try_from(self.round).unwrap_or(u32::MAX);
            self.reply.push(row, field, &[]);
            append(&mut self.reply.bytes);
            let end = self.reply.bytes.len();
            self.reply.cells.last_mut().expect("a cell was pushed").place.end = end;
        }
    }

    /// How the operation ended when no reply was an error.
    pub(crate) fn outcome(&self) -> Outcome {
        if self.missed[1] { Outcome::Miss } else { Outcome::Ok }
    }
}
