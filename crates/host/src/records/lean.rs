//! The shell that is sent to a host, without what only people read: lines of comments, indentation, empty lines. What stands in quotes or in a
//! here-document stays as it is.

/// The text without lines of comments, indentation and empty lines. A text whose quotes or parentheses this does not understand stays whole.
pub(super) fn lean(text: &str) -> String {
    let mut reader = ShellReader::new(text);
    reader.read().map_or_else(|| text.to_owned(), |()| reader.lean)
}

/// Whether all quotes and parentheses of the text are closed.
pub(super) fn is_closed(text: &str) -> bool {
    ShellReader::new(text).read().is_some()
}

/// The thing that encloses a place in the text.
#[derive(Clone, Copy)]
enum Inside {
    /// The whole text, `$(…)`, a subshell. The patterns of so many `case` end in parentheses that close nothing.
    Code {
        cases: usize,
    },
    Single,
    Double,
    Backtick,
    /// `${…}`, and whether single quotes quote in it.
    Braces {
        quotes: bool,
    },
    /// `$((…))`, with so many open parentheses.
    Arithmetic {
        open: usize,
    },
}

/// A here-document that begins at the end of the line.
struct HereDocument<'a> {
    end: &'a str,
    /// `<<-`: tabs may stand before its end.
    tabs: bool,
}

struct ShellReader<'a> {
    text: &'a str,
    at: usize,
    /// Where the text begins that was read and not yet copied.
    copied: usize,
    lean: String,
    inside: Vec<Inside>,
    here: Vec<HereDocument<'a>>,
    /// A line of code begins.
    fresh: bool,
    /// The next word is a command or a word of the grammar, not an argument.
    command: bool,
}

