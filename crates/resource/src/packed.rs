//! Contents that lie packed in a file on a host.

use crate::{Content, Digest, Probe, RunAnswer, quote};
use std::collections::BTreeMap;

/// Contents that lie packed in a file on a host, with the question that reads one of them: an item behind it may need one before it is unpacked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedContents {
    /// The read-only script that prints the member `$name`.
    pub script: String,
    /// The members by their digests.
    pub names: BTreeMap<Digest, String>,
}

impl PackedContents {
    /// The question for the content of this digest; `None` where no member has it.
    pub fn probe(&self, digest: &Digest) -> Option<Probe> {
        let name = quote(self.names.get(digest)?);
        Some(Probe::Run { script: format!("name={name}\n{}", self.script), user: None, timeout: 600 })
    }

    /// The content in an answer; `None` where the answer is another one, as that about bytes which are no UTF-8 text.
    pub fn read(answer: &RunAnswer, digest: &Digest) -> Option<Content> {
        let content = Content::new(answer.stdout.clone().into_bytes());
        (answer.status == 0 && content.digest() == digest).then_some(content)
    }
}
