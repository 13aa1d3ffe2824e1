//! One client's place in a session: a mailbox, and the future that serves it as long as the session
//! lives, so that an operation allocates nothing here.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::mem::replace;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use kvmark_driver::{Completions, Request, Ticket};
use kvmark_plan::Outcome;

use crate::calls::Calls;
use crate::failure::Failure;
use crate::letter::Letter;

/// Where a client's letter is.
enum Mailbox {
    /// Nothing is asked.
    Idle(Box<Letter>),
    /// A request is to be carried out.
    Asked(Box<Letter>),
    /// The future has the letter.
    UnderWay,
    /// This came of the request.
    Answered(Box<Letter>, Result<Outcome, Failure>),
}

/// A client's mailbox and the future that serves it.
pub(crate) struct Lane {
    mailbox: Rc<RefCell<Mailbox>>,
    service: Pin<Box<dyn Future<Output = Infallible>>>,
    waker: Waker,
}

impl Lane {
    pub(crate) fn new(calls: &Rc<Calls>, waker: Waker) -> Self {
        let mailbox = Rc::new(RefCell::new(Mailbox::Idle(Letter::empty())));
        let service = Box::pin(serve(Rc::clone(calls), Rc::clone(&mailbox)));
        Self { mailbox, service, waker }
    }

    /// Takes a request; it is carried out from the next poll on.
    pub(crate) fn submit(&mut self, request: &Request<'_>) {
        let mailbox = &mut *self.mailbox.borrow_mut();
        let Mailbox::Idle(mut letter) = replace(mailbox, Mailbox::UnderWay) else {
            unreachable!("a client has one request at a time");
        };
        letter.asked.copy(request);
        *mailbox = Mailbox::Asked(letter);
    }

    /// Goes on as far as it can; whether there is an answer that wasn't there before.
    pub(crate) fn poll(&mut self) -> bool {
        if self.has_answer() {
            return false;
        }
        let Poll::Pending = self.service.as_mut().poll(&mut Context::from_waker(&self.waker));
        self.has_answer()
    }

    fn has_answer(&self) -> bool {
        matches!(*self.mailbox.borrow(), Mailbox::Answered(..))
    }

    /// Tells of the answer that was there at an instant.
    pub(crate) fn hand_over(&mut self, ticket: Ticket, at_ns: u64, done: &mut impl Completions) {
        let mailbox = &mut *self.mailbox.borrow_mut();
        let Mailbox::Answered(letter, answer) = replace(mailbox, Mailbox::UnderWay) else {
            unreachable!("an answer is handed over once, when it was found");
        };
        match &answer {
            Ok(outcome) => done.completed(ticket, at_ns, *outcome, &letter.reply),
            Err(failure) => done.failed(ticket, at_ns, failure.outcome, &failure.text),
        }
        *mailbox = Mailbox::Idle(letter);
    }
}

/// Carries out one request after the other.
async fn serve(calls: Rc<Calls>, mailbox: Rc<RefCell<Mailbox>>) -> Infallible {
    loop {
        let mut letter = asked(&mailbox).await;
        letter.reply.clear();
        let Letter { asked, reply } = &mut *letter;
        let request = asked.request();
        let answer = {
            // Pinned where it is made, because it is so large that moving it shows.
            let call = pin!(calls.call(&request, reply));
            call.await
        };
        let answer = answer.map_err(|failure| calls.without_secret(&failure));
        *mailbox.borrow_mut() = Mailbox::Answered(letter, answer);
    }
}

/// The letter that asks for something. Nothing wakes for it: who asks polls.
async fn asked(mailbox: &RefCell<Mailbox>) -> Box<Letter> {
    poll_fn(|_| {
        let mailbox = &mut *mailbox.borrow_mut();
        match replace(mailbox, Mailbox::UnderWay) {
            Mailbox::Asked(letter) => Poll::Ready(letter),
            other => {
                *mailbox = other;
                Poll::Pending
            }
        }
    })
    .await
}
