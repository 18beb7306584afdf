//! The objects of the drawn sequences: their declarations, and their values on the host.

use converge_lab::Host;
use converge_tests::exec;
use std::collections::BTreeMap;

// The objects that the roles make. The value of an object is its outside appearance, and empty if it does not exist.
pub(super) const FILE_A: usize = 0;

pub(super) const FOLDER: usize = 1;

pub(super) const PACKAGE: usize = 2;

pub(super) const FILE_B: usize = 3;

pub(super) const ACCOUNT: usize = 4;

pub(super) const UNIT_FILE: usize = 5;

pub(super) const UNIT: usize = 6;

pub(super) const KEYS: usize = 7;

/// The role of each.
pub(super) const ROLE_OF: [usize; KEYS] = [0, 0, 0, 1, 1, 1, 1];

pub(super) const ROLES: [&str; 2] = ["ra", "rb"];

/// The kind and the key of each in a journal.
pub(super) const OBJECTS: [&str; KEYS] = [
    "path\t/srv/real/a",
    "path\t/srv/real/folder",
    "package\ttree",
    "path\t/srv/real/b",
    "user\trealu",
    "path\t/etc/systemd/system/realb.service",
    "unit\trealb.service",
];

/// The paths that come and go with each.
pub(super) const PATHS: [&[&str]; KEYS] = [
    &["/srv/real/a"],
    &["/srv/real/folder"],
    &[],
    &["/srv/real/b"],
    &[],
    &["/etc/systemd/system/realb.service"],
    &["/etc/systemd/system/multi-user.target.wants/realb.service"],
];

pub(super) const MODES: [&str; 3] = ["755", "750", "700"];

pub(super) const SHELLS: [&str; 3] = ["/bin/sh", "/bin/bash", "/usr/sbin/nologin"];

pub(super) fn unit_text(version: usize) -> String {
    format!(
        "[Service]\\nExecStart=/bin/sh -c \"echo {version} > /run/realb; exec sleep infinity\"\\n[Install]\\nWantedBy=multi-user.target\\n"
    )
}

/// The value of an object in a version of the project.
pub(super) fn value(key: usize, version: usize) -> String {
    match key {
        FOLDER => format!("{} root root", MODES[version]),
        PACKAGE => "install ok installed".to_owned(),
        ACCOUNT => SHELLS[version].to_owned(),
        UNIT_FILE => format!("unit {version}"),
        UNIT => format!("enabled active {version}"),
        _ => format!("{version} {} root root", if version == 2 { "600" } else { "644" }),
    }
}

/// The items of a thing in a version of the project.
pub(super) fn items(key: usize, version: usize) -> String {
    let mode = if version == 2 { "0600" } else { "0644" };
    match key {
        FILE_A => format!(
            "  - name: a\n    file: {{path: /srv/real/a, mode: \"{mode}\", content: \"{version}\\n\"}}\n"
        ),
        FOLDER => format!(
            "  - name: folder\n    directory: {{path: /srv/real/folder, mode: \"0{}\"}}\n",
            MODES[version]
        ),
        PACKAGE => "  - name: tool\n    package: {name: tree}\n".to_owned(),
        FILE_B => format!(
            "  - name: b\n    file: {{path: /srv/real/b, mode: \"{mode}\", content: \"{version}\\n\"}}\n"
        ),
        ACCOUNT => format!(
            "  - name: account\n    user: {{name: realu, group: users, home: /srv, shell: {}}}\n",
            SHELLS[version]
        ),
        UNIT => {
            let text = unit_text(version).replace('"', "\\\"");
            format!(
                "  - name: daemon\n    unit: {{name: realb, content: \"{text}\", state: started, enabled: true}}\n"
            )
        }
        // It comes with the unit.
        _ => String::new(),
    }
}

