//! The framed shell as its host sees it: what a controller sends, and what its answers end with.

use crate::ReplayError;
use bytes::Bytes;
use memchr::memmem;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

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

/// The two words of greeting at the end of a command that starts a framed shell; `None` is another command.
pub(crate) fn greeting(command: &str) -> Option<String> {
    let mut words = command.rsplit(' ').map(|word| word.trim_matches('\''));
    let (second, first) = (words.next()?, words.next()?);
    let is_half = |word: &str| word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_half(first) && is_half(second)).then(|| format!("{first}{second}"))
}

/// One line without its end; `None` where the input has ended.
pub(crate) async fn line(input: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<String>, ReplayError> {
    let mut line = String::new();
    input.read_line(&mut line).await?;
    Ok((!line.is_empty()).then(|| line.trim_end_matches('\n').to_owned()))
}

/// The next batch as it was sent, with its header and all payloads; `None` where the input has ended.
pub(crate) async fn batch(input: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Bytes>, ReplayError> {
    let Some(header) = line(input).await? else { return Ok(None) };
    let size = header.strip_prefix("B ").and_then(|size| size.parse::<usize>().ok());
    let size = size.ok_or(ReplayError::Protocol("a header that announces no batch"))?;
    let mut bytes = format!("{header}\n").into_bytes();
    let head = bytes.len();
    take(input, &mut bytes, size).await?;
    let payloads = items(bytes.get(head..).unwrap_or_default()).map(|item| item.payload).sum();
    take(input, &mut bytes, payloads).await?;
    Ok(Some(bytes.into()))
}

async fn take(
    input: &mut (impl AsyncBufRead + Unpin),
    into: &mut Vec<u8>,
    size: usize,
) -> Result<(), ReplayError> {
    let from = into.len();
    into.resize(from + size, 0);
    input.read_exact(into.get_mut(from..).unwrap_or_default()).await?;
    Ok(())
}

/// An item of a batch, as its text calls it.
struct BatchItem {
    separate: bool,
    payload: usize,
}

fn items(text: &[u8]) -> impl Iterator<Item = BatchItem> {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let line = std::str::from_utf8(line.strip_prefix(b"_cv_i ")?).ok()?;
        let mut words = line.split(' ').skip(1);
        let separate = words.next()? == "s";
        let payload = words.next()?;
        Some(BatchItem { separate, payload: payload.parse().unwrap_or(0) })
    })
}

/// How often each stream says that something has ended: the output once for a batch, the errors once for each item that keeps them apart.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ends {
    pub output: usize,
    pub errors: usize,
}

impl Ends {
    /// Adds those of one more batch.
    pub(crate) fn add(&mut self, batch: &[u8]) {
        self.output += 1;
        self.errors += items(batch).filter(|item| item.separate).count();
    }
}

/// Where a stream ends that has said so often that something has ended; `None` where it has not yet.
pub(crate) fn end(stream: &[u8], mark: &[u8], letter: u8, times: usize) -> Option<usize> {
    let Some(last) = times.checked_sub(1) else { return Some(0) };
    let is_end = |at: &usize| {
        let begins = *at == 0 || stream.get(at - 1) == Some(&b'\n');
        begins && stream.get(at + mark.len()..at + mark.len() + 2) == Some(&[b' ', letter])
    };
    let at = memmem::find_iter(stream, mark).filter(is_end).nth(last)?;
    let rest = stream.get(at..)?;
    memchr::memchr(b'\n', rest).map(|newline| at + newline + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_of_a_framed_shell_is_distinguished_from_other_commands() {
        let command = "sh '-c' 'echo \"$1$2 $$\"; IFS= read -r p && eval \"$p\"' sh 0123456789abcdef 'fedcba9876543210'";
        assert_eq!(greeting(command).as_deref(), Some("0123456789abcdeffedcba9876543210"));
        assert_eq!(greeting("sh -s"), None);
    }

    #[tokio::test]
    async fn a_batch_is_read_with_its_payloads() {
        let text = "_cv_m() {\n_cv_i 1 s 3 '' 'cat'\n_cv_i 2 m - '1' 'true'\nreturn 0\n}\n";
        let sent = format!("B {}\n{text}abcB 1\n", text.len());
        let mut input = sent.as_bytes();
        let read = batch(&mut input).await.unwrap().unwrap();
        assert_eq!(read, sent.as_bytes()[..sent.len() - 4]);
        let mut ends = Ends::default();
        ends.add(&read);
        assert_eq!((ends.output, ends.errors), (1, 1));
    }

    #[test]
    fn a_stream_ends_after_enough_end_marks() {
        let stream = b"M S 1\nM D\nnot M D\nM D\nmore";
        assert_eq!(end(stream, b"M", b'D', 1), Some(10));
        assert_eq!(end(stream, b"M", b'D', 2), Some(22));
        assert_eq!(end(stream, b"M", b'D', 3), None);
        assert_eq!(end(stream, b"M", b'E', 0), Some(0));
    }
}
