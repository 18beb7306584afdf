//! INI: sections in brackets, `key = value` below them, by lines. All values are text.
//!
//! The dialects do not agree on much, so what one of them might read otherwise (a value on several lines, a comment behind a value,
//! a key that stands twice) is left alone and refused when it is named.

use super::{Editor, Refusal, pointer};
use serde_json::{Map, Value};

pub struct Ini;

enum IniLine<'a> {
    Section(&'a str),
    /// The key, the byte range of the value in the line, and whether there is a delimiter.
    Pair {
        key: &'a str,
        start: usize,
        end: usize,
        delimiter: bool,
    },
    /// Blank or a comment.
    Other,
    /// Goes on with the line before.
    More,
}

fn line(text: &str, below: Option<usize>) -> IniLine<'_> {
    let body = text.trim_end_matches(['\n', '\r']);
    let trimmed = body.trim();
    if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
        return IniLine::Other;
    }
    if trimmed.starts_with('[') && trimmed.ends_with(']') && trimmed.len() > 2 {
        return IniLine::Section(trimmed.get(1..trimmed.len() - 1).unwrap_or_default());
    }
    let indent = body.len() - body.trim_start().len();
    if below.is_some_and(|key| indent > key) {
        return IniLine::More;
    }
    let at = body.find('=').or_else(|| body.find(':'));
    let (key, rest) = match at {
        Some(at) => (body.get(..at).unwrap_or_default(), body.get(at + 1..).unwrap_or_default()),
        None => (body, ""),
    };
    let end = body.trim_end().len();
    let start =
        at.map_or(body.len(), |at| (at + 1 + (rest.len() - rest.trim_start().len())).min(end.max(at + 1)));
    IniLine::Pair { key: key.trim(), start, end: end.max(start), delimiter: at.is_some() }
}

/// A place of the text: line numbers.
struct IniEntry {
    section: Option<String>,
    key: String,
    line: usize,
    start: usize,
    end: usize,
    /// The reason why it cannot be edited.
    odd: Option<&'static str>,
    delimiter: bool,
}

#[derive(Default)]
struct IniText<'a> {
    lines: Vec<&'a str>,
    entries: Vec<IniEntry>,
    /// Name and line of every section.
    sections: Vec<(String, usize)>,
}

impl<'a> IniText<'a> {
    fn new(text: &'a str) -> Result<Self, Refusal> {
        let mut read = Self { lines: text.split_inclusive('\n').collect(), ..Self::default() };
        let mut below = None;
        for (number, raw) in read.lines.iter().enumerate() {
            let section = read.sections.last().map(|(name, _)| name.clone());
            match line(raw, below) {
                IniLine::Section(name) => {
                    read.sections.push((name.to_owned(), number));
                    below = None;
                }
                IniLine::Other => {}
                IniLine::More => {
                    if let Some(entry) = read.entries.last_mut() {
                        entry.odd = Some("goes on in the next line");
                    }
                }
                IniLine::Pair { key: "", .. } => {
                    return Err(Refusal::new(
                        &[],
                        format!("line {} is neither a section nor `key = value`", number + 1),
                    ));
                }
                IniLine::Pair { key, start, end, delimiter } => {
                    let value = raw.get(start..end).unwrap_or_default();
                    let odd = if value.ends_with('\\') {
                        Some("goes on in the next line")
                    } else if [" ;", " #", "\t;", "\t#"].iter().any(|c| value.contains(c)) {
                        Some("may have a comment behind it")
                    } else {
                        None
                    };
                    below = Some(raw.len() - raw.trim_start().len());
                    read.entries.push(IniEntry {
                        section,
                        key: key.to_owned(),
                        line: number,
                        start,
                        end,
                        odd,
                        delimiter,
                    });
                }
            }
        }
        for section in read.sections.iter().map(|(name, _)| name) {
            if read.entries.iter().any(|e| e.section.is_none() && e.key == *section) {
                return Err(Refusal::new(
                    &[],
                    format!("`{section}` is a section and a key before the first section"),
                ));
            }
        }
        Ok(read)
    }

    fn of<'s>(&'s self, at: &[String]) -> Result<Vec<&'s IniEntry>, Refusal> {
        let (section, key) = match at {
            [key] => (None, key),
            [section, key] => (Some(section), key),
            _ => return Err(deep(at)),
        };
        Ok(self.entries.iter().filter(|e| e.section.as_ref() == section && e.key == *key).collect())
    }

    fn text(&self, number: usize) -> &'a str {
        self.lines.get(number).copied().unwrap_or_default()
    }
}

