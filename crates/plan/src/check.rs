//! Checks of a plan's values.

use crate::dataset::{Compressible, Distribution, SizeLaw, ValueKind};
use crate::error::PlanError;
use crate::group::{Arrival, Group, ValueCheck, Weight};
use crate::plan::{FORMAT, Phase, Plan};
use crate::rows::{Rows, Visit};
use crate::statement::{Basis, Check, Each, Generator, Statement};
use crate::words::{Kind, PhaseName};

fn ensure(holds: bool, place: impl Into<String>, problem: &str) -> Result<(), PlanError> {
    if holds {
        return Ok(());
    }
    Err(PlanError::Value { place: place.into(), problem: problem.to_owned() })
}

impl Plan {
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        ensure(self.format == FORMAT, "format", "this engine reads plans of format 1")?;
        ensure(self.share.index < self.share.of, "share", "index must be below of")?;
        ensure(self.interval_ns > 0, "interval_ns", "an interval must be longer than nothing")?;
        ensure(self.timeout_ns != Some(0), "timeout_ns", "a timeout must be longer than nothing")?;
        let stalls = self.stall_limit_ns != Some(0);
        ensure(stalls, "stall_limit_ns", "a stall limit must be longer than nothing")?;
        ensure(self.workers > 0, "workers", "there must be at least one worker")?;
        ensure(!self.phases.is_empty(), "phases", "there must be at least one phase")?;
        ensure(self.dataset.fields.count > 0, "dataset.fields.count", "a record needs a field")?;
        let ordinals = self.dataset.start.checked_add(self.dataset.count);
        ensure(ordinals.is_some(), "dataset", "start + count must stay below 2^64")?;
        let full = self.dataset.full_at.is_none_or(|end| ordinals.is_some_and(|all| all <= end));
        ensure(full, "dataset.full_at", "must not be below start + count")?;
        check_size(&self.dataset.fields.length, "dataset.fields.length")?;
        if let ValueKind::Compressible(Compressible { share, .. }) = self.dataset.values {
            let usable = (0.0..1.0).contains(&share);
            ensure(usable, "dataset.values.share", "must be from 0 to below 1")?;
        }
        for (index, statement) in self.statements.iter().enumerate() {
            self.check_statement(statement, &format!("statements[{index}]"))?;
        }
        let probe = self.dataset.probe.is_none_or(|index| self.has_statement(index));
        ensure(probe, "dataset.probe", "there is no statement of that index")?;
        for (index, group) in self.groups.iter().enumerate() {
            self.check_group(group, &format!("groups[{index}]"))?;
        }
        for (index, phase) in self.phases.iter().enumerate() {
            self.check_phase(phase, &format!("phases[{index}]"))?;
        }
        self.check_verification()
    }

    fn check_verification(&self) -> Result<(), PlanError> {
        if self.phases.iter().all(|phase| phase.name != PhaseName::Verify) {
            return Ok(());
        }
        let alone = "engines that share a run don't know each other's writes: none can verify them";
        ensure(self.share.of == 1, "share", alone)?;
        let bounded = self.verify_memory_bytes.is_some_and(|bytes| bytes > 0);
        ensure(bounded, "verify_memory_bytes", "a verify phase needs memory above 0")
    }

    fn has_statement(&self, index: u32) -> bool {
        (index as usize) < self.statements.len()
    }

    fn check_statement(&self, statement: &Statement, place: &str) -> Result<(), PlanError> {
        let named = !statement.name.is_empty();
        ensure(named, format!("{place}.name"), "a statement needs a name")?;
        ensure(!statement.texts.is_empty(), format!("{place}.texts"), "a text is needed")?;
        check_size(&statement.commands, &format!("{place}.commands"))?;
        check_size(&statement.items, &format!("{place}.items"))?;
        for (index, argument) in statement.arguments.iter().enumerate() {
            let place = format!("{place}.arguments[{index}]");
            self.check_generator(&argument.generator, &place)?;
            check_references(statement, index, &place)?;
            let record = of_record(&argument.generator) && statement.record != Each::Operation;
            let fixed = argument.each == Each::Operation && record;
            ensure(!fixed, &place, "each command has its own record")?;
            if let Generator::Column { column } = argument.generator {
                let rows = statement.rows.as_ref();
                let known = rows.is_some_and(|rows| rows.columns().nth(column as usize).is_some());
                ensure(known, place, "the statement's rows have no column of that place")?;
            }
        }
        if let Some(rows) = &statement.rows {
            check_rows(rows, &format!("{place}.rows"))?;
        }
        for index in &statement.expects {
            let expected = statement.arguments.get(*index as usize);
            let known = expected.is_some_and(|argument| can_be_expected(&argument.generator));
            let place = format!("{place}.expects");
            let problem = "a reply can't contain a randomly drawn value";
            ensure(known, place, problem)?;
        }
        let scoped = statement.record != Each::Item;
        let problem = "a record belongs to an operation or to a command";
        ensure(scoped, format!("{place}.record"), problem)?;
        let full = statement.when_full.is_none_or(|index| self.has_statement(index));
        ensure(full, format!("{place}.when_full"), "there is no statement of that index")?;
        check_checks(statement, place)
    }

    fn check_generator(&self, generator: &Generator, place: &str) -> Result<(), PlanError> {
        let plain = |inner: &Generator| {
            let problem = "a collection can't contain a value that depends on the record";
            ensure(!of_record(inner), place, problem)?;
            self.check_generator(inner, place)
        };
        match generator {
            Generator::Field { field } => {
                let there = *field < self.dataset.fields.count;
                ensure(there, place, "the dataset has no field of that index")
            }
            Generator::Text { length } | Generator::Blob { length } => check_size(length, place),
            Generator::Checked { length, .. } => {
                check_size(length, place)?;
                ensure(smallest(length) > 0, place, "a value with a checksum needs a byte")
            }
            Generator::Computed { divisor, modulus, .. } => {
                let usable = *divisor > 0 && *modulus != Some(0);
                ensure(usable, place, "a number can't be divided by 0")
            }
            Generator::Ttl { unit_ms } => ensure(*unit_ms > 0, place, "a unit takes some time"),
            Generator::List { of, length } => {
                check_size(length, place)?;
                plain(of)
            }
            Generator::Tuple { of } => of.iter().try_for_each(plain),
            Generator::Map { keys, values, length } => {
                check_size(length, place)?;
                plain(keys)?;
                plain(values)
            }
            _ => Ok(()),
        }
    }

    fn check_group(&self, group: &Group, place: &str) -> Result<(), PlanError> {
        ensure(group.clients > 0, format!("{place}.clients"), "a group needs a client")?;
        let weights = group.mix.iter().map(|entry| entry.weight);
        let usable = weights.clone().all(|weight| weight.is_finite() && weight >= 0.0);
        ensure(usable, format!("{place}.mix"), "weights must be finite and not negative")?;
        let mut statements = group.mix.iter().filter_map(|entry| entry.statement);
        let known = statements.all(|index| self.has_statement(index));
        ensure(known, format!("{place}.mix"), "there is no statement of that index")?;
        ensure(weights.sum::<f64>() > 0.0, format!("{place}.mix"), "one weight must be above 0")?;
        let chosen = group.keys.count > 0;
        ensure(chosen, format!("{place}.keys.count"), "there must be a key to choose")?;
        let window = !matches!(group.keys.distribution, Distribution::Newest { window: 0 });
        ensure(window, format!("{place}.keys"), "the newest must be at least one record")?;
        check_size(&group.scan_length, &format!("{place}.scan_length"))?;
        check_arrival(&group.arrival, &format!("{place}.arrival"))?;
        let retry = group.retry.as_ref();
        let usable = retry.is_none_or(|it| it.attempts > 1 && it.backoff_ns <= it.backoff_limit_ns);
        let problem = "needs at least two attempts, and a backoff up to its limit";
        ensure(usable, format!("{place}.retry"), problem)?;
        let taped = matches!(group.arrival, Arrival::Tape { .. });
        let single = |index: u32| {
            let statement = &self.statements[index as usize];
            statement.rows.is_none() && matches!(statement.commands, SizeLaw::Constant { size: 1 })
        };
        let fits = |entry: &Weight| match entry.statement {
            Some(index) => entry.kind != Kind::Insert && single(index),
            None => true,
        };
        let singles = group.mix.iter().all(fits);
        let problem = "a tape's statement sends one command, and does no insert but an update";
        ensure(!taped || singles, format!("{place}.mix"), problem)?;
        if let Some(fill) = group.on_miss {
            let place = format!("{place}.on_miss");
            let known = fill.statement.is_none_or(|index| self.has_statement(index));
            ensure(known, &place, "there is no statement of that index")?;
            let reads = || group.mix.iter().filter(|entry| entry.kind == Kind::Read);
            let composed = group.mix.iter().any(|entry| entry.kind == Kind::ReadModifyWrite);
            let usable = reads().next().is_some() && !composed && !taped;
            ensure(usable, &place, "needs drawn reads, and no read-modify-write")?;
            let mut statements = reads().map(|entry| entry.statement).chain([fill.statement]);
            let problem = "its statement and those of reads send one command";
            ensure(statements.all(|one| one.is_none_or(single)), place, problem)?;
        }
        let reads = group.mix.iter().all(|entry| entry.kind == Kind::Read);
        let sized = taped || reads || self.dataset.values != ValueKind::Sized;
        ensure(sized, format!("{place}.mix"), "sized values need a tape with their lengths")?;
        let rows = |index: u32| self.statements[index as usize].rows.is_some();
        let checkable = group.check_values != ValueCheck::Full
            || self.dataset.values == ValueKind::Integrity
            || group.mix.iter().all(|entry| entry.statement.is_some_and(rows))
            || self.checks_only_arguments(group);
        ensure(checkable, format!("{place}.check_values"), "only integrity values can be checked")
    }

    /// Whether the replies to the group's reads are compared only with arguments.
    fn checks_only_arguments(&self, group: &Group) -> bool {
        let mut reads = group.mix.iter().filter(|entry| entry.kind == Kind::Read);
        let holds = |index: u32| {
            let Statement { arguments, expects, checks, .. } = &self.statements[index as usize];
            let mut expected = expects.iter().map(|one| &arguments[*one as usize].generator);
            let is_field = |one: &Generator| matches!(one, Generator::Field { .. });
            let held = !expects.is_empty() || !checks.is_empty();
            held && !expected.any(is_field)
        };
        reads.all(|entry| entry.statement.is_some_and(holds))
    }

    fn check_phase(&self, phase: &Phase, place: &str) -> Result<(), PlanError> {
        let idle = phase.name == PhaseName::Settle;
        ensure(idle || !phase.groups.is_empty(), format!("{place}.groups"), "no group is active")?;
        for active in &phase.groups {
            let known = (active.group as usize) < self.groups.len();
            ensure(known, format!("{place}.groups"), "there is no group of that index")?;
        }
        let counted = phase.groups.iter().all(|active| active.operations.is_some());
        let verifies = phase.name == PhaseName::Verify;
        let ends = verifies || phase.duration_ns.is_some() || phase.until.is_some() || counted;
        let groups = phase.groups.iter().map(|active| &self.groups[active.group as usize]);
        let taped = groups.clone().any(|group| matches!(group.arrival, Arrival::Tape { .. }));
        let begins = !taped || phase.name != PhaseName::WarmUp;
        ensure(begins, format!("{place}.groups"), "a tape isn't warmed up: it begins once")?;
        ensure(!taped || counted, format!("{place}.groups"), "a tape's operations are counted")?;
        ensure(ends, place, "nothing ends the phase: give a duration, a count or an error bound")?;
        let reads = groups.flat_map(|group| &group.mix).all(|entry| entry.kind == Kind::Read);
        ensure(reads || !verifies, format!("{place}.groups"), "a verify phase only reads")?;
        let Some(until) = phase.until else { return Ok(()) };
        ensure(until.bound > 0.0, format!("{place}.until.bound"), "the bound must be above 0")
    }
}

