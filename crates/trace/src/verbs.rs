//! The commands of Redis and memcached: the kind of their operation, and the positions of keys,
//! values and times to live among their words. Shared by all sources of traces.

/// Kinds of operations, in the order of their numbers in traces.
pub const KINDS: [&str; 7] =
    ["read", "update", "insert", "scan", "read_modify_write", "delete", "other"];
/// The kind of an operation that reads.
pub const READ: u8 = 0;
/// The kind of an unknown command.
pub const OTHER: u8 = 6;

/// The kind of an operation that writes.
pub const UPDATE: u8 = 1;
/// The kind of an operation that deletes.
pub const DELETE: u8 = 5;
const BY_KIND: [(u8, &str); 3] = [
    (
        READ,
        "get gets mget gat gats mg getex getrange substr getbit bitcount exists strlen hget \
         hgetall hmget hexists hlen hkeys hvals hstrlen \
         hrandfield lrange lindex llen lpos smembers \
         sismember smismember scard srandmember zscore zmscore zrange zrevrange zrangebyscore \
         zrevrangebyscore zrangebylex zrank zrevrank zcard zcount ttl pttl expiretime pexpiretime \
         type dump xlen xrange xrevrange geopos geodist geosearch pfcount",
    ),
    (
        UPDATE,
        "set add replace cas append prepend incr incrby incrbyfloat decr decrby setex psetex setnx \
         setrange setbit put write getset mset msetnx hset hmset hsetnx hincrby hincrbyfloat hdel \
         lpush rpush lpushx rpushx lpop rpop ltrim lset lrem linsert sadd srem spop zadd zrem \
         zincrby zpopmin zpopmax zremrangebyrank zremrangebyscore xadd xtrim pfadd geoadd expire \
         pexpire expireat pexpireat persist touch ms ma",
    ),
    (DELETE, "del unlink getdel delete md"),
];
/// Updates that carry no value.
const WITHOUT_VALUE: &str = "incr decr touch expire pexpire expireat pexpireat persist lpop rpop \
                             ltrim spop zpopmin zpopmax zremrangebyrank zremrangebyscore xtrim ma";
/// Goes by a cursor and over no range of keys, so that it is none of the scans of [`KINDS`].
const REDIS_SCAN: &str = "SCAN";
const OF_MANY_KEYS: &str = "mget del unlink exists touch";
const OF_PAIRS: &str = "mset msetnx";

/// The positions of a command's keys after its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    None,
    First,
    All,
    Pairs,
}

/// The positions of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Values {
    from: u64,
    until: u64,
    step: u64,
}

/// The position of its time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lives {
    Forever,
    /// The second word, in units of this number of milliseconds.
    Second(u64),
    /// Behind EX or PX, which stand there or later.
    Behind(u64),
}

/// A Redis command that is parsed word by word.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    kind: u8,
    keys: Keys,
    values: Option<Values>,
    lives: Lives,
    /// Words since its name.
    words: u64,
    value_bytes: u64,
    /// Of an option whose number comes next.
    unit_ms: Option<u64>,
    ttl_ms: Option<u64>,
}

/// A command that needs no parsing of its words, only their lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// Its first word is its key, and nothing else counts.
    Key,
    /// Its first word is its key, and its second and last what it writes.
    KeyAndValue,
}

/// The number of the kind of an operation of that name.
#[must_use]
pub fn kind_of(verb: &str) -> u8 {
    if verb == REDIS_SCAN {
        return OTHER;
    }
    let verb = verb.to_ascii_lowercase();
    if let Some(place) = KINDS.iter().position(|kind| *kind == verb) {
        return place as u8;
    }
    let found = BY_KIND.iter().find(|(_, verbs)| has(verbs, &verb));
    found.map_or(OTHER, |(kind, _)| *kind)
}

