//! The path to a field as a user writes it: `/spec/containers/[name=driver]/image`, `/metadata/labels/nvidia.com~1gpu`.

use converge_objects::k8s::fields::{self, FieldPath, Segment};
use serde_json::Value;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointerPart {
    /// A key of a map, or the item of a list with this key.
    One(Segment),
    /// Every item of a list: `[*]`.
    Each,
}

/// The reason why a text is not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("`{0}` does not begin with a slash")]
    NoSlash(String),
    #[error("`{0}`: a bracket is not closed")]
    OpenBracket(String),
    #[error("`{0}`: items of a list are found by their key, as `[name=driver]`, never by their place")]
    ByPlace(String),
    #[error("`{0}` is no way to a field: a name is missing")]
    NoName(String),
    #[error("`{0}`: `[*]` leads to several fields; `k8s_transform` sets them")]
    Several(String),
}

/// The list at this path has items without a key: none can be distinguished from the others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: its items have no key to find them by", fields::shown(.0))]
pub struct NoItemKeys(pub FieldPath);

/// Keys of list items that are numbers.
const NUMBERS: [&str; 2] = ["containerPort", "port"];

/// Parses a path.
pub fn parse(text: &str) -> Result<Vec<PointerPart>, PathError> {
    let Some(mut rest) = text.strip_prefix('/') else {
        return Err(PathError::NoSlash(text.to_owned()));
    };
    let mut parts = Vec::new();
    loop {
        let end = rest.find(['/', '[']).unwrap_or(rest.len());
        let (name, left) = rest.split_at(end);
        if !name.is_empty() {
            parts.push(PointerPart::One(Segment::Key(name.replace("~1", "/").replace("~0", "~"))));
        }
        rest = left;
        while let Some(inside) = rest.strip_prefix('[') {
            let (inside, left) =
                inside.split_once(']').ok_or_else(|| PathError::OpenBracket(text.to_owned()))?;
            parts.push(item(inside).ok_or_else(|| PathError::ByPlace(text.to_owned()))?);
            rest = left;
        }
        match rest.strip_prefix('/') {
            Some(left) if !left.is_empty() && !left.starts_with('/') => rest = left,
            None if rest.is_empty() && !parts.is_empty() => return Ok(parts),
            _ => return Err(PathError::NoName(text.to_owned())),
        }
    }
}

fn item(inside: &str) -> Option<PointerPart> {
    if inside == "*" {
        return Some(PointerPart::Each);
    }
    let (key, value) = inside.split_once('=')?;
    if key.is_empty() || value.is_empty() {
        return None;
    }
    let value = &value.replace("~1", "/").replace("~0", "~");
    let quoted = value.starts_with('"');
    let number = NUMBERS.contains(&key) && value.bytes().all(|b| b.is_ascii_digit());
    let value = if quoted || number { value.to_owned() } else { Value::from(value.as_str()).to_string() };
    Some(PointerPart::One(Segment::Item(key.to_owned(), value)))
}

/// Parses a path that leads to one field.
pub fn single(text: &str) -> Result<FieldPath, PathError> {
    let one = |part| match part {
        PointerPart::One(segment) => Ok(segment),
        PointerPart::Each => Err(PathError::Several(text.to_owned())),
    };
    parse(text)?.into_iter().map(one).collect()
}

/// All fields of an object that a path matches.
pub fn expand(object: &Value, parts: &[PointerPart]) -> Result<Vec<FieldPath>, NoItemKeys> {
    let mut paths: Vec<FieldPath> = vec![Vec::new()];
    for part in parts {
        let mut next = Vec::new();
        for way in paths {
            match part {
                PointerPart::One(segment) => {
                    let mut way = way;
                    way.push(segment.clone());
                    next.push(way);
                }
                PointerPart::Each => {
                    let Some(list) = fields::read(object, &way).and_then(Value::as_array) else { continue };
                    let items = fields::items(list).ok_or_else(|| NoItemKeys(way.clone()))?;
                    next.extend(items.into_iter().map(|item| {
                        let mut one = way.clone();
                        one.push(item);
                        one
                    }));
                }
            }
        }
        paths = next;
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_are_read() {
        let shown = |text: &str| fields::shown(&single(text).unwrap());
        assert_eq!(shown("/spec/containers/[name=x]/image"), ".spec.containers[name=x].image");
        assert_eq!(shown("/spec/containers[name=x]/image"), ".spec.containers[name=x].image");
        assert_eq!(shown("/spec/taints/[key=nvidia.com/gpu]"), ".spec.taints[key=nvidia.com/gpu]");
        assert_eq!(shown("/m/[mountPath=~1x]"), shown("/m/[mountPath=/x]"));
        assert_eq!(shown("/metadata/labels/a.b~1c"), ".metadata.labels[\"a.b/c\"]");
        assert_eq!(single("/p/[port=80]").unwrap()[1], Segment::Item("port".into(), "80".into()));
        assert_eq!(single("/p/[name=80]").unwrap()[1], Segment::Item("name".into(), "\"80\"".into()));
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        for bad in ["", "/", "spec", "/a//b", "/a/", "/a/[0]", "/a/[name=", "/a/[=x]", "/a[name=]"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(single("/a/[*]/b"), Err(PathError::Several("/a/[*]/b".to_owned())));
    }

    #[test]
    fn each_item_of_a_list_is_found_by_its_key() {
        let object = json!({"jobs": [{"name": "a", "c": [{"name": "x"}]}, {"name": "b", "c": []}], "args": ["1", "2"]});
        let paths = expand(&object, &parse("/jobs/[*]/c/[*]/image").unwrap()).unwrap();
        let shown: Vec<String> = paths.iter().map(|w| fields::shown(w)).collect();
        assert_eq!(shown, [".jobs[name=a].c[name=x].image"]);
        assert_eq!(expand(&object, &parse("/none/[*]/x").unwrap()), Ok(Vec::new()));
        assert!(expand(&object, &parse("/args/[*]").unwrap()).is_err());
    }
}
