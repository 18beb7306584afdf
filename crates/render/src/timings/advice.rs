//! Advice how to shorten a part of a run: one rule a cause. No rule, where a user can do nothing.

use super::cause::Cause;

const TURN: &str = "work on more hosts at once: --forks N, or the setting `forks`";
const CONNECT: &str = "`ssh -v` to this host shows which step waits: most often a name lookup (UseDNS of its sshd, or the name of the \
    host), the ssh-agent, or a jump host";
const ONE_PACKAGE: &str = "a mirror or a cache of packages near the host";
const PACKAGES: &str = "neighbouring package resources are one transaction: put them next to each other in the role; a mirror or a \
    cache of packages near the host";
const SERVICE: &str = "a service that is started is watched for a second, unless its type is notify, forking, dbus or oneshot: those \
    say themselves when they run";
const IMAGES: &str = "a mirror or a cache of the registry near the host";
const CONDITION: &str = "it ends as soon as its condition holds: look at what the condition waits for";
const REPLAN: &str = "resources behind a package, the start of a service or a command are planned again where these change what they read: \
    put them first where the order allows it";

/// The advice for this cause; `items` is the number of its resources.
pub(super) fn advice(cause: &Cause, items: usize) -> Option<&'static str> {
    Some(match cause {
        Cause::Turn => TURN,
        Cause::Connect => CONNECT,
        Cause::Kind(kind) => match kind.as_str() {
            "package" if items > 1 => PACKAGES,
            "package" => ONE_PACKAGE,
            "service" | "timer" | "unit" => SERVICE,
            "container_images" => IMAGES,
            "wait_for" | "k8s_wait" | "k8s_rollout" => CONDITION,
            _ => return None,
        },
        Cause::Settle => CONDITION,
        Cause::Replan => REPLAN,
        Cause::Read | Cause::Open | Cause::Verify | Cause::Confirm | Cause::Close => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_about_its_cause() {
        let kind = |kind: &str| Cause::Kind(kind.to_owned());
        let rules = [
            (Cause::Turn, 0, Some(TURN)),
            (Cause::Connect, 0, Some(CONNECT)),
            (kind("package"), 1, Some(ONE_PACKAGE)),
            (kind("package"), 2, Some(PACKAGES)),
            (kind("service"), 1, Some(SERVICE)),
            (kind("timer"), 3, Some(SERVICE)),
            (kind("container_images"), 1, Some(IMAGES)),
            (kind("wait_for"), 1, Some(CONDITION)),
            (kind("k8s_rollout"), 1, Some(CONDITION)),
            (Cause::Settle, 0, Some(CONDITION)),
            (Cause::Replan, 0, Some(REPLAN)),
        ];
        for (cause, items, rule) in rules {
            assert_eq!(advice(&cause, items), rule, "{cause:?}");
        }
    }

    #[test]
    fn where_nothing_can_be_done_nothing_is_reported() {
        let kind = |kind: &str| Cause::Kind(kind.to_owned());
        for cause in [Cause::Read, Cause::Open, Cause::Verify, Cause::Confirm, kind("file"), kind("command")]
        {
            assert_eq!(advice(&cause, 1), None, "{cause:?}");
        }
    }
}
