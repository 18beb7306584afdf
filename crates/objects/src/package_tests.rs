use super::*;
use crate::testing::shells;
use converge_resource::Past;
use std::os::unix::fs::PermissionsExt;

fn present(version: &str, auto: bool, hold: bool) -> PackageState {
    PackageState::Present { version: version.to_owned(), auto, hold }
}

#[test]
fn states_are_lines_and_lines_are_states() {
    let broken = PackageState::Broken { status: "half-configured".to_owned() };
    let config = PackageState::Config { version: "1:2~rc-1".to_owned() };
    for (state, line) in [
        (PackageState::Absent, "absent"),
        (config, "config 1:2~rc-1"),
        (present("1.2+b1", true, true), "present 1.2+b1 auto hold"),
        (present("1", false, false), "present 1 manual -"),
        (broken, "broken half-configured"),
    ] {
        assert_eq!(State::from(state.clone()).line(), line);
        assert_eq!(PackageState::try_from(State::from_line(line)), Ok(state));
    }
    assert!(PackageState::try_from(State::from_line("present 1 manual")).is_err());
    assert!(PackageState::try_from(State::from_line("present 1 manual no")).is_err());
}

#[test]
fn all_packages_of_an_item_are_one_transaction() {
    let steps = Package::steps(&[
        ("curl", PackageState::Absent, present("8-1", false, false)),
        ("libcurl4:i386", PackageState::Absent, present("8-1", true, false)),
        ("wget", present("1", false, false), PackageState::Absent),
    ]);
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].title, "install curl libcurl4:i386, remove wget");
    let words = "curl 'present 8-1 manual -' libcurl4:i386 'present 8-1 auto -' wget absent";
    assert_eq!(steps[0].script, format!("cv_apply_packages {words}"));
    assert_eq!(Package::steps(&[]), []);
}

#[test]
fn marks_are_no_foreign_code_and_versions_are() {
    assert!(!Package::opaque(&present("1", true, false), &present("1", false, true)));
    assert!(Package::opaque(&present("1", false, false), &present("2", false, false)));
    assert!(Package::opaque(&present("1", false, false), &PackageState::Absent));
    let shown = Package::attributes(&present("1", true, false), &present("1", false, false));
    assert_eq!(shown.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["mark"]);
}

#[test]
fn an_interrupted_dpkg_is_between_both_ends_of_a_step_that_moves_a_package() {
    let broken = |status: &str| PackageState::Broken { status: status.to_owned() };
    let amid = Package::amid;
    let there = present("1", false, false);
    for status in ["half-configured", "half-installed", "unpacked", "triggers-awaited", "reinstreq"] {
        assert!(amid(&there, &PackageState::Absent, &broken(status)), "removed: {status}");
        assert!(amid(&PackageState::Absent, &there, &broken(status)), "installed: {status}");
        assert!(amid(&there, &present("2", false, false), &broken(status)), "upgraded: {status}");
        assert!(!amid(&there, &present("1", true, true), &broken(status)), "only marked: {status}");
    }
    let left = |version: &str| PackageState::Config { version: version.to_owned() };
    assert!(amid(&there, &PackageState::Absent, &left("1")), "removed, and not purged yet");
    assert!(!amid(&there, &PackageState::Absent, &left("2")));
    assert!(amid(&PackageState::Absent, &there, &present("1", true, false)), "there, and not marked yet");
    assert!(!amid(&PackageState::Absent, &there, &present("2", false, false)));
    assert!(!amid(&there, &present("2", false, false), &PackageState::Absent));
}

#[test]
fn undo_sh_takes_the_same_states_for_managed() {
    let lines = [
        "absent",
        "config 1",
        "config 1.2",
        "present 1 auto -",
        "present 1 manual hold",
        "present 1.2 manual -",
        "broken half-configured",
    ];
    let state = |line: &str| PackageState::try_from(State::from_line(line)).unwrap();
    let (mut table, mut wanted) = (String::new(), Vec::new());
    for found in lines {
        for from in lines {
            for to in lines {
                table.push_str(&format!("{found}\t{from}\t{to}\n"));
                wanted.push((found, from, to, Package::amid(&state(from), &state(to), &state(found))));
            }
        }
    }
    let script = "while IFS='\t' read -r n f t; do cv_amid_package \"$n\" \"$f\" \"$t\" && echo true || echo false; done";
    let dir = tempfile::tempdir().unwrap();
    for shell in shells(dir.path()) {
        let reply = shell.good(dir.path(), script, &[], table.as_bytes());
        assert_eq!(reply.lines().count(), wanted.len(), "{}", shell.name);
        for ((found, from, to, managed_here), reply) in wanted.iter().zip(reply.lines()) {
            assert_eq!(managed_here.to_string(), reply, "{}: {found} between {from} and {to}", shell.name);
        }
    }
}

