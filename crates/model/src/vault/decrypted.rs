//! Files that are encrypted as a whole: their values are secrets, and no report shows them.

use std::ops::Range;
use std::sync::Arc;

use converge_syntax::{Diagnostic, Diagnostics, Dialect, Node, Source, Span, Value, parse_yaml_into};
use zeroize::Zeroizing;

use super::{Vault, is_vault};

/// The text of a source that is encrypted as a whole; `None` where it is not encrypted.
pub(crate) fn decrypted_text(
    source: &Arc<Source>,
    vault: &Vault,
) -> Result<Option<Zeroizing<String>>, Diagnostic> {
    if !is_vault(source.text().as_bytes()) {
        return Ok(None);
    }
    let at = Span::whole(source.clone()).first_line();
    let opened = vault
        .open(source.text())
        .map_err(|error| Diagnostic::error("vault", error.to_string()).at(&at).help(error.help()))?;
    let text = String::from_utf8(opened.plain.to_vec())
        .map_err(|_| Diagnostic::error("vault", "what is encrypted here is not UTF-8 text").at(&at))?;
    Ok(Some(Zeroizing::new(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))))
}

/// The documents of a YAML file that may be encrypted as a whole.
pub(crate) fn decrypted_documents(
    source: Arc<Source>,
    vault: &Vault,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<Node>> {
    match decrypted_text(&source, vault) {
        Ok(None) => documents(source, diagnostics),
        Ok(Some(text)) => documents(Source::secret(source.name(), text.as_str(), []), diagnostics),
        Err(problem) => {
            diagnostics.push(problem);
            None
        }
    }
}

/// The documents of a YAML text. Those of a secret text get a source in which only keys can be read.
pub(crate) fn documents(source: Arc<Source>, diagnostics: &mut Diagnostics) -> Option<Vec<Node>> {
    if !source.is_secret() {
        return parse_yaml_into(source, Dialect::Ansible, diagnostics);
    }
    let mut found = Diagnostics::new();
    let open = Source::new(source.name(), source.content());
    let documents = parse_yaml_into(open, Dialect::Ansible, &mut found);
    let mut keys = Vec::new();
    documents.iter().flatten().for_each(|document| find_keys(document, &mut keys));
    let shown = Source::secret(source.name(), source.content(), keys);
    for mut problem in found {
        problem.labels.iter_mut().for_each(|(span, _)| *span = moved(span, &shown));
        unquoted(&mut problem, source.name());
        diagnostics.push(problem);
    }
    Some(documents?.into_iter().map(|document| with_source(document, &shown)).collect())
}

/// Takes out of a diagnostic about a decrypted file what may quote it.
pub(crate) fn unquoted(problem: &mut Diagnostic, file: &str) {
    if problem.code != "duplicate-key" {
        problem.message = format!("this decrypted file is not right at the place shown ({})", problem.code);
    }
    problem.labels.iter_mut().for_each(|(_, text)| text.clear());
    problem.help = Some(format!("look at it with: converge vault view {file}"));
}

/// The places of the keys of maps.
fn find_keys(node: &Node, keys: &mut Vec<Range<usize>>) {
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| find_keys(item, keys)),
        Value::Map(entries) => {
            for (key, value) in entries {
                keys.push(key.span.start..key.span.end);
                find_keys(value, keys);
            }
        }
        _ => {}
    }
}

fn moved(span: &Span, source: &Arc<Source>) -> Span {
    Span::new(source.clone(), span.start, span.end)
}

fn with_source(node: Node, source: &Arc<Source>) -> Node {
    let value = match node.value {
        Value::List(items) => Value::List(items.into_iter().map(|item| with_source(item, source)).collect()),
        Value::Map(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| (with_source(key, source), with_source(value, source)))
                .collect(),
        ),
        other => other,
    };
    Node { value, span: moved(&node.span, source), tag: node.tag }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::{DEFAULT_ID, VaultSecret, encrypt};

    fn read(plain: &str) -> (Option<Vec<Node>>, Diagnostics) {
        let secret = VaultSecret::new(DEFAULT_ID, b"pw".to_vec());
        let source = Source::new("all.yml", encrypt(plain.as_bytes(), &secret).unwrap());
        let mut found = Diagnostics::new();
        (decrypted_documents(source, &Vault::new(vec![secret]), &mut found), found)
    }

    #[test]
    fn values_are_read_and_only_keys_are_shown() {
        let (documents, found) = read("port: 5432\ndb: {password: geheim, ü: x}\n");
        assert!(found.is_empty(), "{found}");
        let root = documents.unwrap().remove(0);
        assert_eq!(root.get("db").unwrap().get("password").unwrap().as_str(), Some("geheim"));
        let at = &root.get("db").unwrap().get("password").unwrap().span;
        assert_eq!(at.to_string(), "all.yml:2:16");
        assert!(at.source.is_secret());
        assert_eq!(at.source.text(), "port******\ndb***password**********ü****\n");
        assert_eq!(root.get("port").unwrap().describe(), "an integer");
    }

    #[test]
    fn complaints_about_it_quote_nothing() {
        for plain in ["a: geheim\na: zwei\n", "a: [geheim\n", "a: geheim: b\n", "geheim\n\tx: {"] {
            let (_, found) = read(plain);
            let text = format!("{found}\n{:?}", found.reports());
            assert!(
                !found.is_empty() && !text.contains("geheim") && !text.contains("zwei"),
                "{plain}: {text}"
            );
            assert!(text.contains("all.yml:"), "{text}");
        }
    }
}
