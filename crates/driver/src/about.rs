//! What a driver says of itself before it is opened.

use kvmark_plan::Kind;
use serde::Serialize;

/// What kvmark must know of a driver to read its URLs, and to run it and judge its runs rightly.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct About {
    /// The driver's name in plans.
    pub name: &'static str,
    /// How its URLs begin, the usual way first.
    pub schemes: &'static [Scheme],
    /// What stands between a scheme and the options.
    pub place: Place,
    /// The option that stands behind the hosts as a path.
    pub path: Option<&'static str>,
    /// The port of a host without one.
    pub port: Option<u16>,
    /// Whether its statistics are those of the server, which all clients see alike, and not those
    /// of this process.
    pub counts_whole_server: bool,
    /// Kinds of operation that its systems don't have.
    pub lacks: &'static [Kind],
    /// The setting that gives a server more than its one thread for commands; none where it has
    /// more anyway.
    pub one_thread_unless: Option<&'static str>,
    /// YCSB's bindings to the same systems, by names and classes.
    pub ycsb_bindings: &'static [&'static str],
    /// How the names of those bindings' own properties begin.
    pub ycsb_properties: &'static [&'static str],
}

impl About {
    /// A driver that says nothing more.
    #[must_use]
    pub const fn new(name: &'static str, place: Place, schemes: &'static [Scheme]) -> Self {
        Self {
            name,
            schemes,
            place,
            path: None,
            port: None,
            counts_whole_server: false,
            one_thread_unless: None,
            lacks: &[],
            ycsb_bindings: &[],
            ycsb_properties: &[],
        }
    }
}

/// How a URL begins.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Scheme {
    /// What stands before the colon.
    pub name: &'static str,
    /// A whole URL, to be shown to who wrote a wrong one.
    pub example: &'static str,
    /// Options that the scheme itself says, with their values.
    pub implied: &'static [(&'static str, &'static str)],
}

impl Scheme {
    /// A scheme that says no option.
    #[must_use]
    pub const fn new(name: &'static str, example: &'static str) -> Self {
        Self { name, example, implied: &[] }
    }
}

/// Where a driver's system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In a folder, opened by this process alone; the option `create` makes it.
    Folder,
    /// On hosts that are reached over a network.
    Hosts,
    /// In this process; it keeps no records.
    Nothing,
}
