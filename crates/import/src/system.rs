//! Comparisons with the name of a distribution or of its family: Ansible's names, and those of `facts` here.

use crate::problem::ImportProblem;
use crate::tokens::{Token, TokenSort};

/// Ansible's families, and the package managers that stand for them.
const FAMILIES: &[(&str, &[&str])] = &[
    ("Debian", &["apt"]),
    ("RedHat", &["dnf", "microdnf", "yum"]),
    ("Suse", &["zypper"]),
    ("Alpine", &["apk"]),
    ("Archlinux", &["pacman"]),
    // Systems that hosts of converge do not have.
    ("FreeBSD", &[]),
    ("OpenBSD", &[]),
    ("Darwin", &[]),
    ("Solaris", &[]),
    ("Windows", &[]),
];

/// Ansible's names of distributions, and `ID` of their os-release.
const DISTRIBUTIONS: &[(&str, &[&str])] = &[
    ("Debian", &["debian"]),
    ("Ubuntu", &["ubuntu"]),
    ("RedHat", &["rhel"]),
    ("CentOS", &["centos"]),
    ("Rocky", &["rocky"]),
    ("AlmaLinux", &["almalinux"]),
    ("Fedora", &["fedora"]),
    ("Amazon", &["amzn"]),
    ("OracleLinux", &["ol"]),
    ("Alpine", &["alpine"]),
    ("Archlinux", &["arch"]),
    ("Raspbian", &["raspbian"]),
    ("Kali", &["kali"]),
    ("Linux Mint", &["linuxmint"]),
    ("SLES", &["sles"]),
    ("openSUSE Leap", &["opensuse-leap"]),
    ("openSUSE Tumbleweed", &["opensuse-tumbleweed"]),
    ("Scientific", &["scientific"]),
    ("CloudLinux", &["cloudlinux"]),
    ("Gentoo", &["gentoo"]),
    ("Flatcar", &["flatcar"]),
    ("Flatcar Container Linux by Kinvolk", &["flatcar"]),
    ("openEuler", &["openEuler"]),
    ("Kylin Linux Advanced Server", &["kylin"]),
    ("Pop!_OS", &["pop"]),
    ("KDE neon", &["neon"]),
    ("FreeBSD", &[]),
    ("OpenBSD", &[]),
    ("MacOSX", &[]),
    ("ClearLinux", &[]),
    ("Clear Linux OS", &[]),
];

/// Containers by Ansible's names, and by those of `systemd-detect-virt`.
const CONTAINERS: &[(&str, &[&str])] = &[
    ("docker", &["docker"]),
    ("podman", &["podman"]),
    ("lxc", &["lxc", "lxc-libvirt"]),
    ("openvz", &["openvz"]),
    ("container", &["systemd-nspawn", "container-other", "rkt"]),
];

/// Systems that converge works on: those of Debian's family, by their `ID`.
const TARGETS: &[&str] = &["debian", "ubuntu", "raspbian", "kali", "linuxmint", "pop", "neon"];

type SystemTable = &'static [(&'static str, &'static [&'static str])];

fn table(fact: &str) -> Option<(SystemTable, &'static str)> {
    match fact {
        "os_family" => Some((FAMILIES, "facts.package_manager")),
        "distribution" => Some((DISTRIBUTIONS, "facts.os.id")),
        "virtualization_type" => Some((CONTAINERS, "facts.virtualisation.container")),
        _ => None,
    }
}

/// Whether a fact has the same meaning here only in a comparison.
pub(crate) fn is_compared(fact: &str) -> bool {
    table(fact).is_some()
}

/// The values here for one of Ansible's.
pub(crate) fn values(fact: &str, name: &str, lower: bool) -> Option<Vec<&'static str>> {
    let (table, _) = table(fact)?;
    let same = |own: &str| if lower { own.to_lowercase() == name } else { own == name };
    table.iter().find(|(own, _)| same(own)).map(|(_, here)| here.to_vec())
}

/// Whether a fact has this value on the hosts that converge works on; `None` where the host decides.
pub(crate) fn is_of_target(fact: &str, value: &str, lower: bool) -> Option<bool> {
    let is = |own: &str| if lower { own.to_lowercase() == value } else { own == value };
    match fact {
        "os_family" => Some(is("Debian")),
        "pkg_mgr" => Some(is("apt")),
        "system" => Some(is("Linux")),
        "os.id" => {
            let is_known = DISTRIBUTIONS.iter().any(|(_, here)| here.contains(&value));
            (is_known && !TARGETS.contains(&value)).then_some(false)
        }
        "distribution" => {
            let here = values(fact, value, lower)?;
            here.iter().all(|id| !TARGETS.contains(id)).then_some(false)
        }
        _ => None,
    }
}

