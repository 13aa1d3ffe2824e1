//! What must hold between the values of a plan.

use crate::{
    Arrival, Each, FORMAT, Generator, Group, Kind, Phase, PhaseName, Plan, SizeLaw, Statement,
    ValueKind,
};

/// Why a text is not a plan that can be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Not JSON, an unknown or missing field, or a value of the wrong type.
    #[error("the plan can't be read: {0}")]
    Syntax(#[from] serde_json::Error),
    /// A value that contradicts its meaning or another value.
    #[error("{place}: {problem}")]
    Value {
        /// Path of the value, for example `groups[0].clients`.
        place: String,
        /// What is wrong and what would be right.
        problem: String,
    },
}

fn require(holds: bool, place: impl Into<String>, problem: &str) -> Result<(), PlanError> {
    if holds {
        return Ok(());
    }
    Err(PlanError::Value { place: place.into(), problem: problem.to_owned() })
}

impl Plan {
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        require(self.format == FORMAT, "format", "this engine reads plans of format 1")?;
        require(self.share.index < self.share.of, "share", "index must be below of")?;
        require(self.interval_ns > 0, "interval_ns", "an interval must be longer than nothing")?;
        require(self.timeout_ns != Some(0), "timeout_ns", "a timeout must be longer than nothing")?;
        require(self.workers > 0, "workers", "there must be at least one worker")?;
        require(!self.phases.is_empty(), "phases", "there must be at least one phase")?;
        require(self.dataset.fields.count > 0, "dataset.fields.count", "a record needs a field")?;
        let ordinals = self.dataset.start.checked_add(self.dataset.count);
        require(ordinals.is_some(), "dataset", "start + count must stay below 2^64")?;
        check_size(&self.dataset.fields.length, "dataset.fields.length")?;
        for (index, statement) in self.statements.iter().enumerate() {
            self.check_statement(statement, &format!("statements[{index}]"))?;
        }
        let probe = self.dataset.probe.is_none_or(|index| self.has_statement(index));
        require(probe, "dataset.probe", "there is no statement of that index")?;
        for (index, group) in self.groups.iter().enumerate() {
            self.check_group(group, &format!("groups[{index}]"))?;
        }
        for (index, phase) in self.phases.iter().enumerate() {
            self.check_phase(phase, &format!("phases[{index}]"))?;
        }
        Ok(())
    }

    fn has_statement(&self, index: u32) -> bool {
        (index as usize) < self.statements.len()
    }

    fn check_statement(&self, statement: &Statement, place: &str) -> Result<(), PlanError> {
        let named = !statement.name.is_empty();
        require(named, format!("{place}.name"), "a statement needs a name")?;
        require(!statement.texts.is_empty(), format!("{place}.texts"), "a text is needed")?;
        check_size(&statement.commands, &format!("{place}.commands"))?;
        check_size(&statement.items, &format!("{place}.items"))?;
        for (index, argument) in statement.arguments.iter().enumerate() {
            let place = format!("{place}.arguments[{index}]");
            self.check_generator(&argument.generator, &place)?;
            let record = of_record(&argument.generator);
            let fixed = argument.each == Each::Operation && record;
            require(!fixed, place, "each command has a record of its own")?;
        }
        for index in &statement.expects {
            let expected = statement.arguments.get(*index as usize);
            let known = expected.is_some_and(|argument| of_record(&argument.generator));
            let place = format!("{place}.expects");
            require(known, place, "only a key, an ordinal or a field can be expected of a reply")?;
        }
        Ok(())
    }

    fn check_generator(&self, generator: &Generator, place: &str) -> Result<(), PlanError> {
        let plain = |inner: &Generator| {
            require(!of_record(inner), place, "a collection can't hold what the record decides")?;
            self.check_generator(inner, place)
        };
        match generator {
            Generator::Field { field } => {
                let there = *field < self.dataset.fields.count;
                require(there, place, "the dataset has no field of that index")
            }
            Generator::Text { length } | Generator::Blob { length } => check_size(length, place),
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
        require(group.clients > 0, format!("{place}.clients"), "a group needs a client")?;
        let weights = group.mix.iter().map(|entry| entry.weight);
        let usable = weights.clone().all(|weight| weight.is_finite() && weight >= 0.0);
        require(usable, format!("{place}.mix"), "weights must be finite and not negative")?;
        let mut statements = group.mix.iter().filter_map(|entry| entry.statement);
        let known = statements.all(|index| self.has_statement(index));
        require(known, format!("{place}.mix"), "there is no statement of that index")?;
        require(weights.sum::<f64>() > 0.0, format!("{place}.mix"), "one weight must be above 0")?;
        require(
            group.keys.count > 0,
            format!("{place}.keys.count"),
            "there must be a key to choose",
        )?;
        check_size(&group.scan_length, &format!("{place}.scan_length"))?;
        check_arrival(&group.arrival, &format!("{place}.arrival"))?;
        let checkable = !group.check_values || self.dataset.values == ValueKind::Integrity;
        require(checkable, format!("{place}.check_values"), "only integrity values can be checked")
    }

    fn check_phase(&self, phase: &Phase, place: &str) -> Result<(), PlanError> {
        let idle = phase.name == PhaseName::Settle;
        require(idle || !phase.groups.is_empty(), format!("{place}.groups"), "no group is active")?;
        for active in &phase.groups {
            let known = (active.group as usize) < self.groups.len();
            require(known, format!("{place}.groups"), "there is no group of that index")?;
        }
        let counted = phase.groups.iter().all(|active| active.operations.is_some());
        let verifies = phase.name == PhaseName::Verify;
        let ends = verifies || phase.duration_ns.is_some() || phase.until.is_some() || counted;
        require(ends, place, "nothing ends the phase: give a duration, a count or an error bound")?;
        let groups = phase.groups.iter().map(|active| &self.groups[active.group as usize]);
        let reads = groups.flat_map(|group| &group.mix).all(|entry| entry.kind == Kind::Read);
        require(reads || !verifies, format!("{place}.groups"), "a verify phase only reads")?;
        let Some(until) = phase.until else { return Ok(()) };
        require(until.bound > 0.0, format!("{place}.until.bound"), "the bound must be above 0")
    }
}

/// Whether the value is decided by the record that the command concerns.
const fn of_record(generator: &Generator) -> bool {
    matches!(generator, Generator::Key | Generator::Ordinal | Generator::Field { .. })
}

fn check_size(law: &SizeLaw, place: &str) -> Result<(), PlanError> {
    match law {
        SizeLaw::Constant { .. } => Ok(()),
        SizeLaw::Uniform { min, max } | SizeLaw::Zipfian { min, max } => {
            require(min <= max, place, "min must not be above max")
        }
        SizeLaw::Histogram { weights, .. } => {
            require(weights.iter().any(|weight| *weight > 0), place, "a bucket must have a weight")
        }
    }
}

fn check_arrival(arrival: &Arrival, place: &str) -> Result<(), PlanError> {
    let (Arrival::Constant { rates } | Arrival::Poisson { rates }) = arrival else {
        return Ok(());
    };
    let first = rates.first().is_some_and(|point| point.at_ns == 0);
    require(first, place, "the first rate must be at 0")?;
    let rising = rates.windows(2).all(|pair| pair[0].at_ns < pair[1].at_ns);
    require(rising, place, "the times of the rates must rise")?;
    let usable = rates.iter().all(|point| point.rate.is_finite() && point.rate >= 0.0);
    require(usable, place, "rates must be finite and not negative")?;
    let last = rates.last().is_some_and(|point| point.rate > 0.0);
    require(last, place, "the last rate must be above 0")
}
