//! Controller and host agree on whether an object is in a planned state: [`converge_resource::Object::fulfils`] and `cv_same_KIND`.

use crate::testing::shells;
use converge_resource::State;

const D1: &str = "68b45468315d3f89d4baab59b83c693c79dcf406b74fd12731bc9d6124a888f8";
const D2: &str = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7";

/// KIND, the state now, the planned one, and whether the first stands for the second.
fn cases() -> Vec<(&'static str, String, String, bool)> {
    let all = [
        ("user", "user 1001 g \\ /h /s locked a", "user ~ g \\ /h /s locked a", true),
        ("user", "user 1001 g \\ /h /s locked", "user ~ g \\ /h /s locked a", false),
        ("user", "user 1001 g \\ /h /s locked", "user ~ g ~ /h /s locked", false),
        ("user", "user 1001 g \\ /h /s locked", "user 1002 g \\ /h /s locked", false),
        ("user", "absent", "user ~ g \\ /h /s locked", false),
        ("user", "user 1001 g \\ /h /s locked", "absent", false),
        ("group", "group 1001", "group ~", true),
        ("group", "group 1001", "group 1002", false),
        ("group", "absent", "group ~", false),
        ("path", "file 644 a b 6 D1", "file 644 a b ~ D1", true),
        ("path", "file 644 a b 6 D2", "file 644 a b ~ D1", false),
        ("path", "file 600 a b 6 D1", "file 644 a b ~ D1", false),
        ("path", "file 644 a b 6 D1", "file 644 a b 7 D1", false),
        ("path", "absent", "file 644 a b ~ D1", false),
        ("path", "dir 755 a b", "file 644 a b ~ D1", false),
        ("snap", "snap 1.34/stable 42 classic -", "snap 1.34/stable ~ classic -", true),
        ("snap", "snap 1.33/stable 42 classic -", "snap 1.34/stable ~ classic -", false),
        ("snap", "absent", "snap 1.34/stable ~ classic -", false),
        ("swap", "on 65536 -2", "on 65536 ~", true),
        ("swap", "on 65537 -2", "on 65536 ~", false),
        ("swap", "idle 65536 swap", "on 65536 ~", false),
        ("filesystem", "fs ext4 scratch 1-2 empty", "fs ext4 scratch ~ empty", true),
        ("filesystem", "fs ext4 scratch 1-2 used", "fs ext4 scratch ~ empty", false),
        ("filesystem", "fs ext4 - 1-2 empty", "fs ext4 scratch ~ empty", false),
        ("filesystem", "fs xfs scratch 1-2 empty", "fs ext4 scratch ~ empty", false),
        ("filesystem", "fs ext4 scratch 1-2 empty", "fs ext4 scratch 1-3 empty", false),
        ("filesystem", "blank", "fs ext4 - ~ empty", false),
        ("mount", "mount /dev/sda1 ext4 rw,relatime -", "mount UUID=1 auto defaults -", true),
        ("mount", "mount srv:/x nfs4 rw -", "mount srv:/x nfs defaults -", true),
        ("mount", "mount /dev/sda1 ext4 rw -", "mount /dev/sda1 xfs defaults -", false),
        ("mount", "mount /dev/sda1 ext4 rw /a", "mount /dev/sda1 ext4 defaults -", false),
        ("mount", "mount /dev/sda1 ext4 rw /a", "mount /a none bind /a", true),
        ("mount", "absent", "mount UUID=1 auto defaults -", false),
        ("mount", "mount /dev/sda1 ext4 rw -", "absent", false),
        ("unit", "unit enabled inactive -", "absent", true),
        ("unit", "unit static failed -", "absent", true),
        ("unit", "unit static active -", "absent", false),
        ("unit", "unit enabled inactive D1", "unit enabled failed D1", true),
        ("unit", "unit disabled inactive D1", "unit enabled failed D1", false),
        ("unit", "unit enabled inactive -", "unit enabled active -", false),
        ("firewall", "ufw inactive deny allow deny", "absent", true),
        ("firewall", "ufw active deny allow deny", "absent", false),
        ("firewall", "absent", "ufw active deny allow deny", false),
        ("apt_index", "current", "old", true),
        ("apt_index", "old", "current", false),
        ("dpkg", "settled", "unfinished a", true),
        ("kubeadm_control_plane", "plane d a:--x=1 a:--y", "plane d ~ a:--y ^a:--x=2", true),
        ("kubeadm_control_plane", "plane d a:--x=1 a:--y", "plane d ~", true),
        ("kubeadm_control_plane", "plane d a:--x=1 a:--y", "plane d ~ a:--y ^a:--x=1", false),
        ("kubeadm_control_plane", "plane d a:--x=1 a:--y", "plane d ~ a:--x", false),
        ("kubeadm_control_plane", "plane begun a:--x=1", "plane d ~ a:--x=1", false),
        ("kubeadm_control_plane", "plane d a:--x=\\0052", "plane d a:--x=\\0052 a:--y", false),
        ("kubeadm_control_plane", "plane d \\0052", "plane d ~ \\0136\\0052", false),
        ("kubeadm_control_plane", "plane d \\0052", "plane d ~ \\0136\\0053", true),
        ("kubeadm_control_plane", "absent", "plane d ~", false),
        ("kubeadm_certificates", "read pki/ca.crt soon", "read ~", true),
        ("kubeadm_certificates", "unread pki/ca.crt soon", "read ~", false),
        ("kubeadm_certificates", "absent", "read ~", false),
        ("dpkg", "unfinished a", "settled", false),
    ];
    let filled = |line: &str| line.replace("D1", D1).replace("D2", D2);
    all.into_iter().map(|(kind, now, planned, is)| (kind, filled(now), filled(planned), is)).collect()
}

#[test]
fn controller_and_host_agree_on_whether_a_planned_state_was_reached() {
    let (dir, cases) = (tempfile::tempdir().unwrap(), cases());
    // The run splits at line feeds alone when it asks.
    let script = "IFS=$CV_NL; if [ \"$2\" = \"$3\" ] || \"cv_same_$1\" x \"$2\" \"$3\"; then echo yes; else echo no; fi";
    for (kind, now, planned, is) in &cases {
        let object = crate::object(kind).unwrap();
        let fulfils = object.fulfils(&State::from_line(now), &State::from_line(planned));
        assert_eq!(fulfils, *is, "{kind}: {now} for {planned}");
        for shell in shells(dir.path()) {
            let reply = shell.good(dir.path(), script, &[kind, now, planned], b"");
            assert_eq!(reply.trim() == "yes", *is, "{}: {kind}: {now} for {planned}", shell.name);
        }
    }
    // No kind has a rule of its own on the host alone.
    for line in crate::registry::shell_library().lines() {
        let Some(kind) = line.strip_prefix("cv_same_").and_then(|l| l.split('(').next()) else { continue };
        assert!(cases.iter().any(|(k, ..)| *k == kind), "cv_same_{kind} is not compared");
    }
}
