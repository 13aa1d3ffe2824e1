//! The replies to a statement: the outcome of its operation and the values.
//!
//! The first error is the operation's outcome, also within the reply to EXEC. An empty reply makes
//! a read, update or delete a miss: null, an array of nulls, for a read an empty array, for a
//! delete a count of 0. Inserts and scans never miss. Statuses such as `OK` and `QUEUED` aren't
//! values.

use kvmark_driver::{Effect, Reply};
use kvmark_plan::{Kind, Outcome};
use kvmark_wire::number;

use crate::failure::{Failure, refused};
use crate::prepared::{Prepared, Shows};
use kvmark_wire::resp::{Cursor, Token, whole};

/// The replies to one operation so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    kind: Kind,
    wants_values: bool,
    /// Whether all elements of a reply are read, for values or for errors within it.
    reads_all: bool,
    /// The round and the text of the next reply.
    round: u32,
    text: u32,
    /// Values of this round so far.
    values: u32,
    /// Whether a reply of this round, and of the operation, was empty.
    missed: [bool; 2],
    /// The effect of this round's write.
    effect: Effect,
}

/// A summary of a reply's elements.
#[derive(Default)]
struct Summary {
    /// Whether the reply isn't empty.
    something: bool,
    elements: bool,
    /// Whether an element is null.
    null: bool,
    /// Whether an element is the number 0.
    zero: bool,
}

impl Summary {
    const DONE: Self = Self { something: true, elements: true, null: false, zero: false };
}

impl Answers {
    pub(crate) fn new(prepared: &Prepared, kind: Kind, wants_values: bool) -> Self {
        let reads_all = wants_values || prepared.is_transaction;
        let (round, text, values, missed) = (0, 0, 0, [false; 2]);
        let effect = Effect::Applied;
        Self { kind, wants_values, reads_all, round, text, values, missed, effect }
    }

    /// The round of the next reply.
    pub(crate) fn round(&self) -> usize {
        self.round as usize
    }

    /// Takes the next reply. `items` is the number of items in its round.
    #[inline]
    pub(crate) fn take(
        &mut self,
        prepared: &Prepared,
        items: u32,
        bytes: &[u8],
        reply: &mut Reply,
    ) -> Result<(), Failure> {
        let summary = match bytes {
            _ if !prepared.fits(self.text as usize, bytes) => {
                Err(Failure::unexpected_reply("a command"))
            }
            // The reply to most writes has no content.
            [b'+', ..] => Ok(Summary::DONE),
            // The reply to most reads, without a check of its content.
            [b'$', b'0'..=b'9', ..] if !self.reads_all => Ok(Summary::DONE),
            _ => self.read(bytes, reply),
        };
        self.update_effect(prepared, &summary);
        if let Ok(Summary { something: false, elements, .. }) = summary {
            let shows_before = prepared.shows(self.text as usize) == Shows::Before;
            self.missed[0] |= match self.kind {
                Kind::Read => true,
                Kind::Update | Kind::Delete => elements && !shows_before,
                Kind::Insert | Kind::Scan | Kind::ReadModifyWrite => false,
            };
        }
        self.advance(prepared, items, summary.is_ok(), reply);
        summary.map(drop)
    }

    /// Updates the effect of this round's write. One of several commands for a record doesn't show
    /// the effects of the others.
    #[inline]
    fn update_effect(&mut self, prepared: &Prepared, summary: &Result<Summary, Failure>) {
        let shows = prepared.shows(self.text as usize);
        let effect = match summary {
            Ok(Summary { something: true, null: false, zero: false, .. }) => return,
            _ if matches!(self.kind, Kind::Read | Kind::Scan) => return,
            Ok(_) if shows == Shows::Before => return,
            Ok(Summary { zero: true, .. }) if shows == Shows::Number => Effect::NotApplied,
            Ok(Summary { something: true, null: false, .. }) if shows != Shows::Nothing => return,
            Ok(Summary { something: false, .. }) if shows != Shows::Nothing => Effect::NotApplied,
            Err(failure) if shows != Shows::Nothing => Effect::of(failure.outcome),
            Ok(_) | Err(_) => Effect::Unknown,
        };
        self.effect = if prepared.texts() == 1 { effect } else { Effect::Unknown };
    }

