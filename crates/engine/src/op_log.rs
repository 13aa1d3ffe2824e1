//! The log of a run's measured phase: every operation with its three instants and its outcome.
//!
//! Each worker fills a block and passes it to the writing thread. If that thread falls behind, a
//! block is dropped and counted. No operation waits for the disk.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Write};
use std::iter;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use kvmark_driver::Ticket;
use kvmark_plan::{Argument, Each, Generator, Kind, Outcome, Plan, Statement};
use kvmark_record::Notice;
use kvmark_trace::verbs::{KINDS, shape_of};
use kvmark_trace::{HashKey, LOG_BYTES, LOG_MAGIC, LogRecord};
use kvmark_workload::{ArgumentBuffer, Draw, Stream};
use serde_json::json;

use crate::error::EngineError;
use crate::operation::Bound;
use crate::scheduled::Executed;

/// Most bytes that wait for the disk.
const WAITING_MAX: usize = 64 << 20;
/// Records in all workers' blocks together, and bounds of one block.
const IN_BLOCKS: usize = 1 << 16;
const BLOCK_RECORDS: (usize, usize) = (64, 4096);
/// Most keys of an operation that are logged.
const KEYS_MAX: usize = u16::MAX as usize;
const KIND_COUNT: usize = Kind::ALL.len();

/// Where to log a run's operations.
#[derive(Clone, Debug)]
pub struct Recording {
    /// An existing folder. It gets `operations.log`, and `operations.jsonl` with the statements by
    /// number.
    pub folder: PathBuf,
    /// The key of the keys' hashes.
    pub hash_key: HashKey,
}

/// The log of a run, and the thread that writes it. It ends when the workers have.
#[derive(Debug)]
pub(crate) struct Log {
    writer: JoinHandle<io::Result<()>>,
    /// Copied for each worker.
    template: OpLogWriter,
}

/// Writes one worker's operations to the log.
#[derive(Clone, Debug)]
pub(crate) struct OpLogWriter {
    hash_key: HashKey,
    statements: Arc<Statements>,
    /// The worker's clients are this number and, from there, each `workers`-th one.
    first_client: u32,
    workers: u32,
    block: RefCell<Vec<u8>>,
    block_bytes: usize,
    /// Operations in the block.
    operations: Cell<u64>,
    key: RefCell<Vec<u8>>,
    blocks: SyncSender<Vec<u8>>,
    lost: Arc<AtomicU64>,
}

/// A complete operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended<'a> {
    /// The group in the plan, and the client's number on its worker.
    pub(crate) group: usize,
    pub(crate) stream: &'a Stream,
    pub(crate) ticket: Ticket,
    pub(crate) intended_ns: u64,
    pub(crate) draw: &'a Draw,
    pub(crate) done: &'a Executed,
    pub(crate) bound: &'a Bound,
}

impl Log {
    /// Creates the files, which must not exist, and starts the writing thread.
    pub(crate) fn start(
        recording: &Recording,
        plan: &Plan,
        workers: u32,
    ) -> Result<Self, EngineError> {
        let statements = Arc::new(Statements::of(plan)?);
        let (least, most) = BLOCK_RECORDS;
        let block_bytes = (IN_BLOCKS / workers as usize).clamp(least, most) * LOG_BYTES;
        let (blocks, written) = sync_channel(WAITING_MAX / block_bytes);
        let file = begin(&recording.folder, plan).map_err(EngineError::Log)?;
        let writer = thread::Builder::new().name("kvmark-log".to_owned());
        let writer = writer.spawn(move || write_all(file, &written)).map_err(EngineError::Log)?;
        let template = OpLogWriter {
            hash_key: recording.hash_key,
            statements,
            first_client: 0,
            workers,
            block: RefCell::default(),
            block_bytes,
            operations: Cell::new(0),
            key: RefCell::default(),
            blocks,
            lost: Arc::default(),
        };
        Ok(Self { writer, template })
    }

    /// The writer of one worker.
    pub(crate) fn log_writer(&self, worker: u32) -> OpLogWriter {
        let block = RefCell::new(Vec::with_capacity(self.template.block_bytes));
        OpLogWriter { first_client: worker, block, ..self.template.clone() }
    }

    /// Waits for the disk. Returns a notice if the log is incomplete. Abandoned workers keep the
    /// log open, so it is abandoned, too.
    pub(crate) fn finish(self, abandoned: bool) -> Option<Notice> {
        let OpLogWriter { blocks, lost, .. } = self.template;
        drop(blocks);
        let written = if abandoned { Ok(Ok(())) } else { self.writer.join() };
        let why = match written {
            Ok(Ok(())) => "the disk was too slow".to_owned(),
            Ok(Err(problem)) => format!("it can't be written: {problem}"),
            Err(_) => "a defect in kvmark".to_owned(),
        };
        let lost = lost.load(Ordering::Relaxed);
        (lost > 0).then(|| Notice {
            code: "log_incomplete",
            phase: None,
            message: format!("the log lacks {lost} operations: {why}"),
            evidence: json!({ "operations_lost": lost }),
            advice: "log to a faster disk or at a lower rate; the measurement is complete",
        })
    }
}

