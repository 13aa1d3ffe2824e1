//! The recorded series and their names.

use kvmark_plan::{Kind, Outcome, Plan};

/// The kind of operation in records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An operation of this kind.
    Kind(Kind),
    /// The read or the update inside a read-modify-write, or the insert after a miss.
    Part(Kind),
    /// An attempt of a request that may be made several times.
    Attempt,
    /// The plan's statement of this index.
    Statement(u32),
    /// The same after a miss.
    StatementPart(u32),
}

/// The name of attempts.
const ATTEMPT: &str = "ATTEMPT";
/// The parts that are counted in another operation already.
const COUNTED_PARTS: [&str; 3] = [Kind::Read.name(), Kind::Update.name(), ATTEMPT];

/// Whether a part of this name is a write after a miss, which no other operation counts.
pub(crate) fn is_fill(part: &str) -> bool {
    !COUNTED_PARTS.contains(&part)
}

impl Action {
    /// Number of actions in every plan: kinds, parts and attempts.
    pub(crate) const FIXED: usize = 2 * Kind::ALL.len() + 1;

    #[inline]
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Kind(kind) => kind as usize,
            Self::Part(kind) => Kind::ALL.len() + kind as usize,
            Self::Attempt => Self::FIXED - 1,
            Self::Statement(index) => Self::FIXED + 2 * index as usize,
            Self::StatementPart(index) => Self::FIXED + 2 * index as usize + 1,
        }
    }

    const fn at(index: usize) -> Self {
        if index < Kind::ALL.len() {
            Self::Kind(Kind::ALL[index])
        } else if index < Self::FIXED - 1 {
            Self::Part(Kind::ALL[index - Kind::ALL.len()])
        } else if index < Self::FIXED {
            Self::Attempt
        } else {
            let statement = ((index - Self::FIXED) / 2) as u32;
            match (index - Self::FIXED) % 2 {
                0 => Self::Statement(statement),
                _ => Self::StatementPart(statement),
            }
        }
    }

    /// Whether it is a part of another operation, which is recorded, too.
    pub(crate) const fn is_part(self) -> bool {
        matches!(self, Self::Part(_) | Self::Attempt | Self::StatementPart(_))
    }
}

/// The key of a series within a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeriesKey {
    pub(crate) action: Action,
    pub(crate) outcome: Outcome,
}

impl SeriesKey {
    /// Number of series of a plan with this number of statements.
    pub(crate) const fn count(statements: usize) -> usize {
        (Action::FIXED + 2 * statements) * Outcome::ALL.len()
    }

    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.action.index() * Outcome::ALL.len() + self.outcome as usize
    }

    pub(crate) const fn at(index: usize) -> Self {
        let outcomes = Outcome::ALL.len();
        Self { action: Action::at(index / outcomes), outcome: Outcome::ALL[index % outcomes] }
    }
}

/// The names of a plan's groups and statements, by index.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Of the groups.
    pub groups: Vec<String>,
    /// Of the statements.
    pub statements: Vec<String>,
}

impl Names {
    /// The names in a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        Self {
            groups: plan.groups.iter().map(|group| group.name.clone()).collect(),
            statements: plan.statements.iter().map(|statement| statement.name.clone()).collect(),
        }
    }

    /// Name of an operation; for a part, the part's name.
    pub(crate) fn operation(&self, action: Action) -> &str {
        match action {
            Action::Kind(kind) | Action::Part(kind) => kind.name(),
            Action::Attempt => ATTEMPT,
            Action::Statement(index) | Action::StatementPart(index) => {
                &self.statements[index as usize]
            }
        }
    }

    /// Name of a series: the operation, and the outcome unless it is ok.
    pub(crate) fn series(&self, key: SeriesKey) -> String {
        let own = self.operation(key.action);
        let name = match key.action {
            Action::Part(_) | Action::StatementPart(_) if is_fill(own) => format!("FILL.{own}"),
            Action::Part(_) | Action::StatementPart(_) => {
                format!("{}.{own}", Kind::ReadModifyWrite.name())
            }
            Action::Kind(_) | Action::Attempt | Action::Statement(_) => own.to_owned(),
        };
        match key.outcome {
            Outcome::Ok => name,
            other => format!("{name}.{}", other.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_a_series_and_its_name_are_inverse() {
        for index in 0..SeriesKey::count(3) {
            assert_eq!(SeriesKey::at(index).index(), index);
        }
    }

    #[test]
    fn a_series_is_named_by_operation_and_by_outcome_unless_it_is_ok() {
        let names = Names { groups: Vec::new(), statements: vec!["GET".to_owned()] };
        let name = |action, outcome| names.series(SeriesKey { action, outcome });
        assert_eq!(name(Action::Kind(Kind::Read), Outcome::Ok), "READ");
        assert_eq!(name(Action::Kind(Kind::Read), Outcome::Miss), "READ.miss");
        assert_eq!(name(Action::Part(Kind::Update), Outcome::Ok), "READ-MODIFY-WRITE.UPDATE");
        let failed = name(Action::Part(Kind::Read), Outcome::Timeout);
        assert_eq!(failed, "READ-MODIFY-WRITE.READ.timeout");
        assert_eq!(name(Action::Part(Kind::Insert), Outcome::Ok), "FILL.INSERT");
        assert_eq!(name(Action::StatementPart(0), Outcome::Timeout), "FILL.GET.timeout");
        assert_eq!(name(Action::Attempt, Outcome::Timeout), "ATTEMPT.timeout");
        assert_eq!(name(Action::Statement(0), Outcome::Connection), "GET.connection");
    }
}
