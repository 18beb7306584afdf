//! replace: all matches of a pattern in a file.

use super::params::param;
use super::{Context, Conversion, ConvertedPart, Params, shell_text};
use crate::expression::ImportProblem;

const BY_HAND: &str = "write `line` with a pattern for each line, or `file` with the whole text";

/// The text as it is to be, on standard output. The pattern and the text come from the environment, where no shell and no Perl reads them.
const REPLACED: &str = r#"perl -0777 -pe '
  s{$ENV{PATTERN}}{my @g = map { $_ // "" } $&, @{^CAPTURE}; (my $t = $ENV{TEXT}) =~ s{\\(?:g<(\d+)>|(\d))}{$g[$1 // $2] // ""}ge; $t}gme' "#;

/// Whether Perl reads a pattern as Python does, as far as it is plain text.
fn is_common(pattern: &str) -> bool {
    let bare = shell_text::outside_of_templates(pattern);
    let mut rest = bare.chars();
    let mut is_class = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some(c) if "sSdDwWbBntrfv".contains(c) || c.is_ascii_punctuation() => {}
                Some(c) if c.is_ascii_digit() && !is_class => {}
                _ => return false,
            },
            '[' if is_class => return false,
            '[' => is_class = true,
            ']' => is_class = false,
            '$' if !is_class
                && rest.as_str().starts_with(|c: char| c.is_alphanumeric() || "{(_".contains(c)) =>
            {
                return false;
            }
            '@' | '\r' => return false,
            '(' if rest.as_str().starts_with('?') => {
                let known = ["?:", "?=", "?!", "?<=", "?<!"];
                if !known.iter().any(|known| rest.as_str().starts_with(known)) {
                    return false;
                }
            }
            c if !c.is_ascii() => return false,
            _ => {}
        }
    }
    !is_class
}

/// Whether the only signs with a meaning in a text are numbers of groups.
fn has_groups_only(text: &str) -> bool {
    text.split('\\').skip(1).all(|rest| {
        let number = rest.strip_prefix("g<").and_then(|rest| rest.split_once('>')).map(|(number, _)| number);
        let first = |text: &str| text.starts_with(|c: char| c.is_ascii_digit() && c != '0');
        match number {
            Some(number) => !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()),
            None => first(rest) && !rest.chars().nth(1).is_some_and(|c| c.is_ascii_digit()),
        }
    })
}

pub(super) fn replace(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["backup", "encoding"]);
    let path = params.needed(&["path", "dest", "destfile", "name"])?;
    let pattern = params.needed(&["regexp"])?;
    let text = params.text(&["replace"]).unwrap_or_default();
    let open = |why: &str| ImportProblem::new(why.to_owned(), BY_HAND);
    if params.clone().take(&["validate"]).is_some() {
        return Err(open("the text is checked before it is written"));
    }
    if [&path, &pattern, &text].iter().any(|value| value.contains("omit")) {
        return Err(open("a part is left out where a variable says so"));
    }
    if !is_common(&pattern) {
        return Err(open("the pattern has something in it that Perl reads in another way"));
    }
    if !has_groups_only(&shell_text::outside_of_templates(&text)) {
        return Err(open("the new text has signs in it that Perl reads in another way"));
    }
    let is_plain = !pattern.contains(['\\', '[', '(', '|', '^', '$', '*', '+', '?', '{', '.']);
    if text.contains("\\g<0>") || is_plain && text != pattern && text.contains(&pattern) {
        return Err(open("the new text has the old one in it, and each run changes it again"));
    }
    let mut attributes = vec![param("path", path.clone())];
    params.attributes(&mut attributes)?;
    params.finish("line")?;
    let file = shell_text::word(&path);
    let shown = format!("{REPLACED}{file}");
    // The file keeps its owner, its mode and the links to it.
    let run = format!("new=$(mktemp) && {shown} >\"$new\" && cat \"$new\" >{file} && rm -f \"$new\"");
    let unless = format!("test -f {file} && {shown} | cmp -s - {file}");
    let environment =
        crate::yaml::map([("PATTERN", crate::yaml::made(pattern)), ("TEXT", crate::yaml::made(text))]);
    let mut made = ConvertedPart::new("command", vec![param("run", run), param("unless", unless)]);
    made.params.push(("env".to_owned(), environment));
    let mut all = Conversion { made: vec![made], ..Conversion::default() };
    if attributes.len() > 1 {
        let mut part = ConvertedPart::new("file", attributes);
        part.suffix = "owner and mode";
        all.made.push(part);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_and_texts_that_mean_the_same_in_both() {
        for good in ["^([^#].*\\s+swap\\s+.*)$", "a|b", "(?<!a)b", "x{2,3}", "{{ a }}$"] {
            assert!(is_common(good), "{good}");
        }
        for bad in ["(?P<n>a)", "a\\Z", "\\Aa", "$a", "[[:alpha:]]", "é", "a@b", "(?i)a", "[a"] {
            assert!(!is_common(bad), "{bad}");
        }
        assert!(has_groups_only("# \\1 and \\g<2>, {{ x }}") && has_groups_only(""));
        assert!(!has_groups_only("a\\nb") && !has_groups_only("\\12") && !has_groups_only("\\g<name>"));
    }
}
