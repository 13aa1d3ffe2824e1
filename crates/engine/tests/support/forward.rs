//! A driver that forwards calls to another one and calls hooks.

use kvmark_driver::{
    AnySession, Blocking, Capabilities, Completions, Description, Driver, OpenError, Reply,
    Request, Session, Ticket,
};
use kvmark_plan::Outcome;

/// Hooks that run on a worker's thread.
pub trait Hooks: Default {
    /// Called before a request.
    fn request(&mut self) {}
    /// Called before a poll.
    fn poll(&mut self) {}
}

/// A driver whose sessions call hooks.
#[derive(Debug)]
pub struct Forward<D, H>(D, std::marker::PhantomData<fn() -> H>);

impl<D, H> Forward<D, H> {
    /// Wraps a driver.
    pub fn new(driver: D) -> Self {
        Self(driver, std::marker::PhantomData)
    }
}

/// A session with its hooks.
#[derive(Debug)]
pub struct Forwarded<S, H> {
    session: S,
    hooks: H,
}

impl<D: Driver, H: Hooks + 'static> Driver for Forward<D, H> {
    type Blocking = Forwarded<D::Blocking, H>;
    type Session = Forwarded<D::Session, H>;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn session(
        &self,
        clients: u32,
    ) -> Result<AnySession<Self::Blocking, Self::Session>, OpenError> {
        let hooks = H::default();
        Ok(match self.0.session(clients)? {
            AnySession::Blocking(session) => AnySession::Blocking(Forwarded { session, hooks }),
            AnySession::Asynchronous(session) => {
                AnySession::Asynchronous(Forwarded { session, hooks })
            }
        })
    }
}

impl<B: Blocking, H: Hooks> Blocking for Forwarded<B, H> {
    fn execute(&mut self, request: &Request<'_>, reply: &mut Reply) -> Outcome {
        self.hooks.request();
        self.session.execute(request, reply)
    }

    fn last_failure(&self) -> Option<String> {
        self.session.last_failure()
    }
}

impl<S: Session, H: Hooks> Session for Forwarded<S, H> {
    fn has_room(&self) -> bool {
        self.session.has_room()
    }

    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        self.hooks.request();
        self.session.submit(ticket, request);
    }

    fn poll(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool {
        self.hooks.poll();
        self.session.poll(patience_ns, done)
    }

    fn give_up(&mut self, ticket: Ticket) {
        self.session.give_up(ticket);
    }

    fn due_ns(&self) -> u64 {
        self.session.due_ns()
    }
}
