//! Roles over repositories and packages on a host of rpm: the packages have the names of the real ones, and no content.

use super::rpm::rpm_world;
use super::rpm_repositories::SIGNED;
use super::*;
use serde_json::{Value, json};

/// Makes packages and moves those of these patterns to a repository of their own, of which the metadata are signed as NVIDIA's are; the values of a
/// resource `rpm_repository` for it.
fn repository(host: &Host, folder: &str, make: &str, patterns: &str) -> Value {
    let fingerprint = exec(host, SIGNED);
    exec(
        host,
        &format!(
            "set -e\n{make}\nmkdir {folder}; cd /repo; mv {patterns} {folder}/; made python3-dnf-plugin-versionlock 1\ncreaterepo_c -q {folder}\n\
             GNUPGHOME=/root/signs gpg -q --batch --armor --detach-sign {folder}/repodata/repomd.xml\nindex"
        ),
    );
    json!({"baseurl": format!("file://{folder}"), "gpgcheck": false, "repo_gpgcheck": true, "fingerprint": fingerprint,
        "key": exec(host, "cat /root/signs/key.asc") + "\n"})
}

/// The role converges with these values, `shown` says then what is expected, an upgrade of the host changes nothing of it, and a rollback restores the start.
fn works(world: &World, role: (&str, &str), values: &Value, shown: &str, expected: &[&str]) {
    let host = &world.hosts()[0];
    world.write("group_vars/all.yaml", &values.to_string()).unwrap();
    world.only_role(role.0, role.1).unwrap();
    let before = exec(host, shown);
    converge(world, &["plan", "hosts.yaml"]).expect(2);
    apply(world).expect(0);
    let made = exec(host, shown);
    for text in expected {
        assert!(made.contains(text), "{text}: {made}");
    }
    exec(host, "dnf -q -y upgrade >/dev/null 2>&1; true");
    assert_eq!(exec(host, shown), made, "held");
    converge(world, &["plan", "hosts.yaml"]).expect(0);
    converge(world, &["verify", "hosts.yaml"]).expect(0);
    converge(world, &["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(exec(host, shown), before);
    std::fs::remove_file(world.dir().join("group_vars/all.yaml")).unwrap();
}

const TOOLKIT: &str = r#"
for v in 1.17.8 1.18.0; do
  made libnvidia-container1 $v; made libnvidia-container-tools $v 'Requires: libnvidia-container1'
  made nvidia-container-toolkit-base $v; made nvidia-container-toolkit $v 'Requires: nvidia-container-toolkit-base'
done
printf '#!/bin/sh\n' | tee /usr/local/bin/nvidia-ctk >/usr/local/bin/nvidia-container-runtime
chmod 755 /usr/local/bin/nvidia-*"#;

#[test]
fn the_role_of_the_container_toolkit_works_on_a_host_of_rpm() {
    let world = rpm_world();
    let repository = repository(&world.hosts()[0], "/toolkit", TOOLKIT, "*nvidia*");
    let values =
        json!({"nvidia_container_toolkit_version": "1.17.8-1", "nvidia_container_toolkit_rpm": repository});
    let role =
        ("nvidia_container_toolkit", include_str!("../../../roles/nvidia_container_toolkit/role.yaml"));
    let shown = "rpm -qa '*nvidia*' '*versionlock' | sort; cat /etc/dnf/plugins/versionlock.list; ls /etc/yum.repos.d; cat /etc/nvidia-container-runtime/config.toml 2>&1; true";
    let expected = [
        "nvidia-container-toolkit-1.17.8-1",
        "libnvidia-container1-0:1.17.8-1.*",
        "nvidia-container-toolkit.repo",
        "accept-nvidia-visible-devices-envvar",
    ];
    works(&world, role, &values, shown, &expected);
}

/// A test host takes no modules: the version of the module is laid where the kernel would show it.
const DRIVER: &str = r#"
export EPOCH=3
for v in 580.95.05 590.10; do
  for name in nvidia-driver-cuda kmod-nvidia-open-dkms; do made $name $v; done
  UNIT=1 made nvidia-persistenced $v
done
unset EPOCH
made t-kernel-devel 1
printf '#!/bin/sh\necho "$*" >>/srv/dracut\n' >/usr/local/bin/dracut
printf '#!/bin/sh\ncase $* in *compute-apps*) ;; *) echo 580.95.05 ;; esac\n' >/usr/local/bin/nvidia-smi
chmod 755 /usr/local/bin/*
{ [ -d /sys/module ] && mount -t tmpfs none /sys/module; } || { mount -o remount,rw /sys && mkdir -p /sys/module; }
mkdir -p /sys/module/nvidia
echo 580.95.05 >/sys/module/nvidia/version"#;

#[test]
fn the_role_of_the_driver_works_on_a_host_of_rpm() {
    let world = rpm_world();
    let host = &world.hosts()[0];
    let repository = repository(host, "/driver", DRIVER, "nvidia-* kmod-*");
    let values = json!({"nvidia_driver_branch": "580-open", "nvidia_driver_version": "3:580.95.05-1", "nvidia_driver_rpm": repository,
        "nvidia_driver_kernel_devel": "t-kernel-devel", "nvidia_driver_now": false});
    let role = ("nvidia_driver", include_str!("../../../roles/nvidia_driver/role.yaml"));
    let shown = "rpm -qa 'nvidia-*' 'kmod-*' 't-kernel*' '*versionlock' | sort; cat /etc/dnf/plugins/versionlock.list; ls /etc/yum.repos.d /etc/modprobe.d /etc/modules-load.d; \
                 systemctl is-active nvidia-persistenced; true";
    let expected = [
        "nvidia-driver-cuda-580.95.05-1",
        "kmod-nvidia-open-dkms-3:580.95.05-1.*",
        "t-kernel-devel-1-1",
        "nvidia-driver.repo",
        "converge-nouveau.conf",
        "\nactive",
    ];
    works(&world, role, &values, shown, &expected);
    assert_eq!(exec(host, "cat /srv/dracut"), "--force\n--force", "the change, and its rollback");
    exec(host, "umount /sys/module; rm /usr/local/bin/nvidia-smi /usr/local/bin/dracut");
}

const DOCKER: &str = r#"
for v in 28.5.1 29.0.0; do
  EPOCH=3 made docker-ce $v; EPOCH=1 made docker-ce-cli $v; made containerd.io $v; made docker-buildx-plugin $v
done
made podman 5
printf '#!/bin/sh\n' >/usr/local/bin/docker
chmod 755 /usr/local/bin/docker
printf '[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/docker.service
systemctl daemon-reload"#;

#[test]
fn the_role_of_docker_works_on_a_host_of_rpm() {
    let world = rpm_world();
    let host = &world.hosts()[0];
    let repository = repository(host, "/docker", DOCKER, "docker-* containerd*");
    exec(host, "dnf -q -y install podman >/dev/null 2>&1; rpm -q podman");
    let values = json!({"docker_engine_version": "3:28.5.1-1", "docker_engine_cli_version": "1:28.5.1-1", "docker_engine_containerd_version": "28.5.1-1",
        "docker_engine_rpm": repository, "docker_engine_more": []});
    let role = ("docker_engine", include_str!("../../../roles/docker_engine/role.yaml"));
    let shown = "rpm -qa 'docker-*' 'containerd*' podman '*versionlock' | sort; cat /etc/dnf/plugins/versionlock.list; ls /etc/yum.repos.d; systemctl is-active docker; true";
    let expected = ["docker-ce-3:28.5.1-1.*", "docker-ce-cli-28.5.1-1", "containerd.io-28.5.1-1", "\nactive"];
    works(&world, role, &values, shown, &expected);
    assert_eq!(exec(host, "rpm -q podman"), "podman-5-1.noarch");
    exec(
        host,
        "dnf -q -y remove podman >/dev/null 2>&1; rm /usr/local/bin/docker /etc/systemd/system/docker.service; systemctl daemon-reload",
    );
}

/// Programs that stand for docker's: the daemon checks a configuration, and runs with the one that was there when its unit started.
const RUNTIME: &str = r#"set -e
mkdir -p /etc/docker
echo '{"log-driver": "journald"}' >/etc/docker/daemon.json
cat >/usr/local/bin/dockerd <<'END'
#!/bin/sh
case $* in
*--help*) echo '      --validate   Validate daemon configuration and exit' ;;
*--validate*) python3 -m json.tool "$3" >/dev/null ;;
esac
END
cat >/usr/local/bin/docker <<'END'
#!/usr/bin/python3
import json, sys
runs = json.load(open("/run/docker-runs"))
print(runs.get("default-runtime", "runc") if "DefaultRuntime" in sys.argv[3] else "\n".join(["runc", *runs.get("runtimes", {})]))
END
printf '#!/bin/sh\n' >/usr/local/bin/nvidia-container-runtime
chmod 755 /usr/local/bin/docker* /usr/local/bin/nvidia-container-runtime
printf '[Service]\nExecStartPre=/bin/cp /etc/docker/daemon.json /run/docker-runs\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' \
  >/etc/systemd/system/docker.service
systemctl daemon-reload
systemctl enable -q --now docker"#;

#[test]
fn the_role_of_dockers_runtime_works_on_a_host_of_rpm() {
    let world = rpm_world();
    let host = &world.hosts()[0];
    exec(host, RUNTIME);
    let role = ("docker_runtime", include_str!("../../../roles/docker_runtime/role.yaml"));
    let shown = "cat /etc/docker/daemon.json /run/docker-runs; systemctl is-active docker; docker info --format '{{.DefaultRuntime}}'";
    let expected = [r#""log-driver": "journald""#, "runtimeArgs", "\nactive\nnvidia"];
    works(&world, role, &json!({"docker_runtime_default": true}), shown, &expected);
    exec(
        host,
        "systemctl disable -q --now docker; rm /usr/local/bin/docker* /usr/local/bin/nvidia-container-runtime /etc/systemd/system/docker.service; \
         rm -r /etc/docker; systemctl daemon-reload",
    );
}
