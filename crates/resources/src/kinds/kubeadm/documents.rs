//! The documents that kubeadm is given for an init.

use converge_resource::ParamError;
use serde_json::{Map, Value};

fn text<'a>(document: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    document.get(key).and_then(Value::as_str)
}

/// Checks the documents of an init.
pub(super) fn check_documents(
    endpoint: &str,
    documents: &[Map<String, Value>],
    errors: &mut Vec<ParamError>,
) {
    let mut wrong = |p: &str, m: String, h: &str| errors.push(ParamError::new(p, m, h));
    for (n, document) in documents.iter().enumerate() {
        if text(document, "kind").is_none() || text(document, "apiVersion").is_none() {
            let message = "a document of kubeadm has an `apiVersion` and a `kind`".to_owned();
            wrong(&format!("/init/config/{n}"), message, "add them: `apiVersion: kubeadm.k8s.io/v1beta4`");
        }
    }
    let found = documents.iter().position(|d| text(d, "kind") == Some("ClusterConfiguration"));
    let Some((n, cluster)) = found.and_then(|n| Some((n, documents.get(n)?))) else {
        wrong("/init/config", "there is no `ClusterConfiguration`".to_owned(), "add that document");
        return;
    };
    if text(cluster, "kubernetesVersion").is_none() {
        wrong(
            &format!("/init/config/{n}"),
            "without `kubernetesVersion` kubeadm asks the Internet for one".to_owned(),
            "add the version of the installed packages, as `v1.36.2`",
        );
    }
    if text(cluster, "controlPlaneEndpoint") != Some(endpoint) {
        wrong(
            &format!("/init/config/{n}"),
            format!("its `controlPlaneEndpoint` is not the `endpoint`, {endpoint}"),
            "write the same address in both",
        );
    }
}
