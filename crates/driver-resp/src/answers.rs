//! What the replies to a statement say: how its operation ended, and which values came back.
//!
//! The first error is the operation's outcome, wherever it stands: EXEC answers with the errors of
//! the commands between. A reply of nothing makes a read, update or delete a miss: null, an array
//! that holds nothing but nulls, for a read an empty array, for a delete a removed count of 0. An
//! insert never misses, nor does a scan. Texts such as `OK` and `QUEUED`, which aren't strings of
//! bytes, are no values.

use kvmark_driver::Reply;
use kvmark_driver_server::text::append_number;
use kvmark_plan::{Kind, Outcome};

use crate::failure::{Failure, said};
use crate::prepared::Prepared;
use crate::resp::{Cursor, Token};

/// What the replies to one operation have said so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    kind: Kind,
    wants_values: bool,
    /// Whether all elements of a reply are looked at: values are wanted, or may be errors.
    looks_at_all: bool,
    /// Which time over the next reply belongs to, and to which text.
    round: u32,
    text: u32,
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

impl Answers {
    pub(crate) fn new(prepared: &Prepared, kind: Kind, wants_values: bool) -> Self {
        let looks_at_all = wants_values || prepared.is_transaction();
        let (round, text, values, missed) = (0, 0, 0, [false; 2]);
        Self { kind, wants_values, looks_at_all, round, text, values, missed }
    }

    /// Which time over the next reply belongs to.
    pub(crate) fn round(&self) -> usize {
        self.round as usize
    }

    /// Takes the next reply. `items` are those of its time over.
    #[inline]
    pub(crate) fn take(
        &mut self,
        prepared: &Prepared,
        items: u32,
        bytes: &[u8],
        reply: &mut Reply,
    ) -> Result<(), Failure> {
        let seen = match bytes {
            // What most writes get, and there is nothing in it.
            [b'+', ..] => Ok(Seen { something: true, elements: true }),
            // What most reads get, and nobody asks what it is.
            [b'$', b'0'..=b'9', ..] if !self.looks_at_all => {
                Ok(Seen { something: true, elements: true })
            }
            _ => self.look(bytes, reply),
        };
        if let Ok(Seen { something: false, elements }) = seen {
            self.missed[0] |= match self.kind {
                Kind::Read => true,
                Kind::Update | Kind::Delete => elements,
                Kind::Insert | Kind::Scan | Kind::ReadModifyWrite => false,
            };
        }
        self.text += 1;
        if self.text as usize == prepared.texts() {
            if !self.missed[0] && seen.is_ok() {
                reply.rows += prepared.rows(items);
            }
            self.missed = [false, self.missed[0] || self.missed[1]];
            (self.text, self.values) = (0, 0);
            self.round += 1;
        }
        seen.map(drop)
    }

    /// Looks at the elements of a reply, until something is found or at all of them.
    fn look(&mut self, bytes: &[u8], reply: &mut Reply) -> Result<Seen, Failure> {
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
                Token::Error(message) => return Err(said(message)),
                Token::Null => self.values += 1,
                Token::Integer(number) => {
                    seen.something |= number != 0 || self.kind != Kind::Delete;
                    self.push(reply, |bytes| append_number(bytes, number));
                }
                Token::Bulk(text) | Token::Other(text) => {
                    seen.something = true;
                    self.push(reply, |bytes| bytes.extend_from_slice(text));
                }
                Token::Simple(_) => seen.something = true,
            }
            seen.elements = true;
        }
        Ok(seen)
    }

    fn push(&mut self, reply: &mut Reply, append: impl FnOnce(&mut Vec<u8>)) {
        let field = self.values;
        self.values += 1;
        if self.wants_values {
            reply.push(self.round, field, &[]);
            append(&mut reply.bytes);
            let end = reply.bytes.len();
            reply.cells.last_mut().expect("a cell was pushed").place.end = end;
        }
    }

    /// How the operation ended when no reply was an error.
    pub(crate) fn outcome(&self) -> Outcome {
        if self.missed[1] { Outcome::Miss } else { Outcome::Ok }
    }
}
