//! Names of resources: one line, without templates.

/// A name without templates, on one line.
pub(crate) fn plain_name(text: &str) -> String {
    let mut out = String::new();
    for part in crate::tokens::parts(text).unwrap_or_default() {
        match part {
            crate::tokens::TemplatePart::Plain(text) => out.push_str(text),
            crate::tokens::TemplatePart::Code(_, inside, _) => {
                out.push_str(inside.split(['|', '(']).next().unwrap_or_default().trim());
            }
        }
    }
    let text: String =
        out.chars().map(|c| if c.is_control() || "{}".contains(c) { ' ' } else { c }).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() { "a resource".to_owned() } else { text }
}