/// Characters that end a word.
const BETWEEN: &str = " \t\n;|&()<>";
/// Characters that may stand in a word and are more than themselves.
const SPECIAL: &str = "\\'\"`$";
/// Words behind which a command stands.
const BEFORE_COMMANDS: &[&str] =
    &["if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "esac"];

impl<'a> ShellReader<'a> {
    fn new(text: &'a str) -> Self {
        let inside = vec![Inside::Code { cases: 0 }];
        let (lean, here) = (String::with_capacity(text.len()), Vec::new());
        Self { text, at: 0, copied: 0, lean, inside, here, fresh: true, command: true }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Leaves out what is next.
    fn skip(&mut self, bytes: usize) {
        self.lean.push_str(self.text.get(self.copied..self.at).unwrap_or_default());
        self.at += bytes;
        self.copied = self.at;
    }

    fn enter(&mut self, inside: Inside, bytes: usize) {
        self.inside.push(inside);
        self.command = matches!(inside, Inside::Code { .. });
        self.at += bytes;
    }

    fn leave(&mut self, bytes: usize) {
        self.inside.pop();
        self.command = false;
        self.at += bytes;
    }

    /// Reads all of it; none when something in it stays open, or is closed twice.
    fn read(&mut self) -> Option<()> {
        while let Some(next) = self.rest().chars().next() {
            let inside = *self.inside.last()?;
            match inside {
                Inside::Code { .. } if std::mem::take(&mut self.fresh) => self.line(),
                Inside::Code { cases } => self.code(next, cases)?,
                Inside::Single if next == '\'' => self.leave(1),
                Inside::Single => self.at += next.len_utf8(),
                Inside::Backtick if next == '`' => self.leave(1),
                Inside::Double if next == '"' => self.leave(1),
                Inside::Braces { .. } if next == '}' => self.leave(1),
                Inside::Braces { quotes: true } if next == '\'' => self.enter(Inside::Single, 1),
                Inside::Braces { .. } | Inside::Arithmetic { .. } if next == '"' => {
                    self.enter(Inside::Double, 1);
                }
                Inside::Arithmetic { open } if "()".contains(next) => self.parenthesis(next, open),
                Inside::Backtick | Inside::Double | Inside::Braces { .. } | Inside::Arithmetic { .. } => {
                    self.expansion(next);
                }
            }
        }
        self.skip(0);
        (self.inside.len() == 1 && self.here.is_empty()).then_some(())
    }

    /// The beginning of a line of code.
    fn line(&mut self) {
        let rest = self.rest();
        let code = rest.trim_start_matches([' ', '\t']);
        let blanks = rest.len() - code.len();
        self.fresh = code.starts_with(['#', '\n']);
        let left_out = if self.fresh { code.find('\n').map_or(code.len(), |end| end + 1) } else { 0 };
        self.skip(blanks + left_out);
    }

    fn code(&mut self, next: char, cases: usize) -> Option<()> {
        match next {
            '\'' => self.enter(Inside::Single, 1),
            '"' => self.enter(Inside::Double, 1),
            '`' => self.enter(Inside::Backtick, 1),
            '(' => self.enter(Inside::Code { cases: 0 }, 1),
            ')' => {
                // It ends a pattern, or what it stands in: the body of a function may follow.
                if cases > 0 {
                    self.at += 1
                } else {
                    self.leave(1)
                }
                self.command = true;
            }
            '\\' | '$' => self.expansion(next),
            '#' if self.text[..self.at].ends_with(|c| BETWEEN.contains(c)) => {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            }
            '<' if self.rest().starts_with("<<") => self.here()?,
            '\n' => {
                self.at += 1;
                self.bodies()?;
                (self.fresh, self.command) = (true, true);
            }
            ' ' | '\t' | '<' | '>' => self.at += 1,
            ';' | '&' | '|' => {
                self.at += 1;
                self.command = true;
            }
            _ => self.word(cases),
        }
        Some(())
    }

    fn word(&mut self, cases: usize) {
        let rest = self.rest();
        let end = rest.find(|c| BETWEEN.contains(c) || SPECIAL.contains(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let whole = !behind.starts_with(|c| SPECIAL.contains(c));
        let grammar = self.command && whole;
        let cases = match word {
            "case" if grammar => cases + 1,
            "esac" if grammar => cases.saturating_sub(1),
            _ => cases,
        };
        if let Some(inside) = self.inside.last_mut() {
            *inside = Inside::Code { cases };
        }
        self.command = grammar && BEFORE_COMMANDS.contains(&word);
        self.at += end;
    }

    /// Takes the character behind a backslash or a dollar, or any other character.
    fn expansion(&mut self, next: char) {
        let rest = self.rest();
        self.command = false;
        if next == '\\' {
            self.at += 1 + rest.chars().nth(1).map_or(0, char::len_utf8);
        } else if rest.starts_with("$((") {
            self.enter(Inside::Arithmetic { open: 2 }, 3);
        } else if rest.starts_with("$(") {
            self.enter(Inside::Code { cases: 0 }, 2);
        } else if let Some(name) = rest.strip_prefix("${") {
            // In double quotes a single quote is one, but in a pattern.
            let operator = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_@*".contains(c));
            let quotes =
                !matches!(self.inside.last(), Some(Inside::Double)) || operator.starts_with(['#', '%']);
            self.enter(Inside::Braces { quotes }, 2);
        } else {
            self.at += next.len_utf8();
        }
    }

    fn parenthesis(&mut self, next: char, open: usize) {
        if next == ')' && open == 1 {
            return self.leave(1);
        }
        if let Some(inside) = self.inside.last_mut() {
            *inside = Inside::Arithmetic { open: if next == '(' { open + 1 } else { open - 1 } };
        }
        self.at += 1;
    }

    /// `<<`, and the word that ends the document.
    fn here(&mut self) -> Option<()> {
        let behind = self.rest().get(2..)?;
        let word = behind.strip_prefix('-').unwrap_or(behind);
        let tabs = word.len() < behind.len();
        let length = word.find(|c| BETWEEN.contains(c)).unwrap_or(word.len());
        let end = word.get(..length)?.trim_matches(['\'', '"']);
        let is_plain = !end.is_empty() && end.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        self.here.push(HereDocument { end, tabs });
        self.at += 2 + usize::from(tabs) + length;
        is_plain.then_some(())
    }

    /// The documents that begin here.
    fn bodies(&mut self) -> Option<()> {
        for here in std::mem::take(&mut self.here) {
            loop {
                let (line, _) = self.rest().split_once('\n')?;
                self.at += line.len() + 1;
                let line = if here.tabs { line.trim_start_matches('\t') } else { line };
                if line == here.end {
                    break;
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
