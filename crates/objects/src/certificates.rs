//! When certificates end, for objects, facts and doctor.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Shell functions that read the files of kubeadm: certificates, and settings that let everyone in.
pub const KUBEADM_FILES: &str =
    concat!(include_str!("read_certificates.sh"), "\n", include_str!("read_open.sh"));

/// A moment as openssl writes it: `Nov 22 03:45:01 2027 GMT`.
pub fn openssl_moment(reply: &str) -> Option<Timestamp> {
    let reply = reply.trim().strip_suffix(" GMT")?;
    let moment = DateTime::strptime("%b %d %H:%M:%S %Y", reply).ok()?;
    Some(moment.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openssl_pads_days_with_a_blank() {
        let of = |text: &str| openssl_moment(text).map(|moment| moment.to_string());
        assert_eq!(of("Dec  2 03:45:00 2026 GMT").as_deref(), Some("2026-12-02T03:45:00Z"));
        assert_eq!(of("Nov 22 03:45:01 2027 GMT\n").as_deref(), Some("2027-11-22T03:45:01Z"));
        for bad in ["", "-", "soon", "Nov 22 03:45:01 2027"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
