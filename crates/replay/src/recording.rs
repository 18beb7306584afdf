//! Answers that were recorded from the real host, by what was asked in the session so far.

use crate::ReplayError;
use crate::backing;
use bytes::Bytes;
use memchr::memmem;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// Names what was asked in a session, all of it in its order.
pub(crate) type QuestionDigest = [u8; 32];

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

/// What was asked before, and the input that asked last.
struct RecordedQuestion {
    before: Option<QuestionDigest>,
    input: Bytes,
    answer: Arc<OnceCell<RecordedAnswer>>,
}

/// The answers so far, and the program that reaches the real host.
pub(crate) struct Recording {
    real: Vec<String>,
    asked: Mutex<HashMap<QuestionDigest, RecordedQuestion>>,
    sessions: AtomicUsize,
    questions: AtomicUsize,
}

impl Recording {
    pub(crate) fn new(real: Vec<String>) -> Self {
        let [sessions, questions] = [(); 2].map(|()| AtomicUsize::new(0));
        Self { real, asked: Mutex::default(), sessions, questions }
    }

    /// The numbers of sessions and of what they asked, and how much of that the real host was asked.
    pub(crate) fn counts(&self) -> String {
        format!(
            "sessions {} questions {} recorded {}",
            self.sessions.load(Ordering::Relaxed),
            self.questions.load(Ordering::Relaxed),
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).len()
        )
    }

    pub(crate) fn count_session(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    /// The answer to the input of a command that reads all of it before it ends.
    pub(crate) async fn plain(
        &self,
        command: &str,
        input: Bytes,
    ) -> Result<Arc<OnceCell<RecordedAnswer>>, ReplayError> {
        let first = question(None, command.as_bytes());
        let cell = self.cell(question(Some(first), &input), None, Bytes::new());
        cell.get_or_try_init(|| backing::plain(&self.real, command, &input)).await?;
        Ok(cell)
    }

    /// The answer of a framed shell to its next input, and the name of all that was asked in the session now.
    pub(crate) async fn framed(
        &self,
        start: &ShellBeginning,
        before: Option<QuestionDigest>,
        input: Bytes,
    ) -> Result<(QuestionDigest, Arc<OnceCell<RecordedAnswer>>), ReplayError> {
        let now = question(Some(before.unwrap_or_else(|| question(None, start.line.as_bytes()))), &input);
        let cell = self.cell(now, before, input);
        cell.get_or_try_init(|| async { backing::framed(&self.real, start, &self.inputs(now)).await })
            .await?;
        Ok((now, cell))
    }

    fn cell(
        &self,
        now: QuestionDigest,
        before: Option<QuestionDigest>,
        input: Bytes,
    ) -> Arc<OnceCell<RecordedAnswer>> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || RecordedQuestion { before, input, answer: Arc::default() };
        Arc::clone(&asked.entry(now).or_insert_with(new).answer)
    }

    /// All inputs of a session up to this question, the oldest first.
    fn inputs(&self, last: QuestionDigest) -> Vec<Bytes> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inputs = Vec::new();
        let mut next = Some(last);
        while let Some(one) = next.and_then(|question| asked.get(&question)) {
            inputs.push(one.input.clone());
            next = one.before;
        }
        inputs.reverse();
        inputs
    }
}

fn question(before: Option<QuestionDigest>, input: &[u8]) -> QuestionDigest {
    Sha256::new().chain_update(before.unwrap_or_default()).chain_update(input).finalize().into()
}

/// How a framed shell begins.
pub(crate) struct ShellBeginning {
    /// The command, with its two words of greeting.
    pub command: String,
    /// The loop, the first line of input.
    pub line: String,
    /// The two halves of the mark of frames.
    pub mark: [String; 2],
}

impl ShellBeginning {
    pub(crate) fn whole_mark(&self) -> Vec<u8> {
        self.mark.concat().into_bytes()
    }
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

    #[test]
    fn a_question_is_all_that_was_asked_before() {
        let [first, second] = [b"a", b"b"].map(|input| question(None, input));
        assert_ne!(question(Some(first), b"c"), question(Some(second), b"c"));
    }
}
