//! Commands that are known to change nothing.

use super::programs::ReadingRule::{Always, Only, With, Without};
use super::programs::{KUBECTL_READS, READERS};
use super::shell_text::outside_of_templates;

/// Words of the shell's own in front of a command.
const WORDS: &[&str] = &["!", "sudo", "if", "then", "elif", "else", "while", "until", "do", "{", "time"];

/// Whether a command text is known to change nothing: programs that only read, in pipes and lists, with conditions and loops of the shell.
pub(crate) fn read_only(text: &str) -> bool {
    let text = outside_of_templates(text);
    let mut count = 0;
    reads(&text, 0, &mut count) && count > 0
}

/// Whether each command of a text only reads.
fn reads(text: &str, depth: usize, count: &mut usize) -> bool {
    depth < 8
        && commands(text, depth, count)
            .is_some_and(|all| all.iter().all(|words| words.is_empty() || reads_alone(words, count)))
}

/// The simple commands of a text, each as its words without quotes. `None` where it writes, or where it cannot be taken apart.
fn commands(text: &str, depth: usize, count: &mut usize) -> Option<Vec<Vec<String>>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    let mut word: Option<String> = None;
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    let end_word = |word: &mut Option<String>, all: &mut Vec<Vec<String>>| {
        if let (Some(word), Some(last)) = (word.take(), all.last_mut()) {
            last.push(word);
        }
    };
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        match c {
            '\\' => {
                word.get_or_insert_default().extend(next.filter(|c| *c != '\n'));
                at += 1;
            }
            '\'' => {
                let rest = chars.get(at + 1..)?;
                let length = rest.iter().position(|c| *c == '\'')?;
                word.get_or_insert_default().extend(rest.get(..length)?);
                at += length + 1;
            }
            '"' => {
                word.get_or_insert_default();
                at += 1;
                loop {
                    match chars.get(at)? {
                        '"' => break,
                        '\\' => {
                            at += 1;
                            word.get_or_insert_default().push(*chars.get(at)?);
                        }
                        '`' => return None,
                        '$' if chars.get(at + 1) == Some(&'(') => at = inner(&chars, at, depth, count)?,
                        c => word.get_or_insert_default().push(*c),
                    }
                    at += 1;
                }
            }
            '`' => return None,
            '$' if next == Some('(') => {
                word.get_or_insert_default().push('x');
                at = inner(&chars, at, depth, count)?;
            }
            '#' if word.is_none() => {
                while chars.get(at + 1).is_some_and(|c| *c != '\n') {
                    at += 1;
                }
            }
            '>' => {
                // Only to nowhere, or to another of its own outputs.
                let rest: String = chars.get(at + 1..)?.iter().take(64).collect();
                let target = rest.trim_start_matches('>').trim_start();
                let used = if target.starts_with("/dev/null") {
                    rest.len() - target.len() + "/dev/null".len()
                } else if rest.starts_with('&') && rest.chars().nth(1).is_some_and(|c| c.is_ascii_digit()) {
                    2
                } else {
                    return None;
                };
                if word.as_deref().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit())) {
                    word = None;
                }
                at += used;
            }
            '&' if next == Some('>') => {}
            '<' if next == Some('<') || next == Some('(') => return None,
            '|' | '&' | ';' | '\n' | '(' | ')' => {
                end_word(&mut word, &mut all);
                all.push(Vec::new());
            }
            c if c.is_whitespace() => end_word(&mut word, &mut all),
            c => word.get_or_insert_default().push(c),
        }
        at += 1;
    }
    end_word(&mut word, &mut all);
    Some(all)
}

