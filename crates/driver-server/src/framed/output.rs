//! The output of a connection: encoded requests.

use std::collections::VecDeque;

/// Capacity that is kept when everything is sent, and the least number of sent bytes to remove.
const KEPT: usize = 256 << 10;

/// An unsent request.
#[derive(Clone, Copy, Debug)]
struct Unsent {
    number: u64,
    length: usize,
    is_withdrawn: bool,
}

/// Unsent and partly sent requests. A request can be withdrawn until its first byte is sent.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    /// The number of sent bytes.
    sent: usize,
    /// The unsent requests, at the end of the bytes.
    unsent: VecDeque<Unsent>,
    /// The index of the first of them.
    begins: usize,
    /// Bytes of withdrawn requests.
    withdrawn: usize,
}

impl Output {
    /// Appends a request with a higher number than all before. A request without bytes is ignored.
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

    /// Withdraws a request. Returns whether none of it was sent.
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

    /// The number of unsent bytes.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.bytes.len() - self.sent - self.withdrawn
    }

    /// The bytes to send now.
    #[inline]
    pub(crate) fn rest(&mut self) -> &[u8] {
        if self.withdrawn > 0 {
            self.take_out();
        }
        &self.bytes[self.sent..]
    }

    /// Marks bytes of the rest as sent.
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

    /// Removes sent bytes if there are enough of them. At most one byte is moved per sent byte.
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

    /// Removes the bytes of withdrawn requests.
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
    fn withdrawn_requests_are_not_sent_and_the_others_stay_in_order() {
        let mut output = of(&["aa", "bb", "cc", "dd"]);
        assert!(output.withdraw(1));
        assert_eq!((output.waiting(), output.rest()), (6, &b"aaccdd"[..]));
        assert!(!output.withdraw(1));
        put(&mut output, 9, "ee");
        assert!(output.withdraw(3));
        assert_eq!(output.rest(), b"aaccee");
    }

    #[test]
    fn a_partly_sent_request_is_sent_to_its_end() {
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
    fn the_memory_of_a_slow_connection_is_bounded_by_its_unsent_bytes() {
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
    fn the_memory_of_withdrawn_requests_is_bounded_though_nothing_is_sent() {
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
