//! Cases at the edges of the language: guards, lists and conditions that nothing can know yet, removals, things of two owners.

use crate::case::{ACCOUNTS, Case, RUN, Run, UNITS};

/// All of them.
pub const EDGES: &[Case] = &[
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
                items: &[
                    ("made", "change", "changed"),
                    ("names", "deferred", "unchanged"),
                    ("files", "failed", "failed"),
                ],
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