fn deep(at: &[String]) -> Refusal {
    Refusal::new(at, format!("`{}` is deeper than an INI file is: `/section/key`", pointer(at)))
}

fn pair(like: Option<(&str, &IniEntry)>, key: &str, value: &str) -> String {
    // Written as the entry beside it is.
    let (indent, around) = match like {
        Some((line, entry)) if entry.delimiter => {
            let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
            let from = indent.len() + entry.key.len();
            (indent, line.get(from..entry.start).unwrap_or(" = ").to_owned())
        }
        _ => (String::new(), " = ".to_owned()),
    };
    let around = if around.trim().is_empty() { " = ".to_owned() } else { around };
    format!("{indent}{key}{around}{value}\n")
}

impl Ini {
    /// Puts a section: new, or emptied before it is filled again.
    fn put_section(
        &self,
        text: &str,
        read: &IniText<'_>,
        at: &[String],
        map: &Map<String, Value>,
    ) -> Result<String, Refusal> {
        let [name] = at else { return Err(deep(at)) };
        let mut new = text.to_owned();
        if !read.sections.iter().any(|(n, _)| n == name) {
            if !new.is_empty() && !new.ends_with('\n') {
                new.push('\n');
            }
            if !new.trim().is_empty() && !new.ends_with("\n\n") {
                new.push('\n');
            }
            new.push_str(&format!("[{name}]\n"));
        }
        for entry in read.entries.iter().filter(|e| e.section.as_ref() == Some(name)) {
            if !map.contains_key(&entry.key) {
                new = self.take(&new, &[name.clone(), entry.key.clone()])?;
            }
        }
        for (key, value) in map {
            new = self.put(&new, &[name.clone(), key.clone()], value)?;
        }
        Ok(new)
    }
}

impl Editor for Ini {
    fn read(&self, text: &str) -> Result<Value, Refusal> {
        let read = IniText::new(text)?;
        let mut root = Map::new();
        for (name, _) in &read.sections {
            root.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
        }
        for entry in &read.entries {
            let map = match &entry.section {
                None => &mut root,
                Some(name) => match root.get_mut(name) {
                    Some(Value::Object(map)) => map,
                    _ => continue,
                },
            };
            let text = read.text(entry.line).get(entry.start..entry.end).unwrap_or_default();
            // A line without delimiter, or with continuation lines, is not a text that a wish could equal.
            let value = match entry.odd {
                Some(odd) if odd.starts_with("goes") => Value::Array(vec![text.into(), odd.into()]),
                _ if !entry.delimiter => Value::Null,
                _ => text.into(),
            };
            match map.entry(entry.key.clone()) {
                serde_json::map::Entry::Vacant(place) => drop(place.insert(value)),
                serde_json::map::Entry::Occupied(mut place) => match place.get_mut() {
                    Value::Array(list) => list.push(value),
                    first => *first = Value::Array(vec![first.take(), value]),
                },
            }
        }
        Ok(Value::Object(root))
    }

    fn fit(&self, at: &[String], value: &Value) -> Result<Value, Refusal> {
        let text = match value {
            Value::String(s) => s.clone(),
            Value::Bool(b) => b.to_string(),
            Value::Number(n) => n.to_string(),
            Value::Object(map) if at.len() == 1 => {
                let fitted = map.iter().map(|(key, value)| {
                    let below = [at, std::slice::from_ref(key)].concat();
                    self.fit(&below, value).map(|v| (key.clone(), v))
                });
                return Ok(Value::Object(fitted.collect::<Result<_, _>>()?));
            }
            _ => {
                return Err(Refusal::new(
                    at,
                    format!("an INI file holds text only, and `{}` is not text", pointer(at)),
                )
                .help("set text, a number or true and false, at `/section/key`"));
            }
        };
        let names_fit =
            at.iter().all(|n| !n.is_empty() && n.trim() == n && !n.contains(['\n', '\r', '[', ']', '=']));
        if at.len() > 2 {
            return Err(deep(at));
        }
        if !names_fit || text.contains(['\n', '\r']) || text.trim() != text {
            return Err(Refusal::new(at, format!("`{}` cannot be written in an INI file", pointer(at)))
                .help("leave out line breaks, brackets, and blanks at the ends"));
        }
        Ok(Value::String(text))
    }

