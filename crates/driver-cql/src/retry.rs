//! The retry policies: which failed requests are retried, where, and at which consistency level.
//!
//! Source: the policies `DefaultRetryPolicy` and `DowngradingConsistencyRetryPolicy` of the Java
//! driver 3.x and of the Rust driver of ScyllaDB. Each rule applies once per request.

use crate::failure::{
    BOOTSTRAPPING, NodeError, OVERLOADED, READ_TIMEOUT, SERVER_ERROR, TRUNCATE_ERROR, UNAVAILABLE,
    WRITE_TIMEOUT,
};
use crate::settings::{Consistency, Retry};

/// A write to the log of a batch, before the batch itself.
const BATCH_LOG: &str = "BATCH_LOG";

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
    error: &NodeError,
    is_idempotent: bool,
    level: Consistency,
) -> Decision {
    if retry == Retry::None {
        return Decision::Fail;
    }
    let is_serial = matches!(level, Consistency::Serial | Consistency::LocalSerial);
    if is_serial {
        // The conditions weren't evaluated: this node may be isolated.
        let is_other = retry == Retry::Downgrading && error.code == UNAVAILABLE;
        return if is_other { Decision::OtherNode } else { Decision::Fail };
    }
    match error.code {
        OVERLOADED | SERVER_ERROR | TRUNCATE_ERROR if is_idempotent => Decision::OtherNode,
        BOOTSTRAPPING => Decision::OtherNode,
        UNAVAILABLE | READ_TIMEOUT | WRITE_TIMEOUT => {
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

fn by_default(repeats: &mut Repeats, error: &NodeError, is_idempotent: bool) -> Decision {
    match error.code {
        UNAVAILABLE => first_time(&mut repeats.on_unavailable, Decision::OtherNode),
        // Enough replicas answered, but not the one with the data.
        READ_TIMEOUT if !error.is_data_present && error.received >= error.required => {
            first_time(&mut repeats.on_read_timeout, Decision::SameNode(None))
        }
        // The nodes without a reply are now known to be down.
        WRITE_TIMEOUT if error.write_type == BATCH_LOG && is_idempotent => {
            first_time(&mut repeats.on_write_timeout, Decision::SameNode(None))
        }
        _ => Decision::Fail,
    }
}

fn at_lower_level(
    repeats: &mut Repeats,
    error: &NodeError,
    is_idempotent: bool,
    level: Consistency,
) -> Decision {
    let NodeError { received, .. } = *error;
    let decision = match error.code {
        UNAVAILABLE => likely(received, level),
        READ_TIMEOUT if received < error.required => likely(received, level),
        READ_TIMEOUT if !error.is_data_present => Decision::SameNode(None),
        WRITE_TIMEOUT if is_idempotent => match &*error.write_type {
            "BATCH" | "SIMPLE" if received > 0 => Decision::Done,
            "UNLOGGED_BATCH" => likely(received, level),
            BATCH_LOG => Decision::SameNode(None),
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

    fn of_code(code: i32) -> NodeError {
        NodeError { code, required: 2, ..NodeError::default() }
    }

    fn unavailable(received: i32) -> NodeError {
        NodeError { received, ..of_code(UNAVAILABLE) }
    }

    fn read_timeout(received: i32, is_data_present: bool) -> NodeError {
        NodeError { received, is_data_present, ..of_code(READ_TIMEOUT) }
    }

    fn write_timeout(received: i32, write_type: &str) -> NodeError {
        NodeError { received, write_type: write_type.to_owned(), ..of_code(WRITE_TIMEOUT) }
    }

    /// The first and the second decision.
    fn twice(retry: Retry, error: &NodeError, idempotent: bool) -> [Decision; 2] {
        let mut repeats = Repeats::default();
        [(); 2].map(|()| decide(retry, &mut repeats, error, idempotent, QUORUM))
    }

    #[test]
    fn nothing_is_retried_by_default() {
        for error in [unavailable(1), of_code(OVERLOADED), of_code(BOOTSTRAPPING)] {
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
            (write_timeout(1, BATCH_LOG), true, once(Decision::SameNode(None))),
            (write_timeout(1, BATCH_LOG), false, [Decision::Fail; 2]),
            (write_timeout(1, "SIMPLE"), true, [Decision::Fail; 2]),
            (of_code(OVERLOADED), true, [Decision::OtherNode; 2]),
            (of_code(OVERLOADED), false, [Decision::Fail; 2]),
            (of_code(BOOTSTRAPPING), false, [Decision::OtherNode; 2]),
            (of_code(0x2200), true, [Decision::Fail; 2]),
        ];
        for (error, idempotent, expected) in cases {
            assert_eq!(twice(Retry::Default, &error, idempotent), expected, "{error:?}");
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
            (write_timeout(1, "SIMPLE"), [Decision::Done, Decision::Fail]),
            (write_timeout(0, "SIMPLE"), [Decision::Fail; 2]),
            (write_timeout(2, "UNLOGGED_BATCH"), lower(Consistency::Two)),
            (write_timeout(2, "COUNTER"), [Decision::Fail; 2]),
        ];
        for (error, expected) in cases {
            assert_eq!(twice(Retry::Downgrading, &error, true), expected, "{error:?}");
        }
    }

    #[test]
    fn a_condition_is_retried_elsewhere_only_if_it_was_not_evaluated() {
        let decided = |retry, error: &NodeError| {
            decide(retry, &mut Repeats::default(), error, true, Consistency::Serial)
        };
        assert_eq!(decided(Retry::Downgrading, &unavailable(1)), Decision::OtherNode);
        assert_eq!(decided(Retry::Downgrading, &read_timeout(2, false)), Decision::Fail);
        assert_eq!(decided(Retry::Default, &unavailable(1)), Decision::Fail);
    }
}
