//! The certificates of a control plane that `kubeadm certs renew` renews (key `all`), and whether the control plane has read them.

use crate::certificates::openssl_moment;
use crate::programs::not_known;
use converge_resource::{
    AlteredFact, Disruption, DynEffects, Effects, ErasedObject, Facets, Object, Reversibility, Traits,
    state_of_words,
};
use jiff::Timestamp;

/// The state of the certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeadmCertificatesState {
    /// The host is no control plane, or its init has not ended (`absent`).
    Absent,
    /// They are there (`read FILE END…`, `unread FILE END…`).
    There {
        /// The programs that read them run with them.
        read: bool,
        /// The files, below `/etc/kubernetes`, each with the end of its certificate as openssl says it.
        ends: Vec<(String, String)>,
    },
    /// Renewed and read, with ends that are not known before: only in a planned state (`read ~`).
    Renewed,
}

impl KubeadmCertificatesState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::There { read, ends } => {
                let pairs = ends.iter().flat_map(|(file, end)| [file.clone(), end.clone()]);
                std::iter::once(if *read { "read" } else { "unread" }.to_owned()).chain(pairs).collect()
            }
            Self::Renewed => vec!["read".to_owned(), "~".to_owned()],
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["read", "~"] => Some(Self::Renewed),
            [word @ ("read" | "unread"), pairs @ ..] if pairs.len().is_multiple_of(2) => {
                let pair = |p: &[&str]| Some(((*p.first()?).to_owned(), (*p.get(1)?).to_owned()));
                let ends = pairs.chunks(2).map(pair).collect::<Option<Vec<_>>>()?;
                Some(Self::There { read: *word == "read", ends })
            }
            _ => None,
        }
    }

    /// The certificate that ends first, of those that can be read: its file and the moment.
    pub fn first_end(&self) -> Option<(&str, Timestamp)> {
        let Self::There { ends, .. } = self else { return None };
        let known = ends.iter().filter_map(|(file, end)| Some((file.as_str(), openssl_moment(end)?)));
        known.min_by_key(|(_, end)| *end)
    }
}

state_of_words!(KubeadmCertificatesState);

/// The object.
pub struct KubeadmCertificates;

impl Object for KubeadmCertificates {
    const KIND: &'static str = "kubeadm_certificates";
    const SHELL: &'static str = include_str!("kubeadm_certificates.sh");
    const SECONDS: u64 = 900;
    // The old certificates end sooner, and a restart leaves nothing that could be reverted.
    const TRAITS: Traits = Traits { passes: true, ..Traits::NONE };
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    type State = KubeadmCertificatesState;

    fn title(_: &str, from: &KubeadmCertificatesState, to: &KubeadmCertificatesState) -> String {
        if *to != KubeadmCertificatesState::Renewed {
            return "restart the control plane, which has not read its certificates".to_owned();
        }
        let first = from.first_end().map(|(file, end)| format!(": {file} ends {end}")).unwrap_or_default();
        format!("kubeadm certs renew all{first}")
    }

    fn reversibility(_: &str, _: &KubeadmCertificatesState, to: &KubeadmCertificatesState) -> Reversibility {
        match to {
            KubeadmCertificatesState::Renewed => {
                let why = "a renewed certificate stays: the old one ends sooner";
                Reversibility::Irreversible(why.to_owned())
            }
            _ => Reversibility::Reversible,
        }
    }

    fn opaque(_: &KubeadmCertificatesState, _: &KubeadmCertificatesState) -> bool {
        true
    }

    fn disruption(_: &KubeadmCertificatesState, _: Option<&KubeadmCertificatesState>) -> Disruption {
        Disruption::Restarts
    }

    fn fulfils(now: &KubeadmCertificatesState, planned: &KubeadmCertificatesState) -> bool {
        let read = matches!(now, KubeadmCertificatesState::There { read: true, .. });
        now == planned || (*planned == KubeadmCertificatesState::Renewed && read)
    }

    fn facets(state: &KubeadmCertificatesState) -> Facets {
        match state {
            KubeadmCertificatesState::Absent => Vec::new(),
            KubeadmCertificatesState::Renewed => {
                vec![("first end", "later".to_owned()), ("read", "yes".to_owned())]
            }
            KubeadmCertificatesState::There { read, .. } => {
                let end = state.first_end().map_or_else(|| "?".to_owned(), |(_, end)| end.to_string());
                vec![
                    ("first end", end),
                    ("read", if *read { "yes" } else { "not since they were renewed" }.to_owned()),
                ]
            }
        }
    }
}

