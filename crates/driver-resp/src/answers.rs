//! What the replies to a statement say: how its operation ended, and which values came back.
//!
//! The first error is the operation's outcome, wherever it stands: EXEC answers with the errors of
//! the commands between. A reply of nothing makes a read, update or delete a miss: null, an array
//! that holds nothing but nulls, for a read an empty array, for a delete a removed count of 0. An
//! insert never misses, nor does a scan. Texts such as `OK` and `QUEUED`, which aren't strings of
//! bytes, are no values.

use kvmark_driver::{Effect, Reply};
use kvmark_plan::{Kind, Outcome};
use kvmark_wire::number;

use crate::failure::{Failure, refused};
use crate::prepared::{Prepared, Shows};
use kvmark_wire::resp::{Cursor, Token, whole};

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
    /// What is known of the write of this time over.
    effect: Effect,
}

/// What was seen of a reply's elements.
#[derive(Default)]
struct Seen {
    something: bool,
    elements: bool,
    /// Whether one is a null, or the number 0.
    null: bool,
    zero: bool,
}

impl Seen {
    const DONE: Self = Self { something: true, elements: true, null: false, zero: false };
}

impl Answers {
    pub(crate) fn new(prepared: &Prepared, kind: Kind, wants_values: bool) -> Self {
        let looks_at_all = wants_values || prepared.is_transaction();
        let (round, text, values, missed) = (0, 0, 0, [false; 2]);
        let effect = Effect::Applied;
        Self { kind, wants_values, looks_at_all, round, text, values, missed, effect }
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
            _ if !prepared.fits(self.text as usize, bytes) => {
                Err(Failure::unexpected_reply("a command"))
            }
            // What most writes get, and there is nothing in it.
            [b'+', ..] => Ok(Seen::DONE),
            // What most reads get, and nobody asks what it is.
            [b'$', b'0'..=b'9', ..] if !self.looks_at_all => Ok(Seen::DONE),
            _ => self.look(bytes, reply),
        };
        self.see(prepared, &seen);
        if let Ok(Seen { something: false, elements, .. }) = seen {
            let shows_before = prepared.shows(self.text as usize) == Shows::Before;
            self.missed[0] |= match self.kind {
                Kind::Read => true,
                Kind::Update | Kind::Delete => elements && !shows_before,
                Kind::Insert | Kind::Scan | Kind::ReadModifyWrite => false,
            };
        }
        self.go_on(prepared, items, seen.is_ok(), reply);
        seen.map(drop)
    }

    /// Takes what a reply shows of the write of this time over. Of several commands about a record
    /// one doesn't show what the others did.
    #[inline]
    fn see(&mut self, prepared: &Prepared, seen: &Result<Seen, Failure>) {
        let shows = prepared.shows(self.text as usize);
        let effect = match seen {
            Ok(Seen { something: true, null: false, zero: false, .. }) => return,
            _ if matches!(self.kind, Kind::Read | Kind::Scan) => return,
            Ok(_) if shows == Shows::Before => return,
            Ok(Seen { zero: true, .. }) if shows == Shows::Number => Effect::NotApplied,
            Ok(Seen { something: true, null: false, .. }) if shows != Shows::Nothing => return,
            Ok(Seen { something: false, .. }) if shows != Shows::Nothing => Effect::NotApplied,
            Err(failure) if shows != Shows::Nothing => Effect::of(failure.outcome),
            Ok(_) | Err(_) => Effect::Unknown,
        };
        self.effect = if prepared.texts() == 1 { effect } else { Effect::Unknown };
    }

    /// Takes so many of the next replies at most that are whole and of which nobody asks more than
    /// that they are there; their bytes and how many they are. `items` are those of each time over.
    #[inline]
    pub(crate) fn take_run(
        &mut self,
        prepared: &Prepared,
        items: &[u32],
        bytes: &[u8],
        most: u32,
        reply: &mut Reply,
    ) -> (usize, u32) {
        let (mut taken, mut replies) = (0, 0);
        if self.looks_at_all {
            return (taken, replies);
        }
        let texts = prepared.texts();
        let text = |replies: u32| match texts {
            1 => 0,
            _ => (self.text + replies) as usize % texts,
        };
        while replies < most
            && let Some(length) = whole(&bytes[taken..])
            && prepared.fits(text(replies), &bytes[taken..])
        {
            (taken, replies) = (taken + length, replies + 1);
        }
        if let Some(rows) = prepared.rows_of_each() {
            reply.rows += rows * u64::from(replies);
            self.round += replies;
        } else {
            for _ in 0..replies {
                self.go_on(prepared, items[self.round()], true, reply);
            }
        }
        (taken, replies)
    }

    /// A reply was taken; `is_ok` says that it is no error.
    #[inline]
    fn go_on(&mut self, prepared: &Prepared, items: u32, is_ok: bool, reply: &mut Reply) {
        self.text += 1;
        if self.text as usize == prepared.texts() {
            if !self.missed[0] && is_ok {
                reply.rows += prepared.rows(items);
            }
            if self.effect != Effect::Applied {
                reply.effects.push((self.round, self.effect));
                self.effect = Effect::Applied;
            }
            self.missed = [false, self.missed[0] || self.missed[1]];
            (self.text, self.values) = (0, 0);
            self.round += 1;
        }
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
                Token::Error(message) => return Err(refused(message)),
                Token::Null => {
                    seen.null = true;
                    self.values += 1;
                }
                Token::Integer(number) => {
                    seen.zero |= number == 0;
                    seen.something |= number != 0 || self.kind != Kind::Delete;
                    self.push(reply, |bytes| number::append(bytes, number));
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kvmark_plan::{Argument, Each, Generator, SizeLaw, Statement};

    use super::*;

    fn prepared(texts: &[&str]) -> Prepared {
        let length = SizeLaw::Constant { size: 1 };
        let generator = Generator::Text { length: length.clone() };
        Prepared::new(&Statement {
            name: "MINE".to_owned(),
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            commands: length.clone(),
            items: length,
            rows: None,
            record: Each::Command,
            checks: Vec::new(),
            when_full: None,
            arguments: vec![Argument { name: "v".to_owned(), each: Each::Item, generator }],
            expects: Vec::new(),
            options: BTreeMap::new(),
        })
        .unwrap()
    }

    /// What four replies say, taken as runs where that can be, or one by one; and how many were
    /// taken as runs.
    fn told(
        prepared: &Prepared,
        (kind, wants_values): (Kind, bool),
        replies: &[&[u8]],
        as_runs: bool,
    ) -> (String, usize) {
        let items = [1, 2, 3, 4];
        let mut answers = Answers::new(prepared, kind, wants_values);
        let (mut reply, mut failures, mut run) = (Reply::default(), Vec::new(), 0);
        let mut at = 0;
        while at < replies.len() {
            let most = if as_runs { replies.len() - at - 1 } else { 0 } as u32;
            let rest = replies[at..].concat();
            let (bytes, count) = answers.take_run(prepared, &items, &rest, most, &mut reply);
            assert_eq!(bytes, replies[at..at + count as usize].concat().len());
            (run, at) = (run + count as usize, at + count as usize);
            let taken = answers.take(prepared, items[answers.round()], replies[at], &mut reply);
            failures.extend(taken.err().map(|failure| failure.text));
            at += 1;
        }
        (format!("{reply:?} {failures:?} {:?}", answers.outcome()), run)
    }

    #[test]
    fn replies_taken_at_once_say_what_they_say_one_by_one() {
        let possible: [&[u8]; 5] =
            [b"+OK\r\n", b"$2\r\nab\r\n", b"$-1\r\n", b":0\r\n", b"-ERR\r\n"];
        let texts: [&[&str]; 3] = [&["GET x"], &["MGET [{v}]"], &["SET x 1", "GET x"]];
        let mut runs = [0, 0];
        for prepared in texts.map(prepared) {
            for asked in Kind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
                for number in 0..5_usize.pow(4) {
                    let replies =
                        [0, 1, 2, 3].map(|place| possible[number / 5_usize.pow(place) % 5]);
                    let (at_once, run) = told(&prepared, asked, &replies, true);
                    assert_eq!(at_once, told(&prepared, asked, &replies, false).0);
                    runs[usize::from(asked.1)] += run;
                }
            }
        }
        assert!(runs[0] > 0 && runs[1] == 0, "{runs:?}");
    }

    /// What is known of each command that isn't known to be applied.
    fn effects(texts: &[&str], kind: Kind, replies: &[&[u8]]) -> Vec<(u32, Effect)> {
        let prepared = prepared(texts);
        let mut answers = Answers::new(&prepared, kind, false);
        let mut reply = Reply::default();
        for bytes in replies {
            drop(answers.take(&prepared, 1, bytes, &mut reply));
        }
        reply.effects
    }

    #[test]
    fn a_reply_that_the_command_cannot_have_is_none() {
        let kinds: [&[u8]; 6] =
            [b"+OK\r\n", b":1\r\n", b"$1\r\na\r\n", b"$-1\r\n", b"*1\r\n:1\r\n", b"-ERR no\r\n"];
        let fits = |text: &str| {
            let prepared = prepared(&[text]);
            let told = |reply: &&[u8]| {
                let mut answers = Answers::new(&prepared, Kind::Update, false);
                let taken = answers.take(&prepared, 1, reply, &mut Reply::default());
                taken.is_ok_and(|()| true)
            };
            kinds.map(|reply| told(&reply))
        };
        assert_eq!(fits("SET k 1"), [true, false, false, true, false, false]);
        assert_eq!(fits("SET k 1 GET"), [false, false, true, true, false, false]);
        assert_eq!(fits("HSET k f 1"), [false, true, false, false, false, false]);
        assert_eq!(fits("GET k"), [false, false, true, true, false, false]);
        assert_eq!(fits("HGETALL k"), [false, false, false, false, true, false]);
        assert_eq!(fits("EVAL script 0"), [true, true, true, true, true, false]);
        // What is wrong is seen among many, too.
        let several = effects(&["SET k 1"], Kind::Update, &[b"+OK\r\n", b":1\r\n", b"+OK\r\n"]);
        assert_eq!(several, [(1, Effect::Unknown)]);
    }

    #[test]
    fn what_was_there_before_is_a_miss_for_who_reads_it_and_none_for_who_writes() {
        for (kind, outcome) in [(Kind::Read, Outcome::Miss), (Kind::Update, Outcome::Ok)] {
            let prepared = prepared(&["GETSET k 1"]);
            let mut answers = Answers::new(&prepared, kind, false);
            answers.take(&prepared, 1, b"$-1\r\n", &mut Reply::default()).unwrap();
            assert_eq!(answers.outcome(), outcome);
        }
    }

    #[test]
    fn a_command_that_wasnt_carried_out_is_told_by_its_number() {
        use Effect::{NotApplied, Unknown};
        let (ok, null, zero, one) = (&b"+OK\r\n"[..], &b"$-1\r\n"[..], &b":0\r\n"[..], b":1\r\n");
        let (wrong, loading) = (&b"-WRONGTYPE\r\n"[..], &b"-LOADING\r\n"[..]);
        let text = &b"$1\r\na\r\n"[..];
        let set = |replies: &[&[u8]]| effects(&["SET k 1 XX"], Kind::Update, replies);
        assert_eq!(set(&[ok, null, ok, ok]), [(1, NotApplied)]);
        assert_eq!(set(&[ok, ok, wrong, null]), [(2, NotApplied), (3, NotApplied)]);
        assert_eq!(set(&[loading, ok]), [(0, Unknown)]);
        let added = effects(&["SET k 1 NX"], Kind::Insert, &[ok, null]);
        assert_eq!(added, [(1, NotApplied)]);
        type Case<'a> = (&'a [&'a str], Kind, &'a [&'a [u8]], &'a [(u32, Effect)]);
        let cases: [Case<'_>; 9] = [
            (&["HSET k f 1"], Kind::Update, &[zero], &[]),
            (&["SETNX k 1"], Kind::Update, &[one, zero], &[(1, NotApplied)]),
            (&["GETSET k 1"], Kind::Update, &[null], &[]),
            (&["SET k 1 GET"], Kind::Update, &[null], &[]),
            (&["EVAL script 1 k 1"], Kind::Update, &[zero, one], &[(0, Unknown)]),
            (&["EVAL script 1 k 1"], Kind::Update, &[wrong], &[(0, Unknown)]),
            (&["DEL k"], Kind::Delete, &[one, zero], &[(1, NotApplied)]),
            // One of the two may have been done.
            (&["GET k", "SET k 1"], Kind::Update, &[null, ok, text, ok], &[(0, Unknown)]),
            (&["GET k"], Kind::Read, &[null, wrong], &[]),
        ];
        for (texts, kind, replies, expected) in cases {
            assert_eq!(effects(texts, kind, replies), expected, "{texts:?}");
        }
        let block = ["MULTI", "SET k 1 XX", "SET l 1 XX", "EXEC"];
        let queued = &b"+QUEUED\r\n"[..];
        let half = &b"*2\r\n+OK\r\n$-1\r\n"[..];
        let told = effects(&block, Kind::Update, &[ok, queued, queued, half]);
        assert_eq!(told, [(0, Unknown)]);
        let whole = &b"*2\r\n+OK\r\n+OK\r\n"[..];
        assert_eq!(effects(&block, Kind::Update, &[ok, queued, queued, whole]), []);
    }
}
