//! What is to be sent on a connection: requests one behind the other.

use std::collections::VecDeque;

/// Room that is kept when all is sent. As many sent bytes are cut off, when they are most of all.
const KEPT: usize = 256 << 10;

/// A request of which nothing is sent.
#[derive(Clone, Copy, Debug)]
struct Unsent {
    number: u64,
    length: usize,
    is_withdrawn: bool,
}

/// Requests that are to be sent, and those that are sent in part. A request is bytes in one piece:
/// it is withdrawn as a whole, before the first of them is sent, or not at all.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    /// Bytes that are sent.
    sent: usize,
    /// The requests of which nothing is sent, at the end of the bytes.
    unsent: VecDeque<Unsent>,
    /// Where the first of them begins.
    begins: usize,
    /// Bytes of those that were withdrawn.
    withdrawn: usize,
}

impl Output {
    /// Has a request appended, whose number is higher than those before. One without bytes is none.
    #[inline]
    pub(crate) fn put<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> (R, u64)) -> R {
        let before = self.bytes.len();
        let (result, number) = write(&mut self.bytes);
        let length = self.bytes.len() - before;
        if length > 0 {
            if self.unsent.is_empty() {
                self.begins = before;
            }
            self.unsent.push_back(Unsent { number, length, is_withdrawn: false });
        }
        result
    }

    /// Withdraws the request of this number; whether none of it was sent, and none will be.
    pub(crate) fn withdraw(&mut self, number: u64) -> bool {
        let place = self.unsent.binary_search_by_key(&number, |request| request.number);
        let request = place.ok().and_then(|place| self.unsent.get_mut(place));
        let Some(request) = request.filter(|request| !request.is_withdrawn) else { return false };
        request.is_withdrawn = true;
        self.withdrawn += request.length;
        if self.withdrawn > KEPT.max(self.waiting()) {
            self.take_out();
        }
        true
    }

    /// Bytes that are to be sent.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.bytes.len() - self.sent - self.withdrawn
    }

    /// What is to be sent now.
    #[inline]
    pub(crate) fn rest(&mut self) -> &[u8] {
        if self.withdrawn > 0 {
            self.take_out();
        }
        &self.bytes[self.sent..]
    }

    /// So many bytes of the rest were sent.
    #[inline]
    pub(crate) fn advance(&mut self, sent: usize) {
        self.sent += sent;
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
            self.unsent.clear();
            self.sent = 0;
        } else {
            self.cut();
        }
    }

    /// Cuts off what was sent when it is worth it: each byte is moved once at most for one that was
    /// sent.
    #[cold]
    fn cut(&mut self) {
        while self.begins < self.sent
            && let Some(request) = self.unsent.pop_front()
        {
            self.begins += request.length;
        }
        if self.sent >= KEPT && self.sent >= self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.begins -= self.sent;
            self.sent = 0;
            self.bytes.shrink_to(KEPT.max(2 * self.bytes.len()));
        }
    }

    /// Takes the bytes of withdrawn requests out.
    #[cold]
    fn take_out(&mut self) {
        let (mut from, mut to) = (self.begins, self.begins);
        let bytes = &mut self.bytes;
        self.unsent.retain(|request| {
            let end = from + request.length;
            if !request.is_withdrawn {
                bytes.copy_within(from..end, to);
                to += request.length;
            }
            from = end;
            !request.is_withdrawn
        });
        self.bytes.truncate(to);
        self.withdrawn = 0;
        self.advance(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(output: &mut Output, number: u64, text: &str) {
        output.put(|bytes| (bytes.extend_from_slice(text.as_bytes()), number));
    }

    /// Requests that are numbered from 0.
    fn of(texts: &[&str]) -> Output {
        let mut output = Output::default();
        (0..).zip(texts).for_each(|(number, text)| put(&mut output, number, text));
        output
    }

    #[test]
    fn what_is_withdrawn_is_not_sent_and_the_others_are_in_their_order() {
        let mut output = of(&["aa", "bb", "cc", "dd"]);
        assert!(output.withdraw(1));
        assert_eq!((output.waiting(), output.rest()), (6, &b"aaccdd"[..]));
        assert!(!output.withdraw(1));
        put(&mut output, 9, "ee");
        assert!(output.withdraw(3));
        assert_eq!(output.rest(), b"aaccee");
    }

    #[test]
    fn what_was_sent_in_part_is_sent_to_its_end() {
        let mut output = of(&["aa", "bb", "cc"]);
        output.rest();
        output.advance(3);
        assert!(!output.withdraw(0) && !output.withdraw(1));
        assert_eq!(output.rest(), b"bcc");
        assert!(output.withdraw(2));
        assert_eq!(output.rest(), b"b");
        output.advance(1);
        assert_eq!(output.waiting(), 0);
        put(&mut output, 3, "dd");
        assert!(!output.withdraw(2) && output.withdraw(3));
        assert!(output.rest().is_empty());
    }

    #[test]
    fn the_memory_of_what_never_drains_is_bounded_by_what_waits() {
        const LENGTH: usize = 64 << 10;
        let mut output = Output::default();
        let request = "x".repeat(LENGTH);
        (0..100).for_each(|number| put(&mut output, number, &request));
        for number in 100..10_000 {
            put(&mut output, number, &request);
            output.rest();
            output.advance(LENGTH);
            assert_eq!(output.waiting(), 100 * LENGTH);
        }
        assert!(output.bytes.capacity() <= 4 * 100 * LENGTH, "{}", output.bytes.capacity());
        (0..100).for_each(|_| output.advance(LENGTH));
        assert!(output.bytes.capacity() <= KEPT);
    }

    #[test]
    fn the_memory_of_what_is_withdrawn_is_bounded_though_nothing_is_sent() {
        let mut output = Output::default();
        let request = "x".repeat(64 << 10);
        put(&mut output, 0, "never withdrawn");
        for number in 1..10_000 {
            put(&mut output, number, &request);
            assert!(output.withdraw(number));
        }
        assert!(output.bytes.capacity() <= 4 * KEPT, "{}", output.bytes.capacity());
        assert!(output.unsent.len() <= 8, "{}", output.unsent.len());
    }
}
