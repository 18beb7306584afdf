//! The one function that turns text into a shell word.

/// Quotes `text` as one word for any POSIX shell: inside single quotes nothing has a meaning but the single quote itself.
///
/// A word that consists only of harmless characters is returned as it is. NUL cannot be part of a shell word; callers must not pass it.
#[must_use]
pub fn quote(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-./:,@%+".contains(&b);
    if !text.is_empty() && !text.starts_with('-') && text.bytes().all(plain) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for piece in text.split_inclusive('\'') {
        match piece.strip_suffix('\'') {
            Some(before) => {
                out.push_str(before);
                out.push_str("'\\''");
            }
            None => out.push_str(piece),
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::quote;
    use proptest::prelude::*;
    use std::process::Command;

    #[test]
    fn known_forms() {
        assert_eq!(quote("plain/path-1.2"), "plain/path-1.2");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote("-rf"), "'-rf'");
        assert_eq!(quote("~"), "'~'");
    }

    proptest! {
        // Each case is a whole list of words, so that 40 processes check 8000 words.
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn a_shell_gives_back_what_was_quoted(words in proptest::collection::vec("([^\\x00]|[ '\"\\\\$`!*?~#&;|<>(){}\\[\\]\n\t-]){0,12}", 200)) {
            let mut script = String::from("printf '%s\\0'");
            for word in &words {
                script.push(' ');
                script.push_str(&quote(word));
            }
            let out = Command::new("sh").arg("-c").arg(&script).output().unwrap();
            prop_assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            let mut want = Vec::new();
            for word in &words {
                want.extend_from_slice(word.as_bytes());
                want.push(0);
            }
            prop_assert_eq!(out.stdout, want);
        }
    }
}
