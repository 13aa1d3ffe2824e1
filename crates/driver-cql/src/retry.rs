//! The retry policies: which failed requests are retried, where, and at which consistency level.
//!
//! Source: the policies `DefaultRetryPolicy` and `DowngradingConsistencyRetryPolicy` of the Java
//! driver 3.x and of the `scylla` crate, which doesn't export them. Each rule applies once per
//! request.

use scylla::errors::{DbError, WriteType};
use scylla::statement::Consistency;

use crate::settings::Retry;

/// The decision about a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Fail,
    /// Retry there, at another consistency level if given.
    SameNode(Option<Consistency>),
    /// Retry on another node.
    OtherNode,
    /// Treat a write that some replicas have as applied.
    Done,
}

/// The rules that were applied to a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeats {
    on_unavailable: bool,
    on_read_timeout: bool,
    on_write_timeout: bool,
}

/// Decides about a request after an error of a node.
pub(crate) fn decide(
    retry: Retry,
    repeats: &mut Repeats,
    error: &DbError,
    is_idempotent: bool,
    level: Consistency,
) -> Decision {
    if retry == Retry::None {
        return Decision::Fail;
    }
    let is_serial = matches!(level, Consistency::Serial | Consistency::LocalSerial);
    if is_serial {
        // The conditions weren't evaluated: this node may be isolated.
        let unavailable = matches!(error, DbError::Unavailable { .. });
        let is_other = retry == Retry::Downgrading && unavailable;
        return if is_other { Decision::OtherNode } else { Decision::Fail };
    }
    match error {
        DbError::Overloaded | DbError::ServerError | DbError::TruncateError if is_idempotent => {
            Decision::OtherNode
        }
        DbError::IsBootstrapping => Decision::OtherNode,
        DbError::Unavailable { .. }
        | DbError::ReadTimeout { .. }
        | DbError::WriteTimeout { .. } => {
            if retry == Retry::Default {
                by_default(repeats, error, is_idempotent)
            } else {
                at_lower_level(repeats, error, is_idempotent, level)
            }
        }
        _ => Decision::Fail,
    }
}

fn first_time(tried: &mut bool, decision: Decision) -> Decision {
    if std::mem::replace(tried, true) { Decision::Fail } else { decision }
}

fn by_default(repeats: &mut Repeats, error: &DbError, is_idempotent: bool) -> Decision {
    match error {
        DbError::Unavailable { .. } => first_time(&mut repeats.on_unavailable, Decision::OtherNode),
        // Enough replicas answered, but not the one with the data.
        DbError::ReadTimeout { received, required, data_present: false, .. }
            if received >= required =>
        {
            first_time(&mut repeats.on_read_timeout, Decision::SameNode(None))
        }
        // The nodes without a reply are now known to be down.
        DbError::WriteTimeout { write_type: WriteType::BatchLog, .. } if is_idempotent => {
            first_time(&mut repeats.on_write_timeout, Decision::SameNode(None))
        }
        _ => Decision::Fail,
    }
}

fn at_lower_level(
    repeats: &mut Repeats,
    error: &DbError,
    is_idempotent: bool,
    level: Consistency,
) -> Decision {
    let decision = match error {
        DbError::Unavailable { alive, .. } => likely(*alive, level),
        DbError::ReadTimeout { received, required, .. } if received < required => {
            likely(*received, level)
        }
        DbError::ReadTimeout { data_present: false, .. } => Decision::SameNode(None),
        DbError::WriteTimeout { write_type, received, .. } if is_idempotent => match write_type {
            WriteType::Batch | WriteType::Simple if *received > 0 => Decision::Done,
            WriteType::UnloggedBatch => likely(*received, level),
            WriteType::BatchLog => Decision::SameNode(None),
            _ => Decision::Fail,
        },
        _ => Decision::Fail,
    };
    match decision {
        Decision::Fail => Decision::Fail,
        // One retry in total.
        decision => first_time(&mut repeats.on_unavailable, decision),
    }
}

