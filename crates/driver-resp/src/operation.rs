//! The operations of clients: their commands and the interpretation of the replies.
//!
//! Most operations take one reply, which is stored in the session. An operation with several
//! replies or steps borrows a [`Work`].

use std::sync::Arc;

use kvmark_driver::{Call, Effect, Reply, Request};
use kvmark_driver_server::framed::{InFlightOperation, Progress, RequestReply};
use kvmark_driver_server::text::Texts;
use kvmark_plan::{Kind, Outcome};

use crate::answers::Answers;
use crate::cluster_batch::{BatchReplies, ClusterBatch};
use crate::commands::{
    Fields, ReadOptions, put_delete, put_index, put_keys, put_unindex, take_count, take_keys,
    take_ok,
};
use crate::failure::Failure;
use crate::prepared::Prepared;

/// The translation of operations into commands.
pub(crate) struct Dialect {
    pub(crate) fields: Arc<Fields>,
    pub(crate) statements: Arc<[Prepared]>,
    pub(crate) pipeline_parts: bool,
}

/// Reusable memory of an operation with several replies.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The values so far.
    reply: Reply,
    /// The command after the first one.
    follow: Vec<u8>,
    keys: Texts,
    /// Items of each round.
    items: Vec<u32>,
    /// Its commands in a cluster, and the replies to them.
    pub(crate) batch: ClusterBatch,
    pub(crate) replies: BatchReplies,
    /// The command of each reply, in the order of sending.
    pub(crate) order: Vec<u32>,
    /// The number of redirections.
    pub(crate) followed: u32,
}

/// Unused works. They stay boxed, because an operation without a work must stay small.
type Shelf = Vec<Box<Work>>;

/// State that the operations of a session share.
pub struct Context {
    pub(crate) dialect: Dialect,
    shelf: Shelf,
    in_cluster: bool,
}

impl Context {
    pub(crate) fn new(dialect: Dialect, in_cluster: bool) -> Self {
        Self { dialect, shelf: Vec::new(), in_cluster }
    }
}

/// The operation of a client.
#[derive(Debug, Default)]
pub struct RespOperation {
    task: Task,
    pub(crate) progress: Progress,
    /// Replies to the commands that are sent together.
    replies: u32,
    /// Whether its values are collected in its work.
    gathers: bool,
    pub(crate) work: Option<Box<Work>>,
}

#[derive(Debug, Default)]
enum Task {
    #[default]
    Idle,
    Read {
        options: ReadOptions,
        outcome: Outcome,
    },
    Update,
    /// `taken` is the number of replies.
    Insert {
        taken: u32,
    },
    Delete {
        taken: u32,
        removed: i64,
    },
    /// `asked` is the number of requested records; `None` before the keys are known.
    Scan {
        options: ReadOptions,
        asked: Option<u32>,
    },
    Statement {
        statement: u32,
        /// Items of a single command.
        items: u32,
        answers: Answers,
    },
}

impl Dialect {
    /// Encodes the first commands of an operation.
    #[inline]
    fn put(&self, request: &Request<'_>, output: &mut Vec<u8>) {
        if let Some(call) = &request.statement {
            return self.statements[call.statement as usize].put_all(output, call);
        }
        match request.kind {
            Kind::Read => self.fields.put_read(output, request.key, request.columns),
            Kind::Update => self.fields.put_write(output, request.key, request.values),
            Kind::Scan => put_keys(output, request.key, request.scan_length),
            Kind::Insert => self.fields.put_write(output, request.key, request.values),
            Kind::Delete => put_delete(output, request.key),
            Kind::ReadModifyWrite => {}
        }
        if self.pipeline_parts {
            put_second(request, output);
        }
    }

    /// Fills a batch with the first commands of an operation.
    pub(crate) fn pack(
        &self,
        request: &Request<'_>,
        batch: &mut ClusterBatch,
    ) -> Result<(), Failure> {
        match &request.statement {
            Some(call) => batch.fill_with(&self.statements[call.statement as usize], call),
            None => batch.fill(|output| self.put(request, output)),
        }
    }
}

/// Encodes the second command of an insert or delete.
fn put_second(request: &Request<'_>, output: &mut Vec<u8>) {
    match request.kind {
        Kind::Insert => put_index(output, request.key),
        Kind::Delete => put_unindex(output, request.key),
        _ => {}
    }
}