/// A dpkg-query that knows a few packages, as dpkg prints them: sorted, so that `dpkg` itself is not the first.
const QUERY: &str = "#!/bin/sh\nprintf '%s\\t%s\\t%s\\t%s\\t%s\\t%s\\n' \\
adduser all install ok installed 3.134 \\
curl amd64 install ok installed 7.88-1 \\
dpkg amd64 install ok installed 1.21 \\
libc6 amd64 hold ok installed 2.36-9 \\
libc6 i386 install ok installed 2.36-9 \\
tzdata all install ok installed 2024a \\
oldconf amd64 deinstall ok config-files 1:0.1 \\
half amd64 install ok half-configured 3 \\
reinst amd64 install reinstreq installed 3 \\
virtual '' unknown ok not-installed ''\nexit 1\n";

#[test]
fn dpkg_is_read_in_every_shell() {
    let dir = tempfile::tempdir().unwrap();
    let tools = dir.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    std::fs::write(tools.join("dpkg-query"), QUERY).unwrap();
    std::fs::set_permissions(tools.join("dpkg-query"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let marks = "Package: tzdata\nArchitecture: amd64\nAuto-Installed: 1\n\nPackage: libc6\nArchitecture: i386\n\
                 Auto-Installed: 1\n\nPackage: curl\nArchitecture: amd64\nAuto-Installed: 0\n";
    std::fs::write(dir.path().join("extended_states"), marks).unwrap();
    let keys =
        ["adduser", "curl", "libc6", "libc6:i386", "tzdata", "oldconf", "half", "reinst", "virtual", "gone"];
    let wanted = [
        "present 3.134 manual -",
        "present 7.88-1 manual -",
        "present 2.36-9 manual hold",
        "present 2.36-9 auto -",
        "present 2024a auto -",
        "config 1:0.1",
        "broken half-configured",
        "broken reinstreq",
        "absent",
        "absent",
    ];
    for shell in shells(dir.path()) {
        let script = format!(
            "PATH='{}':$PATH; CV_APT_AUTO='{}'; cv_see_package \"$@\"",
            tools.display(),
            dir.path().join("extended_states").display()
        );
        let observed = crate::testing::parse::<Package>(&keys, &shell.good(dir.path(), &script, &keys, b""));
        for (key, line) in keys.iter().zip(wanted) {
            assert_eq!(observed[*key].as_ref().unwrap().state.line(), line, "{}: {key}", shell.name);
        }
    }
}

/// Messages of apt about a file that the repository no longer has, and about another failure.
#[test]
fn a_missing_package_file_is_reported_with_cause_and_remedy() {
    let gone = "E: Failed to fetch http://deb.example.org/debian/pool/main/t/tree/tree_2.1.0-1_amd64.deb  404  Not Found [IP: 192.0.2.1 80]";
    let other =
        "E: Failed to fetch http://deb.example.org/debian/pool/main/t/tree/tree_404.deb  Could not connect";
    for (reply, stale) in [(gone, true), (other, false)] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        crate::testing::fake_tool(root, "flock", "#!/bin/sh\nexit 0\n");
        crate::testing::fake_tool(root, "dpkg", "#!/bin/sh\nexit 0\n");
        let tools = crate::testing::fake_tool(root, "apt", &format!("#!/bin/sh\necho '{reply}'\nexit 100\n"));
        for shell in shells(root) {
            let script = format!(
                "PATH='{tools}':$PATH CV_APT_TOOL='{tools}/apt' CV_POLICY='{0}/policy' CV_ROOT='{0}/records'; cv_apt_transaction install tree",
                root.display()
            );
            let output = shell.run(root, &script, &[], b"");
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(100), "{}: {text}", shell.name);
            assert!(text.contains(reply), "{}: {text}", shell.name);
            let last = text.lines().next_back().unwrap_or_default();
            let reported =
                last.contains("package index of this host is stale") && last.contains("`max_age: 3600`");
            assert_eq!(reported, stale, "{}: {text}", shell.name);
        }
    }
}

