//! `undo.sh` names the objects of a cluster only where the host has a part in one, and something was restored.

use super::*;

impl FakeHost {
    fn undo_beside(&self, cluster: &Path, args: &[&str]) -> String {
        let script = self.dir.path().join("undo.sh");
        std::fs::write(&script, undo_text()).unwrap();
        let output = self.command().env("CV_KUBE_DIR", cluster).arg(&script).args(args).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }
}

#[test]
fn objects_of_a_cluster_are_named_where_there_may_be_some() {
    for host in hosts() {
        let (path, cluster) = (host.file("a"), host.file("kubernetes"));
        for run in ["r1", "r2"] {
            let change = host.change(&path, host.file_line(run.as_bytes(), 0o600));
            host.one(run, &mut spec(vec![change]), &[run.as_bytes()]);
        }
        let reply = host.undo_beside(&cluster, &["r2"]);
        assert!(reply.contains("restored ") && !reply.contains("Kubernetes"), "{reply}");
        std::fs::create_dir(&cluster).unwrap();
        let reply = host.undo_beside(&cluster, &["r2"]);
        assert!(!reply.contains("restored ") && !reply.contains("Kubernetes"), "{reply}");
        let reply = host.undo_beside(&cluster, &["r1"]);
        assert!(reply.contains("restored ") && reply.contains("Kubernetes"), "{reply}");
    }
}