impl OpLogWriter {
    /// Logs an operation, with one record per key.
    pub(crate) fn write(&self, ended: &Ended<'_>) {
        let Ended { draw, done, bound: Bound { key, values, arguments, widths }, .. } = ended;
        let record = LogRecord {
            intended_ns: ended.intended_ns,
            issued_ns: done.issued_ns,
            completed_ns: done.completed_ns,
            client: self.first_client + ended.ticket * self.workers,
            statement: self.statements.number(ended.group, draw),
            items: 1,
            outcome: done.outcome as u8,
            ..LogRecord::default()
        };
        let writes = !matches!(draw.kind, Kind::Read | Kind::Scan | Kind::Delete);
        self.operations.set(self.operations.get() + 1);
        let Some(statement) = draw.statement else {
            let size = if writes { clamped(values.bytes.len()) } else { LogRecord::UNKNOWN };
            self.push(&LogRecord { value_size: size, ..record }, key);
            return self.flush_if_full();
        };
        let layout = &self.statements.layouts[statement as usize];
        let ttl_ms = if layout.expires { arguments.taped.ttl_ms } else { 0 };
        let record = LogRecord { ttl_ms, ..record };
        let commands = arguments.ordinals.len().min(KEYS_MAX);
        let rows = if layout.one_record { commands.min(1) } else { commands };
        let mut key = self.key.borrow_mut();
        for (place, ordinal) in arguments.ordinals.iter().take(rows).enumerate() {
            let of = if layout.one_record { 0..commands } else { place..place + 1 };
            let size = layout.bytes(arguments, *widths, of);
            let value_size = if writes { clamped(size) } else { LogRecord::UNKNOWN };
            let items = if place == 0 { rows as u16 } else { 0 };
            ended.stream.records().key_into(*ordinal, &mut key);
            self.push(&LogRecord { value_size, items, ..record }, &key);
        }
        self.flush_if_full();
    }

    fn push(&self, record: &LogRecord, key: &[u8]) {
        let key_size = clamped(key.len());
        let record = LogRecord { key: self.hash_key.hash(key), key_size, ..*record };
        self.block.borrow_mut().extend_from_slice(&record.bytes());
    }

    /// All records of an operation are in one block.
    fn flush_if_full(&self) {
        if self.block.borrow().len() >= self.block_bytes {
            self.flush();
        }
    }

    /// Passes the block to the writing thread.
    #[cold]
    pub(crate) fn flush(&self) {
        let operations = self.operations.take();
        if self.block.borrow().is_empty() {
            return;
        }
        let block = self.block.replace(Vec::with_capacity(self.block_bytes));
        if self.blocks.try_send(block).is_err() {
            self.lost.fetch_add(operations, Ordering::Relaxed);
        }
    }
}

/// The size as logged, cut to the largest value of the format.
fn clamped(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX).min(LogRecord::UNKNOWN - 1)
}

/// The log's statements by number, and the layout of their arguments.
#[derive(Debug)]
struct Statements {
    /// Statements of each group, including the driver's own way.
    ways: usize,
    layouts: Vec<Layout>,
}

impl Statements {
    fn of(plan: &Plan) -> Result<Self, EngineError> {
        let ways = plan.statements.len() + 1;
        if plan.groups.len() * ways * KIND_COUNT > usize::from(u16::MAX) {
            return Err(EngineError::Unsupported(
                "the log can't number this many groups and statements".to_owned(),
            ));
        }
        Ok(Self { ways, layouts: plan.statements.iter().map(Layout::of).collect() })
    }

    fn number(&self, group: usize, draw: &Draw) -> u16 {
        let way = draw.statement.map_or(0, |statement| statement as usize + 1);
        // It fits 16 bits, as checked before.
        ((group * self.ways + way) * KIND_COUNT + draw.kind as usize) as u16
    }
}

/// The layout of a statement's arguments.
#[derive(Debug)]
struct Layout {
    /// Whether all commands concern one record.
    one_record: bool,
    expires: bool,
    /// For the arguments of a command and of an item: whether they are written.
    written: [Vec<bool>; 2],
}

impl Layout {
    fn of(statement: &Statement) -> Self {
        let written = |each: Each| {
            let own = statement.arguments.iter().filter(|argument| argument.each == each);
            own.map(|argument| is_written(argument, statement)).collect()
        };
        Self {
            one_record: statement.record == Each::Operation || statement.rows.is_some(),
            expires: statement
                .arguments
                .iter()
                .any(|argument| matches!(argument.generator, Generator::Ttl { .. })),
            written: [written(Each::Command), written(Each::Item)],
        }
    }

