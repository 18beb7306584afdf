//! The directories above a path. Pure.

/// The directories above a path, the nearest first.
pub(crate) fn above(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path.trim_end_matches('/');
    std::iter::from_fn(move || {
        rest = rest.rsplit_once('/')?.0;
        Some(if rest.is_empty() { "/" } else { rest })
    })
}
