//! What drivers of servers share: addresses, credentials, trust, a limit on waiting, and when bytes
//! came.

mod address;
mod alarm;
mod arrivals;
mod credentials;
mod secret;
mod trust;

pub use address::HostPort;
pub use alarm::{Alarm, within};
pub use arrivals::{Arrivals, Received};
pub use credentials::{Credentials, PASSWORD_ENV, PASSWORD_FILE, USERNAME};
pub use secret::Secret;
pub use trust::{CA_FILE, certificates, roots};
