//! The cases: those in which a check mode guesses wrong (each was seen with a tool of the field), then others of our own.

/// One case.
pub struct Case {
    /// The subject.
    pub name: &'static str,
    /// Its runs, one after the other on the same host.
    pub runs: &'static [Run],
}

/// A plan and an apply.
pub struct Run {
    /// A script on the host before it.
    pub before: &'static str,
    /// The items of the role.
    pub role: &'static str,
    /// Each resource with what the plan says of it and what the apply makes of it.
    pub items: &'static [(&'static str, &'static str, &'static str)],
    /// Words that the plan shows of an item.
    pub shows: &'static [(&'static str, &'static [&'static str])],
    /// Words that the apply's report has of an item.
    pub tells: &'static [(&'static str, &'static [&'static str])],
    /// Scripts that succeed afterwards.
    pub then: &'static [&'static str],
    /// Beginnings of paths that foreign code (packages, units, commands, `useradd`) may change.
    pub foreign: &'static [&'static str],
    /// Paths that one item makes and a later one takes away again.
    pub passing: &'static [&'static str],
    /// Items that have nothing to do until foreign code of the same run gives them some.
    pub moved: &'static [&'static str],
    /// The run is refused with this message, and changes nothing.
    pub refused: Option<&'static str>,
    /// The second plan is empty. Not if the case itself makes drift at its end.
    pub settles: bool,
}

/// A run of which nothing but its items is known.
pub const RUN: Run = Run {
    before: "",
    role: "",
    items: &[],
    shows: &[],
    tells: &[],
    then: &[],
    foreign: &[],
    passing: &[],
    moved: &[],
    refused: None,
    settles: true,
};

/// Files of the accounts' database and its locks and copies.
pub const ACCOUNTS: &[&str] = &[
    "/etc/passwd",
    "/etc/group",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/subuid",
    "/etc/subgid",
    "/etc/.pwd.lock",
    "/home/",
];
/// Links that systemctl makes.
pub const UNITS: &[&str] = &["/etc/systemd/system/"];

