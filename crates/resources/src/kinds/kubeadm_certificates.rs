//! `kubeadm_certificates`

use crate::look::state;
use converge_objects::KubeadmCertificatesState;
use converge_resource::{Claim, ObjectId, ParamError, Probe, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// The certificates of a control plane that kubeadm has made, renewed before they end.
///
/// When one of them ends within `renew_before_days`, by the host's own clock, all are renewed (`kubeadm certs renew all`): those of the API server,
/// of etcd and of the front proxy, and those in the kubeconfigs below `/etc/kubernetes`. Then etcd, the API server, the controller manager and the
/// scheduler of this host are restarted, since they read them when they start, and the item waits until the API server answers. A run that is cut
/// off before the restart leaves a mark, `/var/lib/kubelet/restart-by-converge`, and the next one restarts them.
///
/// The authorities are not renewed, nor is the kubelet's own certificate, which it renews itself. A renewal is irreversible, and the plan says so: a
/// rollback passes over it, and over a restart. A host that is no control plane is left alone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubeadmCertificates {
    /// They are renewed when one of them ends in fewer days. At most 300: kubeadm's certificates are good for a year.
    #[serde(default = "thirty")]
    renew_before_days: u32,
}

fn thirty() -> u32 {
    30
}

/// The clock of the host.
const NOW: &str = "date +%s";

impl KubeadmCertificates {
    fn id() -> ObjectId {
        ObjectId::new("kubeadm_certificates", "all")
    }

    /// Whether one of them ends too soon.
    fn due(&self, now: &KubeadmCertificatesState, view: &dyn View) -> Result<bool, Stop> {
        let Some((_, end)) = now.first_end() else { return Ok(false) };
        let reply = view.run(&Probe::run(NOW))?.stdout;
        let clock: i64 = reply.trim().parse().map_err(|_| {
            Stop::Failed(format!("the host does not tell the time: `{NOW}` says {}", reply.trim()))
        })?;
        Ok(end.as_second() < clock.saturating_add(i64::from(self.renew_before_days) * 86_400))
    }
}

impl Resource for KubeadmCertificates {
    const KIND: &'static str = "kubeadm_certificates";
    const EXAMPLE: &'static str = "\
- name: the certificates are renewed before they end
  kubeadm_certificates: {renew_before_days: 60}
";

    fn validate(&self) -> Vec<ParamError> {
        if (1..=300).contains(&self.renew_before_days) {
            return Vec::new();
        }
        let message = format!("{} is not between 1 and 300 days", self.renew_before_days);
        vec![ParamError::new(
            "/renew_before_days",
            message,
            "kubeadm's certificates are good for a year: write 30",
        )]
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::exclusive(Self::id(), "read")]
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        // An upgrade renews them too, and an init or join makes them.
        let matters = |object: &ObjectId, _: bool| {
            matches!(object.kind.as_str(), "command" | "kubeadm" | "kubeadm_control_plane")
        };
        if let Some(wait) = view.pending_act(&matters) {
            return Err(Stop::Deferred(wait));
        }
        let now: KubeadmCertificatesState = state(view, &Self::id())?;
        let target = match &now {
            KubeadmCertificatesState::There { .. } if self.due(&now, view)? => {
                KubeadmCertificatesState::Renewed
            }
            KubeadmCertificatesState::There { ends, .. } => {
                KubeadmCertificatesState::There { read: true, ends: ends.clone() }
            }
            _ => now.clone(),
        };
        Ok(WantedStates::one(Self::id(), target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::json;

    /// Noon of 24 November 2026.
    const CLOCK: &str = "1795521600\n";

    fn kind(days: u32) -> KubeadmCertificates {
        read(json!({"renew_before_days": days}))
    }

    fn host(read: bool, ends: &[&str]) -> FakeView {
        let ends =
            ends.iter().enumerate().map(|(n, end)| (format!("pki/{n}.crt"), (*end).to_owned())).collect();
        let state = KubeadmCertificatesState::There { read, ends };
        FakeView::new().has(KubeadmCertificates::id(), state).answer(&Probe::run(NOW), 0, CLOCK)
    }

    fn line(days: u32, view: FakeView) -> String {
        settle(&kind(days), view).line(&KubeadmCertificates::id())
    }

    #[test]
    fn they_are_renewed_when_the_first_of_them_ends_too_soon() {
        let (late, soon) = ("Nov 22 03:45:01 2027 GMT", "Dec 24 11:59:59 2026 GMT");
        assert_eq!(line(30, host(true, &[late, soon])), "read ~");
        assert_eq!(line(30, host(true, &[late, "Dec 24 12:00:00 2026 GMT"])).split(' ').next(), Some("read"));
        assert_ne!(line(30, host(true, &[late, "Dec 24 12:00:00 2026 GMT"])), "read ~");
        assert_ne!(line(29, host(true, &[late, soon])), "read ~");
        assert_eq!(line(30, host(false, &["Nov 22 03:45:01 2020 GMT"])), "read ~", "one has ended");
        // A certificate that nobody can read is no reason.
        assert_ne!(line(30, host(true, &[late, "-"])), "read ~");
    }

    #[test]
    fn what_a_cut_run_has_renewed_is_read() {
        let view = host(false, &["Nov 22 03:45:01 2027 GMT"]);
        assert!(view.line(&KubeadmCertificates::id()).starts_with("unread "));
        let after = line(30, view);
        assert!(after.starts_with("read ") && after != "read ~", "{after}");
    }

    #[test]
    fn hosts_without_a_control_plane_and_clocks_that_do_not_answer() {
        assert_eq!(
            line(30, FakeView::new().has(KubeadmCertificates::id(), KubeadmCertificatesState::Absent)),
            "absent"
        );
        let view = host(true, &["Nov 22 03:45:01 2027 GMT"]);
        assert!(matches!(
            kind(30).plan(&view.clone().answer(&Probe::run(NOW), 0, "?")),
            Err(Stop::Failed(_))
        ));
        assert!(matches!(kind(30).plan(&view.pending()), Err(Stop::Deferred(_))));
    }

    #[test]
    fn days_have_bounds() {
        for days in [0, 301] {
            assert_eq!(
                wrong::<KubeadmCertificates>(json!({"renew_before_days": days})),
                ["/renew_before_days"]
            );
        }
        assert_eq!(wrong::<KubeadmCertificates>(json!({"renew": 3})), ["parse /renew"]);
    }
}
