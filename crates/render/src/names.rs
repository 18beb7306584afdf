//! Many host names in few words: `web[01:16], db1`.

/// A name cut around its last number: `gpu-07-a` is (`gpu-`, `07`, `-a`).
fn cut(name: &str) -> Option<(&str, &str, &str)> {
    let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let (front, suffix) = name.split_at_checked(end)?;
    let start = front
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| at + front.get(at..).and_then(|r| r.chars().next()).map_or(1, char::len_utf8));
    let (prefix, digits) = front.split_at_checked(start)?;
    Some((prefix, digits, suffix))
}

/// True when `next` is the name after `name` in one numbered row.
fn follows(name: &str, next: &str) -> bool {
    match (cut(name), cut(next)) {
        (Some((p, d, s)), Some((q, e, t))) if p == q && s == t => {
            let padded = d.starts_with('0') || e.starts_with('0');
            match (d.parse::<u64>(), e.parse::<u64>()) {
                (Ok(a), Ok(b)) => a.checked_add(1) == Some(b) && (!padded || d.len() == e.len()),
                _ => false,
            }
        }
        _ => false,
    }
}

/// Writes three or more names of one numbered row as the inventory's range, in the order given.
pub(crate) fn fold_names(names: &[&str]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = names;
    while let Some((first, tail)) = rest.split_first() {
        let mut last = first;
        let mut length = 1;
        for next in tail {
            if !follows(last, next) {
                break;
            }
            last = next;
            length += 1;
        }
        match (cut(first), cut(last)) {
            (Some((prefix, from, suffix)), Some((_, to, _))) if length > 2 => {
                parts.push(format!("{prefix}[{from}:{to}]{suffix}"));
            }
            _ => {
                length = 1;
                parts.push((*first).to_owned());
            }
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::fold_names;

    #[test]
    fn rows_become_ranges() {
        assert_eq!(fold_names(&["web1", "web2", "web3", "db1", "db3"]), "web[1:3], db1, db3");
        assert_eq!(fold_names(&["gpu08.a", "gpu09.a", "gpu10.a"]), "gpu[08:10].a");
        assert_eq!(fold_names(&["w9", "w10", "w11"]), "w[9:11]");
        assert_eq!(fold_names(&["a1", "a2"]), "a1, a2");
        assert_eq!(fold_names(&["w09", "w10", "w011"]), "w09, w10, w011");
        assert_eq!(fold_names(&["é1", "é2", "é3", "x"]), "é[1:3], x");
    }
}
