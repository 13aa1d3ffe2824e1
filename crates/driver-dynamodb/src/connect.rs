//! The protocol of connections. Requests are signed, so a connection needs no login.

use std::time::Duration;

use kvmark_driver_server::Target;
use kvmark_driver_server::framed::{Ordered, Protocol, Stream};
use kvmark_driver_server::timers::Deadline;

use crate::failure::Failure;
use crate::http::Response;
use crate::options::Settings;

impl Protocol for Settings {
    type Target = Target;
    type Exchanges = Ordered;
    type Scan = ();

    const REOPENS: bool = false;

    fn dial(&self, target: &Target, deadline: Deadline) -> Result<Stream, Failure> {
        Stream::reach(target, self.tls.as_ref(), deadline)
    }

    fn connect_timeout(&self) -> Duration {
        self.limits.connect_timeout
    }

    fn reconnect_max(&self) -> Duration {
        self.limits.reconnect_max
    }

    fn scan((): &mut (), bytes: &[u8]) -> Result<Option<usize>, Failure> {
        Ok(Response::read(bytes)?.map(|response| response.length))
    }
}
