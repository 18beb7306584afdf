//! One recorded answer: two streams, and where the mark of a session stands in them.

use bytes::Bytes;
use memchr::memmem;

/// An answer: both streams, without the marks of the session that it was recorded in.
#[derive(Debug, Default)]
pub(crate) struct RecordedAnswer {
    /// Standard output, between its marks.
    pub output: Vec<Bytes>,
    /// Standard error, between its marks.
    pub errors: Vec<Bytes>,
    /// The exit status, where the command has ended with the answer.
    pub status: u32,
}

impl RecordedAnswer {
    /// The answer whose streams have this mark in them.
    pub(crate) fn recorded(output: &[u8], errors: &[u8], mark: &[u8], status: u32) -> Self {
        Self { output: pieces(output, mark), errors: pieces(errors, mark), status }
    }
}

/// A stream with a session's mark between its pieces.
pub(crate) fn marked(pieces: &[Bytes], mark: &[u8]) -> Vec<u8> {
    let size = pieces.iter().map(|piece| piece.len() + mark.len()).sum();
    let mut stream = Vec::with_capacity(size);
    for (number, piece) in pieces.iter().enumerate() {
        if number > 0 {
            stream.extend_from_slice(mark);
        }
        stream.extend_from_slice(piece);
    }
    stream
}

fn pieces(stream: &[u8], mark: &[u8]) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    let mut from = 0;
    for at in memmem::find_iter(stream, mark) {
        pieces.push(Bytes::copy_from_slice(stream.get(from..at).unwrap_or_default()));
        from = at + mark.len();
    }
    pieces.push(Bytes::copy_from_slice(stream.get(from..).unwrap_or_default()));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_mark_of_the_session_that_it_goes_to() {
        let answer = RecordedAnswer::recorded(b"aaaa S 1\nout\naaaa D\n", b"aaaa S 1\n", b"aaaa", 0);
        assert_eq!(marked(&answer.output, b"bb"), b"bb S 1\nout\nbb D\n");
        assert_eq!(marked(&answer.errors, b"bb"), b"bb S 1\n");
        assert_eq!(marked(&RecordedAnswer::recorded(b"", b"", b"a", 0).output, b"b"), b"");
    }
}