/// The place of the bracket that closes `$(` at a place, where what is inside only reads. An arithmetic expression does.
fn inner(chars: &[char], at: usize, depth: usize, count: &mut usize) -> Option<usize> {
    let mut open = 0usize;
    let mut quote: Option<char> = None;
    for (place, c) in chars.iter().enumerate().skip(at + 1) {
        match (quote, c) {
            (Some(own), c) if own == *c => quote = None,
            (Some('\''), _) => {}
            (None, '\'' | '"') => quote = Some(*c),
            (_, '(') => open += 1,
            (_, ')') => {
                open -= 1;
                if open == 0 {
                    let inside: String = chars.get(at + 2..place)?.iter().collect();
                    let is_number = inside.starts_with('(') && inside.ends_with(')');
                    return (is_number && !inside.contains("$(") || reads(&inside, depth + 1, count))
                        .then_some(place);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether one command only reads.
fn reads_alone(words: &[String], count: &mut usize) -> bool {
    let mut words: &[String] = words;
    let is_name = |word: &str| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
        })
    };
    while let [first, rest @ ..] = words
        && (WORDS.contains(&first.as_str()) || is_name(first))
    {
        words = rest;
    }
    let Some((program, rest)) = words.split_first() else { return true };
    match program.as_str() {
        "fi" | "done" | "}" | "esac" | "for" => return true,
        _ => {}
    }
    *count += 1;
    let program = program.rsplit('/').next().unwrap_or(program);
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    if let ["--version" | "-version" | "-V" | "version" | "-v" | "--help"] = rest.as_slice() {
        return true;
    }
    match program {
        "awk" | "gawk" | "mawk" => return reads_awk(&rest),
        "sed" => return reads_sed(&rest),
        "ip" => return reads_ip(&rest),
        "kubectl" => return reads_kubectl(&rest),
        "service" => return matches!(rest.as_slice(), [_, "status"]),
        _ => {}
    }
    let begins = |word: &str, leads: &[&str]| leads.iter().any(|lead| word.starts_with(lead));
    READERS.iter().filter(|(name, _)| *name == program).any(|(_, reads)| match reads {
        Always => true,
        With(firsts) => {
            let [one, two] = [rest.first().copied().unwrap_or(""), rest.get(1).copied().unwrap_or("")];
            firsts.contains(&one) || firsts.contains(&format!("{one} {two}").as_str())
        }
        Without(bad) => !rest.iter().any(|word| begins(word, bad)),
        Only(good) => rest.iter().enumerate().all(|(place, word)| {
            let follows = place.checked_sub(1).and_then(|before| rest.get(before));
            begins(word, good)
                || !word.starts_with('-') && follows.is_some_and(|flag| matches!(*flag, "-i" | "--id" | "-F"))
        }),
    })
}

/// A program of awk may write files and run commands.
fn reads_awk(words: &[&str]) -> bool {
    words.iter().all(|word| {
        let prints = word.split("print").skip(1);
        let writes = prints
            .into_iter()
            .any(|rest| rest.split([';', '}', '\n']).next().is_some_and(|rest| rest.contains(['>', '|'])));
        !writes
            && !word.contains("system(")
            && !word.contains("getline")
            && *word != "-i"
            && *word != "inplace"
    })
}

/// `kubectl`, perhaps with options of the connection before its verb.
fn reads_kubectl(words: &[&str]) -> bool {
    match words {
        ["--kubeconfig" | "--context" | "--namespace" | "-n", _, rest @ ..] => reads_kubectl(rest),
        [option, rest @ ..]
            if ["--kubeconfig=", "--context=", "--namespace="].iter().any(|own| option.starts_with(own)) =>
        {
            reads_kubectl(rest)
        }
        [verb, more, ..] => {
            KUBECTL_READS.contains(verb) || KUBECTL_READS.contains(&format!("{verb} {more}").as_str())
        }
        [verb] => KUBECTL_READS.contains(verb),
        [] => false,
    }
}

/// `ip OBJECT [COMMAND]`; commands may be abbreviated, so only those that read are known.
fn reads_ip(words: &[&str]) -> bool {
    let command = words.iter().filter(|word| !word.starts_with('-')).nth(1);
    command.is_none_or(|command| ["show", "list", "ls", "lst", "get"].contains(command))
}

/// A program of sed may write files, in place or by a command of it.
fn reads_sed(words: &[&str]) -> bool {
    !words.iter().any(|word| {
        (word.starts_with('-') && !word.starts_with("--") && word.contains('i'))
            || word.starts_with("--in-place")
            || word.contains(" w")
            || ["/w", "/e", "|w", "|e", "#w", "#e", ",w", ",e"]
                .iter()
                .any(|bad| word.ends_with(bad) || word.contains(&format!("{bad} ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_reads_is_distinguished_from_what_changes() {
        for text in [
            "cat /etc/hosts",
            "systemctl is-active x",
            "helm version",
            "dpkg -l | grep -c foo",
            "/usr/bin/agent --version 2>/dev/null",
            "command -v jq",
            "grep -E \"a b|c d\" /proc/cpuinfo",
            "set -o pipefail && awk -F: '$3 >= 1000 {print $1}' /etc/passwd | sort",
            "if lspci -nn | grep -q '10de'; then echo yes; else echo no; fi",
            "for d in /sys/bus/*; do n=$(cat $d/name); echo \"$n: $(wc -l <$d/x)\"; done",
            "echo $((1 + 2)) >&2",
            "ip -o addr show",
            "hostname -f",
            "nvidia-smi --query-gpu=name --format=csv,noheader -i 0",
            "sed -n 's/^a=//p' /etc/x",
            "find /etc -name '*.conf' -mtime +1",
            "ls /x &>/dev/null",
        ] {
            assert!(read_only(text), "{text}");
        }
        for text in [
            "sysctl --system",
            "systemctl restart x",
            "cat a > b",
            "cat a >>/dev/nullx b >c",
            "echo $(rm x)",
            "echo \"$(rm x)\"",
            "echo `rm x`",
            "make",
            "",
            "# nothing",
            "ls; rm x",
            "ip addr add 10.0.0.1/8 dev lo",
            "ip link set eth0 up",
            "hostname other",
            "nvidia-smi -pm 1",
            "nvidia-smi -i 0 -mig 1",
            "kubectl config set-context x",
            "sed -i 's/a/b/' /etc/x",
            "sed -Ei 's/a/b/' /etc/x",
            "find / -name x -delete",
            "awk '{print > \"/etc/x\"}' a",
            "awk 'BEGIN {system(\"rm x\")}'",
            "sort -o a a",
            "if true; then touch /x; fi",
            "a=1 touch x",
            "cat <<E\nx\nE",
            "openssl x509 -in a -out b",
            "uniq a b",
            "(((",
            "$($($($($($($($($($(ls))))))))))",
        ] {
            assert!(!read_only(text), "{text}");
        }
    }
}
