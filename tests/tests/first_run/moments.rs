//! Cases about the moment of a value: facts, restarts and what may come, behind an item of the same run that alters them.

use crate::case::{Case, RUN, Run, UNITS};

/// A repository of our own with a package `containerd`, and one that depends on it.
const REPOSITORY: &str = r#"
mkdir -p /srv/repo && cd /srv/repo && : >Packages
make() {
  mkdir -p "$1/DEBIAN" "$1/usr/bin"
  printf 'Package: %s\nVersion: 99\nArchitecture: all\nMaintainer: t <t@example.org>\n%sDescription: for a test\n' "$1" "$2" >"$1/DEBIAN/control"
  [ -z "$3" ] || { printf '#!/bin/sh\necho "containerd example.org/c 99.1"\n' >"$1/usr/bin/$3"; chmod 755 "$1/usr/bin/$3"; }
  dpkg-deb -Znone -b "$1" "$1.deb" >/dev/null
  { cat "$1/DEBIAN/control"; echo "Filename: ./$1.deb"; echo "Size: $(stat -c %s "$1.deb")"; echo "SHA256: $(sha256sum "$1.deb" | cut -c1-64)"; echo; } >>Packages
  rm -r "$1"
}
make containerd '' containerd
make x-runtime 'Depends: containerd (= 99)
' ''
echo 'deb [trusted=yes] file:/srv/repo ./' >/etc/apt/sources.list.d/x-repo.list
apt-get -qq update -o Dir::Etc::sourcelist=sources.list.d/x-repo.list -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0
"#;

/// Removes the repository and its packages.
const NO_REPOSITORY: &str = "apt-get -qq purge -y x-runtime containerd >/dev/null; rm -rf /srv/repo /etc/apt/sources.list.d/x-repo.list /var/lib/apt/lists/*srv_repo*";