/// The highest consistency level with this number of replicas.
fn likely(replicas: i32, level: Consistency) -> Decision {
    match replicas {
        3.. => Decision::SameNode(Some(Consistency::Three)),
        2 => Decision::SameNode(Some(Consistency::Two)),
        1 => Decision::SameNode(Some(Consistency::One)),
        // Replicas in other datacenters aren't counted.
        _ if level == Consistency::EachQuorum => Decision::SameNode(Some(Consistency::One)),
        _ => Decision::Fail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUORUM: Consistency = Consistency::Quorum;

    fn unavailable(alive: i32) -> DbError {
        DbError::Unavailable { consistency: QUORUM, required: 2, alive }
    }

    fn read_timeout(received: i32, data_present: bool) -> DbError {
        DbError::ReadTimeout { consistency: QUORUM, received, required: 2, data_present }
    }

    fn write_timeout(received: i32, write_type: WriteType) -> DbError {
        DbError::WriteTimeout { consistency: QUORUM, received, required: 2, write_type }
    }

    /// The first and the second decision.
    fn twice(retry: Retry, error: &DbError, idempotent: bool) -> [Decision; 2] {
        let mut repeats = Repeats::default();
        [(); 2].map(|()| decide(retry, &mut repeats, error, idempotent, QUORUM))
    }

    #[test]
    fn nothing_is_retried_by_default() {
        for error in [unavailable(1), DbError::Overloaded, DbError::IsBootstrapping] {
            assert_eq!(twice(Retry::None, &error, true), [Decision::Fail; 2]);
        }
    }

    #[test]
    fn the_default_policy_retries_safe_requests_once() {
        let once = |decision| [decision, Decision::Fail];
        let cases = [
            (unavailable(1), true, once(Decision::OtherNode)),
            (read_timeout(2, false), true, once(Decision::SameNode(None))),
            (read_timeout(1, false), true, [Decision::Fail; 2]),
            (read_timeout(2, true), true, [Decision::Fail; 2]),
            (write_timeout(1, WriteType::BatchLog), true, once(Decision::SameNode(None))),
            (write_timeout(1, WriteType::BatchLog), false, [Decision::Fail; 2]),
            (write_timeout(1, WriteType::Simple), true, [Decision::Fail; 2]),
            (DbError::Overloaded, true, [Decision::OtherNode; 2]),
            (DbError::Overloaded, false, [Decision::Fail; 2]),
            (DbError::IsBootstrapping, false, [Decision::OtherNode; 2]),
            (DbError::Invalid, true, [Decision::Fail; 2]),
        ];
        for (error, idempotent, expected) in cases {
            assert_eq!(twice(Retry::Default, &error, idempotent), expected, "{error}");
        }
    }

    #[test]
    fn downgrading_lowers_the_consistency_level() {
        let lower = |level| [Decision::SameNode(Some(level)), Decision::Fail];
        let cases = [
            (unavailable(4), lower(Consistency::Three)),
            (unavailable(2), lower(Consistency::Two)),
            (unavailable(1), lower(Consistency::One)),
            (unavailable(0), [Decision::Fail; 2]),
            (read_timeout(1, false), lower(Consistency::One)),
            (read_timeout(2, false), [Decision::SameNode(None), Decision::Fail]),
            (read_timeout(2, true), [Decision::Fail; 2]),
            (write_timeout(1, WriteType::Simple), [Decision::Done, Decision::Fail]),
            (write_timeout(0, WriteType::Simple), [Decision::Fail; 2]),
            (write_timeout(2, WriteType::UnloggedBatch), lower(Consistency::Two)),
            (write_timeout(2, WriteType::Counter), [Decision::Fail; 2]),
        ];
        for (error, expected) in cases {
            assert_eq!(twice(Retry::Downgrading, &error, true), expected, "{error}");
        }
    }

    #[test]
    fn a_condition_is_retried_elsewhere_only_if_it_was_not_evaluated() {
        let decided = |retry, error: &DbError| {
            decide(retry, &mut Repeats::default(), error, true, Consistency::Serial)
        };
        assert_eq!(decided(Retry::Downgrading, &unavailable(1)), Decision::OtherNode);
        assert_eq!(decided(Retry::Downgrading, &read_timeout(2, false)), Decision::Fail);
        assert_eq!(decided(Retry::Default, &unavailable(1)), Decision::Fail);
    }
}