/// Takes the reply to the index command of an insert or delete. If the command fails, the write of
/// the record remains.
fn take_index(bytes: &[u8], is_written: bool, reply: &mut Reply) -> Result<i64, Failure> {
    let count = take_count(bytes);
    if count.is_err() && is_written {
        reply.effects.push((0, Effect::Applied));
    }
    count
}

/// The number of commands of a statement's operation.
fn commands(prepared: &Prepared, call: &Call<'_>) -> u32 {
    u32::try_from(call.commands.len() * prepared.texts()).unwrap_or(u32::MAX)
}

impl Task {
    fn of(request: &Request<'_>, dialect: &Dialect) -> Result<Self, Failure> {
        let Request { kind, columns, wants_values, expected, .. } = *request;
        if let Some(call) = &request.statement {
            let prepared = &dialect.statements[call.statement as usize];
            let items = call.commands.first().map_or(0, |(_, items)| *items);
            let answers = Answers::new(prepared, kind, wants_values);
            return Ok(Self::Statement { statement: call.statement, items, answers });
        }
        let options = ReadOptions { columns, wants_values, expected: expected.copied() };
        match kind {
            Kind::Read => Ok(Self::Read { options, outcome: Outcome::Miss }),
            Kind::Update => Ok(Self::Update),
            Kind::Insert => Ok(Self::Insert { taken: 0 }),
            Kind::Delete => Ok(Self::Delete { taken: 0, removed: 0 }),
            Kind::Scan => Ok(Self::Scan { options, asked: None }),
            Kind::ReadModifyWrite => {
                let text = "a read-modify-write is executed as a read and an update";
                Err(Failure::new(Outcome::Refused, text))
            }
        }
    }
}

impl RequestReply for RespOperation {
    const PIPELINES: bool = true;

    /// Begins a request. In a cluster, every operation needs a work.
    #[inline]
    fn begin(&mut self, request: &Request<'_>, context: &mut Context) -> Result<(), Failure> {
        let Context { dialect, shelf, in_cluster } = context;
        self.gathers = false;
        self.task = Task::of(request, dialect)?;
        let has_second =
            request.statement.is_none() && matches!(request.kind, Kind::Insert | Kind::Delete);
        self.replies = match &request.statement {
            Some(call) => commands(&dialect.statements[call.statement as usize], call),
            None => 1 + u32::from(has_second && dialect.pipeline_parts),
        };
        let follows = has_second && !dialect.pipeline_parts;
        self.gathers = match request.statement {
            Some(_) => self.replies > 1,
            None => request.kind == Kind::Scan,
        };
        if self.gathers || follows || *in_cluster {
            let mut work = shelf.pop().unwrap_or_default();
            work.clear();
            if follows {
                put_second(request, &mut work.follow);
            }
            if let Some(call) = &request.statement {
                work.items.extend(call.commands.iter().map(|(_, items)| *items));
            }
            self.work = Some(work);
        }
        Ok(())
    }

    #[inline]
    fn requests(&self) -> usize {
        usize::from(self.replies > 0)
    }

    #[inline]
    fn replies(&self) -> u32 {
        self.replies
    }

    #[inline]
    fn put(&self, _: usize, request: &Request<'_>, context: &mut Context, output: &mut Vec<u8>) {
        context.dialect.put(request, output);
    }

    #[inline]
    fn take(
        &mut self,
        _: usize,
        bytes: &[u8],
        Context { dialect, .. }: &mut Context,
        single: &mut Reply,
    ) -> Result<(), Failure> {
        let Self { task, gathers, work, progress, .. } = self;
        let is_first_failure = progress.failure.is_none();
        let work = work.as_deref_mut();
        match task {
            Task::Idle => Ok(()),
            Task::Read { options, outcome } => {
                single.clear();
                *outcome = dialect.fields.take_read(*options, bytes, single)?;
                Ok(())
            }
            Task::Update => {
                single.clear();
                take_ok(bytes)
            }
            Task::Insert { taken } => {
                single.clear();
                *taken += 1;
                if *taken == 1 {
                    return take_ok(bytes);
                }
                take_index(bytes, is_first_failure, single).map(drop)
            }
            Task::Delete { taken, removed } => {
                single.clear();
                *taken += 1;
                *removed = removed.saturating_add(match *taken {
                    1 => take_count(bytes)?,
                    _ => take_index(bytes, is_first_failure && *removed > 0, single)?,
                });
                Ok(())
            }
            Task::Scan { options, asked } => {
                let work = work.expect("a scan has a work");
                if asked.is_some() {
                    return dialect.fields.take_read(*options, bytes, &mut work.reply).map(drop);
                }
                *asked = Some(0);
                take_keys(bytes, &mut work.keys)
            }
            Task::Statement { statement, items, answers } => {
                let prepared = &dialect.statements[*statement as usize];
                match work {
                    Some(work) if *gathers => {
                        let items = work.items[answers.round()];
                        answers.take(prepared, items, bytes, &mut work.reply)
                    }
                    _ => {
                        single.clear();
                        answers.take(prepared, *items, bytes, single)
                    }
                }
            }
        }
    }

