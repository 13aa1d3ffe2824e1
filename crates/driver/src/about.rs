//! Static properties of a driver.

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
    /// Whether its statistics are those of the server, and so the same for all clients, and not
    /// those of this process.
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
    /// A driver without further properties.
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
    /// In a folder, opened by this process alone; the option `create` makes it.
    Folder,
    /// On hosts that are reached over a network.
    Hosts,
    /// In this process; it keeps no records.
    Nothing,
}
