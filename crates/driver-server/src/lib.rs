//! Code shared by the drivers of servers: the driver of a [`Store`], addresses, credentials,
//! logins, TLS, framed connections and their failures, the parser of statements, arguments as text,
//! timers and arrival times.

mod address;
mod arrivals;
mod credentials;
mod failure;
pub mod framed;
mod scram;
mod servers;
mod status;
mod store;
pub mod template;
pub mod text;
pub mod timers;
mod tls;
pub mod wording;
pub mod words;

pub use address::{HostPort, Target};
pub use arrivals::{Arrivals, Received};
pub use credentials::{Credentials, PASSWORD_ENV, PASSWORD_FILE, Secret, USERNAME};
pub use failure::Failure;
pub use scram::{SCRAM, Scram, unproven};
pub use servers::{CONNECT_TIMEOUT_MS, Limits, SHARED_OPTIONS, Servers};
pub use status::settle;
pub use store::{Counters, ServerDriver, SessionOf, Store};
pub use tls::{
    CA_FILE, CERT_FILE, KEY_FILE, SERVER_NAME, TLS, Tls, TlsFiles, TlsProbe, advice, certificates,
    roots,
};
