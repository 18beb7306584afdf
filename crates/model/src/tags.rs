//! `--tags` and `--skip-tags`, with the rules of Ansible's `Taggable.evaluate_tags`.

/// Which tags are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagFilter {
    /// `--tags`: only these; empty means all but `never`.
    pub only: Vec<String>,
    /// `--skip-tags`: not these.
    pub skip: Vec<String>,
}

impl TagFilter {
    /// Does it leave everything as it is?
    pub fn is_empty(&self) -> bool {
        self.only.is_empty() && self.skip.is_empty()
    }

    /// Does an item with these tags (those of its role's use included) take part?
    ///
    /// The names `all`, `tagged`, `untagged`, `always` and `never` mean what they mean in Ansible.
    pub fn selects(&self, tags: &[String]) -> bool {
        let has = |tag: &str| tags.iter().any(|t| t == tag);
        let only = |tag: &str| self.only.iter().any(|t| t == tag);
        let skip = |tag: &str| self.skip.iter().any(|t| t == tag);
        let untagged = tags.is_empty();
        let wanted = has("always")
            || ((self.only.is_empty() || only("all")) && !has("never"))
            || tags.iter().any(|tag| only(tag))
            || (untagged && only("untagged"))
            || (only("tagged") && !untagged && !has("never"));
        if !wanted {
            return false;
        }
        let skipped = if skip("all") {
            !has("always") || skip("always")
        } else {
            tags.iter().any(|tag| skip(tag))
                || (untagged && skip("untagged"))
                || (skip("tagged") && !untagged)
        };
        !skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_select_as_in_ansible() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (only, skip, tags, expected) in [
            ("", "", "", true),
            ("", "", "a", true),
            ("", "", "never", false),
            ("", "", "never debug", false),
            ("debug", "", "never debug", true),
            ("never", "", "never debug", true),
            ("a", "", "a b", true),
            ("a", "", "b", false),
            ("a", "", "", false),
            ("a", "", "always", true),
            ("a", "always", "always", false),
            ("tagged", "", "", false),
            ("tagged", "", "x", true),
            ("tagged", "", "x never", false),
            ("untagged", "", "", true),
            ("untagged", "", "x", false),
            ("all", "a", "a", false),
            ("", "a", "a b", false),
            ("", "a", "b", true),
            ("a", "b", "a b", false),
            ("", "untagged", "", false),
            ("", "tagged", "a", false),
            ("", "tagged", "", true),
            ("", "all", "a", false),
            ("", "all", "always", true),
        ] {
            let filter = TagFilter { only: words(only), skip: words(skip) };
            assert_eq!(
                filter.selects(&words(tags)),
                expected,
                "--tags '{only}' --skip-tags '{skip}' on '{tags}'"
            );
        }
    }
}