    /// Bytes that a range of an operation's commands writes.
    fn bytes(&self, arguments: &ArgumentBuffer, widths: [u32; 3], commands: Range<usize>) -> usize {
        let [_, own, item] = widths.map(|width| width as usize);
        let [by_command, by_item] = &self.written;
        let size = |(place, is_written): (usize, &bool)| {
            let argument = arguments.places.get(place).filter(|_| *is_written);
            argument.map_or(0, |(_, range)| range.len())
        };
        let of_command = |(first, items): &(u32, u32)| -> usize {
            let first = *first as usize;
            let items = if item == 0 { 0 } else { *items as usize };
            let all = by_command.iter().enumerate();
            let of_command: usize = all.map(|(slot, is)| size((first + slot, is))).sum();
            let of_items = (0..items).flat_map(|number| {
                by_item
                    .iter()
                    .enumerate()
                    .map(move |(slot, is)| (first + own + number * item + slot, is))
            });
            of_command + of_items.map(size).sum::<usize>()
        };
        arguments.commands.get(commands).unwrap_or_default().iter().map(of_command).sum()
    }
}

/// Whether an argument is written data: neither a key nor a time to live.
fn is_written(argument: &Argument, statement: &Statement) -> bool {
    match argument.generator {
        Generator::Key | Generator::Ordinal | Generator::Ttl { .. } => false,
        Generator::Column { column } => {
            statement.rows.as_ref().is_none_or(|rows| column as usize >= rows.partition.len())
        }
        _ => true,
    }
}

/// Creates the log, and next to it the names of its numbers: a line with all outcomes, then one
/// line per statement.
fn begin(folder: &Path, plan: &Plan) -> io::Result<File> {
    let lines = plan.groups.iter().flat_map(|group| {
        let own = Kind::ALL
            .map(|kind| line(kind, &shape_of(KINDS[kind as usize], false), group.name.as_str()));
        let stated = plan.statements.iter().flat_map(|statement| {
            let (name, layout) = (statement.name.as_str(), Layout::of(statement));
            let values = layout.written.iter().flatten().any(|is| *is);
            Kind::ALL.map(|kind| {
                let writes = values && !matches!(kind, Kind::Read | Kind::Scan | Kind::Delete);
                let value = if writes { " {value}" } else { "" };
                let ttl = if layout.expires { " {ttl}" } else { "" };
                line(kind, &format!("{name} {{key}}{value}{ttl}"), group.name.as_str())
            })
        });
        own.into_iter().chain(stated).collect::<Vec<_>>()
    });
    let outcomes = json!({ "outcomes": Outcome::ALL.map(Outcome::name) });
    let text: String = iter::once(format!("{outcomes}\n")).chain(lines).collect();
    File::create_new(folder.join("operations.jsonl"))?.write_all(text.as_bytes())?;
    let mut log = File::create_new(folder.join("operations.log"))?;
    log.write_all(&LOG_MAGIC)?;
    Ok(log)
}

fn line(kind: Kind, statement: &str, group: &str) -> String {
    let kind = KINDS[kind as usize];
    format!("{}\n", json!({ "statement": statement, "kind": kind, "group": group }))
}

fn write_all(mut file: File, blocks: &Receiver<Vec<u8>>) -> io::Result<()> {
    blocks.iter().try_for_each(|block| file.write_all(&block))
}

#[cfg(test)]
mod tests {
    use kvmark_plan::Outcome;
    use kvmark_testing::plans::{closed, plan};
    use kvmark_workload::InsertSequence;

    use super::*;

    #[test]
    fn blocks_that_a_slow_disk_misses_are_counted_and_no_operation_waits() {
        let plan = plan(closed(), 1);
        let (blocks, unread) = sync_channel(2);
        let log_writer = OpLogWriter {
            hash_key: HashKey::new(&[0; 16]),
            statements: Arc::new(Statements::of(&plan).expect("the plan is small")),
            first_client: 0,
            workers: 1,
            block: RefCell::default(),
            block_bytes: 10 * LOG_BYTES,
            operations: Cell::new(0),
            key: RefCell::default(),
            blocks,
            lost: Arc::default(),
        };
        let stream = Stream::new(&plan, 0, 0).expect("the plan is right");
        let draw = stream.draw(0, &InsertSequence::new(0, plan.share));
        let done = Executed { issued_ns: 2, completed_ns: 3, outcome: Outcome::Ok };
        for _ in 0..45 {
            log_writer.write(&Ended {
                group: 0,
                ticket: 0,
                intended_ns: 1,
                draw: &draw,
                done: &done,
                stream: &stream,
                bound: &Bound::default(),
            });
        }
        assert_eq!(
            log_writer.lost.load(Ordering::Relaxed),
            20,
            "two of four full blocks fit the queue"
        );
        log_writer.flush();
        assert_eq!(log_writer.lost.load(Ordering::Relaxed), 25);
        drop(log_writer);
        assert_eq!(unread.iter().map(|block| block.len()).sum::<usize>(), 20 * LOG_BYTES);
    }
}
