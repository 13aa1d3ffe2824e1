//! What drivers of servers share: addresses, credentials, trust, framed connections and their
//! failures, a runtime's timers, and when bytes came.

mod address;
mod arrivals;
mod credentials;
mod failure;
pub mod framed;
mod secret;
pub mod timers;
mod tls;
mod trust;

pub use address::HostPort;
pub use arrivals::{Arrivals, Received};
pub use credentials::{Credentials, PASSWORD_ENV, PASSWORD_FILE, USERNAME};
pub use failure::Failure;
pub use secret::Secret;
pub use tls::{Tls, TlsFiles};
pub use trust::{CA_FILE, certificates, roots};
