//! Models as services, by NVIDIA's NIM operator.

use super::super::view::{ClusterView, few, full, list, namespace, short, text};
use super::{Diagnosis, Health, pods};
use serde_json::Value;

/// No key, or one that does not do.
pub(in super::super) const KEY: Diagnosis = Diagnosis {
    step: "ngc",
    symptom: "a model's pod stays in ImagePullBackOff (`401 Unauthorized`) or in CreateContainerConfigError",
    cause: "the key of NGC is missing in the models' namespace, has ended, or may not fetch this image",
    help: "give the role a key that may (`nim_service_ngc_key`): it writes both Secrets, ngc-secret for images and ngc-api-secret for models",
    role: Some("nim_service"),
    look: key,
};

/// A model that does not come.
pub(in super::super) const MODEL: Diagnosis = Diagnosis {
    step: "nim",
    symptom: "a model does not answer: its NIMCache or NIMService is not Ready",
    cause: "the model is still being fetched, its volume is not bound, no node has the GPUs that it asks for, or its profile does not fit them",
    help: "`kubectl describe` of the object, and `kubectl logs` of its pod; `kubectl get pvc` in its namespace",
    role: Some("nim_service"),
    look: model,
};

const REFUSED: &[&str] = &["401", "403", "nauthorized", "denied", "authentication required"];

fn key(view: &ClusterView) -> Option<(Health, String)> {
    let places = view.nim_namespaces();
    let refused = |(reason, _, message): &(&str, &str, &str)| match *reason {
        "ImagePullBackOff" | "ErrImagePull" => REFUSED.iter().any(|word| message.contains(word)),
        "CreateContainerConfigError" => message.contains("secret"),
        _ => false,
    };
    let mut own = view.pods.iter().filter(|pod| places.contains(namespace(pod)));
    let (pod, message) = own.find_map(|pod| Some((pod, pods::waits(pod).find(refused)?.2)))?;
    Some((Health::Ill, format!("{}: {}", full(pod), short(message))))
}

/// The message of the first condition that does not hold, or that says that the object has failed.
fn condition(object: &Value) -> &str {
    let bad = |condition: &&Value| {
        let wanted = if text(condition, "/type").ends_with("Failed") { "True" } else { "False" };
        text(condition, "/status") == wanted && !text(condition, "/message").is_empty()
    };
    list(object, "/status/conditions").iter().find(bad).map_or("", |found| text(found, "/message"))
}

fn model(view: &ClusterView) -> Option<(Health, String)> {
    // The missing key explains it.
    if key(view).is_some() {
        return None;
    }
    let state = |object: &Value| text(object, "/status/state").to_owned();
    let waiting: Vec<&Value> =
        view.nims.iter().filter(|object| !matches!(state(object).as_str(), "" | "Ready")).collect();
    let first = waiting.first()?;
    let failed = waiting.iter().any(|object| state(object) == "Failed");
    let names = few(waiting
        .iter()
        .map(|object| format!("{} {} is {}", text(object, "/kind"), full(object), state(object))));
    let detail = match condition(first) {
        "" => String::new(),
        detail => format!(": {}", short(detail)),
    };
    Some((if failed { Health::Ill } else { Health::Odd }, format!("{names}{detail}")))
}
