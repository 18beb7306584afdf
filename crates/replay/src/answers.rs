//! The book of answers that were recorded from the real host, by what was asked in the session so far.

use crate::ReplayError;
use crate::answer::RecordedAnswer;
use crate::backing;
use crate::framed::ShellBeginning;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// Names what was asked in a session, all of it in its order.
pub(crate) type QuestionDigest = [u8; 32];

/// The input that asked, behind the question before it in its session.
struct RecordedQuestion {
    before: Option<QuestionDigest>,
    input: Bytes,
    answer: Arc<OnceCell<RecordedAnswer>>,
}

/// The answers so far, and the program that reaches the real host.
pub(crate) struct AnswerBook {
    real: Vec<String>,
    asked: Mutex<HashMap<QuestionDigest, RecordedQuestion>>,
    sessions: AtomicUsize,
    questions: AtomicUsize,
}

impl AnswerBook {
    pub(crate) fn new(real: Vec<String>) -> Self {
        let [sessions, questions] = [(); 2].map(|()| AtomicUsize::new(0));
        Self { real, asked: Mutex::default(), sessions, questions }
    }

    /// The numbers of sessions and of what they asked, and how much of that the real host was asked.
    pub(crate) fn counts(&self) -> String {
        let numbers = [
            ("sessions", self.sessions.load(Ordering::Relaxed)),
            ("questions", self.questions.load(Ordering::Relaxed)),
            ("recorded", self.asked.lock().unwrap_or_else(PoisonError::into_inner).len()),
        ];
        numbers.map(|(name, number)| format!("{name} {number}")).join(" ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_all_that_was_asked_before() {
        let [first, second] = [b"a", b"b"].map(|input| question(None, input));
        assert_ne!(question(Some(first), b"c"), question(Some(second), b"c"));
    }
}
