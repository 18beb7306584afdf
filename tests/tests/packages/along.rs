//! Things that come along with a package where its resource says so: recommended packages, and services that are started.

use super::{apply, converge, packages, roles, world};
use converge_tests::exec;

#[test]
fn recommended_packages_and_started_services_come_where_the_resource_says_so() {
    let world = world();
    let host = &world.hosts()[0];
    let before = packages(host);
    let none = "APT::Install-Recommends \"false\";";
    for (more, set, comes, starts) in [
        ("", "", false, false),
        (", recommends: always, starts_services: true", none, true, true),
        (", recommends: as_configured", none, false, false),
        (", recommends: as_configured, starts_services: true", "", true, true),
    ] {
        exec(host, &format!("rm -f /srv/serves; echo '{set}' >/etc/apt/apt.conf.d/99along"));
        roles(&world, &[("r", &format!("  - name: serves\n    package: {{name: t-serves{more}}}\n"))]);
        apply(&world).expect(0);
        let now = packages(host);
        assert!(now.contains("t-serves 1 installed"), "{more}: {now}");
        assert_eq!(now.contains("t-extra 1 installed"), comes, "{more}: {now}");
        assert_eq!(exec(host, "ls /srv/serves 2>/dev/null || true").contains("serves"), starts, "{more}");
        let again = converge(&world, &["plan", "hosts.yaml"]).expect(0);
        assert!(!again.stdout.contains("t-extra"), "{}", again.stdout);
        converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0);
        assert_eq!(packages(host), before, "{more}");
    }
    exec(host, "rm -f /srv/serves /etc/apt/apt.conf.d/99along");
}
