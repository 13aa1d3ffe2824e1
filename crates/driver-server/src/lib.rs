//! What drivers of servers share: addresses, credentials, trust, a runtime's timers, and when bytes
//! came.

mod address;
mod arrivals;
mod credentials;
mod secret;
pub mod timers;
mod trust;

pub use address::HostPort;
pub use arrivals::{Arrivals, Received};
pub use credentials::{Credentials, PASSWORD_ENV, PASSWORD_FILE, USERNAME};
pub use secret::Secret;
pub use trust::{CA_FILE, certificates, roots};