/// The present value of each object, read from outside.
pub(super) fn observed(host: &Host) -> Vec<String> {
    let script = "
        path() { if [ -e \"$1\" ]; then echo \"$2$(stat -c '%a %U %G' $1)\"; else echo; fi; }
        path /srv/real/a \"$(cat /srv/real/a 2>/dev/null) \"
        path /srv/real/folder ''
        dpkg-query -W -f '${Status}\\n' tree 2>/dev/null | grep -v not-installed || echo
        path /srv/real/b \"$(cat /srv/real/b 2>/dev/null) \"
        getent passwd realu | cut -d: -f7 | grep . || echo
        f=/etc/systemd/system/realb.service
        if [ -e $f ]; then sed -n 's/.*echo \\([0-9]\\).*/unit \\1/p' $f; else echo; fi
        e=$(systemctl is-enabled realb.service 2>/dev/null) a=$(systemctl is-active realb.service)
        case $e:$a in *:inactive) [ \"$e\" = enabled ] && echo enabled inactive || echo ;;
        *) n=0; while ! [ -s /run/realb ] && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done; echo \"$e $a $(cat /run/realb)\" ;; esac";
    let reply = exec(host, &format!("echo begin; {{ {script}\n}}; echo end"));
    let lines: Vec<String> = reply.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), KEYS + 2, "{reply}");
    lines[1..=KEYS].to_vec()
}

/// All of the host but the things themselves: every path with type, mode, owner, target and content, every package, account and unit.
/// (What denies starts while packages change is left by a cut; it denies nothing then, and the next run takes it away.)
/// Files that did not change since `known` was taken are not read again.
pub(super) fn whole(host: &Host, known: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let newer = if known.is_empty() { "" } else { "-cnewer /var/log/real-stamp" };
    let script = format!(
        "cd /; set -f
        skip='( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp -o -path ./var/tmp -o -path ./var/log -o -path ./var/cache \
          -o -path ./var/lib/converge -o -path ./var/lib/apt -o -path ./var/lib/systemd -o -path ./var/lib/private -o -path ./var/lib/sudo \
          -o -path ./var/lib/dpkg/status -o -path ./var/lib/dpkg/*-old -o -path ./var/lib/dpkg/lock* -o -path ./var/lib/dpkg/triggers \
          -o -path ./etc/passwd* -o -path ./etc/shadow* -o -path ./etc/group* -o -path ./etc/gshadow* -o -path ./etc/subuid* \
          -o -path ./etc/subgid* -o -path ./etc/.pwd.lock -o -path ./usr/sbin/policy-rc.d ) -prune -o'
        find . -xdev $skip -printf '/%P\\t%y %m %U %G %l\\n'
        find . -xdev $skip -type f {newer} -print0 | xargs -r0 sha256sum -z | tr '\\0' '\\n' | sed 's/^\\([^ ]*\\)  .\\(.*\\)/\\2 content\\t\\1/'
        for f in passwd group shadow gshadow subuid subgid; do sed \"s/^/$f /; s/\\$/\\t/\" /etc/$f; done | grep -v ' realu:'
        dpkg-query -W -f 'package ${{Package}}\\t${{Version}} ${{Status}}\\n' | grep -v '^package tree'
        systemctl list-unit-files --no-legend --no-pager | grep -v '^realb\\|^session-\\| transient ' | sed 's/ \\+/\\t/' | sed 's/^/unit /'
        systemctl list-units --failed --no-legend --no-pager | sed 's/^/failed /; s/\\$/\\t/'
        [ -n '{newer}' ] || {{ sleep 0.1; touch /var/log/real-stamp; }}"
    );
    let reply = exec(host, &script);
    let now: BTreeMap<String, String> =
        reply.lines().filter_map(|l| l.split_once('\t')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let old = known.iter().filter(|(k, _)| {
        k.strip_suffix(" content").is_some_and(|path| now.get(path).is_some_and(|v| v.starts_with('f')))
    });
    old.map(|(k, v)| (k.clone(), v.clone())).chain(now.clone()).collect()
}