/// An apt-get that knows `app` and `tool`, which need `lib`, and `solo`; whatever is in the status file is installed.
const APT: &str = r#"#!/bin/sh
here=${0%/*} status=$here/status install= log=
for word; do
  case $word in
  Dir::State::status=*) status=${word#*=} ;;
  esac
done
case $1 in update | indextargets) exit 0 ;; esac
echo "$*" >>"$here/asked"
case " $* " in *' tol '*) echo 'E: Unable to locate package tol' >&2; exit 100 ;; esac
has() { grep -qx "Package: $1" "$status"; }
inst() { has "$1" || { echo "Inst $1 ($2 repo [amd64])"; install="$install $1"; }; }
while [ $# -gt 0 ] && [ "$1" != install ]; do shift; done
for word; do
  case $word in
  install | --* | -*) ;;
  *-) echo "Remv ${word%-} [1]" ;;
  app | tool) inst lib 2; inst "$word" 1 ;;
  lib | solo) inst "$word" 2 ;;
  esac
done | awk '!seen[$0]++'
"#;

const APT_CACHE: &str = r#"#!/bin/sh
for word; do
  case $word in
  app=1 | tool=1) printf 'Package: %s\nArchitecture: amd64\nVersion: 1\nDepends: other | lib (>= 1)\nDescription-en: x\n more\nSize: 1\n\n' "${word%=*}" ;;
  lib=2 | solo=2) printf 'Package: %s\nArchitecture: amd64\nVersion: 2\n\n' "${word%=*}" ;;
  madison) exit 0 ;;
  pkgnames) printf '%s\n' app tool solo ;;
  esac
done
"#;

const DPKG_QUERY: &str = r#"#!/bin/sh
status=${0%/*}/status
case $1 in --admindir=*) status=${1#*=}/status ;; esac
printf 'dpkg\tamd64\tinstall\tok\tinstalled\t1\n'
awk -v words=" $* " '$1 == "Package:" { p = $2 } $1 == "Version:" && index(words, " " p " ") { print p "\tamd64\tinstall\tok\tinstalled\t" $2 }' "$status"
"#;

#[test]
fn items_are_simulated_over_each_other_in_every_shell() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (name, text) in [("apt-get", APT), ("apt-cache", APT_CACHE), ("dpkg-query", DPKG_QUERY)] {
        std::fs::write(at(name), text).unwrap();
        std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::fs::create_dir(at("lists")).unwrap();
    std::fs::write(
        at("status"),
        "Package: old\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n",
    )
    .unwrap();
    for shell in shells(dir.path()) {
        let plan = |stages: &[&str]| {
            let script = format!(
                "PATH='{0}':$PATH CV_APT_LISTS='{0}/lists' CV_APT_ETC='{0}/etc' CV_DPKG_STATUS='{0}/status'; cv_plan_packages \"$@\"",
                dir.path().display()
            );
            std::fs::write(at("asked"), "").unwrap();
            let reply = shell.good(dir.path(), &script, stages, b"");
            let of = |n: usize| {
                let own = reply.split("stage ").find(|s| s.starts_with(&n.to_string())).unwrap_or_default();
                own.lines()
                    .skip(1)
                    .take_while(|l| !l.starts_with("was "))
                    .filter(|l| !l.starts_with("choice "))
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            let asked = std::fs::read_to_string(at("asked")).unwrap().lines().count();
            ((1..=stages.len()).map(of).collect::<Vec<_>>(), asked, reply.clone())
        };
        let (parts, asked, _) = plan(&["present - index old", "absent - index app"]);
        assert_eq!(
            (parts, asked),
            (vec![Vec::<String>::new(), Vec::new()], 0),
            "{}: nothing to do",
            shell.name
        );
        let _ = std::fs::remove_file(at("lists/a_Packages"));
        let (parts, ..) = plan(&["present - index app"]);
        assert_eq!(parts[0], ["dpkg settled", "index index absent", "end 72"], "{}", shell.name);
        std::fs::write(at("lists/a_Packages"), "").unwrap();
        // At once: what both need is the first's.
        let (parts, asked, reply) =
            plan(&["present - index solo", "present - index tool", "present - index app lib"]);
        assert_eq!(asked, 1, "{}: {reply}", shell.name);
        assert_eq!(parts[0], ["inst solo 2", "end 0"], "{}: {reply}", shell.name);
        assert_eq!(parts[1], ["inst lib 2", "inst tool 1", "end 0"], "{}: {reply}", shell.name);
        assert_eq!(parts[2], ["inst app 1", "end 0"], "{}: {reply}", shell.name);
        assert!(reply.contains("was lib absent\n"), "{}: {reply}", shell.name);
        // Each over what the one before leaves, where they cannot be asked for at once.
        let (parts, asked, reply) =
            plan(&["present -h index app", "present - index lib tool", "absent - index app old"]);
        assert_eq!(asked, 3, "{}: {reply}", shell.name);
        assert_eq!(parts[1], ["inst tool 1", "end 0"], "{}: {reply}", shell.name);
        assert_eq!(&parts[2][..2], ["remv app", "remv old"], "{}: {reply}", shell.name);
        // An unknown package does not affect the results of the others.
        let (parts, _, reply) = plan(&["present - index solo", "present - index tol"]);
        assert_eq!(parts[0].last().unwrap(), "end 0", "{}: {reply}", shell.name);
        assert!(parts[1].contains(&"near tol app solo tool ".to_owned()), "{}: {reply}", shell.name);
        assert_eq!(parts[1].last().unwrap(), "end 100", "{}: {reply}", shell.name);
    }
}

/// The choice differs with a pin that is written anew with the same size, a source that is moved away, or a list that is fetched again; not with a key or a password.
#[test]
fn what_apt_chooses_by_is_known_in_every_shell() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for name in ["etc/preferences.d", "etc/sources.list.d", "etc/auth.conf.d", "lists/partial"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    let write = |name: &str, text: &str| {
        // The kernel counts the time of a change in ticks of up to 10 ms.
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(root.join(name), text).unwrap();
    };
    for shell in shells(root) {
        let choice = || {
            let at = root.display();
            let script = format!("CV_APT_LISTS='{at}/lists' CV_APT_ETC='{at}/etc'; cv_apt_choice");
            shell.good(root, &script, &[], b"")
        };
        write("etc/preferences.d/pin", "1");
        write("etc/sources.list", "");
        write("lists/a_Packages", "1");
        let mut before = choice();
        assert_eq!(before.trim().len(), 64, "{}", shell.name);
        for same in ["etc/auth.conf.d/a", "etc/auth.conf", "lists/lock", "lists/partial/a"] {
            write(same, shell.name);
            assert_eq!(choice(), before, "{}: {same}", shell.name);
        }
        let fresh = |what: &str, before: &mut String| {
            let now = choice();
            assert_ne!(now, *before, "{}: {what}", shell.name);
            *before = now;
        };
        write("etc/preferences.d/pin", "2");
        fresh("a pin", &mut before);
        std::fs::rename(root.join("etc/sources.list"), root.join("etc/sources.list.d/a.list")).unwrap();
        fresh("a source", &mut before);
        write("lists/a_Packages", "2");
        fresh("a list", &mut before);
    }
}

#[test]
fn another_transaction_is_reported_in_words_in_every_shell() {
    let dir = tempfile::tempdir().unwrap();
    for shell in shells(dir.path()) {
        let other = |planned: &str, now: &str| {
            let script = format!("expect='{planned}' got='{now}'; cv_packages_unplanned");
            shell.good(dir.path(), &script, &[], b"").trim().to_owned()
        };
        assert_eq!(other("inst a 1\nremv b\n", "remv b\ninst a 1\nconf a"), "", "{}", shell.name);
        assert_eq!(other("", ""), "", "{}", shell.name);
        assert_eq!(
            other("inst a 1\ninst b 2\nremv c\n", "inst a 2\nremv d\ninst e 1"),
            "install a 2 instead of 1, remove d, which is not planned, install e 1, which is not planned, not install b 2, not remove c",
            "{}",
            shell.name
        );
    }
}

#[test]
fn what_a_run_has_left_half_done_is_its_own_when_it_is_configured() {
    let dir = tempfile::tempdir().unwrap();
    let (broken, absent) = ("broken half-configured", "absent");
    let cases = [
        ("present 1 auto -", broken, true),
        (broken, broken, true),
        ("absent", broken, false),
        ("present 2 manual -", "present 1 manual -", false),
        ("present 1 manual -", absent, false),
    ];
    for (now, left, shows) in cases {
        let states = [now, absent, left].map(|line| PackageState::try_from(State::from_line(line)).unwrap());
        let past = Past { before: &states[1], left: &states[2], between: &[] };
        assert_eq!(Package::shows(&states[0], &past, &|_| None), shows, "{now}, {left}");
        for shell in shells(dir.path()) {
            let script =
                format!("if cv_shows_package '{now}' {absent} '{left}'; then echo true; else echo false; fi");
            let says = shell.good(dir.path(), &script, &[], b"");
            assert_eq!(says.trim(), shows.to_string(), "{now}, {left}, {}", shell.name);
        }
    }
}