/// All of them.
pub const MOMENTS: &[Case] = &[
    Case {
        name: "a fact that a parameter of an earlier item determines",
        runs: &[
            Run {
                role: "
  - name: name
    hostname: {name: renamed}
  - name: file
    file: {path: /srv/t-name, content: \"{{ facts.hostname }} was {{ facts_before.hostname }}\\n\"}
  - name: if
    when: facts.hostname == 'renamed'
    file: {path: /srv/t-if, content: x}",
                items: &[
                    ("name", "change", "changed"),
                    ("file", "change", "changed"),
                    ("if", "change", "changed"),
                ],
                shows: &[("file", &["+renamed was h1"])],
                then: &["grep -qx 'renamed was h1' /srv/t-name", "echo renamed >/srv/t-name"],
                // The fact of before is another one in the next run.
                settles: false,
                ..RUN
            },
            Run {
                before: "hostname foo",
                role: "
  - name: name
    hostname: {name: renamed}
  - name: file
    file: {path: /srv/t-name, content: \"{{ facts.hostname }}\\n\"}",
                items: &[("name", "change", "changed"), ("file", "unchanged", "unchanged")],
                then: &["grep -qx renamed /srv/t-name", "hostname | grep -qx renamed"],
                ..RUN
            },
            Run {
                before: "echo x >/srv/t-name",
                role: "
  - name: file
    file: {path: /srv/t-name, content: \"{{ facts.hostname }}\\n\"}
  - name: name
    hostname: {name: later}",
                items: &[("file", "change", "changed"), ("name", "change", "changed")],
                shows: &[("file", &["facts.hostname still has its value from before this run: `case/name` changes it later"])],
                then: &["grep -qx renamed /srv/t-name"],
                settles: false,
                ..RUN
            },
            Run {
                role: "
  - name: name
    hostname: {name: h1}",
                items: &[("name", "change", "changed")],
                ..RUN
            },
        ],
    },
    Case {
        name: "a fact that a package of this run alters, which another one brings along",
        runs: &[
            Run {
                before: REPOSITORY,
                role: "
  - name: package
    package: {name: x-runtime}
  - name: conf
    when: facts.containerd.present
    file: {path: /srv/t-containerd, content: \"{{ facts.containerd.version }}\\n\"}
  - name: other
    when: facts.os.id == 'debian'
    file: {path: /srv/t-debian, content: x}",
                items: &[
                    ("package", "change", "changed"),
                    ("conf", "deferred", "changed"),
                    ("other", "change", "changed"),
                ],
                shows: &[("conf", &["alters facts.containerd first", "/srv/t-containerd"])],
                then: &["grep -qx 99.1 /srv/t-containerd"],
                ..RUN
            },
            Run {
                before: NO_REPOSITORY,
                role: "
  - name: nothing
    absent: {path: /srv/t-debian}",
                items: &[("nothing", "change", "changed")],
                ..RUN
            },
        ],
    },
    Case {
        name: "a fact that foreign code alters, and nobody can know",
        runs: &[Run {
            before: "rm -f /usr/local/bin/containerd",
            role: r##"
  - name: installer
    command:
      run: |
        printf '#!/bin/sh\necho "containerd example.org/c 7.1"\n' >/usr/local/bin/containerd && chmod 755 /usr/local/bin/containerd
      unless: test -e /usr/local/bin/containerd
      undo: rm /usr/local/bin/containerd
  - name: conf
    when: facts.containerd.present
    file: {path: /srv/t-foreign, content: "{{ facts.containerd.version }}\n"}
  - name: version
    file: {path: /srv/t-version, content: "{{ facts.containerd.version | default('none', true) }}\n"}
  - name: none
    when: not facts.containerd.present
    file: {path: /srv/t-none, content: x}"##,
            items: &[
                ("installer", "change", "changed"),
                ("conf", "not_applicable", "changed"),
                ("version", "change", "changed"),
                ("none", "change", "not_applicable"),
            ],
            moved: &["conf", "none"],
            passing: &["/srv/t-none"],
            then: &["grep -qx 7.1 /srv/t-foreign", "grep -qx 7.1 /srv/t-version", "[ ! -e /srv/t-none ]"],
            foreign: &["/usr/local/bin/containerd", "/srv/t-foreign"],
            ..RUN
        }],
    },
    Case {
        name: "a fact that a file of this run alters, and a list that is made of it",
        runs: &[
            Run {
                before: "rm -f /usr/local/bin/containerd",
                role: r##"
  - name: program
    file: {path: /usr/local/bin/containerd, content: "#!/bin/sh\necho 'containerd example.org/c 8.1'\n", mode: "0755"}
  - name: conf
    file: {path: /srv/t-file, content: "{{ facts.containerd.version }}\n"}"##,
                items: &[("program", "change", "changed"), ("conf", "deferred", "changed")],
                then: &["grep -qx 8.1 /srv/t-file", "rm /usr/local/bin/containerd"],
                settles: false,
                ..RUN
            },
            Run {
                role: r##"
  - name: program
    file: {path: /usr/local/bin/containerd, content: "#!/bin/sh\necho 'containerd example.org/c 8.1'\n", mode: "0755"}
  - name: list
    for_each: "{{ [facts.containerd.version] if facts.containerd.present else [] }}"
    file: {path: "/srv/t-list-{{ item }}", content: x}"##,
                items: &[("program", "change", "changed"), ("list", "failed", "failed")],
                shows: &[("list", &["must be known when the plan is made", "alters facts.containerd first"])],
                ..RUN
            },
            Run {
                role: r##"
  - name: program
    file: {path: /usr/local/bin/containerd, content: "#!/bin/sh\necho 'containerd example.org/c 8.1'\n", mode: "0755"}
  - name: list
    for_each: "{{ [facts.containerd.version] if facts.containerd.present else [] }}"
    file: {path: "/srv/t-list-{{ item }}", content: x}"##,
                items: &[("program", "unchanged", "unchanged"), ("list[8.1]", "change", "changed")],
                then: &["rm /usr/local/bin/containerd"],
                settles: false,
                ..RUN
            },
        ],
    },
    Case {
        name: "a directory and an owner that a package of this run may bring",
        runs: &[Run {
            role: "
  - name: package
    package: {name: cowsay}
  - name: below
    file: {path: /usr/share/cowsay/cows/ours.cow, content: x}
  - name: owned
    file: {path: /srv/t-owned, content: x, owner: nosuchuser}
  - name: nowhere
    file: {path: /nonesuch2/x, content: x}",
            items: &[
                ("package", "change", "changed"),
                ("below", "deferred", "changed"),
                ("owned", "deferred", "failed"),
                ("nowhere", "deferred", "failed"),
            ],
            shows: &[
                ("below", &["installing cowsay may bring /usr/share/cowsay/cows"]),
                ("owned", &["installing cowsay may bring nosuchuser"]),
            ],
            then: &["apt-get -qq purge -y cowsay; rm -rf /usr/share/cowsay"],
            foreign: &["/etc/", "/usr/local/"],
            ..RUN
        }],
    },
    Case {
        name: "nothing waits for what cannot matter to it",
        runs: &[Run {
            role: "
  - name: file
    file: {path: /srv/t-text, content: x}
  - name: parameter
    sysctl: {name: net.core.nonesuch, value: 1}",
            items: &[("file", "change", "changed"), ("parameter", "failed", "failed")],
            shows: &[("parameter", &["this kernel has no parameter net.core.nonesuch"])],
            ..RUN
        }],
    },
    Case {
        name: "no archive, no package and no program comes of a text file",
        runs: &[
            Run {
                role: "
  - name: file
    file: {path: /srv/t-text, content: y}
  - name: archive
    archive: {on_host: /srv/t-none.tar, path: /srv}",
                items: &[("file", "change", "changed"), ("archive", "failed", "failed")],
                shows: &[("archive", &["there is no file /srv/t-none.tar"])],
                ..RUN
            },
            Run {
                before: "cd /srv && mkdir t-packed && echo in >t-packed/in && tar -cf t-packed.tar t-packed && rm -r t-packed",
                role: "
  - name: archive
    archive: {on_host: /srv/t-packed.tar, path: /srv}
  - name: parameter
    sysctl: {name: net.core.nonesuch, value: 1}",
                items: &[("archive", "change", "changed"), ("parameter", "failed", "failed")],
                shows: &[("parameter", &["this kernel has no parameter net.core.nonesuch"])],
                then: &["grep -qx in /srv/t-packed/in", "rm -r /srv/t-packed"],
                ..RUN
            },
            Run {
                role: "
  - name: archive
    archive: {on_host: /srv/t-packed.tar, path: /srv}
  - name: package
    package: {name: t-nonesuch}",
                items: &[("archive", "change", "changed"), ("package", "failed", "failed")],
                shows: &[("package", &["apt offers no t-nonesuch on this host"])],
                ..RUN
            },
            // Behind a deferred resource that runs no code it is the same.
            Run {
                role: "
  - name: command
    command: {run: 'echo 1 >/srv/t-defers', unless: test -e /srv/t-defers, undo: rm /srv/t-defers}
  - name: edit
    line: {path: /srv/t-defers, line: more}
  - name: archive
    archive: {on_host: /srv/t-none.tar, path: /srv}",
                items: &[
                    ("command", "change", "changed"),
                    ("edit", "deferred", "changed"),
                    ("archive", "deferred", "failed"),
                ],
                shows: &[("archive", &["`case/command`"])],
                foreign: &["/srv/t-defers"],
                ..RUN
            },
        ],
    },
    Case {
        name: "two items that restart one unit",
        runs: &[
            Run {
                role: "
  - name: unit
    unit: {name: both, content: \"[Service]\\nExecStart=/bin/sleep infinity\\n\"}
  - name: a
    file: {path: /srv/t-both-a, content: one}
  - name: first
    service: {name: both, state: started, restart_on: [a]}
  - name: b
    file: {path: /srv/t-both-b, content: one}
  - name: second
    service: {name: both, state: started, restart_on: [b]}",
                items: &[
                    ("unit", "change", "changed"),
                    ("a", "change", "changed"),
                    ("first", "change", "changed"),
                    ("b", "change", "changed"),
                    ("second", "change", "changed"),
                ],
                foreign: UNITS,
                ..RUN
            },
            Run {
                before: "systemctl show -p MainPID --value both >/srv/t-both-pid; date +%s >/srv/t-both-since; sleep 1",
                role: "
  - name: unit
    unit: {name: both, content: \"[Service]\\nExecStart=/bin/sleep infinity\\n\"}
  - name: a
    file: {path: /srv/t-both-a, content: two}
  - name: first
    service: {name: both, state: started, restart_on: [a]}
  - name: b
    file: {path: /srv/t-both-b, content: two}
  - name: second
    service: {name: both, state: started, restart_on: [b]}",
                items: &[
                    ("unit", "unchanged", "unchanged"),
                    ("a", "change", "changed"),
                    ("first", "unchanged", "unchanged"),
                    ("b", "change", "changed"),
                    ("second", "change", "changed"),
                ],
                shows: &[("second", &["restart"])],
                then: &[
                    "[ \"$(cat /srv/t-both-pid)\" != \"$(systemctl show -p MainPID --value both)\" ]",
                    "[ \"$(journalctl -q -o cat -u both --since @$(($(cat /srv/t-both-since) + 1)) | grep -c '^Started')\" = 1 ]",
                ],
                ..RUN
            },
        ],
    },
    Case {
        name: "two items that restart one unit for edits of one file",
        runs: &[Run {
            role: "
  - name: a
    line: {path: /srv/t-edits, line: AA, create: true}
  - name: unit
    unit: {name: edits, content: \"[Service]\\nExecStart=/bin/sleep infinity\\n\", state: started, restart_on: [a]}
  - name: b
    line: {path: /srv/t-edits, line: BB}
  - name: service
    service: {name: edits, state: started, restart_on: [b]}",
            items: &[
                ("a", "change", "changed"),
                ("unit", "change", "changed"),
                ("b", "change", "changed"),
                ("service", "change", "changed"),
            ],
            then: &["systemctl is-active -q edits", "[ $(wc -l </srv/t-edits) = 2 ]"],
            foreign: UNITS,
            ..RUN
        }],
    },
    Case {
        name: "another file takes a parameter back at the next boot",
        runs: &[
            Run {
                before: "echo 'net.ipv4.ip_default_ttl = 33' >/etc/sysctl.d/zz-theirs.conf",
                role: "
  - name: parameter
    sysctl: {name: net.ipv4.ip_default_ttl, value: 63}",
                items: &[("parameter", "failed", "failed")],
                shows: &[("parameter", &["/etc/sysctl.d/zz-theirs.conf is read after"])],
                ..RUN
            },
            Run {
                role: "
  - name: line
    line: {path: /etc/sysctl.d/zz-theirs.conf, regexp: ip_default_ttl, state: absent}
  - name: parameter
    sysctl: {name: net.ipv4.ip_default_ttl, value: 63}",
                items: &[("line", "change", "changed"), ("parameter", "change", "changed")],
                then: &["/lib/systemd/systemd-sysctl; grep -qx 63 /proc/sys/net/ipv4/ip_default_ttl"],
                ..RUN
            },
        ],
    },
    Case {
        name: "an edit of a file that a command of this run makes",
        runs: &[Run {
            role: "
  - name: command
    command: {run: 'echo a=1 >/srv/t-edit', unless: test -e /srv/t-edit, undo: rm /srv/t-edit}
  - name: edit
    line: {path: /srv/t-edit, line: b=2, create: true}",
            items: &[("command", "change", "changed"), ("edit", "deferred", "changed")],
            then: &["[ \"$(cat /srv/t-edit)\" = \"$(printf 'a=1\\nb=2')\" ]"],
            ..RUN
        }],
    },
    Case {
        name: "an edit of a file that the start of a unit of this run makes",
        runs: &[Run {
            role: "
  - name: unit
    unit: {name: x-maker, content: \"[Service]\\nType=oneshot\\nRemainAfterExit=yes\\nExecStart=/bin/sh -c 'echo a=1 >/srv/t-started'\\n\", state: started}
  - name: edit
    line: {path: /srv/t-started, line: b=2, create: true}
  - name: block
    block: {path: /srv/t-started, block: c=3}",
            items: &[
                ("unit", "change", "changed"),
                ("edit", "deferred", "changed"),
                ("block", "deferred", "changed"),
            ],
            shows: &[("edit", &["`case/unit`", "/srv/t-started"])],
            then: &["[ \"$(head -n 2 /srv/t-started)\" = \"$(printf 'a=1\\nb=2')\" ] && grep -qx c=3 /srv/t-started"],
            foreign: UNITS,
            ..RUN
        }],
    },
    Case {
        name: "attributes of a file, and a file in a directory, that a command of this run makes",
        runs: &[Run {
            role: "
  - name: command
    command: {run: 'mkdir /srv/t-made; echo 1 >/srv/t-made/a', unless: test -e /srv/t-made/a, undo: rm -r /srv/t-made}
  - name: attributes
    file: {path: /srv/t-made/a, mode: \"0600\", owner: daemon}
  - name: beside
    file: {path: /srv/t-made/b, content: x}
  - name: edit
    line: {path: /srv/t-made/a, line: more}",
            items: &[
                ("command", "change", "changed"),
                ("attributes", "deferred", "changed"),
                ("beside", "deferred", "changed"),
                ("edit", "deferred", "changed"),
            ],
            then: &["[ \"$(stat -c '%a %U' /srv/t-made/a; cat /srv/t-made/a /srv/t-made/b)\" = \"$(printf '600 daemon\n1\nmore\nx')\" ]"],
            foreign: &["/srv/t-made", "/srv/t-made/a"],
            ..RUN
        }],
    },
];
