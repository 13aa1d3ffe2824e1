//! What errors of Redis and memcached mean for an operation, for drivers and taps alike.

use kvmark_plan::Outcome;

/// The outcome that an error of a server with the Redis protocol stands for, by its first word.
pub fn redis(message: &[u8]) -> Outcome {
    match message.split(|byte| *byte == b' ').next().unwrap_or_default() {
        b"LOADING" | b"MASTERDOWN" | b"CLUSTERDOWN" | b"READONLY" | b"TRYAGAIN" | b"NOREPLICAS" => {
            Outcome::Unavailable
        }
        b"OOM" | b"BUSY" => Outcome::Overloaded,
        b"MISCONF" => Outcome::Storage,
        b"ERR" if message.starts_with(b"ERR max number of clients") => Outcome::Overloaded,
        _ => Outcome::Refused,
    }
}

/// The outcome that an error line of memcached stands for.
pub fn memcached(line: &[u8]) -> Outcome {
    let Some(why) = line.strip_prefix(b"SERVER_ERROR") else {
        let many = line == b"ERROR Too many open connections";
        return if many { Outcome::Overloaded } else { Outcome::Refused };
    };
    let says = |words: &[u8]| why.windows(words.len()).any(|part| part == words);
    if says(b"out of memory") {
        Outcome::Overloaded
    } else if says(b"too large") {
        Outcome::Refused
    } else {
        // A proxy says so of the server behind it.
        Outcome::Unavailable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_redis_has_its_outcome() {
        let cases = [
            ("LOADING Redis is loading the dataset in memory", Outcome::Unavailable),
            ("MASTERDOWN Link with MASTER is down", Outcome::Unavailable),
            ("CLUSTERDOWN The cluster is down", Outcome::Unavailable),
            ("READONLY You can't write against a read only replica.", Outcome::Unavailable),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Outcome::Unavailable),
            ("OOM command not allowed when used memory > 'maxmemory'.", Outcome::Overloaded),
            ("BUSY Redis is busy running a script.", Outcome::Overloaded),
            ("ERR max number of clients reached", Outcome::Overloaded),
            ("MISCONF Redis is configured to save RDB snapshots", Outcome::Storage),
            ("NOAUTH Authentication required.", Outcome::Refused),
            ("WRONGPASS invalid username-password pair", Outcome::Refused),
            ("NOPERM this user has no permissions", Outcome::Refused),
            ("WRONGTYPE Operation against a key", Outcome::Refused),
            ("ERR unknown command", Outcome::Refused),
            ("CROSSSLOT Keys in request don't hash to the same slot", Outcome::Refused),
            ("MOVED 3999 127.0.0.1:6381", Outcome::Refused),
        ];
        for (message, outcome) in cases {
            assert_eq!(redis(message.as_bytes()), outcome, "{message}");
        }
    }

    #[test]
    fn each_error_of_memcached_has_its_outcome() {
        let cases = [
            ("ERROR", Outcome::Refused),
            ("ERROR Too many open connections", Outcome::Overloaded),
            ("CLIENT_ERROR bad data chunk", Outcome::Refused),
            ("CLIENT_ERROR unauthenticated", Outcome::Refused),
            ("SERVER_ERROR out of memory storing object", Outcome::Overloaded),
            ("SERVER_ERROR out of memory writing get response", Outcome::Overloaded),
            ("SERVER_ERROR object too large for cache", Outcome::Refused),
            ("SERVER_ERROR Connection refused", Outcome::Unavailable),
        ];
        for (line, outcome) in cases {
            assert_eq!(memcached(line.as_bytes()), outcome, "{line}");
        }
    }
}
