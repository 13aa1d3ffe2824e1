//! Stores through YCSB's bindings: classes that extend `site.ycsb.DB`, in a Java virtual machine
//! within this process.
//!
//! Each client has an instance of the binding and calls it in its own thread, so that arrivals,
//! times and checks are those of all blocking drivers. An operation is one call to a small class of
//! kvmark's (`java/kvmark/BindingClient.java`), which is compiled when it is first used.

mod client;
mod machine;
mod properties;

use std::collections::BTreeMap;
use std::sync::Arc;

use jni::{jni_sig, jni_str};
use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver::{
    About, AnySession, Capabilities, Description, Driver, Execution, Layout, Never, OpenError,
    Place, Scheme,
};
use serde_json::Value;

use client::BindingSession;
use machine::{CLIENT, Machine};
use properties::Properties;

static TABLE: [OptionDoc; 4] = [
    option("class", Accepts::Text("the name of a class"), None)
        .meaning("Class of the binding, which stands after the colon."),
    option("classpath", Accepts::Text("jars and folders such as core.jar:lib/*"), Some(""))
        .meaning(
            "Jars and folders of the binding, its libraries and YCSB's core, separated by colons; \
         `lib/*` means all jars of a folder.",
        ),
    option("missing", Accepts::Text("the name of a status"), Some("NOT_FOUND")).meaning(
        "Status of the binding when it reads a missing record; YCSB's Redis binding has ERROR.",
    ),
    option("jvm", Accepts::Text("options such as -Xmx1g,-XX:+UseParallelGC"), Some(""))
        .meaning("Options of the Java virtual machine, separated by commas."),
];

/// All options of this driver. Any other one is a property of the binding.
#[must_use]
pub fn options() -> Vec<&'static OptionDoc> {
    TABLE.iter().collect()
}

/// A binding of YCSB's.
pub struct YcsbBinding(Arc<Shared>);

/// What the driver and its sessions share.
pub(crate) struct Shared {
    machine: Machine,
    /// The status that means a missing record.
    missing: String,
    layout: Layout,
    properties: Properties,
    description: Description,
}

impl YcsbBinding {
    /// The driver's static properties.
    pub const ABOUT: About = About::new(
        "ycsb-binding",
        Place::Class,
        &[Scheme::new("ycsb-binding", "ycsb-binding:CLASS?classpath=JARS")],
    );

    /// Starts the Java virtual machine. The sessions make the binding's instances.
    ///
    /// # Errors
    /// [`OpenError::Option`] when an option is missing, has a wrong value, or names a file that
    /// isn't there; [`OpenError::System`] without Java, its compiler, or YCSB's core.
    pub fn open(options: &BTreeMap<String, Value>, layout: &Layout) -> Result<Self, OpenError> {
        let is_own = |name: &str| TABLE.iter().any(|doc| doc.name == name);
        let (own, others) = options.clone().into_iter().partition(|(name, _)| is_own(name));
        let given = Given::parse(&TABLE, &own)?;
        let missing = || OpenError::Option("option 'class' is missing".to_owned());
        let class = given.own("class").ok_or_else(missing)?.to_owned();
        let properties = Properties::read(&others, layout)?;
        let texts =
            ["classpath", "jvm", "missing"].map(|name| given.text(name).unwrap_or_default());
        let [classpath, words, missing] = texts;
        let machine = Machine::start(classpath, words)?;
        let version = machine.versions()?;
        let mut configuration: BTreeMap<_, _> =
            others.iter().map(|(name, value)| (name.clone(), properties::text(value))).collect();
        configuration.extend(given.all().map(|(name, text)| (name.to_owned(), text.to_owned())));
        let description = Description { system: class, version, configuration };
        let (layout, missing) = (layout.clone(), missing.to_owned());
        Ok(Self(Arc::new(Shared { machine, missing, layout, properties, description })))
    }
}

impl Driver for YcsbBinding {
    type Blocking = BindingSession;
    type Session = Never;

    fn capabilities(&self) -> Capabilities {
        Capabilities { statements: false, ..Capabilities::all(Execution::Blocking, true) }
    }

    fn describe(&self) -> Description {
        self.0.description.clone()
    }

    fn session(&self, _clients: u32) -> Result<AnySession<BindingSession, Never>, OpenError> {
        BindingSession::open(Arc::clone(&self.0)).map(AnySession::Blocking)
    }

    /// Number and milliseconds of the collections of garbage in the virtual machine.
    fn statistics(&self) -> BTreeMap<String, f64> {
        let read = |is_count: bool| {
            self.0.machine.vm.attach_current_thread_for_scope(|env| {
                let (name, signature) = (jni_str!("collections"), jni_sig!("(Z)J"));
                env.call_static_method(CLIENT, name, signature, &[is_count.into()])?.j()
            })
        };
        let counters = [("jvm_gc_count", read(true)), ("jvm_gc_ms", read(false))];
        let known = counters.into_iter().filter_map(|(name, count)| Some((name, count.ok()?)));
        known.map(|(name, count)| (name.to_owned(), count as f64)).collect()
    }
}