/// All cases.
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
    // --- cases of our own ---
    Case {
        name: "a whole file over one that a package of this run brings",
        runs: &[Run {
            role: "
  - name: package
    package: {name: cowsay}
  - name: file
    file: {path: /usr/share/cowsay/cows/default.cow, content: \"our cow\\n\"}",
            // Whether the package brings the directory is not known before.
            items: &[("package", "change", "changed"), ("file", "deferred", "changed")],
            then: &["grep -qx 'our cow' /usr/share/cowsay/cows/default.cow"],
            foreign: &["/etc/", "/usr/local/"],
            ..RUN
        }],
    },
    Case {
        name: "an edit of a file that a package of this run brings",
        runs: &[Run {
            before: "apt-get -qq purge -y nginx-light nginx-common >/dev/null 2>&1; rm -rf /etc/nginx",
            role: "
  - name: package
    package: {name: nginx-light}
  - name: edit
    line: {path: /etc/nginx/nginx.conf, regexp: '^worker_processes', line: 'worker_processes 3;'}",
            items: &[("package", "change", "changed"), ("edit", "deferred", "changed")],
            then: &["grep -qx 'worker_processes 3;' /etc/nginx/nginx.conf"],
            foreign: &["/etc/", "/usr/local/"],
            ..RUN
        }],
    },
    Case {
        name: "a command whose guard an earlier item fulfils",
        runs: &[Run {
            before: "mkdir -p /srv/k",
            role: "
  - name: file
    file: {path: /srv/k/made, content: x}
  - name: command
    command: {run: 'echo y >/srv/k/made', creates: /srv/k/made, undo: ':'}",
            items: &[("file", "change", "changed"), ("command", "unchanged", "unchanged")],
            then: &["[ \"$(cat /srv/k/made)\" = x ]"],
            ..RUN
        }],
    },
    Case {
        name: "a command that runs when a file of this run changes, and rests when it does not",
        runs: &[
            Run {
                before: "mkdir -p /srv/l",
                role: "
  - name: file
    file: {path: /srv/l/conf, content: x}
  - name: reload
    command: {run: 'echo ran >>/srv/l/log', on_change: [file], undo: ':'}",
                items: &[("file", "change", "changed"), ("reload", "change", "changed")],
                foreign: &["/srv/l/log"],
                then: &["[ \"$(wc -l </srv/l/log)\" = 1 ]"],
                ..RUN
            },
            Run {
                role: "
  - name: file
    file: {path: /srv/l/conf, content: x}
  - name: reload
    command: {run: 'echo ran >>/srv/l/log', on_change: [file], undo: ':'}",
                items: &[("file", "unchanged", "unchanged"), ("reload", "unchanged", "unchanged")],
                then: &["[ \"$(wc -l </srv/l/log)\" = 1 ]"],
                ..RUN
            },
        ],
    },
    Case {
        name: "a link takes the place of a file, a directory that of a link",
        runs: &[Run {
            before: "mkdir -p /srv/m; echo old >/srv/m/a; ln -s /srv /srv/m/b",
            role: "
  - name: link
    link: {path: /srv/m/a, target: /etc/hostname, force: true}
  - name: unlink
    absent: {path: /srv/m/b}
  - name: file in a new directory
    directory: {path: /srv/m/c}
  - name: file
    file: {path: /srv/m/c/d, content: x}",
            items: &[
                ("link", "change", "changed"),
                ("unlink", "change", "changed"),
                ("file in a new directory", "change", "changed"),
                ("file", "change", "changed"),
            ],
            then: &["[ -L /srv/m/a ] && [ ! -L /srv/m/b ] && [ -f /srv/m/c/d ]"],
            ..RUN
        }],
    },
    Case {
        name: "a tree that goes with all that is in it",
        runs: &[Run {
            before: "mkdir -p /srv/n/x/y; echo 1 >/srv/n/x/one; echo 2 >/srv/n/x/y/two",
            role: "
  - name: tree
    absent: {path: /srv/n/x, recursive: true}
  - name: file in its place
    file: {path: /srv/n/x2, content: x}",
            items: &[("tree", "change", "changed"), ("file in its place", "change", "changed")],
            shows: &[("tree", &["/srv/n/x/y/two", "/srv/n/x/one"])],
            then: &["[ ! -e /srv/n/x ]"],
            ..RUN
        }],
    },
    Case {
        name: "the same line twice",
        runs: &[Run {
            before: ": >/srv/o",
            role: "
  - name: first
    line: {path: /srv/o, line: same}
  - name: second
    line: {path: /srv/o, line: same}",
            items: &[("first", "change", "changed"), ("second", "unchanged", "unchanged")],
            then: &["[ \"$(grep -c same /srv/o)\" = 1 ]"],
            ..RUN
        }],
    },
    Case {
        name: "two owners of one file",
        runs: &[Run {
            role: "
  - name: first
    file: {path: /srv/p, content: one}
  - name: second
    file: {path: /srv/p, content: two}",
            refused: Some("/srv/p"),
            ..RUN
        }],
    },
    Case {
        name: "a loop over what nothing can know yet",
        runs: &[
            Run {
                role: "
  - name: made
    command: {run: 'echo a >/srv/q', creates: /srv/q, undo: rm /srv/q}
  - name: names
    query: {run: cat /srv/q}
    register: names
  - name: files
    for_each: '{{ names.lines }}'
    file: {path: '/srv/q-{{ item }}', content: x}",
                items: &[("made", "change", "changed"), ("names", "deferred", "unchanged"), ("files", "failed", "failed")],
                shows: &[("files", &["for_each", "must be known"])],
                foreign: &["/srv/q"],
                ..RUN
            },
            Run {
                role: "
  - name: made
    command: {run: 'echo a >/srv/q', creates: /srv/q, undo: rm /srv/q}
  - name: names
    query: {run: cat /srv/q}
    register: names
  - name: files
    for_each: '{{ names.lines }}'
    file: {path: '/srv/q-{{ item }}', content: x}",
                items: &[
                    ("made", "unchanged", "unchanged"),
                    ("names", "unchanged", "unchanged"),
                    ("files[a]", "change", "changed"),
                ],
                then: &["[ -e /srv/q-a ]"],
                ..RUN
            },
        ],
    },
    Case {
        name: "a condition on a fact, and one on what nothing can know yet",
        runs: &[Run {
            before: "mkdir -p /srv/r",
            role: "
  - name: other system
    when: facts.os.id == 'plan9'
    file: {path: /srv/r/plan9, content: x}
  - name: made
    command: {run: 'echo yes >/srv/r/answer', creates: /srv/r/answer, undo: rm /srv/r/answer}
  - name: answer
    query: {run: cat /srv/r/answer}
    register: answer
  - name: if yes
    when: answer.stdout == 'yes'
    file: {path: /srv/r/yes, content: x}
  - name: if no
    when: answer.stdout == 'no'
    file: {path: /srv/r/no, content: x}",
            items: &[
                ("other system", "not_applicable", "not_applicable"),
                ("made", "change", "changed"),
                ("answer", "deferred", "unchanged"),
                ("if yes", "deferred", "changed"),
                ("if no", "deferred", "not_applicable"),
            ],
            foreign: &["/srv/r/answer"],
            then: &["[ -e /srv/r/yes ] && [ ! -e /srv/r/no ]"],
            ..RUN
        }],
    },
    Case {
        name: "a service is stopped and its unit goes",
        runs: &[Run {
            before: "systemctl start idle",
            role: "
  - name: stopped
    service: {name: idle, state: stopped, enabled: false}
  - name: gone
    absent: {path: /etc/systemd/system/idle.service}",
            items: &[("stopped", "change", "changed"), ("gone", "change", "changed")],
            then: &["! systemctl is-active idle", "[ ! -e /etc/systemd/system/idle.service ]"],
            foreign: UNITS,
            ..RUN
        }],
    },
    Case {
        name: "a user goes, and a group that was his",
        runs: &[Run {
            role: "
  - name: user
    user: {name: worker, state: absent}
  - name: group
    group: {name: crew, state: absent}",
            items: &[("user", "change", "changed"), ("group", "change", "changed")],
            then: &["! id worker", "! getent group crew"],
            foreign: ACCOUNTS,
            ..RUN
        }],
    },
    Case {
        name: "a package goes, its configuration too",
        runs: &[Run {
            role: "
  - name: package
    package: {name: cowsay, state: absent, purge: true}",
            items: &[("package", "change", "changed")],
            shows: &[("package", &["cowsay"])],
            then: &["! dpkg -s cowsay"],
            foreign: &["/etc/", "/usr/local/"],
            ..RUN
        }],
    },
    Case {
        name: "a validator that refuses the file",
        runs: &[Run {
            before: "mkdir -p /srv/s; echo old >/srv/s/conf",
            role: "
  - name: file
    file: {path: /srv/s/conf, content: 'not valid', validate: 'grep -q marker %s'}
  - name: after
    file: {path: /srv/s/after, content: x}",
            items: &[("file", "change", "failed"), ("after", "change", "skipped")],
            then: &["grep -qx old /srv/s/conf", "[ ! -e /srv/s/after ]"],
            ..RUN
        }],
    },
];
