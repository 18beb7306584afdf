//! The manifests in a text, as helm and kubectl read them. Both read YAML 1.1 (sigs.k8s.io/yaml): a plain `n`, `y`, `yes`, `on` is a truth value, as a key
//! too, which is then the text `false` or `true`, and `0644` is octal.

use granit_parser::{Event, Parser, ScalarStyle};
use serde::Deserialize as _;
use serde_json::Value;
use std::borrow::Cow;
use std::ops::Range;

/// The objects in a text of several YAML documents, as helm renders it.
///
/// # Errors
/// It is no YAML, and where.
pub fn manifests(text: &str) -> Result<Vec<Value>, serde_yaml::Error> {
    Ok(documents(text)?.into_iter().map(|(_, document)| document).collect())
}

/// The same, each with its number in the text: empty documents have one too.
///
/// # Errors
/// It is no YAML, and where.
pub fn documents(text: &str) -> Result<Vec<(usize, Value)>, serde_yaml::Error> {
    let mut found = Vec::new();
    for (number, document) in (1..).zip(serde_yaml::Deserializer::from_str(&spelled_out(text))) {
        match Value::deserialize(document)? {
            Value::Null => {}
            value => found.push((number, value)),
        }
    }
    Ok(found)
}

/// The value that a plain word has in YAML 1.1, where our reader takes it for another one.
fn meaning(word: &str) -> Option<String> {
    match word {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            return Some("true".to_owned());
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            return Some("false".to_owned());
        }
        _ => {}
    }
    let digits = word.trim_start_matches(['+', '-']);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
        && word.len() <= digits.len() + 1
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let (is_octal, is_grouped) = (digits.len() > 1 && digits.starts_with('0'), digits.contains('_'));
    if !is_number || !(is_octal || is_grouped) {
        return None;
    }
    let plain = digits.replace('_', "");
    // Digits that are no octal ones make it a number with a fraction of none.
    let number =
        i64::from_str_radix(&plain, if is_octal { 8 } else { 10 }).or_else(|_| plain.parse()).ok()?;
    Some(if word.starts_with('-') { format!("-{number}") } else { number.to_string() })
}

/// The text with the words written out that YAML 1.1 reads in its own way. What is no YAML stays as it is, for the reader to say so.
fn spelled_out(text: &str) -> Cow<'_, str> {
    let mut words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_+-".contains(c)));
    if !words.any(|word| meaning(word).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut new = text.to_owned();
    for (place, word) in places(text).into_iter().rev() {
        new.replace_range(place, &word);
    }
    Cow::Owned(new)
}

/// Where such words stand, each with what it means. A key is text.
fn places(text: &str) -> Vec<(Range<usize>, String)> {
    // For each open map whether a key comes next; a list has none.
    let mut open: Vec<Option<bool>> = Vec::new();
    let mut found = Vec::new();
    for next in Parser::new_from_str(text) {
        let Ok((event, span)) = next else { return Vec::new() };
        let is_key = open.last().copied().flatten() == Some(true);
        let is_node = matches!(
            event,
            Event::Scalar(..) | Event::Alias(..) | Event::SequenceStart(..) | Event::MappingStart(..)
        );
        if let Some(Some(key_next)) = open.last_mut().filter(|_| is_node) {
            *key_next = !*key_next;
        }
        match event {
            Event::SequenceStart(..) => open.push(None),
            Event::MappingStart(..) => open.push(Some(true)),
            Event::SequenceEnd | Event::MappingEnd => drop(open.pop()),
            Event::Scalar(word, ScalarStyle::Plain, _, None) => {
                let place =
                    span.start.byte_offset().zip(span.end.byte_offset()).map(|(start, end)| start..end);
                // A quoted one stays what it is; so does one whose place is not known.
                let place = place.filter(|place| text.get(place.clone()) == Some(&*word));
                if let (Some(place), Some(means)) = (place, meaning(&word)) {
                    found.push((place, if is_key { format!("\"{means}\"") } else { means }));
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The values are those that sigs.k8s.io/yaml makes of the same.
    #[test]
    fn words_mean_what_helm_takes_them_for() {
        let text = "---\nkind: ConfigMap\ndata: {n: new, y: 'y', \"on\": 'off', q: \"n\"}\n---\n# none: yes\nspec:\n  - No\n  - &a yes\n  - *a\n  \
            - {on: OFF, Y: N, yEs: nO}\n  - !!str no\n  - a n b\n  - |\n    n: yes\nmode: 0644\nbig: 1_000\nminus: -010\nodd: 089\ntext: '0644'\n\
            date: 2001-01-01\nzero: 0\nfloat: 0.5\nversion: 1.0.0\nTRUE: True\n";
        let found = manifests(text).unwrap();
        assert_eq!(
            found,
            [
                json!({"kind": "ConfigMap", "data": {"false": "new", "true": "y", "on": "off", "q": "n"}}),
                json!({"spec": [false, true, true, {"true": false, "yEs": "nO"}, "no", "a n b", "n: yes\n"],
                    "mode": 420, "big": 1000, "minus": -8, "odd": 89, "text": "0644", "date": "2001-01-01", "zero": 0, "float": 0.5,
                    "version": "1.0.0", "true": true})
            ]
        );
        assert!(manifests("n: [").is_err());
        assert!(matches!(spelled_out("kind: Pod\nn1: x\n"), Cow::Borrowed(_)));
    }
}
