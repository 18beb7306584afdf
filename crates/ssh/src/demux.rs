//! Takes a byte stream of the host apart: frame lines marked with the nonce, and what stands between them.

use bytes::{Bytes, BytesMut};
use memchr::memmem;

/// A frame line is short; a longer one is not from our loop.
const LONGEST_LINE: usize = 256;

/// A part of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StreamPiece {
    /// Bytes outside frame lines.
    Data(Bytes),
    /// A frame line without its mark and newline.
    Line(String),
    /// A mark that no newline follows in time.
    Overlong,
}

/// An incremental parser; it holds at most what was pushed last, plus one line.
#[derive(Debug)]
pub(crate) struct Framer {
    mark: Vec<u8>,
    buf: BytesMut,
}

impl Framer {
    pub(crate) fn new(mark: Vec<u8>) -> Self {
        Self { mark, buf: BytesMut::new() }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// The next part, or `None` until more bytes come.
    pub(crate) fn next(&mut self) -> Option<StreamPiece> {
        let Some(at) = memmem::find(&self.buf, &self.mark) else {
            let held = self.possible_mark_at_end();
            let ready = self.buf.len() - held;
            return (ready > 0).then(|| StreamPiece::Data(self.buf.split_to(ready).freeze()));
        };
        if at > 0 {
            return Some(StreamPiece::Data(self.buf.split_to(at).freeze()));
        }
        let rest = self.buf.get(self.mark.len()..).unwrap_or_default();
        let Some(end) = memchr::memchr(b'\n', rest.get(..LONGEST_LINE.min(rest.len())).unwrap_or_default())
        else {
            return (rest.len() >= LONGEST_LINE).then_some(StreamPiece::Overlong);
        };
        let line = self.buf.split_to(self.mark.len() + end + 1);
        let line = line.get(self.mark.len()..self.mark.len() + end).unwrap_or_default();
        Some(StreamPiece::Line(String::from_utf8_lossy(line).trim().to_owned()))
    }

    /// The bytes that are held back: the end of the stream may have been the start of a mark.
    pub(crate) fn rest(&mut self) -> Bytes {
        self.buf.split().freeze()
    }

    fn possible_mark_at_end(&self) -> usize {
        let longest = self.mark.len().saturating_sub(1).min(self.buf.len());
        (1..=longest).rev().find(|&n| self.mark.get(..n) == self.buf.get(self.buf.len() - n..)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(framer: &mut Framer) -> (Vec<u8>, Vec<String>) {
        let (mut data, mut lines) = (Vec::new(), Vec::new());
        while let Some(piece) = framer.next() {
            match piece {
                StreamPiece::Data(bytes) => data.extend_from_slice(&bytes),
                StreamPiece::Line(line) => lines.push(line),
                StreamPiece::Overlong => panic!("overlong"),
            }
        }
        (data, lines)
    }

    proptest! {
        #[test]
        fn cutting_the_stream_anywhere_changes_nothing(
            parts in proptest::collection::vec(("[abm\n]{0,9}", "[ SE0-9]{0,9}"), 1..8),
            cuts in proptest::collection::vec(1usize..7, 0..60),
        ) {
            let mut stream = Vec::new();
            let (mut want_data, mut want_lines) = (Vec::new(), Vec::new());
            for (data, line) in &parts {
                stream.extend_from_slice(data.as_bytes());
                stream.extend_from_slice(b"abmark");
                stream.extend_from_slice(line.as_bytes());
                stream.push(b'\n');
                want_data.extend_from_slice(data.as_bytes());
                want_lines.push(line.trim().to_owned());
            }
            let mut framer = Framer::new(b"abmark".to_vec());
            let (mut data, mut lines) = (Vec::new(), Vec::new());
            let mut rest = stream.as_slice();
            for cut in cuts.iter().copied().chain([usize::MAX]) {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                framer.push(now);
                let (d, l) = all(&mut framer);
                data.extend(d);
                lines.extend(l);
                rest = later;
            }
            prop_assert_eq!(data, want_data);
            prop_assert_eq!(lines, want_lines);
        }
    }

    #[test]
    fn a_line_without_end_is_reported() {
        let mut framer = Framer::new(b"mark".to_vec());
        framer.push(b"mark");
        framer.push(&[b'x'; LONGEST_LINE]);
        assert_eq!(framer.next(), Some(StreamPiece::Overlong));
    }

    #[test]
    fn bytes_that_may_begin_a_mark_are_held_until_it_is_clear() {
        let mut framer = Framer::new(b"mark".to_vec());
        framer.push(b"oh ma");
        assert_eq!(framer.next(), Some(StreamPiece::Data(Bytes::from_static(b"oh "))));
        assert_eq!(framer.next(), None);
        framer.push(b"n");
        assert_eq!(framer.next(), Some(StreamPiece::Data(Bytes::from_static(b"man"))));
    }
}