fn check_rows(rows: &Rows, place: &str) -> Result<(), PlanError> {
    let whole = "a draw can't be divided by 0";
    let visited = !matches!(rows.visit, Visit::Each { of: 0, .. });
    ensure(visited, format!("{place}.visit"), whole)?;
    ensure(rows.filled.of > 0, format!("{place}.filled"), whole)?;
    let ends = rows.ends.is_empty() || rows.ends.len() == rows.clustering.len();
    ensure(ends, format!("{place}.ends"), "each clustering column has one, or none has")?;
    let counted = !rows.partitions.is_empty() && !rows.partitions.contains(&0);
    ensure(counted, format!("{place}.partitions"), "an operation has at least one partition")
}

/// Arguments that refer to others follow them, and are drawn at least as often.
fn check_references(statement: &Statement, index: usize, place: &str) -> Result<(), PlanError> {
    let own = &statement.arguments[index];
    let earlier = |other: u32| {
        let before = statement.arguments[..index].get(other as usize);
        let usable = before.is_some_and(|before| before.each <= own.each);
        ensure(usable, place, "it refers to an argument that isn't drawn before it")
    };
    match &own.generator {
        Generator::Format { parts } => {
            parts.iter().filter_map(|part| part.argument).try_for_each(earlier)
        }
        Generator::Checked { prefix, .. } => earlier(*prefix),
        _ => Ok(()),
    }
}

