//! Cases about things that have two names: aliases of units, files by links and below mounts.

use crate::case::{Case, RUN, Run, UNITS};

/// A repository of our own with a package of a unit that has another name, and is neither enabled nor started by the package.
const UNIT_REPOSITORY: &str = r#"
mkdir -p /srv/repo/x/DEBIAN /srv/repo/x/usr/lib/systemd/system && cd /srv/repo
printf 'Package: x-daemon\nVersion: 1\nArchitecture: all\nMaintainer: t <t@example.org>\nDescription: for a test\n' >x/DEBIAN/control
printf '[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\nAlias=x-pal.service\n' >x/usr/lib/systemd/system/x-daemon.service
dpkg-deb -Znone -b x x.deb >/dev/null
{ cat x/DEBIAN/control; echo "Filename: ./x.deb"; echo "Size: $(stat -c %s x.deb)"; echo "SHA256: $(sha256sum x.deb | cut -c1-64)"; } >Packages
rm -r x
echo 'deb [trusted=yes] file:/srv/repo ./' >/etc/apt/sources.list.d/x-repo.list
apt-get -qq update -o Dir::Etc::sourcelist=sources.list.d/x-repo.list -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0
"#;

/// All of them.
pub const NAMES: &[Case] = &[
    Case {
        name: "an alias is its unit",
        runs: &[
            Run {
                before: "systemctl disable -q --now ssh.socket 2>/dev/null; systemctl enable -q --now ssh",
                role: "
  - name: ssh
    service: {name: ssh, state: started}
  - name: sshd
    service: {name: sshd, state: stopped}",
                items: &[("ssh", "failed", "failed"), ("sshd", "failed", "failed")],
                shows: &[("sshd", &["ssh.service and sshd.service are one unit", "case/ssh", "keep one of them"])],
                then: &["systemctl is-active ssh"],
                ..RUN
            },
            Run {
                role: "
  - name: unit
    unit: {name: x-real, content: \"[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\nAlias=x-alias.service\\n\", state: started, enabled: true}
  - name: conf
    file: {path: /srv/t-alias, content: x}
  - name: service
    service: {name: x-alias, state: started, enabled: true, restart_on: [conf]}",
                items: &[
                    ("unit", "change", "changed"),
                    ("conf", "change", "changed"),
                    ("service", "change", "changed"),
                ],
                shows: &[("service", &["x-alias.service is another name of x-real.service"])],
                then: &[
                    "systemctl is-active x-alias && systemctl is-enabled x-real",
                    "[ ! -e /var/lib/converge/started/x-alias.service ]",
                    "systemctl show -p MainPID --value x-real >/srv/t-alias-pid; systemctl disable -q x-real",
                ],
                foreign: UNITS,
                settles: false,
                ..RUN
            },
            // Of a unit that is not enabled systemd does not know the alias.
            Run {
                role: "
  - name: service
    service: {name: x-alias, state: started, enabled: true}",
                items: &[("service", "change", "changed")],
                then: &[
                    "systemctl is-enabled x-real",
                    "[ \"$(cat /srv/t-alias-pid)\" = \"$(systemctl show -p MainPID --value x-alias)\" ]",
                ],
                foreign: UNITS,
                ..RUN
            },
        ],
    },
    Case {
        name: "an alias that a package of this run brings",
        runs: &[
            Run {
                before: UNIT_REPOSITORY,
                role: "
  - name: package
    package: {name: x-daemon}
  - name: conf
    file: {path: /srv/t-pal, content: one}
  - name: service
    service: {name: x-pal, state: started, enabled: true, restart_on: [conf]}
  - name: real
    service: {name: x-daemon, state: started}",
                items: &[
                    ("package", "change", "changed"),
                    ("conf", "change", "changed"),
                    ("service", "change", "changed"),
                    ("real", "deferred", "unchanged"),
                ],
                then: &[
                    "systemctl is-active -q x-daemon && systemctl is-enabled -q x-daemon",
                    "[ -e /var/lib/converge/started/x-daemon.service ] && [ ! -e /var/lib/converge/started/x-pal.service ]",
                    "systemctl show -p MainPID --value x-daemon >/srv/t-pal-pid",
                ],
                foreign: UNITS,
                ..RUN
            },
            Run {
                role: "
  - name: conf
    file: {path: /srv/t-pal, content: two}
  - name: service
    service: {name: x-pal, state: started, enabled: true, restart_on: [conf]}
  - name: real
    service: {name: x-daemon, state: started}",
                items: &[
                    ("conf", "change", "changed"),
                    ("service", "change", "changed"),
                    ("real", "unchanged", "unchanged"),
                ],
                shows: &[("service", &["x-pal.service is another name of x-daemon.service", "restart"])],
                then: &["[ \"$(cat /srv/t-pal-pid)\" != \"$(systemctl show -p MainPID --value x-pal)\" ]"],
                foreign: UNITS,
                ..RUN
            },
            // Both are behind the package: the conflict shows when it is there, and nothing is stopped.
            Run {
                before: "systemctl disable -q --now x-daemon; apt-get -qq purge -y x-daemon >/dev/null; systemctl daemon-reload",
                role: "
  - name: package
    package: {name: x-daemon}
  - name: one
    service: {name: x-pal, state: started}
  - name: other
    service: {name: x-daemon, state: stopped}",
                items: &[
                    ("package", "change", "changed"),
                    ("one", "deferred", "failed"),
                    ("other", "deferred", "failed"),
                ],
                tells: &[("other", &["x-pal.service and x-daemon.service are one unit"])],
                then: &["apt-get -qq purge -y x-daemon; rm -rf /srv/repo /etc/apt/sources.list.d/x-repo.list"],
                foreign: UNITS,
                ..RUN
            },
        ],
    },
    Case {
        name: "one file by two names",
        runs: &[
            Run {
                before: "mkdir -p /srv/t-real && ln -s t-real /srv/t-link",
                role: "
  - name: one
    file: {path: /srv/t-link/z, content: a}
  - name: other
    file: {path: /srv/t-real/z, content: b}",
                items: &[("one", "failed", "failed"), ("other", "failed", "failed")],
                shows: &[("other", &["/srv/t-link/z and /srv/t-real/z are one path", "case/one"])],
                then: &["[ ! -e /srv/t-real/z ]"],
                ..RUN
            },
            Run {
                role: "
  - name: link
    link: {path: /srv/t-other, target: /srv/t-real}
  - name: one
    file: {path: /srv/t-real/y, content: a}
  - name: other
    file: {path: /srv/t-other/y, content: b}",
                items: &[("link", "change", "changed"), ("one", "failed", "failed"), ("other", "failed", "failed")],
                shows: &[("other", &["/srv/t-real/y and /srv/t-other/y are one path"])],
                settles: false,
                ..RUN
            },
            Run {
                role: "
  - name: one
    line: {path: /srv/t-link/x, line: one, create: true}
  - name: other
    line: {path: /srv/t-real/x, line: other}",
                items: &[("one", "change", "changed"), ("other", "change", "changed")],
                shows: &[("other", &["/srv/t-real/x is another name of /srv/t-link/x", "+other"])],
                then: &["[ \"$(cat /srv/t-real/x)\" = \"$(printf 'one\\nother')\" ]"],
                foreign: &["/srv/t-real/x"],
                passing: &["/srv/t-link/x"],
                ..RUN
            },
        ],
    },
    Case {
        name: "a file that has another name",
        runs: &[Run {
            before: "echo old >/srv/t-hard; ln /srv/t-hard /srv/t-other-name",
            role: "
  - name: file
    file: {path: /srv/t-hard, content: \"new\\n\"}
  - name: line
    line: {path: /srv/t-hard, line: more}",
            items: &[("file", "change", "changed"), ("line", "change", "changed")],
            shows: &[("file", &["/srv/t-hard has 2 names (hard links)", "the other names keep the old one"])],
            then: &["[ \"$(cat /srv/t-other-name)\" = old ]"],
            ..RUN
        }],
    },
    Case {
        name: "a file below a mount of this run",
        runs: &[
            Run {
                before: "mkdir /srv/t-mnt",
                role: "
  - name: file
    file: {path: /srv/t-mnt/x, content: x}
  - name: mount
    mount: {path: /srv/t-mnt, fstype: tmpfs}",
                items: &[("file", "change", "changed"), ("mount", "failed", "failed")],
                shows: &[("mount", &["manages /srv/t-mnt/x, which this mount hides"])],
                ..RUN
            },
            Run {
                before: "rm /srv/t-mnt/x",
                role: "
  - name: mount
    mount: {path: /srv/t-mnt, fstype: tmpfs}
  - name: file
    file: {path: /srv/t-mnt/x, content: x}",
                items: &[("mount", "change", "changed"), ("file", "deferred", "changed")],
                shows: &[("file", &["what is mounted at /srv/t-mnt first"])],
                then: &["grep -qx x /srv/t-mnt/x", "mountpoint -q /srv/t-mnt"],
                // `find -xdev` does not see what lies in the mount.
                passing: &["/srv/t-mnt/x"],
                foreign: &["/srv/t-mnt"],
                ..RUN
            },
            Run {
                role: "
  - name: mount
    mount: {path: /srv/t-mnt, state: absent}",
                items: &[("mount", "change", "changed")],
                foreign: &["/srv/t-mnt"],
                ..RUN
            },
        ],
    },
];
