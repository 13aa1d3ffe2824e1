//! Further attempts of failed requests.

use kvmark_plan::{Jitter, Outcome, RetryPolicy, Seed};

use crate::scheduled::Executed;

/// Separates the pauses from the arrivals of the same phase and group.
const PAUSES: u64 = 1;

/// A group's retry policy in a phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retries {
    policy: RetryPolicy,
    seed: Seed,
}

impl Retries {
    /// The policy, with pauses by the seed of the group's arrivals.
    pub(crate) fn new(policy: RetryPolicy, seed: u64) -> Self {
        Self { policy, seed: Seed::derive(seed, &[PAUSES]) }
    }

    /// The pause after attempt `made`, from 1, of an operation by its number. `None` if it is the
    /// last one: another attempt isn't permitted, or would hide a wrong value or a wrong request.
    pub(crate) fn pause_ns(&self, number: u64, made: u32, outcome: Outcome) -> Option<u64> {
        let RetryPolicy { attempts, jitter, backoff_ns, backoff_limit_ns } = self.policy;
        if made >= attempts || matches!(outcome, Outcome::Mismatch | Outcome::Refused) {
            return None;
        }
        let factor = 1_u64.checked_shl(made - 1).unwrap_or(u64::MAX);
        let longest_ns = backoff_ns.saturating_mul(factor).min(backoff_limit_ns);
        Some(match jitter {
            Jitter::None => longest_ns,
            Jitter::Full => {
                self.seed.random_of_part(number, made.into()).below(longest_ns.saturating_add(1))
            }
        })
    }
}

/// The attempts of an operation's current request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts {
    /// The number of attempts that have ended.
    pub(crate) made: u32,
    /// When the first one was issued.
    pub(crate) issued_ns: u64,
    /// When the next one is due.
    pub(crate) due_ns: u64,
    /// The last one.
    pub(crate) last: Executed,
    /// Whether no further one is made after the last one, which is recorded.
    pub(crate) are_over: bool,
}

impl Attempts {
    /// No attempt has ended.
    pub(crate) const NONE: Self = Self {
        made: 0,
        issued_ns: 0,
        due_ns: 0,
        last: Executed { issued_ns: 0, completed_ns: 0, outcome: Outcome::Ok },
        are_over: false,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retries(jitter: Jitter) -> Retries {
        let policy = RetryPolicy { attempts: 6, jitter, backoff_ns: 50, backoff_limit_ns: 300 };
        Retries::new(policy, 1)
    }

    #[test]
    fn pauses_double_up_to_their_limit_and_end_with_the_last_attempt() {
        let all = |jitter| {
            let retries = retries(jitter);
            let pause = move |made| retries.pause_ns(7, made, Outcome::Timeout);
            (1..=6).map(pause).collect::<Vec<_>>()
        };
        let plain = all(Jitter::None);
        assert_eq!(plain, [Some(50), Some(100), Some(200), Some(300), Some(300), None]);
        assert!(all(Jitter::Full).iter().zip(&plain).all(|(drawn, longest)| drawn <= longest));
    }

    #[test]
    fn pauses_with_jitter_are_uniform_and_those_of_the_seed() {
        let retries = retries(Jitter::Full);
        let pause = |number| retries.pause_ns(number, 1, Outcome::Timeout).expect("there are six");
        let mean = (0..10_000).map(pause).sum::<u64>() as f64 / 10_000.0;
        assert!((24.0..26.0).contains(&mean), "{mean}");
        assert!((0..100).all(|number| pause(number) == pause(number)));
    }

    #[test]
    fn failures_that_another_attempt_would_repeat_or_hide_are_final() {
        let again = |outcome| retries(Jitter::None).pause_ns(0, 1, outcome).is_some();
        let failures = Outcome::ALL.into_iter().filter(|outcome| outcome.is_failure());
        let finals: Vec<_> = failures.filter(|outcome| !again(*outcome)).collect();
        assert_eq!(finals, [Outcome::Mismatch, Outcome::Refused]);
    }
}