impl Effects for KubeadmCertificates {
    fn alters(key: &str, _: &KubeadmCertificatesState, _: &KubeadmCertificatesState) -> Vec<AlteredFact> {
        not_known(Self::may_alter(key))
    }

    fn may_alter(_: &str) -> Vec<&'static str> {
        vec!["kubernetes"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fake_tool, shells};
    use converge_resource::{State, quote};

    /// Says the end that the file itself has; one openssl for all is not at hand.
    const OPENSSL: &str = "#!/bin/sh\ncase $1 in x509) grep ^notAfter ;; *) exit 1 ;; esac\n";
    /// Renews the certificate; `lazy` beside it: it does nothing; `fail`: it fails.
    const KUBEADM: &str = r#"#!/bin/sh
here=${0%/*}
echo "$*" >>"$here/log"
[ ! -e "$here/fail" ] || exit 1
[ -e "$here/lazy" ] || printf -- '-----BEGIN CERT\nnotAfter=Nov 22 03:45:01 2028 GMT\n-----END CERT\n' >"$CV_KUBE_DIR/pki/apiserver.crt"
"#;
    /// A server that is silent as long as `down` is there.
    const KUBECTL: &str = "#!/bin/sh\n[ ! -e \"${0%/*}/down\" ]\n";

    #[test]
    fn states_are_lines_and_lines_are_states() {
        for line in ["absent", "read ~", "read", "unread pki/a.crt soon", "read a 1 b 2"] {
            let state = KubeadmCertificatesState::try_from(State::from_line(line)).unwrap();
            assert_eq!(State::from(state).line(), line);
        }
        for bad in ["read a", "unread ~", "", "absent x"] {
            assert!(KubeadmCertificatesState::try_from(State::from_line(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn people_read_which_certificate_ends_first() {
        let ends = [
            ("pki/a.crt", "Nov 22 03:45:01 2028 GMT"),
            ("admin.conf", "Dec  2 03:45:00 2026 GMT"),
            ("x", "-"),
        ];
        let ends = ends.map(|(file, end)| (file.to_owned(), end.to_owned())).to_vec();
        let state = KubeadmCertificatesState::There { read: true, ends };
        let title = KubeadmCertificates::title("all", &state, &KubeadmCertificatesState::Renewed);
        assert!(title.ends_with(": admin.conf ends 2026-12-02T03:45:00Z"), "{title}");
        assert_eq!(KubeadmCertificates::facets(&state)[0], ("first end", "2026-12-02T03:45:00Z".to_owned()));
        let read = KubeadmCertificates::title("all", &state, &state);
        assert!(read.starts_with("restart the control plane"), "{read}");
        let reverts = |to| KubeadmCertificates::reversibility("all", &state, to) == Reversibility::Reversible;
        assert!(!reverts(&KubeadmCertificatesState::Renewed), "a plan warns of a renewal");
        assert!(reverts(&state), "a restart is nothing to warn of");
    }

    #[test]
    fn certificates_are_renewed_and_read_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        for shell in shells(dir.path()) {
            let root = tempfile::tempdir().unwrap();
            let at = root.path();
            fake_tool(at, "openssl", OPENSSL);
            fake_tool(at, "kubectl", KUBECTL);
            let tools = fake_tool(at, "kubeadm", KUBEADM);
            let tool = |name: &str| std::path::Path::new(&tools).join(name);
            let vars = format!(
                "PATH={}:$PATH CV_KUBE_DIR={1}/kubernetes CV_KUBELET_DIR={1}/kubelet CV_PROC={1}/proc CV_KUBE_PATIENCE=2; export PATH CV_KUBE_DIR; ",
                quote(&tools),
                at.display()
            );
            let good =
                |script: &str| shell.good(at, &format!("{vars}{script}"), &[], b"").trim_end().to_owned();
            let fails = |script: &str| {
                let output = shell.run(at, &format!("{vars}{script}"), &[], b"");
                assert!(!output.status.success(), "{}", shell.name);
                String::from_utf8_lossy(&output.stderr).into_owned()
            };
            let state = || {
                let line = good("cv_line_kubeadm_certificates all");
                KubeadmCertificatesState::try_from(State::from_line(&line)).unwrap()
            };
            std::fs::create_dir_all(at.join("kubelet")).unwrap();
            assert_eq!(state(), KubeadmCertificatesState::Absent, "{}", shell.name);
            std::fs::create_dir_all(at.join("kubernetes/manifests")).unwrap();
            std::fs::create_dir_all(at.join("kubernetes/pki/etcd")).unwrap();
            std::fs::write(at.join("kubernetes/manifests/kube-apiserver.yaml"), "").unwrap();
            assert!(fails("cv_line_kubeadm_certificates all").contains("root is needed"));
            let pem = |end: &str| format!("-----BEGIN CERT\nnotAfter={end}\n-----END CERT\n");
            std::fs::write(at.join("kubernetes/pki/apiserver.crt"), pem("Dec  2 03:45:00 2026 GMT")).unwrap();
            std::fs::write(at.join("kubernetes/pki/etcd/server.crt"), "nothing").unwrap();
            std::fs::write(at.join("kubernetes/pki/ca.crt"), pem("Jan  1 00:00:00 2020 GMT")).unwrap();
            let there = |read: bool, end: &str| KubeadmCertificatesState::There {
                read,
                ends: vec![
                    ("pki/apiserver.crt".to_owned(), end.to_owned()),
                    ("pki/etcd/server.crt".to_owned(), "-".to_owned()),
                ],
            };
            let old = there(true, "Dec  2 03:45:00 2026 GMT");
            assert_eq!(state(), old, "{}", shell.name);
            // Neither a failure nor a kubeadm that does nothing passes for a renewal.
            let renew = "cv_apply_kubeadm_certificates all 'read ~'";
            std::fs::write(tool("fail"), "").unwrap();
            fails(renew);
            std::fs::rename(tool("fail"), tool("lazy")).unwrap();
            assert!(fails(renew).contains("kubeadm has renewed no certificate"));
            std::fs::remove_file(tool("lazy")).unwrap();
            // The API server does not come back: the mark stays, and the next run waits for it without a renewal.
            std::fs::write(tool("down"), "").unwrap();
            assert!(fails(renew).contains("does not answer within 2 s"));
            let new = there(false, "Nov 22 03:45:01 2028 GMT");
            assert_eq!(state(), new, "{}", shell.name);
            std::fs::remove_file(tool("down")).unwrap();
            let renewals = std::fs::read_to_string(tool("log")).unwrap();
            let read = there(true, "Nov 22 03:45:01 2028 GMT");
            good(&format!("cv_apply_kubeadm_certificates all {}", quote(State::from(read.clone()).line())));
            assert_eq!(state(), read);
            assert_eq!(std::fs::read_to_string(tool("log")).unwrap(), renewals, "it was renewed again");
            let lines = [State::from(read), State::from(new)];
            good(&format!("cv_same_kubeadm_certificates all {} 'read ~'", quote(lines[0].line())));
            good(&format!("! cv_same_kubeadm_certificates all {} 'read ~'", quote(lines[1].line())));
            // While an init is unfinished there is nothing to renew.
            good("cv_write_record \"$CV_ROOT/kubeadm\" 'init 10.0.0.1:6443'");
            assert_eq!(state(), KubeadmCertificatesState::Absent);
        }
    }

    #[test]
    fn processes_of_pods_alone_are_found() {
        let dir = tempfile::tempdir().unwrap();
        for shell in shells(dir.path()) {
            let root = tempfile::tempdir().unwrap();
            for (pid, program, group) in [
                ("7", "/usr/bin/etcd", "/kubepods/x"),
                ("8", "/usr/bin/etcd", "/system.slice"),
                ("9", "/pause", "/kubepods"),
            ] {
                let process = root.path().join("proc").join(pid);
                std::fs::create_dir_all(&process).unwrap();
                std::os::unix::fs::symlink(program, process.join("exe")).unwrap();
                std::fs::write(process.join("cgroup"), format!("0::{group}\n")).unwrap();
            }
            let script =
                format!("CV_PROC={}/proc; cv_kubeadm_pods kube-apiserver etcd", root.path().display());
            let found = shell.good(root.path(), &script, &[], b"");
            assert_eq!(found, format!("{}/proc/7\n", root.path().display()), "{}", shell.name);
        }
    }
}