    /// Takes up to `most` complete replies whose content doesn't matter. Returns their length and
    /// their number. `items` are the numbers of items in each round.
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
        if self.reads_all {
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
                self.advance(prepared, items[self.round()], true, reply);
            }
        }
        (taken, replies)
    }

    /// Moves on after a reply; `is_ok` means that it isn't an error.
    #[inline]
    fn advance(&mut self, prepared: &Prepared, items: u32, is_ok: bool, reply: &mut Reply) {
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

    /// Reads the elements of a reply, all of them or up to the first that isn't empty.
    fn read(&mut self, bytes: &[u8], reply: &mut Reply) -> Result<Summary, Failure> {
        let mut cursor = Cursor::new(bytes);
        let mut summary = Summary::default();
        let mut left = 1_usize;
        while left > 0 && (self.reads_all || !summary.something) {
            left -= 1;
            match cursor.token()? {
                Token::List(count) => {
                    left += count;
                    continue;
                }
                Token::Error(message) => return Err(refused(message)),
                Token::Null => {
                    summary.null = true;
                    self.values += 1;
                }
                Token::Integer(number) => {
                    summary.zero |= number == 0;
                    summary.something |= number != 0 || self.kind != Kind::Delete;
                    self.push(reply, |bytes| number::append(bytes, number));
                }
                Token::Bulk(text) | Token::Other(text) => {
                    summary.something = true;
                    self.push(reply, |bytes| bytes.extend_from_slice(text));
                }
                Token::Simple(_) => summary.something = true,
            }
            summary.elements = true;
        }
        Ok(summary)
    }

    fn push(&mut self, reply: &mut Reply, append: impl FnOnce(&mut Vec<u8>)) {
        let field = self.values;
        self.values += 1;
        if self.wants_values {
            reply.push_with(self.round, field, append);
        }
    }

    /// The outcome if no reply was an error.
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

    /// The results of replies, taken in runs where possible or one by one; and the number of
    /// replies in runs.
    fn results(
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
    fn replies_taken_in_runs_have_the_same_results_as_one_by_one() {
        let possible: [&[u8]; 5] =
            [b"+OK\r\n", b"$2\r\nab\r\n", b"$-1\r\n", b":0\r\n", b"-ERR\r\n"];
        let texts: [&[&str]; 3] = [&["GET x"], &["MGET [{v}]"], &["SET x 1", "GET x"]];
        let mut runs = [0, 0];
        for prepared in texts.map(prepared) {
            for request in Kind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
                for number in 0..5_usize.pow(4) {
                    let replies =
                        [0, 1, 2, 3].map(|place| possible[number / 5_usize.pow(place) % 5]);
                    let (at_once, run) = results(&prepared, request, &replies, true);
                    assert_eq!(at_once, results(&prepared, request, &replies, false).0);
                    runs[usize::from(request.1)] += run;
                }
            }
        }
        assert!(runs[0] > 0 && runs[1] == 0, "{runs:?}");
    }

    /// The effects of the commands that may not be applied.
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
    fn a_reply_of_the_wrong_type_is_rejected() {
        let kinds: [&[u8]; 6] =
            [b"+OK\r\n", b":1\r\n", b"$1\r\na\r\n", b"$-1\r\n", b"*1\r\n:1\r\n", b"-ERR no\r\n"];
        let fits = |text: &str| {
            let prepared = prepared(&[text]);
            let is_accepted = |reply: &&[u8]| {
                let mut answers = Answers::new(&prepared, Kind::Update, false);
                let taken = answers.take(&prepared, 1, reply, &mut Reply::default());
                taken.is_ok_and(|()| true)
            };
            kinds.map(|reply| is_accepted(&reply))
        };
        assert_eq!(fits("SET k 1"), [true, false, false, true, false, false]);
        assert_eq!(fits("SET k 1 GET"), [false, false, true, true, false, false]);
        assert_eq!(fits("HSET k f 1"), [false, true, false, false, false, false]);
        assert_eq!(fits("GET k"), [false, false, true, true, false, false]);
        assert_eq!(fits("HGETALL k"), [false, false, false, false, true, false]);
        assert_eq!(fits("EVAL script 0"), [true, true, true, true, true, false]);
        // A wrong reply is found among several.
        let several = effects(&["SET k 1"], Kind::Update, &[b"+OK\r\n", b":1\r\n", b"+OK\r\n"]);
        assert_eq!(several, [(1, Effect::Unknown)]);
    }

    #[test]
    fn a_missing_previous_value_is_a_miss_for_a_read_and_not_for_a_write() {
        for (kind, outcome) in [(Kind::Read, Outcome::Miss), (Kind::Update, Outcome::Ok)] {
            let prepared = prepared(&["GETSET k 1"]);
            let mut answers = Answers::new(&prepared, kind, false);
            answers.take(&prepared, 1, b"$-1\r\n", &mut Reply::default()).unwrap();
            assert_eq!(answers.outcome(), outcome);
        }
    }

    #[test]
    fn a_command_that_was_not_applied_is_reported_by_its_number() {
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
            // One of the two may be applied.
            (&["GET k", "SET k 1"], Kind::Update, &[null, ok, text, ok], &[(0, Unknown)]),
            (&["GET k"], Kind::Read, &[null, wrong], &[]),
        ];
        for (texts, kind, replies, expected) in cases {
            assert_eq!(effects(texts, kind, replies), expected, "{texts:?}");
        }
        let block = ["MULTI", "SET k 1 XX", "SET l 1 XX", "EXEC"];
        let queued = &b"+QUEUED\r\n"[..];
        let half = &b"*2\r\n+OK\r\n$-1\r\n"[..];
        let partial = effects(&block, Kind::Update, &[ok, queued, queued, half]);
        assert_eq!(partial, [(0, Unknown)]);
        let whole = &b"*2\r\n+OK\r\n+OK\r\n"[..];
        assert_eq!(effects(&block, Kind::Update, &[ok, queued, queued, whole]), []);
    }
}
