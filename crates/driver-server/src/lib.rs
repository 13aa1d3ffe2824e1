//! Code shared by the drivers of servers: addresses, credentials, TLS, framed connections and their
//! failures, the parser of statements, arguments as text, timers and arrival times.

mod address;
mod arrivals;
mod credentials;
mod failure;
pub mod framed;
mod limits;
mod status;
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
pub use limits::{CONNECT_TIMEOUT_MS, CONNECTIONS, Limits, RECONNECT_MAX_MS, SHARED_OPTIONS};
pub use status::{Load, settle};
pub use tls::{
    CA_FILE, CERT_FILE, KEY_FILE, SERVER_NAME, TLS, Tls, TlsFiles, TlsProbe, advice, certificates,
    roots,
};