fn check_checks(statement: &Statement, place: &str) -> Result<(), PlanError> {
    let place = format!("{place}.checks");
    let single = matches!(statement.commands, SizeLaw::Constant { size: 0 | 1 });
    let usable = statement.checks.is_empty() || single;
    ensure(usable, &place, "only the reply to a single command can be checked")?;
    for check in &statement.checks {
        if let Check::Each { argument, .. } | Check::Sum { argument, .. } = check {
            let found = statement.arguments.get(*argument as usize);
            let known = found.is_some_and(|found| found.each != Each::Item);
            ensure(known, &place, "there is no argument of that index that a row can hold")?;
        }
    }
    Ok(())
}

/// Whether a reply can be compared with the drawn value.
const fn can_be_expected(generator: &Generator) -> bool {
    use Generator::{Checked, Computed, Format, Name, Number};
    of_record(generator)
        || matches!(
            generator,
            Checked { .. } | Computed { .. } | Format { .. } | Name { .. } | Number { .. }
        )
}

/// Whether the value depends on the command's record.
const fn of_record(generator: &Generator) -> bool {
    matches!(
        generator,
        Generator::Key
            | Generator::Ordinal
            | Generator::Field { .. }
            | Generator::Column { .. }
            | Generator::Split { .. }
            | Generator::Computed { of: Basis::Ordinal, .. }
    )
}

