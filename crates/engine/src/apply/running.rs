//! The output of an item that is under way.

use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct ItemProgress {
    pub(super) output: Vec<u8>,
    /// The part of it that was shown.
    pub(super) shown: usize,
    pub(super) took: Duration,
    /// When it began, since the apply did.
    pub(super) begun: Duration,
}

impl ItemProgress {
    /// Takes more output; gives back the lines that are whole now. A line of converge may come in parts.
    pub(super) fn complete_lines(&mut self, more: &[u8]) -> &[u8] {
        self.output.extend_from_slice(more);
        let new = self.output.get(self.shown..).unwrap_or_default();
        let whole = new.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let from = self.shown;
        self.shown += whole;
        self.output.get(from..self.shown).unwrap_or_default()
    }
}
