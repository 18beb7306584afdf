use super::*;
use crate::testing::{fake_tool, shells};
use converge_resource::{State, quote};

/// A certificate is the list of its names; `x509 … -in FILE`.
const OPENSSL: &str = "#!/bin/sh\nfor file; do :; done\n[ \"$1\" = x509 ] && cat \"$file\"\n";

/// Writes the certificate and the manifests that `made` beside it has; `fail` beside it: the phase of this name fails.
const KUBEADM: &str = r#"#!/bin/sh
here=${0%/*}
echo "$*" >>"$here/log"
[ ! -e "$here/fail" ] || ! grep -qx "$3" "$here/fail" || exit 1
case "$*" in
"init phase certs apiserver "*)
  [ ! -e "$CV_KUBE_DIR/pki/apiserver.crt" ] || exit 0
  cp "$here/made/apiserver.crt" "$CV_KUBE_DIR/pki/" && echo new >"$CV_KUBE_DIR/pki/apiserver.key" ;;
"init phase control-plane all "*) cp "$here/made/"*.yaml "$CV_KUBE_DIR/manifests/" ;;
*) exit 1 ;;
esac
"#;

/// A server that is silent as long as `down` is there; `sick` beside it has the port of a program that is not healthy.
const KUBECTL: &str = "#!/bin/sh
here=${0%/*}
[ ! -e \"$here/down\" ] || exit 1
case $* in *127.0.0.1:\"$(cat \"$here/sick\" 2>/dev/null || echo none)\"*) exit 1 ;; esac
";

fn there(record: &str, words: &[&str]) -> ControlPlaneState {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    ControlPlaneState::There { record: record.to_owned(), words }
}

#[test]
fn states_are_lines_and_lines_are_states() {
    for line in ["absent", "plane -", "plane begun a:--x", "plane d ~", "plane d ~ a:--x=1 ^a:--x=2"] {
        let state = ControlPlaneState::try_from(State::from_line(line)).unwrap();
        assert_eq!(State::from(state).line(), line);
    }
    for bad in ["", "plane", "absent x", "other"] {
        assert!(ControlPlaneState::try_from(State::from_line(bad)).is_err(), "{bad}");
    }
}

#[test]
fn people_read_argument_by_argument() {
    let record = r#"{"apiServer":{"extraArgs":[{"name":"v","value":"2"},{"name":"gone","value":"x"}]}}"#;
    let from = there(record, &["kube-apiserver:--v=2", "kube-apiserver:--gone=x", "kube-apiserver:--own=1"]);
    let to = ControlPlaneState::Planned {
        record: r#"{"apiServer":{"extraArgs":[{"name":"v","value":"4"}]},"scheduler":{"extraVolumes":[1]}}"#
            .to_owned(),
        with: vec!["kube-apiserver:--v=4".to_owned(), "name:a".to_owned()],
        without: vec!["kube-apiserver:--v=2".to_owned()],
    };
    let reply: Vec<(String, Option<String>, Option<String>)> = KubeadmControlPlane::attributes(&from, &to)
        .into_iter()
        .map(|change| (change.name, change.before, change.after))
        .collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        reply,
        [
            ("certificate a".to_owned(), None, some("yes")),
            ("kube-apiserver --gone".to_owned(), some("x"), None),
            ("kube-apiserver --v".to_owned(), some("2"), some("4")),
            ("scheduler.extraVolumes".to_owned(), None, some("[1]")),
        ]
    );
    let only_record =
        there("{}", &["kube-apiserver:--v=2", "kube-apiserver:--gone=x", "kube-apiserver:--own=1"]);
    assert_eq!(KubeadmControlPlane::disruption(&from, Some(&only_record)), Disruption::None);
    assert_eq!(KubeadmControlPlane::disruption(&from, Some(&to)), Disruption::Restarts);
}

/// In every shell and here: whether a step that was cut off between the states may leave the last one.
#[test]
fn a_step_that_was_cut_off_leaves_each_file_as_before_as_after_or_empty() {
    let dir = tempfile::tempdir().unwrap();
    let server = |value: &str, digest: &str| {
        [format!("kube-apiserver:--v={value}"), format!("manifest:kube-apiserver={digest}")]
    };
    let rest = ["kube-scheduler:--a={1}", "manifest:kube-scheduler=s"];
    let state = |record: &str, server: &[String], rest: &[&str], names: &[&str]| {
        let words: Vec<&str> = server
            .iter()
            .map(String::as_str)
            .chain(rest.iter().copied())
            .chain(names.iter().copied())
            .collect();
        there(record, &words)
    };
    let (old, new) = (server("1", "a"), server("2", "b"));
    let before = state("{}", &old, &rest, &["name:a"]);
    let after = ControlPlaneState::Planned {
        record: "{\"a\": 1}".to_owned(),
        with: vec!["kube-apiserver:--v=2".to_owned(), "name:a".to_owned(), "name:b".to_owned()],
        without: vec!["kube-apiserver:--v=1".to_owned(), "kube-scheduler:--b= ".to_owned()],
    };
    let both = ["name:a", "name:b"];
    let empty = ["manifest:kube-apiserver=0".to_owned()];
    let own = [&new[..], &["kube-apiserver:--own=x".to_owned()]].concat();
    let anew = state("{\"a\": 1}", &new, &rest, &both);
    let cases = [
        (&after, state("begun", &old, &rest, &["name:a"]), true),
        (&after, state("begun", &old, &rest, &[]), true),
        (&after, state("begun", &old, &rest, &both), true),
        (&after, state("begun", &new, &rest, &["name:a"]), true),
        (&after, state("begun", &own, &rest, &both), true),
        (&after, state("begun", &empty, &rest, &both), true),
        (&after, state("begun", &[], &[], &both), true),
        (&after, state("begun", &new, &["kube-scheduler:--a={1}", "kube-scheduler:--b= "], &both), false),
        (&after, state("begun", &server("3", "c"), &rest, &both), false),
        (&after, state("begun", &server("1", "c"), &rest, &both), false),
        (&after, state("begun", &old, &rest, &["name:c"]), false),
        (&after, state("{}", &new, &rest, &both), false),
        (&anew, state("begun", &new, &rest, &["name:a"]), true),
        (&anew, state("begun", &own, &rest, &["name:a"]), false),
        (&anew, state("begun", &new, &["kube-scheduler:--a=2"], &both), false),
        (&after, ControlPlaneState::Absent, false),
    ];
    for (after, now, amid) in &cases {
        assert_eq!(KubeadmControlPlane::amid(&before, after, now), *amid, "{now:?}");
        assert_eq!(KubeadmControlPlane::amid(after, &before, now), *amid, "{now:?}");
        let line = |state: &ControlPlaneState| State::from(state.clone()).line().to_owned();
        let lines = [line(now), line(&before), line(after)];
        for shell in shells(dir.path()) {
            let args: Vec<&str> = lines.iter().map(String::as_str).collect();
            let output = shell.run(dir.path(), "cv_amid_kubeadm_control_plane \"$@\"", &args, b"");
            assert_eq!(output.status.success(), *amid, "{}: {args:?}", shell.name);
        }
    }
    // Where a rollback comes back to such a state, the files come back that were there.
    let half = state("begun", &old, &rest, &[]);
    for (now, same) in [
        (state("begun", &old, &rest, &both), true),
        (state("begun", &new, &rest, &both), false),
        (state("{}", &old, &rest, &both), false),
    ] {
        assert_eq!(KubeadmControlPlane::fulfils(&now, &half), same, "{now:?}");
        let lines = [&now, &half].map(|state| State::from(state.clone()).line().to_owned());
        for shell in shells(dir.path()) {
            let args: Vec<&str> = lines.iter().map(String::as_str).collect();
            let output = shell.run(dir.path(), "cv_same_kubeadm_control_plane all \"$@\"", &args, b"");
            assert_eq!(output.status.success(), same, "{}: {args:?}", shell.name);
        }
    }
}

#[test]
fn a_control_plane_is_made_anew_and_brought_back_in_every_shell() {
    let dir = tempfile::tempdir().unwrap();
    for shell in shells(dir.path()) {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        fake_tool(at, "openssl", OPENSSL);
        fake_tool(at, "kubectl", KUBECTL);
        let tools = fake_tool(at, "kubeadm", KUBEADM);
        let tool = |name: &str| std::path::Path::new(&tools).join(name);
        let vars = format!(
            "PATH={}:$PATH CV_KUBE_DIR={1}/kubernetes CV_KUBELET_DIR={1}/kubelet CV_PROC={1}/proc CV_KUBE_RUN={1}/run CV_KUBE_PATIENCE=2 \
                CV_KUBEADM_CONFIG='{{}}'; export PATH CV_KUBE_DIR; ",
            quote(&tools),
            at.display()
        );
        let good = |script: &str| shell.good(at, &format!("{vars}{script}"), &[], b"").trim_end().to_owned();
        let fails = |script: &str| {
            let output = shell.run(at, &format!("{vars}{script}"), &[], b"");
            assert!(!output.status.success(), "{}", shell.name);
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        let line = || good("cv_line_kubeadm_control_plane all");
        assert_eq!(line(), "absent", "{}", shell.name);
        for folder in ["kubernetes/manifests", "kubernetes/pki", "kubelet", "proc"] {
            std::fs::create_dir_all(at.join(folder)).unwrap();
        }
        let made = tool("made");
        std::fs::create_dir_all(&made).unwrap();
        let manifest = |program: &str, version: &str, own: &str| {
            format!(
                "spec:\n  containers:\n  - command:\n    - {program}\n{own}    image: r/{program}:{version}\n"
            )
        };
        let programs = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
        for program in programs {
            let own = if program == "kube-apiserver" { "    - --v=2\n    - '--x={\"a\": 1}'\n" } else { "" };
            std::fs::write(
                at.join(format!("kubernetes/manifests/{program}.yaml")),
                manifest(program, "v1", own),
            )
            .unwrap();
            let own = if program == "kube-apiserver" { "    - --v=4\n" } else { "" };
            std::fs::write(made.join(format!("{program}.yaml")), manifest(program, "v1", own)).unwrap();
        }
        std::fs::write(at.join("kubernetes/pki/apiserver.crt"), "DNS:kubernetes, IP Address:10.0.0.1\n")
            .unwrap();
        std::fs::write(at.join("kubernetes/pki/apiserver.key"), "old\n").unwrap();
        std::fs::write(made.join("apiserver.crt"), "DNS:kubernetes, DNS:*.example\n").unwrap();
        let first = line();
        let old = ControlPlaneState::try_from(State::from_line(&first)).unwrap();
        let ControlPlaneState::There { record, words } = old else { panic!("{first}") };
        let plain: Vec<&str> =
            words.iter().map(String::as_str).filter(|word| !word.starts_with("manifest:")).collect();
        let expected =
            ["kube-apiserver:--v=2", "kube-apiserver:--x={\"a\": 1}", "name:kubernetes", "name:10.0.0.1"];
        assert_eq!((record.as_str(), plain.as_slice()), ("-", &expected[..]), "{}", shell.name);
        // The record of an earlier version of role k8s counts.
        let earlier = at.join("kubernetes/control-plane-by-converge.json");
        std::fs::write(&earlier, "{\"earlier\": 1}\n").unwrap();
        let found = ControlPlaneState::try_from(State::from_line(&line())).unwrap();
        assert_eq!(found.record(), Some("{\"earlier\": 1}"), "{}", shell.name);
        std::fs::remove_file(&earlier).unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let read = |name: &str| std::fs::read_to_string(at.join("kubernetes").join(name)).unwrap();

        // Only the record changes: no file does.
        let recorded = State::from(there("{\"a\": 1}", &words));
        good(&format!("cv_apply_kubeadm_control_plane all {}", quote(recorded.line())));
        assert_eq!(line(), recorded.line());
        assert!(!tool("log").exists(), "kubeadm was asked");
        // The state before is kept as a run keeps it.
        good(&format!("cv_save_kubeadm_control_plane all {}", quote(recorded.line())));
        // A certificate that kubeadm refuses to make leaves the one before.
        let planned = State::from(ControlPlaneState::Planned {
            record: "{\"b\": 1}".to_owned(),
            with: vec!["kube-apiserver:--v=4".to_owned(), "name:*.example".to_owned()],
            without: vec!["kube-apiserver:--v=2".to_owned()],
        });
        let apply = format!("cv_apply_kubeadm_control_plane all {}", quote(planned.line()));
        std::fs::write(tool("fail"), "certs\n").unwrap();
        fails(&apply);
        assert_eq!(read("pki/apiserver.key"), "old\n", "{}", shell.name);
        // The programs do not come: the record says that it is unfinished.
        std::fs::remove_file(tool("fail")).unwrap();
        std::fs::write(tool("down"), "").unwrap();
        assert!(fails(&apply).contains("does not answer within 2 s"));
        assert!(line().starts_with("plane begun kube-apiserver:--v=4"), "{}", line());
        // A rollback knows it as its own.
        let ends = [line(), recorded.line().to_owned(), planned.line().to_owned()].map(|end| quote(&end));
        good(&format!("cv_amid_kubeadm_control_plane {}", ends.join(" ")));
        std::fs::remove_file(tool("down")).unwrap();
        // Above the highest number of a process: nothing can be hit.
        let process = |pid: &str, program: &str| {
            let process = at.join("proc").join(pid);
            std::fs::create_dir_all(&process).unwrap();
            std::os::unix::fs::symlink(format!("/usr/bin/{program}"), process.join("exe")).unwrap();
            std::fs::write(process.join("cgroup"), "0::/kubepods/x\n").unwrap();
        };
        for (pid, program) in ["99999991", "99999992", "99999993"].into_iter().zip(programs) {
            process(pid, program);
        }
        // The files are there: the API server is ended, and the kubelet starts it, or does not.
        let kill = format!("kill() {{ rm -r {}/proc/99999991 && echo \"$1\"", at.display());
        assert!(
            fails(&format!("{kill}; }}; {apply}"))
                .contains("kube-apiserver does not run and answer within 2 s")
        );
        process("99999991", programs[0]);
        let kubelet = format!(
            "mkdir {0}/proc/99999994 && ln -s /usr/bin/kube-apiserver {0}/proc/99999994/exe && \
            echo kubepods >{0}/proc/99999994/cgroup",
            at.display()
        );
        assert!(good(&format!("{kill}; {kubelet}; }}; {apply}")).contains("99999991"));
        let new = line();
        good(&format!("cv_same_kubeadm_control_plane all {} {}", quote(&new), quote(planned.line())));
        assert_eq!(read("pki/apiserver.key"), "new\n");
        // It comes back with the present images: an upgrade stays.
        std::fs::write(
            at.join("kubernetes/manifests/kube-apiserver.yaml"),
            read("manifests/kube-apiserver.yaml").replace(":v1", ":v2"),
        )
        .unwrap();
        // The manifest is another one: the kubelet itself ends what runs.
        let answers = "cv_kubeadm_answers() { echo \"waits for $1\"; }; ";
        let back = format!("{answers}cv_restore_kubeadm_control_plane all {}", quote(recorded.line()));
        let waits = good(&back);
        assert!(waits.contains("proc/99999994") && !waits.contains("99999992"), "{waits}");
        assert_eq!(line(), recorded.line(), "{}", shell.name);
        assert_eq!(read("pki/apiserver.key"), "old\n");
        assert!(read("manifests/kube-apiserver.yaml").contains("kube-apiserver:v2"));
        assert!(read("manifests/kube-scheduler.yaml").contains("kube-scheduler:v1"));
        // So does a manifest that differs in a volume alone.
        let scheduler = at.join("kubernetes/manifests/kube-scheduler.yaml");
        std::fs::write(&scheduler, read("manifests/kube-scheduler.yaml") + "  volumes: [x]\n").unwrap();
        assert_ne!(line(), recorded.line());
        // A program that ends again and again runs now and then, and answers nothing.
        std::fs::write(tool("sick"), "10259").unwrap();
        let waits = "cv_kubeadm_answers() { :; }; kill() { :; }; ";
        let back = format!("{waits}cv_restore_kubeadm_control_plane all {}", quote(recorded.line()));
        assert!(fails(&back).contains("kube-scheduler does not run and answer within 2 s"), "{}", shell.name);
        std::fs::remove_file(tool("sick")).unwrap();
        std::fs::write(&scheduler, read("manifests/kube-scheduler.yaml") + "  volumes: [x]\n").unwrap();
        let serves = "cv_plane_served() { :; }; kill() { :; }; ";
        good(&format!("{serves}cv_restore_kubeadm_control_plane all {}", quote(recorded.line())));
        assert!(!read("manifests/kube-scheduler.yaml").contains("volumes"), "{}", shell.name);
        assert_eq!(line(), recorded.line());
        // A state of which nothing was kept cannot come back.
        let other = State::from(there("-", &["kube-apiserver:--z"]));
        assert!(
            fails(&format!("cv_restore_kubeadm_control_plane all {}", quote(other.line())))
                .contains("no longer kept")
        );
    }
}

#[test]
fn settings_that_let_everyone_in_are_facts_and_differences_alike() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        ("--authorization-mode=AlwaysAllow", true),
        ("--authorization-mode=Node,AlwaysAllow,RBAC", true),
        ("--authorization-mode=Node,RBAC", false),
        ("--token-auth-file=/x", true),
        ("--insecure-port=0", false),
        ("--insecure-port=8080", true),
        ("--insecure-bind-address=0.0.0.0", true),
        ("--service-account-lookup=true", false),
        ("--service-account-lookup=false", true),
        ("--enable-admission-plugins=NodeRestriction,AlwaysAdmit", true),
        ("--disable-admission-plugins=NodeRestriction", true),
        ("--disable-admission-plugins=PodSecurity", false),
    ];
    for shell in shells(dir.path()) {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        std::fs::create_dir_all(at.join("manifests")).unwrap();
        let open = || shell.good(at, &format!("cv_fact_open {0} {0}", at.display()), &[], b"");
        assert_eq!(open(), "", "{}", shell.name);
        for (argument, is_open) in cases {
            let asks = if argument.contains("authorization") {
                ""
            } else {
                "    - --authorization-mode=Node,RBAC\n"
            };
            for quoted in [argument.to_owned(), format!("'{argument}'"), format!("\"{argument}\"")] {
                std::fs::write(
                    at.join("manifests/kube-apiserver.yaml"),
                    format!("  - command:\n    - {quoted}\n{asks}"),
                )
                .unwrap();
                let expected =
                    if is_open { format!("kube-apiserver has {argument}\n") } else { String::new() };
                assert_eq!(open(), expected, "{}: {quoted}", shell.name);
            }
            assert_eq!(open_argument(argument), is_open, "{argument}");
        }
        // As YAML quotes them.
        let quoted = "    - '--x=a: it''s'\n    - \"--y=a\\\\b\\\"c\"\n    - --z=''\n";
        std::fs::write(at.join("quoted.yaml"), quoted).unwrap();
        let read = shell.good(at, &format!("cv_fact_arguments {}/quoted.yaml", at.display()), &[], b"");
        assert_eq!(read, "--x=a: it's\n--y=a\\b\"c\n--z=''\n", "{}", shell.name);
        std::fs::write(at.join("manifests/kube-apiserver.yaml"), "").unwrap();
        std::fs::write(at.join("manifests/etcd.yaml"), "    - --client-cert-auth=true\n").unwrap();
        let kubelet = "authentication:\n  anonymous:\n    enabled: true\n  webhook:\n    enabled: true\nauthorization:\n  mode: AlwaysAllow\nreadOnlyPort: 10255\n";
        std::fs::write(at.join("config.yaml"), kubelet).unwrap();
        assert_eq!(
            open(),
            "kube-apiserver has no --authorization-mode\netcd has no --peer-client-cert-auth=true\n\
                kubelet has authentication.anonymous.enabled: true\nkubelet has authorization.mode: AlwaysAllow\nkubelet has readOnlyPort: 10255\n"
        );
        std::fs::write(
            at.join("config.yaml"),
            kubelet
                .replace("anonymous:\n    enabled: true", "anonymous:\n    enabled: false")
                .replace("AlwaysAllow", "Webhook")
                .replace("10255", "0"),
        )
        .unwrap();
        assert!(!open().contains("kubelet"), "{}", open());
    }
}