/// The smallest size of a law.
fn smallest(law: &SizeLaw) -> u64 {
    match law {
        SizeLaw::Constant { size } => *size,
        SizeLaw::Uniform { min, .. } | SizeLaw::Zipfian { min, .. } => *min,
        SizeLaw::Histogram { block_size, .. } => *block_size,
    }
}

fn check_size(law: &SizeLaw, place: &str) -> Result<(), PlanError> {
    match law {
        SizeLaw::Constant { .. } => Ok(()),
        SizeLaw::Uniform { min, max } | SizeLaw::Zipfian { min, max } => {
            ensure(min <= max, place, "min must not be above max")
        }
        SizeLaw::Histogram { weights, .. } => {
            ensure(weights.iter().any(|weight| *weight > 0), place, "a bucket must have a weight")
        }
    }
}

fn check_arrival(arrival: &Arrival, place: &str) -> Result<(), PlanError> {
    if let Arrival::Tape { path, speed, loops, .. } = arrival {
        ensure(!path.is_empty(), place, "a tape is a file")?;
        ensure(*loops > 0, place, "a tape is carried out once at least")?;
        let usable = speed.is_none_or(|speed| speed.is_finite() && speed > 0.0);
        return ensure(usable, place, "a tape's speed must be above 0");
    }
    let Some(rates) = arrival.rates() else { return Ok(()) };
    let first = rates.first().is_some_and(|point| point.at_ns == 0);
    ensure(first, place, "the first rate must be at 0")?;
    let rising = rates.windows(2).all(|pair| pair[0].at_ns < pair[1].at_ns);
    ensure(rising, place, "the times of the rates must rise")?;
    let usable = rates.iter().all(|point| point.rate.is_finite() && point.rate >= 0.0);
    ensure(usable, place, "rates must be finite and not negative")?;
    let last = rates.last().is_some_and(|point| point.rate > 0.0);
    ensure(last, place, "the last rate must be above 0")
}
