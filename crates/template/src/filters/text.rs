//! Text: `quote`, `quote_words` and `comment`.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, Value};

use super::invalid;
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("quote", quote);
    env.add_filter("quote_words", quote_words);
    env.add_filter("comment", comment);
}

/// One word for a POSIX shell, as Python's `shlex.quote`.
fn quote(value: Value) -> String {
    let text = if value.kind() == ValueKind::None { String::new() } else { value.to_string() };
    quoted(text)
}

/// The words of a text for a POSIX shell, each quoted: as Ansible's `command` takes a value apart, no sign of which is one of a shell.
fn quote_words(value: Value) -> Result<String, Error> {
    let text = if value.kind() == ValueKind::None { String::new() } else { value.to_string() };
    let all = words(&text).ok_or_else(|| {
        invalid("quote_words: a quote is not closed, or nothing stands behind the last `\\`")
    })?;
    Ok(all.into_iter().map(quoted).collect::<Vec<_>>().join(" "))
}

/// The words of a text, as Python's `shlex.split` takes them apart.
fn words(text: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\r' | '\n' => all.extend(word.take()),
            '\'' => loop {
                let word = word.get_or_insert_default();
                match chars.next()? {
                    '\'' => break,
                    c => word.push(c),
                }
            },
            '"' => loop {
                let word = word.get_or_insert_default();
                match chars.next()? {
                    '"' => break,
                    '\\' => match chars.next()? {
                        c @ ('"' | '\\') => word.push(c),
                        c => word.extend(['\\', c]),
                    },
                    c => word.push(c),
                }
            },
            '\\' => word.get_or_insert_default().push(chars.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    all.extend(word);
    Some(all)
}

fn quoted(text: String) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !text.is_empty() && text.chars().all(safe) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\"'\"'"))
}

fn comment(text: String, style: Option<String>, kwargs: Kwargs) -> Result<String, Error> {
    let style = kwargs.get::<Option<String>>("style")?.or(style).unwrap_or_else(|| "plain".to_owned());
    let (beginning, decoration, end) = match style.as_str() {
        "plain" => ("", "# ", ""),
        "erlang" => ("", "% ", ""),
        "c" => ("", "// ", ""),
        "cblock" => ("/*", " * ", " */"),
        "xml" => ("<!--", " - ", "-->"),
        _ => {
            return Err(invalid(format!(
                "comment: there is no style `{style}`; known are plain, erlang, c, cblock, xml"
            )));
        }
    };
    let option = |name: &str, default: &str| {
        Ok::<_, Error>(kwargs.get::<Option<String>>(name)?.unwrap_or_else(|| default.to_owned()))
    };
    let count = |name: &str| Ok::<_, Error>(kwargs.get::<Option<usize>>(name)?.unwrap_or(1).min(1000));
    let newline = option("newline", "\n")?;
    let decoration = option("decoration", decoration)?;
    let edge = decoration.trim_end();
    let (beginning, end) = (option("beginning", beginning)?, option("end", end)?);
    let (prefix, postfix) = (option("prefix", edge)?, option("postfix", edge)?);
    let (prefixes, postfixes) = (count("prefix_count")?, count("postfix_count")?);
    kwargs.assert_all_used()?;
    let mut out = String::new();
    if !beginning.is_empty() {
        out.push_str(&beginning);
        out.push_str(&newline);
    }
    if !prefix.is_empty() {
        let line = if prefix == newline { newline.clone() } else { format!("{prefix}{newline}") };
        out.push_str(&line.repeat(prefixes));
    }
    let body = format!("{decoration}{}", text.replace(&newline, &format!("{newline}{decoration}")));
    // A line that holds only the decoration has no spaces at its end.
    out.push_str(&body.replace(&format!("{decoration}{newline}"), &format!("{edge}{newline}")));
    out.push_str(&format!("{newline}{postfix}").repeat(postfixes));
    if !end.is_empty() {
        out.push_str(&newline);
        out.push_str(&end);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use crate::filters::check::table;

    #[test]
    fn shell_words() {
        table(&[
            ("'plain/word-1.2' | quote", "plain/word-1.2"),
            ("'two words' | quote", "\"'two words'\""),
            ("\"it's\" | quote", r#""'it'\"'\"'s'""#),
            ("'' | quote", "\"''\""),
            ("'$(id)' | quote", "\"'$(id)'\""),
            ("'a  b' | quote_words", "\"a b\""),
            ("7 | quote_words", "\"7\""),
            ("' ' | quote_words", "\"\""),
            ("'a; rm $x' | quote_words", "\"'a;' rm '$x'\""),
            ("\"--name='a b' ''\" | quote_words", "\"'--name=a b' ''\""),
            ("'a\\\\ b \"c\\\\\"d\"' | quote_words", r#""'a b' 'c\"d'""#),
            ("\"it's\" | quote_words", "!quote is not closed"),
        ]);
    }

    #[test]
    fn comments() {
        table(&[
            ("'a\n\nb' | comment", "\"#\\n# a\\n#\\n# b\\n#\""),
            ("'a' | comment('c')", "\"//\\n// a\\n//\""),
            ("'a' | comment('cblock')", "\"/*\\n *\\n * a\\n *\\n */\""),
            ("'a' | comment(prefix='', postfix='')", "\"# a\\n\""),
            ("'a' | comment(decoration='; ')", "\";\\n; a\\n;\""),
            ("'a' | comment('odd')", "!no style `odd`"),
        ]);
    }
}