/// The command with its key, value and time to live left out, such as `set {key} {value}`.
#[must_use]
pub fn shape_of(verb: &str, expires: bool) -> String {
    let kind = kind_of(verb);
    if kind == OTHER {
        // The positions of its keys are unknown.
        return verb.to_owned();
    }
    let is_valued = matches!(KINDS[usize::from(kind)], "update" | "insert" | "read_modify_write");
    let has_value = is_valued && !has(WITHOUT_VALUE, &verb.to_ascii_lowercase());
    let value = if has_value { " {value}" } else { "" };
    let ttl = if expires { " {ttl}" } else { "" };
    format!("{verb} {{key}}{value}{ttl}")
}

impl Command {
    /// A command by its name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let is_scan = name.eq_ignore_ascii_case(REDIS_SCAN);
        let kind = if is_scan { OTHER } else { kind_of(name) };
        let name = name.to_ascii_lowercase();
        let keys = match name.as_str() {
            name if has(OF_MANY_KEYS, name) => Keys::All,
            name if has(OF_PAIRS, name) => Keys::Pairs,
            _ if kind == OTHER => Keys::None,
            _ => Keys::First,
        };
        let values = |from, until, step| Some(Values { from, until, step });
        let values = match name.as_str() {
            "set" | "setnx" | "append" | "getset" => values(1, 2, 1),
            "setex" | "psetex" | "setrange" | "lset" => values(2, 3, 1),
            "hset" | "hmset" | "hsetnx" | "zadd" => values(2, u64::MAX, 2),
            "lpush" | "rpush" | "lpushx" | "rpushx" | "sadd" => values(1, u64::MAX, 1),
            "mset" | "msetnx" => values(1, u64::MAX, 2),
            _ => None,
        };
        let lives = match name.as_str() {
            "setex" | "expire" => Lives::Second(1000),
            "psetex" | "pexpire" => Lives::Second(1),
            "set" => Lives::Behind(2),
            "getex" => Lives::Behind(1),
            _ => Lives::Forever,
        };
        Self { kind, keys, values, lives, words: 0, value_bytes: 0, unit_ms: None, ttl_ms: None }
    }

    /// A command of this kind whose words aren't parsed.
    #[must_use]
    pub fn of_kind(kind: u8) -> Self {
        Self { kind, ..Self::named("") }
    }

    /// Place in [`KINDS`].
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// The command with this number of words after its name; `None` if the words must be parsed.
    #[must_use]
    #[inline]
    pub fn plain(&self, words: usize) -> Option<Plain> {
        const SECOND: Values = Values { from: 1, until: 2, step: 1 };
        match (self.keys, self.values, self.lives) {
            (Keys::First, None, Lives::Forever) if words > 0 => Some(Plain::Key),
            (Keys::First, Some(SECOND), Lives::Forever | Lives::Behind(2)) if words == 2 => {
                Some(Plain::KeyAndValue)
            }
            _ => None,
        }
    }

    /// Whether the next word is a key.
    #[must_use]
    #[inline]
    pub fn awaits_key(&self) -> bool {
        match self.keys {
            Keys::None => false,
            Keys::First => self.words == 0,
            Keys::All => true,
            Keys::Pairs => self.words.is_multiple_of(2),
        }
    }

    /// Whether the next word is a value that it writes; none is of a command that writes several
    /// records at once, whose values are counted together.
    #[must_use]
    #[inline]
    pub fn awaits_value(&self) -> bool {
        self.keys != Keys::Pairs && self.is_value(self.words)
    }

    fn is_value(&self, place: u64) -> bool {
        self.values.is_some_and(|Values { from, until, step }| {
            (from..until).contains(&place) && (place - from).is_multiple_of(step)
        })
    }

    /// Takes the next word: how long it is, and its first 20 bytes at least.
    #[inline]
    pub fn word(&mut self, size: u64, head: &[u8]) {
        let place = self.words;
        self.words += 1;
        if self.is_value(place) {
            self.value_bytes = self.value_bytes.saturating_add(size);
        }
        match self.lives {
            Lives::Second(unit_ms) if place == 1 => self.ttl_ms = duration_ms(head, size, unit_ms),
            Lives::Behind(first) if place >= first => {
                if let Some(unit_ms) = self.unit_ms.take() {
                    self.ttl_ms = duration_ms(head, size, unit_ms);
                } else if size == 2 && head.eq_ignore_ascii_case(b"EX") {
                    self.unit_ms = Some(1000);
                } else if size == 2 && head.eq_ignore_ascii_case(b"PX") {
                    self.unit_ms = Some(1);
                }
            }
            _ => {}
        }
    }

    /// Bytes of the values that it writes; none of one that writes none.
    #[must_use]
    pub fn value_bytes(&self) -> Option<u64> {
        self.values.map(|_| self.value_bytes)
    }

    /// Time to live of its write; `None` for no limit.
    #[must_use]
    pub fn ttl_ms(&self) -> Option<u64> {
        self.ttl_ms
    }
}