/// The condition under which a release has this value; the inner `None` where it never has, the outer one where that is not known.
pub(crate) fn release(fact: &str, ids: &[&str], value: &str) -> Option<Option<String>> {
    let plain = value.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
    match fact {
        _ if !plain => Some(None),
        // Debian's own version has a point in Ansible and none in its os-release.
        "distribution_version" if ids == ["ubuntu"] => Some(Some(format!("facts.os.version == '{value}'"))),
        "distribution_version" if ids == ["debian"] && !value.contains('.') => Some(None),
        "distribution_major_version" => Some(Some(format!("facts.os.version.split('.')[0] == '{value}'"))),
        "distribution_release" => Some(Some(format!("facts.os.codename == '{value}'"))),
        _ => None,
    }
}

/// The condition under which a fact has one of these values.
pub(crate) fn written_of(fact: &str, values: &[&str]) -> Option<String> {
    let (_, here) = table(fact)?;
    (!values.is_empty()).then(|| written(here, values, false))
}

fn written(fact: &str, values: &[&str], negated: bool) -> String {
    match values {
        [one] => format!("{fact} {} '{one}'", if negated { "!=" } else { "==" }),
        all => {
            let all: Vec<String> = all.iter().map(|value| format!("'{value}'")).collect();
            format!("{fact} {} [{}]", if negated { "not in" } else { "in" }, all.join(", "))
        }
    }
}

/// Rewrites a comparison of a fact with texts: `== 'A'`, `!= 'A'`, `in ['A', 'B']`, `not in [...]`, with `| lower` before it. The place
/// after it, or `None` where the fact is no such one.
pub(crate) fn compared(
    fact: &str,
    all: &[Token<'_>],
    at: usize,
    out: &mut String,
) -> Result<Option<usize>, ImportProblem> {
    let Some((_, here)) = table(fact) else { return Ok(None) };
    let words: Vec<(usize, &Token<'_>)> = all
        .iter()
        .enumerate()
        .skip(at)
        .filter(|(_, token)| token.sort != TokenSort::Blank)
        .take(64)
        .collect();
    let mut rest = words.as_slice();
    let mut lower = false;
    if let [(_, bar), (_, name), after @ ..] = rest
        && bar.is("|")
        && name.is("lower")
    {
        lower = true;
        rest = after;
    }
    let Some((negated, list)) = (match rest {
        [(_, sign), after @ ..] if sign.is("==") || sign.is("!=") => Some((sign.is("!="), after)),
        [(_, sign), after @ ..] if sign.is("in") => Some((false, after)),
        [(_, not), (_, sign), after @ ..] if not.is("not") && sign.is("in") => Some((true, after)),
        _ => None,
    }) else {
        return Ok(None);
    };
    let mut found: Vec<&'static str> = Vec::new();
    let mut take = |token: &Token<'_>| -> Result<(), ImportProblem> {
        let Some(name) = token.quoted() else {
            return Err(ImportProblem::new(
                format!("`ansible_{fact}` is compared with something that is no plain text"),
                format!("compare `{here}`"),
            ));
        };
        // A name that is no family of Ansible's is that of no host.
        let known = values(fact, name, lower).or_else(|| (fact == "os_family").then(Vec::new));
        let Some(here_too) = known else {
            return Err(ImportProblem::new(
                format!("`{name}` is not known as a value of `ansible_{fact}`"),
                format!("compare `{here}`, whose values are those of docs/facts.md"),
            ));
        };
        found.extend(here_too);
        Ok(())
    };
    let end = match list {
        [(at, text), ..] if text.sort == TokenSort::Text => {
            take(text)?;
            at + 1
        }
        [(_, open), items @ ..] if open.is("[") || open.is("(") => {
            let mut end = None;
            for (at, token) in items {
                match token.text {
                    "]" | ")" => {
                        end = Some(at + 1);
                        break;
                    }
                    "," => {}
                    _ => take(token)?,
                }
            }
            let Some(end) = end else { return Ok(None) };
            end
        }
        _ => {
            return Err(ImportProblem::new(
                format!("`ansible_{fact}` is compared with a variable"),
                format!("compare `{here}`, whose values are those of docs/facts.md"),
            ));
        }
    };
    match found.as_slice() {
        [] => out.push_str(if negated { "true" } else { "false" }),
        found => out.push_str(&written(here, found, negated)),
    }
    Ok(Some(end))
}
