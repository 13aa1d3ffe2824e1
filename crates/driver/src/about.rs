//! Static properties of a driver.

use std::ffi::OsStr;

use kvmark_plan::Kind;
use serde::Serialize;

/// Properties of a driver for reading its URLs, running it and judging its runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct About {
    /// The driver's name in plans.
    pub name: &'static str,
    /// How its URLs begin, the usual way first.
    pub schemes: &'static [Scheme],
    /// The kind of address between a scheme and the options.
    pub place: Place,
    /// The option that is the path after the hosts.
    pub path: Option<&'static str>,
    /// The port of a host without one.
    pub port: Option<u16>,
    /// The files of a database, where the place is a folder.
    pub files: Option<Files>,
    /// The options for sizes of caches and buffers, each with its percentage of a limit on memory.
    pub memory: &'static [(&'static str, u64)],
    /// Whether its statistics are those of the server, and so the same for all clients, and not
    /// those of this process.
    pub counts_whole_server: bool,
    /// Kinds of operation that its systems don't have.
    pub lacks: &'static [Kind],
    /// Whether its own records are text or JSON, which can't have bytes of any value.
    pub stores_text: bool,
    /// The setting that gives a server more than its one thread for commands; none where it has
    /// more anyway.
    pub one_thread_unless: Option<&'static str>,
    /// YCSB's bindings to the same systems, by names and classes.
    pub ycsb_bindings: &'static [&'static str],
    /// How the names of those bindings' own properties begin.
    pub ycsb_properties: &'static [&'static str],
}

impl About {
    /// A driver without further properties.
    #[must_use]
    pub const fn new(name: &'static str, place: Place, schemes: &'static [Scheme]) -> Self {
        Self {
            name,
            schemes,
            place,
            path: None,
            port: None,
            files: None,
            memory: &[],
            counts_whole_server: false,
            stores_text: false,
            one_thread_unless: None,
            lacks: &[],
            ycsb_bindings: &[],
            ycsb_properties: &[],
        }
    }
}

/// Names of the files in a database's folder, as paths within it; `#` matches digits.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Files {
    /// The file that makes a folder a database: no data exists before it.
    pub complete: &'static str,
    /// Files without data that may exist before that one.
    pub early: &'static [&'static str],
    /// All others.
    pub others: &'static [&'static str],
}

impl Files {
    /// Whether a file makes its folder a database.
    #[must_use]
    pub fn is_complete(&self, name: &OsStr) -> bool {
        name == self.complete
    }

    /// Whether an incomplete database may have such a file.
    #[must_use]
    pub fn may_be_early(&self, name: &str) -> bool {
        self.early.iter().any(|pattern| fits(pattern, name))
    }
}

/// Whether a name fits a pattern with `#` for digits.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('#') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    let behind = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    behind.len() < rest.len() && fits(after, behind)
}

/// How a URL begins.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Scheme {
    /// The text before the colon.
    pub name: &'static str,
    /// A complete URL, shown in errors.
    pub example: &'static str,
    /// Options that the scheme implies, with their values.
    pub implied: &'static [(&'static str, &'static str)],
}

impl Scheme {
    /// A scheme that implies no option.
    #[must_use]
    pub const fn new(name: &'static str, example: &'static str) -> Self {
        Self { name, example, implied: &[] }
    }
}

/// Where a driver's system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In a class of Java's, which this process loads; the process can load it once.
    Class,
    /// In a folder, opened by this process alone; the option `create` makes it.
    Folder,
    /// On hosts that are reached over a network.
    Hosts,
    /// In this process; it keeps no records.
    Nothing,
}