    fn put(&self, text: &str, at: &[String], value: &Value) -> Result<String, Refusal> {
        let read = IniText::new(text)?;
        let mut lines: Vec<String> = read.lines.iter().map(|l| (*l).to_owned()).collect();
        let value = match value {
            Value::String(value) => value,
            Value::Object(map) if at.len() == 1 => return self.put_section(text, &read, at, map),
            Value::Object(map) if at.is_empty() => {
                let mut new = text.to_owned();
                for (key, value) in map {
                    new = self.put(&new, std::slice::from_ref(key), value)?;
                }
                return Ok(new);
            }
            _ => return Err(deep(at)),
        };
        match read.of(at)?.as_slice() {
            [entry] => {
                if let Some(odd) = entry.odd {
                    return Err(Refusal::new(at, format!("the value of `{}` {odd}", entry.key))
                        .help("edit it with the kind `line` or `block`"));
                }
                let old = read.text(entry.line);
                let (before, after) = (old.get(..entry.start), old.get(entry.end..));
                let delimiter = if entry.delimiter { "" } else { " = " };
                if let Some(line) = lines.get_mut(entry.line) {
                    *line = format!(
                        "{}{delimiter}{value}{}",
                        before.unwrap_or_default(),
                        after.unwrap_or_default()
                    );
                }
            }
            [] => {
                let (section, key) = match at {
                    [key] => (None, key),
                    [section, key] => (Some(section), key),
                    _ => return Err(deep(at)),
                };
                let beside = read.entries.iter().rfind(|e| e.section.as_ref() == section);
                let like = beside.or(read.entries.last()).map(|e| (read.text(e.line), e));
                let new = pair(like, key, value);
                let header = section
                    .and_then(|name| read.sections.iter().rfind(|(n, _)| n == name))
                    .map(|(_, line)| *line);
                let mut place = match (beside, header) {
                    (Some(entry), _) => entry.line + 1,
                    (None, Some(header)) => header + 1,
                    (None, None) if section.is_none() => 0,
                    (None, None) => {
                        return self.put(
                            text,
                            &at[..1],
                            &Value::Object(Map::from_iter([(key.clone(), value.clone().into())])),
                        );
                    }
                };
                // Behind a value of several lines.
                while beside.is_some_and(|e| e.odd.is_some_and(|o| o.starts_with("goes")))
                    && lines.get(place).is_some_and(|l| l.starts_with([' ', '\t']) && !l.trim().is_empty())
                {
                    place += 1;
                }
                if let Some(before) = place.checked_sub(1).and_then(|n| lines.get_mut(n))
                    && !before.ends_with('\n')
                {
                    before.push('\n');
                }
                lines.insert(place.min(lines.len()), new);
            }
            _ => {
                return Err(Refusal::new(at, format!("`{}` stands more than once", pointer(at)))
                    .help("programs do not agree which one counts: edit it with the kind `line`"));
            }
        }
        Ok(lines.concat())
    }

    fn take(&self, text: &str, at: &[String]) -> Result<String, Refusal> {
        let read = IniText::new(text)?;
        let mut gone = Vec::new();
        if let [name] = at
            && let Some(first) = read.sections.iter().find(|(n, _)| n == name)
        {
            if read.sections.iter().filter(|(n, _)| n == name).count() > 1 {
                return Err(Refusal::new(at, format!("the section `{name}` stands more than once")));
            }
            let next =
                read.sections.iter().find(|(_, line)| *line > first.1).map_or(read.lines.len(), |s| s.1);
            gone.extend(first.1..next);
        } else {
            for entry in read.of(at)? {
                if entry.odd.is_some_and(|o| o.starts_with("goes")) {
                    return Err(Refusal::new(
                        at,
                        format!("the value of `{}` goes on in the next line", entry.key),
                    )
                    .help("remove it with the kind `line` or `block`"));
                }
                gone.push(entry.line);
            }
        }
        Ok(read.lines.iter().enumerate().filter(|(n, _)| !gone.contains(n)).map(|(_, l)| *l).collect())
    }

    fn append(&self, _: &str, at: &[String], _: &Value) -> Result<String, Refusal> {
        Err(Refusal::new(at, "an INI file has no lists"))
    }
}
