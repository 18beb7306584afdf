//! The budget of one look at a host: however many questions it is asked, their answers together have so much time and so many bytes.

use converge_executor::TargetError;
use converge_resource::Probe;
use converge_ssh::Room;
use std::collections::BTreeSet;
use std::time::Duration;

/// Seconds. A plan of a host takes a few; every question has a limit of its own, and there may be many.
const SECONDS: u64 = 300;

/// MiB. What is read stays in the controller's memory for as long as it plans.
const MIB: usize = 128;

/// Seconds that a question has as a rule. What it is allowed above that does not come out of the others' time.
const ORDINARY: u64 = 60;

/// The budget at the beginning of a look.
pub(crate) fn whole() -> Room {
    Room { time: Some(Duration::from_secs(SECONDS)), bytes: Some(MIB << 20) }
}

/// The budget that is left, with the additional time of these questions.
pub(crate) fn with(room: Room, probes: &BTreeSet<Probe>) -> Room {
    let more = |probe: &Probe| match probe {
        Probe::Run { timeout, .. } => timeout.saturating_sub(ORDINARY),
        _ => 0,
    };
    let more = Duration::from_secs(probes.iter().map(more).sum());
    Room { time: room.time.map(|time| time + more), ..room }
}

/// The reason why a host is excluded from the run that has used it up.
pub(crate) fn used_up(host: &str, time: bool) -> TargetError {
    let what = match time {
        true => format!(
            "its answers took more than {SECONDS} s together: the host is slow, or some of its programs hang; look at it (`ssh {host} uptime`, `converge doctor`)"
        ),
        false => format!(
            "its answers are larger than {MIB} MiB together, which is more than a plan reads of one host"
        ),
    };
    TargetError::Unreachable(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_that_may_take_long_bring_their_time() {
        let slow = Probe::Run { script: "x".to_owned(), user: None, timeout: 180 };
        let probes = BTreeSet::from([slow, Probe::run("true"), Probe::Content("/a".to_owned())]);
        let room = with(whole(), &probes);
        assert_eq!(room.time, Some(Duration::from_secs(SECONDS + 120)));
        assert_eq!(room.bytes, whole().bytes);
    }
}
