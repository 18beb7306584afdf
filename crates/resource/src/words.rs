//! Words of messages.

/// A number with its noun: `1 host`, `3 hosts`.
pub fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
