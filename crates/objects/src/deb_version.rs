//! Which of two Debian versions is older: deb-version(7).

use std::cmp::Ordering;

/// Compares two versions as dpkg does.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (split(a), split(b));
    a.0.cmp(&b.0).then_with(|| part(a.1, b.1)).then_with(|| part(a.2, b.2))
}

/// Epoch, upstream version, revision.
fn split(version: &str) -> (u64, &str, &str) {
    let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
    let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
    (epoch.parse().unwrap_or(0), upstream, revision)
}

/// A tilde comes before the end, letters before all other signs.
fn weight(c: Option<u8>) -> i32 {
    match c {
        Some(b'~') => -1,
        None => 0,
        Some(c) if c.is_ascii_digit() => 0,
        Some(c) if c.is_ascii_alphabetic() => i32::from(c),
        Some(c) => i32::from(c) + 256,
    }
}

fn part(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while !a.is_empty() || !b.is_empty() {
        loop {
            let (x, y) = (a.first().copied(), b.first().copied());
            let text = |c: Option<u8>| c.is_some_and(|c| !c.is_ascii_digit());
            if !text(x) && !text(y) {
                break;
            }
            match weight(x).cmp(&weight(y)) {
                Ordering::Equal => {}
                other => return other,
            }
            a = a.get(1..).unwrap_or_default();
            b = b.get(1..).unwrap_or_default();
        }
        let (x, rest_a) = number(a);
        let (y, rest_b) = number(b);
        match x.len().cmp(&y.len()).then_with(|| x.cmp(y)) {
            Ordering::Equal => {}
            other => return other,
        }
        (a, b) = (rest_a, rest_b);
    }
    Ordering::Equal
}

/// The digits at the start without leading zeros, and the rest.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().take_while(|c| c.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(end);
    let zeros = digits.iter().take_while(|c| **c == b'0').count();
    (digits.get(zeros..).unwrap_or_default(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_dpkg_compares() {
        for (older, newer) in [
            ("1.0", "1.0.1"),
            ("1.9", "1.10"),
            ("1.0~rc1", "1.0"),
            ("1.0~~", "1.0~"),
            ("1.0", "1.0a"),
            ("1.0a", "1.0+b1"),
            ("9", "1:1"),
            ("1.0-1", "1.0-1+deb12u1"),
            ("7.88.1-10+deb12u5", "7.88.1-10+deb12u12"),
            ("1.0a-1", "1.0.1-1"),
            ("1.0-1+deb12u1", "1.0a-1"),
            ("1.10-1", "1:0.1-1"),
        ] {
            assert_eq!(compare(older, newer), Ordering::Less, "{older} < {newer}");
            assert_eq!(compare(newer, older), Ordering::Greater);
        }
        assert_eq!(compare("0:1.00-0", "1.0"), Ordering::Equal);
        assert_eq!(compare("1.01", "1.1-0"), Ordering::Equal);
    }

    proptest! {
        #[test]
        fn it_is_an_order(a in "[0-2a~+.]{0,5}", b in "[0-2a~+.]{0,5}", c in "[0-2a~+.]{0,5}") {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            if compare(&a, &b) != Ordering::Greater && compare(&b, &c) != Ordering::Greater {
                prop_assert_ne!(compare(&a, &c), Ordering::Greater);
            }
        }
    }
}