    #[inline]
    fn take_run(&mut self, context: &Context, bytes: &[u8], most: u32) -> (usize, u32) {
        let Self { task: Task::Statement { statement, answers, .. }, gathers: true, .. } = self
        else {
            return (0, 0);
        };
        let Some(work) = &mut self.work else { return (0, 0) };
        let prepared = &context.dialect.statements[*statement as usize];
        answers.take_run(prepared, &work.items, bytes, most, &mut work.reply)
    }

    #[inline]
    fn has_more(&self) -> bool {
        match &self.task {
            Task::Insert { taken } | Task::Delete { taken, .. } => *taken == 1,
            Task::Scan { asked, .. } => {
                let keys = self.work.as_ref().map_or(0, |work| work.keys.count());
                asked.is_some_and(|asked| asked < keys)
            }
            Task::Idle | Task::Read { .. } | Task::Update | Task::Statement { .. } => false,
        }
    }

    fn put_more(&mut self, Context { dialect, .. }: &mut Context, output: &mut Vec<u8>) {
        let Some(work) = &self.work else { return };
        self.replies = 1;
        let Task::Scan { options, asked } = &mut self.task else {
            return output.extend_from_slice(&work.follow);
        };
        let first = asked.unwrap_or(0);
        let end = if dialect.pipeline_parts { work.keys.count() } else { first + 1 };
        for index in first..end {
            dialect.fields.put_read(output, work.keys.get(index), options.columns);
        }
        *asked = Some(end);
        self.replies = end - first;
    }
}

impl RespOperation {
    /// Takes all replies to its batch; the first failure counts. Returns whether a reply
    /// contradicts the map of the cluster.
    pub(crate) fn take_batch(&mut self, context: &mut Context, single: &mut Reply) -> bool {
        let Some(work) = &mut self.work else { return false };
        let replies = std::mem::take(&mut work.replies);
        let mut doubts = false;
        for reply in replies.iter() {
            doubts |= reply.starts_with(b"-CLUSTERDOWN") || reply.starts_with(b"-READONLY");
            if let Err(failure) = self.take(0, reply, context, single) {
                self.progress.failure.get_or_insert(failure);
            }
        }
        if let Some(work) = &mut self.work {
            work.replies = replies;
        }
        doubts
    }

    /// Fills its batch with the next commands.
    pub(crate) fn pack_more(&mut self, context: &mut Context) -> Result<(), Failure> {
        let Some(work) = &mut self.work else { return Ok(()) };
        let mut batch = std::mem::take(&mut work.batch);
        let filled = batch.fill(|output| self.put_more(context, output));
        if let Some(work) = &mut self.work {
            work.batch = batch;
        }
        filled
    }
}

impl InFlightOperation for RespOperation {
    type Context = Context;

    #[inline]
    fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    #[inline]
    fn finish<'a>(&'a mut self, single: &'a mut Reply) -> (Outcome, &'a Reply) {
        let outcome = match &self.task {
            Task::Read { outcome, .. } => *outcome,
            Task::Delete { removed: ..=0, .. } => Outcome::Miss,
            Task::Statement { answers, .. } => answers.outcome(),
            _ => Outcome::Ok,
        };
        match &self.work {
            Some(work) if self.gathers => (outcome, &work.reply),
            _ => (outcome, single),
        }
    }

    #[inline]
    fn clear(&mut self, context: &mut Context) {
        context.shelf.extend(self.work.take());
        self.task = Task::Idle;
    }
}

impl Work {
    fn clear(&mut self) {
        self.reply.clear();
        self.follow.clear();
        self.keys.clear();
        self.items.clear();
        self.followed = 0;
    }
}
