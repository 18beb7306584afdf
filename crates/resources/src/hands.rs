//! Fields that people have changed by hand, by the managers that the server records.

use converge_objects::k8s::fields;
use converge_objects::k8s::owners::owners;
use serde_json::Value;

/// Whether a field manager is a user's tool, or a deployer in his place.
pub fn is_hand(manager: &str) -> bool {
    let manager = manager.to_lowercase();
    let word = |tool: &&str| {
        let rest = manager.strip_prefix(tool);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
    };
    HANDS.iter().any(word)
}

/// The manager that has changed a field by hand, by the server's record.
pub fn hand(live: &Value, path: &[fields::Segment]) -> Option<String> {
    owners(live, path).into_iter().find(|manager| is_hand(manager))
}

/// Tools with which people, or deployers in their place, change objects: what they write over a declared field is drift. Whatever else
/// writes a declared field is a controller that has its reasons.
const HANDS: [&str; 24] = [
    "kubectl",
    "oc",
    "k9s",
    "lens",
    "openlens",
    "freelens",
    "node-fetch",
    "mozilla",
    "dashboard",
    "headlamp",
    "rancher",
    "octant",
    "openapi-generator",
    "python",
    "ansible",
    "curl",
    "go-http-client",
    "terraform",
    "hashicorp",
    "pulumi",
    "argocd",
    "kustomize-controller",
    "kapp",
    "before-first-apply",
];
