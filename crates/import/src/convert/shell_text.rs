//! Text for the shell: quoting, and the usual commands that a kind stands for.

use super::params::param;
use super::{Conversion, ConvertedPart};
use crate::task::split_words;
use converge_syntax::Node;

/// Letters that the shell reads as they are.
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "_-./=:,@+%^".contains(c)
}

/// A word for the shell; what a template in it comes to is a part of that word, whatever it has in it.
pub(crate) fn word(text: &str) -> String {
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    if let Some(parts) = crate::tokens::parts(text).filter(|_| text.contains("{{") && !text.contains("{%")) {
        let quoted = parts.into_iter().map(|part| match part {
            crate::tokens::TemplatePart::Plain(text) => word(text),
            crate::tokens::TemplatePart::Code(_, inside, _) => {
                format!("{{{{ ({}) | quote }}}}", inside.trim_matches('-').trim())
            }
        });
        return quoted.collect();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The words of a simple command without anything that only a shell reads; `None` for others.
pub(crate) fn simple(text: &str) -> Option<Vec<String>> {
    let outside: String = outside_of_templates(text);
    if outside.contains(['|', '&', ';', '<', '>', '$', '`', '*', '?', '(', ')', '\n', '\\', '~', '#', '!']) {
        return None;
    }
    let words = split_words(text)?;
    Some(words.iter().map(|word| word.trim_matches(['\'', '"']).to_owned()).collect())
}

/// The text without its templates.
pub(crate) fn outside_of_templates(text: &str) -> String {
    crate::tokens::parts(text)
        .unwrap_or_default()
        .into_iter()
        .map(|part| match part {
            crate::tokens::TemplatePart::Plain(text) => text,
            crate::tokens::TemplatePart::Code(..) => "x",
        })
        .collect()
}

/// The kind that has the effect of a usual command; `None` where there is none.
pub(crate) fn usual(text: &str, follows: bool) -> Option<Conversion> {
    let words = simple(text.trim())?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let words = words.strip_prefix(&["sudo"]).unwrap_or(&words);
    match words {
        ["systemctl", "daemon-reload" | "daemon-reexec"] => {
            Some(Conversion { left_out: Some("left out"), ..Conversion::default() })
        }
        ["systemctl", verb, unit] if !unit.starts_with('-') => unit_command(verb, unit, follows),
        ["systemctl", "enable", "--now", unit] | ["systemctl", "--now", "enable", unit] => {
            Some(service(unit, &[("state", "started".into()), ("enabled", true.into())]))
        }
        ["systemctl", "disable", "--now", unit] | ["systemctl", "--now", "disable", unit] => {
            Some(service(unit, &[("state", "stopped".into()), ("enabled", false.into())]))
        }
        ["service", unit, verb @ ("start" | "stop" | "restart" | "reload")] => {
            unit_command(verb, unit, follows)
        }
        ["apt-get" | "apt", "update"]
        | ["apt-get" | "apt", "-y" | "-qq", "update"]
        | ["apt-get" | "apt", "update", "-y" | "-qq"] => Some(Conversion::nothing(
            "a missing package index is fetched where a package needs it; `max_age` of `package` bounds its age",
        )),
        ["apt-get" | "apt", rest @ ..] => {
            let names: Vec<&str> = rest.iter().filter(|word| !word.starts_with('-')).copied().collect();
            let known = rest.iter().filter(|word| word.starts_with('-')).all(|flag| {
                ["-y", "--yes", "-q", "-qq", "--no-install-recommends", "--assume-yes"].contains(flag)
            });
            match names.as_slice() {
                ["install", names @ ..] if known && !names.is_empty() => {
                    let mut out = vec![("name".to_owned(), crate::yaml::texts(names))];
                    if let [one] = names {
                        out = vec![param("name", *one)];
                    }
                    let bare = rest.contains(&"--no-install-recommends");
                    out.extend(super::packages::as_apt_does(bare.then_some(false)));
                    Some(Conversion::one("package", out))
                }
                _ => None,
            }
        }
        ["sysctl", "-w", setting] | ["sysctl", setting] if setting.contains('=') => {
            let (name, value) = setting.split_once('=')?;
            Some(
                Conversion::one("sysctl", vec![param("name", name), param("value", value)])
                    .remark("the value is kept in a file, so that it holds after a boot too"),
            )
        }
        ["sysctl", "-p" | "--system", ..] => Some(Conversion::nothing("`sysctl` sets its value at once")),
        ["swapoff", "-a"] => Some(Conversion::one(
            "command",
            // The first line of the list names its columns.
            vec![param("run", "swapoff -a"), param("unless", "test \"$(wc -l </proc/swaps)\" -le 1")],
        )),
        ["modprobe", name] if !name.starts_with('-') => {
            Some(Conversion::one("kernel_module", vec![param("name", *name), param("boot", false)]))
        }
        ["mkdir", "-p", path] if path.starts_with('/') => {
            Some(Conversion::one("directory", vec![param("path", *path), param("parents", true)]))
        }
        ["rm", "-rf" | "-fr" | "-r", path] if path.starts_with('/') => {
            Some(Conversion::one("absent", vec![param("path", *path), param("recursive", true)]))
        }
        ["rm", "-f", path] if path.starts_with('/') => {
            Some(Conversion::one("absent", vec![param("path", *path)]))
        }
        ["ln", "-s" | "-sf" | "-sfn", target, path] if path.starts_with('/') => {
            let mut out = vec![param("path", *path), param("target", *target)];
            if words.get(1).is_some_and(|flags| flags.contains('f')) {
                out.push(param("force", true));
            }
            Some(Conversion::one("link", out))
        }
        ["hostnamectl", "set-hostname" | "hostname", name] => {
            Some(Conversion::one("hostname", vec![param("name", *name)]))
        }
        ["timedatectl", "set-timezone", name] => {
            Some(Conversion::one("timezone", vec![param("name", *name)]))
        }
        _ => None,
    }
}

/// Commands whose effect a kind of a cluster has; the text to write.
pub(crate) fn of_a_cluster(text: &str) -> Option<&'static str> {
    let outside = outside_of_templates(text);
    let mut words = outside.split_whitespace();
    match (words.next()?, words.next()?) {
        ("kubectl", "apply") => Some("write `k8s_manifests`, in a role with `scope: cluster`"),
        ("kubectl", "create") => Some("write `k8s_object` or `namespace`, in a role with `scope: cluster`"),
        ("kubectl", "label" | "annotate" | "taint" | "cordon" | "uncordon" | "drain") => {
            Some("write `node`, in a role with `scope: cluster`")
        }
        ("kubectl", "patch" | "set" | "scale") => Some("write `k8s_patch`, in a role with `scope: cluster`"),
        ("kubectl", "rollout" | "wait") => {
            Some("write `k8s_rollout` or `k8s_wait`, in a role with `scope: cluster`")
        }
        ("kubectl", _) => Some("write `k8s_query`, in a role with `scope: cluster`"),
        ("helm", "repo") => Some("write `helm_repository`, in a role with `scope: cluster`"),
        ("helm", _) => Some("write `helm_release`, in a role with `scope: cluster`"),
        ("kubeadm", _) => Some("write `kubeadm` and its kinds: docs/clusters.md"),
        _ => None,
    }
}

fn service(unit: &str, values: &[(&str, converge_syntax::Value)]) -> Conversion {
    let mut out: Vec<(String, Node)> = vec![param("name", unit)];
    out.extend(values.iter().map(|(key, value)| param(key, value.clone())));
    Conversion::one("service", out)
}

fn unit_command(verb: &str, unit: &str, follows: bool) -> Option<Conversion> {
    let follow = |key: &'static str| {
        let mut made = ConvertedPart::new("service", vec![param("name", unit)]);
        made.follows = Some(key);
        Conversion { made: vec![made], ..Conversion::default() }
    };
    match verb {
        "start" => Some(service(unit, &[("state", "started".into())])),
        "stop" => Some(service(unit, &[("state", "stopped".into())])),
        "enable" => Some(service(unit, &[("enabled", true.into())])),
        "disable" => Some(service(unit, &[("enabled", false.into())])),
        "mask" => Some(service(unit, &[("masked", true.into())])),
        "restart" if follows => Some(follow("restart_on")),
        "reload" if follows => Some(follow("reload_on")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_the_shell_would_read_them() {
        assert_eq!(word("/a/b.c"), "/a/b.c");
        assert_eq!(word("a b's"), "'a b'\\''s'");
        assert_eq!(word("{{ a }}/b"), "{{ (a) | quote }}/b");
    }

    #[test]
    fn usual_commands_become_kinds() {
        let kind = |text: &str| usual(text, true).map(|all| all.made.first().map_or("", |made| made.kind));
        for (text, expected) in [
            ("systemctl enable --now chrony", Some("service")),
            ("systemctl restart {{ unit }}", Some("service")),
            ("systemctl daemon-reload", Some("")),
            ("apt-get install -y curl jq", Some("package")),
            ("apt-get update", Some("")),
            ("sysctl -w net.ipv4.ip_forward=1", Some("sysctl")),
            ("rm -rf /opt/old", Some("absent")),
            ("rm -rf /opt/old/*", None),
            ("systemctl restart a && true", None),
            ("make install", None),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
        assert!(usual("systemctl restart a", false).is_none());
        assert!(of_a_cluster("kubectl apply -f x").is_some() && of_a_cluster("ls -l").is_none());
    }
}
