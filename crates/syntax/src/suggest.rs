//! "Did you mean": the nearest of a set of names.

/// Edits (insert, delete, replace, swap of neighbours) between two words.
pub fn edit_distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let cell = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
            let mut best =
                (cell(&last, j) + usize::from(a != b)).min(cell(&last, j + 1) + 1).min(cell(&row, j) + 1);
            let swapped =
                i > 0 && j > 0 && left.get(i - 1) == Some(b) && right.get(j - 1) == Some(a) && a != b;
            if swapped {
                best = best.min(cell(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = last;
        last = row;
    }
    last.last().copied().unwrap_or(0)
}

/// The candidate nearest to a misspelt word, where one is near enough to be meant.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    // A third of the letters may be wrong; longer words than this are not names and not worth the time.
    let allowed = (length / 3).max(1);
    if length > 100 {
        return None;
    }
    let folded = word.to_lowercase().replace('-', "_");
    candidates
        .into_iter()
        .filter(|candidate| *candidate != word && candidate.chars().count().abs_diff(length) <= allowed)
        .map(|candidate| (edit_distance(&folded, &candidate.to_lowercase().replace('-', "_")), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, distance) in
            [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("form", "from", 1), ("abc", "abc", 0)]
        {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
            assert_eq!(edit_distance(b, a), distance, "{b} {a}");
        }
    }

    #[test]
    fn suggests_only_what_is_near() {
        let names = ["content", "template", "owner", "mode"];
        assert_eq!(did_you_mean("contnet", names), Some("content"));
        assert_eq!(did_you_mean("Owner", names), Some("owner"));
        assert_eq!(did_you_mean("x", names), None);
        assert_eq!(did_you_mean("permissions", names), None);
        assert_eq!(did_you_mean("on-failure", ["on_failure"]), Some("on_failure"));
        assert_eq!(did_you_mean("z", ["y"]), None, "one letter of one is not near");
    }
}
