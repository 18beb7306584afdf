//! Cases about numbers of users and groups.

use crate::case::{ACCOUNTS, Case, RUN, Run};

/// All of them.
pub const NUMBERS: &[Case] = &[
    Case {
        name: "a number that somebody has",
        runs: &[Run {
            before: "groupadd -g 5201 x-taken",
            role: "
  - name: file
    file: {path: /srv/t-number, content: x}
  - name: group
    group: {name: x-new, gid: 5201}",
            items: &[("file", "change", "changed"), ("group", "failed", "failed")],
            shows: &[("group", &["the gid 5201 belongs to the group x-taken", "give x-taken another one"])],
            then: &["! getent group x-new"],
            ..RUN
        }],
    },
    Case {
        name: "an owner by the number of a user of this run",
        runs: &[Run {
            role: "
  - name: user
    user: {name: x-user, uid: 5133}
  - name: file
    file: {path: /srv/t-user, content: x, owner: \"5133\"}",
            items: &[("user", "change", "changed"), ("file", "change", "changed")],
            then: &[
                "[ \"$(stat -c %U /srv/t-user)\" = x-user ]",
                "userdel -r x-user 2>/dev/null; rm /srv/t-user",
            ],
            settles: false,
            foreign: ACCOUNTS,
            ..RUN
        }],
    },
    Case {
        name: "a group and its user get other numbers, and a file that both have",
        runs: &[Run {
            before: "groupadd -g 5802 x-both-g; useradd -u 5803 -m x-both-u; echo hi >/srv/t-both; chown x-both-u:x-both-g /srv/t-both",
            role: "
  - name: group
    group: {name: x-both-g, gid: 5801}
  - name: user
    user: {name: x-both-u, uid: 5805, group: x-both-g}
  - name: file
    file: {path: /srv/t-both, owner: x-both-u, group: x-both-g, mode: '0640'}",
            items: &[
                ("group", "change", "changed"),
                ("user", "change", "changed"),
                ("file", "change", "changed"),
            ],
            then: &["[ \"$(stat -c %u:%g:%a /srv/t-both)\" = 5805:5801:640 ]"],
            foreign: ACCOUNTS,
            ..RUN
        }],
    },
    Case {
        name: "a group gets another number, and files are of it",
        runs: &[
            Run {
                before: "groupadd -g 5958 x-g; echo x >/srv/t-g; chgrp x-g /srv/t-g",
                role: "
  - name: file
    file: {path: /srv/t-g, content: \"x\\n\", group: x-g}
  - name: group
    group: {name: x-g, gid: 5959}",
                items: &[("file", "unchanged", "unchanged"), ("group", "failed", "failed")],
                shows: &[(
                    "group",
                    &["a resource before this one gives /srv/t-g to the group x-g", "put the group before"],
                )],
                then: &["[ \"$(stat -c %G /srv/t-g)\" = x-g ]"],
                ..RUN
            },
            Run {
                role: "
  - name: group
    group: {name: x-g, gid: 5959}
  - name: file
    file: {path: /srv/t-g, content: \"x\\n\", group: x-g}",
                items: &[("group", "change", "changed"), ("file", "change", "changed")],
                shows: &[("file", &["5958", "x-g"])],
                then: &["[ \"$(stat -c %G:%g /srv/t-g)\" = x-g:5959 ]"],
                foreign: ACCOUNTS,
                ..RUN
            },
        ],
    },
    Case {
        name: "a group gets another number behind an edit of a file that it has",
        runs: &[Run {
            before: "groupadd -g 5968 x-e; echo x >/srv/t-e; chgrp x-e /srv/t-e",
            role: "
  - name: edit
    line: {path: /srv/t-e, line: more}
  - name: group
    group: {name: x-e, gid: 5969}",
            // The edit gives the file to nobody: it keeps the number that it had.
            items: &[("edit", "change", "changed"), ("group", "change", "changed")],
            then: &["[ \"$(stat -c %g /srv/t-e)\" = 5968 ] && grep -qx more /srv/t-e"],
            foreign: ACCOUNTS,
            ..RUN
        }],
    },
    Case {
        name: "a user gets another number, and files are its own",
        runs: &[
            Run {
                before: "useradd -u 5958 -U -m x-u; echo x >/srv/t-u; chown x-u /srv/t-u; echo x >/home/x-u/x; chown x-u /home/x-u/x",
                role: "
  - name: file
    file: {path: /srv/t-u, content: \"x\\n\", owner: x-u}
  - name: user
    user: {name: x-u, uid: 5959}",
                items: &[("file", "unchanged", "unchanged"), ("user", "failed", "failed")],
                shows: &[(
                    "user",
                    &["a resource before this one gives /srv/t-u to the user x-u", "put the user before"],
                )],
                then: &["[ \"$(stat -c %U /srv/t-u)\" = x-u ]"],
                ..RUN
            },
            Run {
                role: "
  - name: user
    user: {name: x-u, uid: 5959}
  - name: file
    file: {path: /srv/t-u, content: \"x\\n\", owner: x-u}
  - name: at home
    file: {path: /home/x-u/x, content: \"x\\n\", owner: x-u}",
                items: &[
                    ("user", "change", "changed"),
                    ("file", "change", "changed"),
                    ("at home", "unchanged", "unchanged"),
                ],
                shows: &[("file", &["5958", "x-u"])],
                then: &["[ \"$(stat -c %U:%u /srv/t-u /home/x-u/x | uniq)\" = x-u:5959 ]"],
                foreign: ACCOUNTS,
                ..RUN
            },
        ],
    },
];
