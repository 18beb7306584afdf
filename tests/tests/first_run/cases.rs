//! Cases in which a check mode guesses wrong: each was seen with a tool of the field.

use crate::case::{ACCOUNTS, Case, RUN, Run, UNITS};

/// All of them.
pub const CASES: &[Case] = &[
    // --- false failures: the item stands on one of the same run ---
    Case {
        name: "a line in a file of this run",
        runs: &[Run {
            role: "
  - name: file
    file: {path: /srv/a/conf, content: \"a = 1\\n\"}
  - name: line
    line: {path: /srv/a/conf, regexp: '^a =', line: 'a = 2'}",
            before: "mkdir -p /srv/a",
            items: &[("file", "change", "changed"), ("line", "change", "changed")],
            shows: &[("line", &["-a = 1", "+a = 2"])],
            then: &["grep -qx 'a = 2' /srv/a/conf"],
            ..RUN
        }],
    },
    Case {
        name: "a block in a file of this run",
        runs: &[Run {
            role: "
  - name: file
    file: {path: /srv/b/conf, content: \"top\\n\"}
  - name: block
    block: {path: /srv/b/conf, marker: '# {mark} shop', block: \"x = 1\\n\"}",
            before: "mkdir -p /srv/b",
            items: &[("file", "change", "changed"), ("block", "change", "changed")],
            shows: &[("block", &["+x = 1"])],
            then: &["grep -qx 'x = 1' /srv/b/conf", "grep -qx top /srv/b/conf"],
            ..RUN
        }],
    },
    Case {
        name: "a directory of a user of this run, files in it",
        runs: &[Run {
            role: "
  - name: group
    group: {name: crew, gid: 4300}
  - name: user
    user: {name: worker, uid: 4301, group: crew, home: /home/worker, shell: /bin/sh}
  - name: directory
    directory: {path: /srv/c, owner: worker, group: crew, mode: '0750'}
  - name: file
    file: {path: /srv/c/conf, content: x, owner: worker}",
            items: &[
                ("group", "change", "changed"),
                ("user", "change", "changed"),
                ("directory", "change", "changed"),
                ("file", "change", "changed"),
            ],
            shows: &[("user", &["4301", "crew", "/home/worker"]), ("group", &["4300"])],
            then: &["[ \"$(stat -c %U:%G:%a /srv/c)\" = worker:crew:750 ]", "id -u worker | grep -qx 4301"],
            foreign: ACCOUNTS,
            ..RUN
        }],
    },
    Case {
        name: "a link to a file of this run",
        runs: &[Run {
            role: "
  - name: file
    file: {path: /srv/d/real, content: x}
  - name: link
    link: {path: /srv/d/link, target: /srv/d/real}
  - name: through
    query: {run: cat /srv/d/link}
    register: through
  - name: copy
    file: {path: /srv/d/copy, content: '{{ through.stdout }}'}",
            before: "mkdir -p /srv/d",
            items: &[
                ("file", "change", "changed"),
                ("link", "change", "changed"),
                ("through", "deferred", "unchanged"),
                ("copy", "deferred", "changed"),
            ],
            then: &["[ \"$(cat /srv/d/copy)\" = x ]"],
            ..RUN
        }],
    },
    Case {
        name: "a new unit and its service",
        runs: &[Run {
            role: "
  - name: unit
    unit: {name: idle, content: \"[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n\"}
  - name: service
    service: {name: idle, state: started, enabled: true}",
            items: &[("unit", "change", "changed"), ("service", "change", "changed")],
            shows: &[("service", &["active", "enabled"])],
            then: &["systemctl is-active idle", "systemctl is-enabled idle"],
            foreign: UNITS,
            ..RUN
        }],
    },
    Case {
        name: "a restart because of a file of this run",
        runs: &[
            Run {
                role: "
  - name: conf
    file: {path: /srv/e.conf, content: one}
  - name: service
    service: {name: idle, state: started, restart_on: [conf]}",
                items: &[("conf", "change", "changed"), ("service", "change", "changed")],
                foreign: UNITS,
                ..RUN
            },
            Run {
                before: "systemctl show -p MainPID --value idle >/srv/e.pid",
                role: "
  - name: conf
    file: {path: /srv/e.conf, content: two}
  - name: service
    service: {name: idle, state: started, restart_on: [conf]}",
                items: &[("conf", "change", "changed"), ("service", "change", "changed")],
                shows: &[("service", &["restart"])],
                then: &["[ \"$(cat /srv/e.pid)\" != \"$(systemctl show -p MainPID --value idle)\" ]"],
                ..RUN
            },
        ],
    },
    Case {
        name: "the service of a package of this run",
        runs: &[Run {
            role: "
  - name: package
    package: {name: nginx-light}
  - name: service
    service: {name: nginx, state: started, enabled: true}",
            items: &[("package", "change", "changed"), ("service", "change", "changed")],
            shows: &[("package", &["nginx-light"])],
            then: &["systemctl is-active nginx"],
            foreign: &["/etc/", "/usr/local/"],
            ..RUN
        }],
    },
    // --- false success: the plan says changed, the apply fails ---
    Case {
        name: "a file in a directory that nobody makes",
        runs: &[Run {
            role: "
  - name: file
    file: {path: /srv/nowhere/conf, content: x}",
            refused: Some("/srv/nowhere"),
            ..RUN
        }],
    },
    // --- silent skips ---
    Case {
        name: "the output of a command of this run in a later file",
        runs: &[Run {
            role: "
  - name: made
    command: {run: 'echo 42 >/srv/f/number', creates: /srv/f/number, undo: rm /srv/f/number}
  - name: number
    query: {run: cat /srv/f/number}
    register: number
  - name: file
    file: {path: /srv/f/conf, content: 'n = {{ number.stdout }}'}",
            before: "mkdir -p /srv/f",
            items: &[("made", "change", "changed"), ("number", "deferred", "unchanged"), ("file", "deferred", "changed")],
            then: &["[ \"$(cat /srv/f/conf)\" = 'n = 42' ]"],
            foreign: &["/srv/f/number"],
            ..RUN
        }],
    },
    Case {
        name: "a guarded command that its guard lets rest, and drift behind it",
        runs: &[
            Run {
                role: "
  - name: mode
    command: {run: 'echo exclusive >/srv/g/mode', unless: '[ \"$(cat /srv/g/mode)\" = exclusive ]', undo: rm /srv/g/mode}",
                before: "mkdir -p /srv/g",
                items: &[("mode", "change", "changed")],
                foreign: &["/srv/g/mode"],
                ..RUN
            },
            Run {
                role: "
  - name: mode
    command: {run: 'echo exclusive >/srv/g/mode', unless: '[ \"$(cat /srv/g/mode)\" = exclusive ]', undo: rm /srv/g/mode}",
                before: "echo shared >/srv/g/mode",
                items: &[("mode", "change", "changed")],
                then: &["grep -qx exclusive /srv/g/mode"],
                foreign: &["/srv/g/mode"],
                ..RUN
            },
        ],
    },
    // --- a missed removal ---
    Case {
        name: "removal of what an earlier command makes",
        runs: &[Run {
            role: "
  - name: unpacked
    command: {run: 'touch /srv/h/done /srv/h/rest', creates: /srv/h/done, undo: rm -f /srv/h/done}
  - name: rest
    absent: {path: /srv/h/rest}",
            before: "mkdir -p /srv/h",
            items: &[("unpacked", "change", "changed"), ("rest", "unchanged", "changed")],
            moved: &["rest"],
            then: &["[ ! -e /srv/h/rest ]", "[ -e /srv/h/done ]"],
            foreign: &["/srv/h/"],
            ..RUN
        }],
    },
    // --- a diff against the wrong base ---
    Case {
        name: "the second edit of one line",
        runs: &[Run {
            role: "
  - name: first
    line: {path: /srv/i, regexp: '^n =', line: 'n = 2'}
  - name: second
    line: {path: /srv/i, regexp: '^n = 2', line: 'n = 3'}",
            before: "echo 'n = 1' >/srv/i",
            items: &[("first", "change", "changed"), ("second", "change", "changed")],
            shows: &[("first", &["-n = 1", "+n = 2"]), ("second", &["-n = 2", "+n = 3"])],
            // The second run finds the first item's line gone: such a role never rests, and its second plan says so.
            then: &["grep -qx 'n = 3' /srv/i"],
            ..RUN
        }],
    },
    // --- no diff at all ---
    Case {
        name: "attributes of a user, a group, a service and a kernel parameter are shown",
        runs: &[Run {
            role: "
  - name: group
    group: {name: crew, gid: 4400}
  - name: user
    user: {name: worker, shell: /bin/bash}
  - name: service
    service: {name: idle, state: stopped}
  - name: parameter
    sysctl: {name: net.core.somaxconn, value: 6000}",
            before: "rm -rf /srv/c",
            items: &[
                ("group", "change", "changed"),
                ("user", "change", "changed"),
                ("service", "change", "changed"),
                ("parameter", "change", "changed"),
            ],
            shows: &[
                ("group", &["4300", "4400"]),
                ("user", &["/bin/sh", "/bin/bash"]),
                ("service", &["active"]),
                ("parameter", &["6000", "/etc/sysctl.d/"]),
            ],
            then: &["grep -qx 6000 /proc/sys/net/core/somaxconn", "! systemctl is-active idle"],
            foreign: ACCOUNTS,
            ..RUN
        }],
    },
    // --- a lost handler ---
    Case {
        name: "a run that ends between a file and the restart that it asks for",
        runs: &[
            Run {
                before: "systemctl start idle; systemctl show -p MainPID --value idle >/srv/j.pid",
                role: "
  - name: conf
    file: {path: /srv/j.conf, content: one}
  - name: breaks
    command: {run: 'false', unless: 'test -e /srv/j.go', undo: ':'}
  - name: service
    service: {name: idle, state: started, restart_on: [conf]}",
                items: &[
                    ("conf", "change", "changed"),
                    ("breaks", "deferred", "failed"),
                    ("service", "change", "skipped"),
                ],
                ..RUN
            },
            Run {
                before: "touch /srv/j.go",
                role: "
  - name: conf
    file: {path: /srv/j.conf, content: one}
  - name: breaks
    command: {run: 'false', unless: 'test -e /srv/j.go', undo: ':'}
  - name: service
    service: {name: idle, state: started, restart_on: [conf]}",
                items: &[
                    ("conf", "unchanged", "unchanged"),
                    ("breaks", "unchanged", "unchanged"),
                    ("service", "change", "changed"),
                ],
                shows: &[("service", &["restart"])],
                then: &["[ \"$(cat /srv/j.pid)\" != \"$(systemctl show -p MainPID --value idle)\" ]"],
                ..RUN
            },
        ],
    },
];
