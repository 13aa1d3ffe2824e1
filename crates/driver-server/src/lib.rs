//! Code shared by the drivers of servers: addresses, credentials, TLS, framed connections and their
//! failures, the parser of statements, arguments as text, timers and arrival times.

mod address;
mod arrivals;
mod credentials;
mod failure;
pub mod framed;
mod limits;
pub mod names;
mod secret;
mod share;
pub mod text;
pub mod timers;
mod tls;
mod trust;
pub mod words;

pub use address::{HostPort, Target};
pub use arrivals::{Arrivals, Received};
pub use credentials::{Credentials, PASSWORD_ENV, PASSWORD_FILE, USERNAME};
pub use failure::Failure;
pub use limits::{CONNECT_TIMEOUT_MS, RECONNECT_MAX_MS};
pub use secret::Secret;
pub use share::largest_share;
pub use tls::{CERT_FILE, KEY_FILE, SERVER_NAME, TLS, Tls, TlsFiles};
pub use trust::{CA_FILE, advice, certificates, roots};
