//! Text: `quote` and `comment`.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, Value};

use super::invalid;
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("quote", quote);
    env.add_filter("comment", comment);
}

/// One word for a POSIX shell, as Python's `shlex.quote`.
fn quote(value: Value) -> String {
    let text = if value.kind() == ValueKind::None { String::new() } else { value.to_string() };
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