fn has(verbs: &str, verb: &str) -> bool {
    verbs.split_whitespace().any(|one| one == verb)
}

/// A time to live in milliseconds, if the word is one.
fn duration_ms(head: &[u8], size: u64, unit_ms: u64) -> Option<u64> {
    if size != head.len() as u64 || !head.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(head).ok()?.parse().ok()?;
    number.checked_mul(unit_ms).filter(|ms| (1..=i64::MAX as u64).contains(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[&str]) -> (Vec<usize>, Option<u64>, Option<u64>) {
        let mut command = Command::named(words[0]);
        let mut keys = Vec::new();
        for (place, word) in words.iter().enumerate().skip(1) {
            if command.awaits_key() {
                keys.push(place);
            }
            command.word(word.len() as u64, word.as_bytes());
        }
        (keys, command.value_bytes(), command.ttl_ms())
    }

    #[test]
    fn keys_values_and_times_are_found_among_the_words() {
        assert_eq!(said(&["SET", "k", "value", "EX", "60"]), (vec![1], Some(5), Some(60_000)));
        assert_eq!(said(&["set", "EX", "ex", "PX", "7"]), (vec![1], Some(2), Some(7)));
        assert_eq!(said(&["set", "k", "v", "ex", "-1"]), (vec![1], Some(1), None));
        assert_eq!(said(&["PSETEX", "k", "1500", "v"]), (vec![1], Some(1), Some(1500)));
        assert_eq!(said(&["mset", "a", "12", "b", "345"]), (vec![1, 3], Some(5), None));
        assert_eq!(said(&["HSET", "h", "f", "12", "g", "345"]), (vec![1], Some(5), None));
        assert_eq!(said(&["DEL", "a", "b"]), (vec![1, 2], None, None));
        assert_eq!(said(&["AUTH", "someone", "secret"]), (vec![], None, None));
        assert_eq!(said(&["SCAN", "0"]), (vec![], None, None));
        assert_eq!(said(&["EVAL", "return 1", "1", "k"]), (vec![], None, None));
    }

    #[test]
    fn a_plain_command_matches_its_parsed_words() {
        let words = ["a", "bc", "def"];
        for (_, verbs) in BY_KIND {
            for verb in verbs.split_whitespace().chain(["scan", "eval"]) {
                for count in 0..=3 {
                    let Some(plain) = Command::named(verb).plain(count) else { continue };
                    let all: Vec<_> = [verb].iter().chain(&words[..count]).copied().collect();
                    let value = (plain == Plain::KeyAndValue).then_some(2);
                    assert_eq!(said(&all), (vec![1], value, None), "{all:?}");
                }
            }
        }
        assert_eq!(Command::named("get").plain(1), Some(Plain::Key));
        assert_eq!(Command::named("SET").plain(2), Some(Plain::KeyAndValue));
        assert_eq!(Command::named("SET").plain(4), None);
    }

    #[test]
    fn shapes_hold_the_name_as_it_was_sent() {
        assert_eq!(shape_of("SET", true), "SET {key} {value} {ttl}");
        assert_eq!(shape_of("get", false), "get {key}");
        assert_eq!(shape_of("incr", false), "incr {key}");
        assert_eq!(shape_of("EVAL", true), "EVAL");
        assert_eq!(kind_of("scan"), 3);
    }
}
