//! Kinds of files and packages on a real host: each is planned, applied, then unchanged; drift of each is detected and
//! corrected; all are rolled back.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::Host;
use converge_tests::{World, exec};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// A web server, a repository of packages with a disposable key, and files that are a user's already. Prints the fingerprint of
/// the key and the checksum of the archive.
const PREPARE: &str = r#"set -e
# The records on a file system of their own: how full the machine's disk is does not matter here.
mkdir -p -m 700 /var/lib/converge; mount -t tmpfs -o size=200m,mode=700 tmpfs /var/lib/converge
mkdir -p /srv/www/repo /srv/tls /etc/docker /etc/containerd /etc/shop /opt/tool /opt/pack /opt/folder
chmod 755 /srv /srv/www
export GNUPGHOME=/root/gpg; mkdir -p -m 700 $GNUPGHOME
gpg --batch -q --passphrase '' --quick-generate-key 'Throw Away <t@example.org>' ed25519 sign never 2>/dev/null
gpg --armor --export >/srv/www/key.asc
cat >/usr/local/bin/index <<'END'
#!/bin/sh -e
cd /srv/www/repo
export GNUPGHOME=/root/gpg
for f in *.deb; do dpkg-deb -f $f; echo "Filename: ./$f"; echo "Size: $(stat -c %s $f)"; echo "SHA256: $(sha256sum $f | cut -c1-64)"; echo; done >Packages
{ printf 'Origin: shop\nLabel: shop\nSuite: stable\nCodename: stable\nArchitectures: amd64 arm64 all\nDate: %s\nSHA256:\n' "$(date -Ru)"
  echo " $(sha256sum Packages | cut -c1-64) $(stat -c %s Packages) Packages"; } >Release
rm -f InRelease; gpg --batch -q --clearsign -o InRelease Release
END
chmod 755 /usr/local/bin/index
for version in 1.0 2.0; do
  d=$(mktemp -d); chmod 755 $d; mkdir -p $d/DEBIAN $d/usr/share/shop-tool
  printf 'Package: shop-tool\nVersion: %s\nArchitecture: all\nMaintainer: T <t@example.org>\nDescription: test\n' $version >$d/DEBIAN/control
  echo $version >$d/usr/share/shop-tool/version
  dpkg-deb --root-owner-group -b $d /srv/www/repo/shop-tool_${version}_all.deb >/dev/null; rm -r $d
done
index 2>/dev/null
d=$(mktemp -d); mkdir -p $d/tool-1/bin $d/tool-1/share; printf '#!/bin/sh\necho tool\n' >$d/tool-1/bin/tool; chmod 755 $d/tool-1/bin/tool
echo 'read me' >"$d/tool-1/share/read me"; ln -s bin/tool $d/tool-1/t; tar -czf /srv/www/tool.tgz -C $d tool-1; rm -r $d
openssl req -x509 -newkey rsa:2048 -nodes -keyout /srv/tls/key.pem -out /usr/local/share/ca-certificates/lab.crt -days 2 \
  -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
update-ca-certificates >/dev/null 2>&1
systemd-run -q --unit www busybox httpd -f -p 127.0.0.1:8080 -h /srv/www
systemd-run -q --unit wwws --working-directory /srv/www openssl s_server -quiet -WWW -accept 8443 -cert /usr/local/share/ca-certificates/lab.crt -key /srv/tls/key.pem
printf '{\n    "live-restore": true,\n    "log-opts": {"max-size": "10m", "max-file": "3"}\n}\n' >/etc/docker/daemon.json
printf '# by hand\nversion = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n\n[plugins."io.containerd.grpc.v1.cri"]\n  sandbox_image = "pause:3.8" # old\n' >/etc/containerd/config.toml
printf '# the shop\nname: shop   # ours\nports:\n- 80 # http\n' >/etc/shop/app.yaml
printf '; head\n[server]\nport=1\nold=yes\n' >/etc/shop/app.ini
for i in 1 2 3 4 5 6 7 8 9 10; do curl -fsS https://localhost:8443/key.asc >/dev/null 2>&1 && curl -fsS http://127.0.0.1:8080/key.asc >/dev/null && break; sleep 1; done
gpg --list-keys --with-colons 2>/dev/null | awk -F: '/^fpr/{print $10; exit}'
sha256sum </srv/www/tool.tgz | cut -c1-64
"#;

const ROLE: &str = r#"
summary: Files and packages
resources:
  - name: docker
    structured:
      path: /etc/docker/daemon.json
      set:
        /runtimes/nvidia: {path: nvidia-container-runtime, runtimeArgs: []}
        /log-opts/max-size: 100m
  - name: containerd
    structured:
      path: /etc/containerd/config.toml
      set: {/plugins/io.containerd.grpc.v1.cri/containerd/runtimes/nvidia: {runtime_type: io.containerd.runc.v2, options: {SystemdCgroup: true}}}
      include: {/imports: /etc/containerd/more.toml}
  - name: yaml
    structured: {path: /etc/shop/app.yaml, set: {/limits/memory: 1Gi}, include: {/ports: 443}}
  - name: ini
    structured: {path: /etc/shop/app.ini, set: {/server/port: 8443, /client/host: db}, remove: [/server/old]}
  - name: new file
    structured: {path: /etc/shop/new.json, create: true, mode: "0600", set: {/a/b: [1, 2]}}
  - name: key
    authorized_key: {user: root, key: "@KEY@", options: 'from="10.0.0.0/8",no-pty'}
  - name: tool
    download: {url: "http://127.0.0.1:8080/tool.tgz", path: /opt/tool.tgz, checksum: "sha256:@SUM@", mode: "0640"}
  - name: tool unpacked
    archive: {on_host: /opt/tool.tgz, path: /opt/tool, strip: 1}
  - name: pack
    archive: {source: pack.tgz, path: /opt/pack}
  - name: folder
    archive: {folder: raw, path: /opt/folder}
  - name: repository
    apt_repository: {name: shop, uris: "http://127.0.0.1:8080/repo", suites: ./, fingerprint: @FPR@, key_url: "https://localhost:8443/key.asc"}
  - name: package
    package: {name: shop-tool, @VERSION@, hold: true}
"#;

const CLAIMED: &str =
    "/etc/docker /etc/containerd /etc/shop /etc/apt /root/.ssh /opt /usr/share/shop-tool /var/lib/apt/lists";

/// Paths with bytes, modes and owners below what the role claims; packages with their marks.
fn state(host: &Host) -> BTreeSet<String> {
    let script = format!(
        "for top in {CLAIMED}; do [ -e $top ] || continue; find $top -not -name lock -not -path '*/partial/*' -printf '%p %y %m %U:%G %l\\n'; \
         find $top -type f -not -name lock -not -path '*/partial/*' -exec sha256sum {{}} +; done; \
         dpkg-query -W -f '${{Package}} ${{Version}} ${{db:Status-Abbrev}}\\n'; echo held $(apt-mark showhold); \
         echo manual $(apt-mark showmanual)"
    );
    exec(host, &script).lines().map(str::to_owned).collect()
}

fn apart(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    let gone = before.difference(after).map(|l| format!("-{l}"));
    gone.chain(after.difference(before).map(|l| format!("+{l}"))).collect()
}

fn results(document: &Value) -> BTreeMap<String, String> {
    let items = document["hosts"][0]["items"].as_array().unwrap();
    let word = |v: &Value| v.as_str().unwrap().to_owned();
    items.iter().map(|i| (word(&i["name"]), word(&i["result"]))).collect()
}

fn planned(world: &World, code: i32) -> Value {
    world.converge(&["plan", "hosts.yaml", "--output", "json"]).unwrap().expect(code).json().unwrap()
}

fn apply(world: &World) -> Value {
    let done = world
        .converge(&["apply", "hosts.yaml", "--yes", "--output", "json"])
        .unwrap()
        .expect(0)
        .json()
        .unwrap();
    assert_eq!(done["hosts"][0]["differences"], Value::Array(Vec::new()));
    done
}

/// A tar.gz under the role's `files/`, as a person makes one.
fn pack(world: &World) {
    let files = world.dir().join("roles/shop/files");
    std::fs::create_dir_all(files.join("raw/deep")).unwrap();
    std::fs::write(files.join("raw/deep/data"), [0u8, 255, 10]).unwrap();
    std::fs::write(files.join("raw/run.sh"), "#!/bin/sh\n").unwrap();
    let done = Command::new("tar")
        .args(["-czf", "pack.tgz", "-C", "raw", "."])
        .current_dir(&files)
        .status()
        .unwrap();
    assert!(done.success());
}

/// Drifts by item: the command that makes it, and the item that detects it.
const DRIFTS: &[(&str, &str)] = &[
    ("docker", "sed -i 's/100m/1m/' /etc/docker/daemon.json"),
    ("containerd", "sed -i 's/SystemdCgroup = true/SystemdCgroup = false/' /etc/containerd/config.toml"),
    ("yaml", "sed -i '/443/d' /etc/shop/app.yaml"),
    ("ini", "sed -i 's/8443/1/; s/host=db/host=x/; /port/a old=again' /etc/shop/app.ini"),
    ("new file", "rm /etc/shop/new.json"),
    ("key", "sed -i 's/no-pty/no-user-rc/' /root/.ssh/authorized_keys"),
    ("tool", "echo drifted >/opt/tool.tgz"),
    ("tool unpacked", "chmod 700 /opt/tool/bin/tool; rm '/opt/tool/share/read me'"),
    ("pack", "echo more >>/opt/pack/deep/data"),
    ("folder", "rm /opt/folder/run.sh"),
    ("repository", "echo >/etc/apt/keyrings/shop.gpg; rm /var/lib/apt/lists/*8080*"),
    ("package", "apt-mark -qq unhold shop-tool"),
];

#[test]
fn files_and_packages() {
    let world = World::new(&format!("t-files-{}", std::process::id()), 1).unwrap();
    let [host] = world.hosts() else { unreachable!() };
    let reported = exec(host, PREPARE);
    let (fingerprint, sum) = reported.split_once('\n').unwrap();
    let key = std::fs::read_to_string(world.lab().identity().with_extension("pub")).unwrap();
    let bytes = key.split(' ').nth(1).unwrap();
    // The lab's own key, with its last letters turned: another key of the same form.
    let other = format!(
        "ssh-ed25519 {}{} other@example.org",
        &bytes[..bytes.len() - 6],
        bytes[bytes.len() - 6..].chars().rev().collect::<String>()
    );
    let role = |version: &str| {
        let role = ROLE.replace("@KEY@", &other).replace("@SUM@", sum).replace("@FPR@", fingerprint);
        role.replace("@VERSION@", version)
    };
    world.only_role("shop", &role("version: '1.0'")).unwrap();
    pack(&world);
    let bare = state(host);

    // First run: what waits for an earlier item is said beforehand, and the apply does what the plan said.
    let first = results(&planned(&world, 2));
    let waits: Vec<&str> = first.iter().filter(|(_, r)| *r == "deferred").map(|(n, _)| n.as_str()).collect();
    assert_eq!(waits, ["package", "tool unpacked"]);
    assert!(first.iter().all(|(_, r)| r == "change" || r == "deferred"), "{first:#?}");
    assert_eq!(state(host), bare, "a plan changes nothing");
    let done = results(&apply(&world));
    assert!(done.values().all(|r| r == "changed"), "{done:#?}");
    let text = exec(host, "cat /etc/docker/daemon.json");
    assert!(text.starts_with("{\n    \"live-restore\": true,\n    \"log-opts\": {\"max-size\": \"100m\", \"max-file\": \"3\"},\n    \"runtimes\""), "{text}");
    let text = exec(host, "cat /etc/containerd/config.toml");
    assert!(
        text.contains("# by hand\n") && text.contains("\"pause:3.8\" # old\n") && text.contains("more.toml"),
        "{text}"
    );
    assert_eq!(
        exec(host, "cat /etc/shop/app.yaml /etc/shop/app.ini"),
        "# the shop\nname: shop   # ours\nports:\n- 80 # http\n- 443\nlimits:\n  memory: \"1Gi\"\n; head\n[server]\nport=8443\n\n[client]\nhost=db"
    );
    assert_eq!(
        exec(host, "/opt/tool/t; cat '/opt/tool/share/read me'; stat -c %a /opt/tool.tgz /opt/tool/bin/tool"),
        "tool\nread me\n640\n755"
    );
    assert_eq!(
        exec(
            host,
            "cat /usr/share/shop-tool/version; apt-mark showhold; cat /etc/apt/sources.list.d/shop.sources"
        ),
        "1.0\nshop-tool\nTypes: deb\nURIs: http://127.0.0.1:8080/repo\nSuites: ./\nSigned-By: /etc/apt/keyrings/shop.gpg"
    );
    let after = state(host);

    // A second run changes nothing; each drift is detected and corrected.
    assert!(results(&planned(&world, 0)).values().all(|r| r == "unchanged"));
    // In two rounds: a damaged archive is replaced before it can be read. (A host keeps ten runs.)
    for round in [
        DRIFTS.iter().filter(|d| d.0 != "tool").collect::<Vec<_>>(),
        DRIFTS.iter().filter(|d| d.0 == "tool").collect(),
    ] {
        for (_, damage) in &round {
            exec(host, damage);
        }
        let found = results(&planned(&world, 2));
        for (item, _) in &round {
            assert_eq!(found[*item], "change", "{item}: {found:#?}");
        }
        apply(&world);
        let left = apart(&after, &state(host));
        assert!(left.is_empty(), "{left:#?}");
        assert!(results(&planned(&world, 0)).values().all(|r| r == "unchanged"));
    }

    // Up, down only when it is said, and what cannot come back is said beforehand.
    world.only_role("shop", &role("version: '2.0'")).unwrap();
    let up = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    assert!(!up.all().contains("cannot be undone"), "{}", up.all());
    apply(&world);
    assert_eq!(exec(host, "cat /usr/share/shop-tool/version; apt-mark showhold"), "2.0\nshop-tool");
    world.only_role("shop", &role("version: '1.0'")).unwrap();
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(1).says("allow_downgrade");
    world.only_role("shop", &role("version: '1.0', allow_downgrade: true")).unwrap();
    apply(&world);
    assert_eq!(exec(host, "cat /usr/share/shop-tool/version; apt-mark showhold"), "1.0\nshop-tool");

    // Back to the start, byte for byte.
    let listed =
        world.converge(&["snapshots", "hosts.yaml", "--output", "json"]).unwrap().expect(0).json().unwrap();
    let runs = listed["hosts"][0]["runs"].as_array().unwrap();
    let start = runs.iter().filter_map(|r| r["run"].as_str()).min().unwrap();
    world.converge(&["rollback", "hosts.yaml", "--to", start, "--yes"]).unwrap().expect(0);
    let left = apart(&bare, &state(host));
    assert!(left.is_empty(), "{left:#?}");

    // A version that no repository offers any more.
    world.only_role("shop", &role("version: '1.0'")).unwrap();
    apply(&world);
    exec(
        host,
        "rm /srv/www/repo/shop-tool_1.0_all.deb; index; apt-get -qq update; apt-get clean; rm -rf /var/lib/converge/debs",
    );
    world.only_role("shop", &role("version: '2.0'")).unwrap();
    world
        .converge(&["plan", "hosts.yaml"])
        .unwrap()
        .expect(2)
        .says("no repository offers shop-tool 1.0 any more");
    apply(&world);
    assert_eq!(exec(host, "cat /usr/share/shop-tool/version"), "2.0");
}

/// A file or key that is another than declared never gets its place, and nothing is half done.
#[test]
fn what_is_not_as_declared_stays_out() {
    let world = World::new(&format!("t-false-{}", std::process::id()), 1).unwrap();
    let [host] = world.hosts() else { unreachable!() };
    let reported = exec(host, PREPARE);
    let (fingerprint, _) = reported.split_once('\n').unwrap();
    let zeros = "0".repeat(64);
    let role = format!(
        "resources:\n  - name: tool\n    download: {{url: 'http://127.0.0.1:8080/tool.tgz', path: /opt/tool.tgz, checksum: 'sha256:{zeros}'}}\n"
    );
    world.only_role("shop", &role).unwrap();
    let before = state(host);
    world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(1).says("it is not what was declared");
    assert_eq!(state(host), before);
    let role = format!(
        "resources:\n  - name: repository\n    apt_repository: {{name: shop, uris: 'http://127.0.0.1:8080/repo', suites: ./, fingerprint: '{}', \
         key_url: 'https://localhost:8443/key.asc'}}\n",
        &zeros[..40]
    );
    world.only_role("shop", &role).unwrap();
    world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(1).says(fingerprint);
    assert_eq!(state(host), before);
    // A repository whose signature is another's is refused by apt, and the error says so.
    exec(host, "cd /srv/www/repo; sed -i 's/^Origin: shop/Origin: thief/' InRelease");
    world.only_role("shop", &role.replace(&zeros[..40], fingerprint)).unwrap();
    world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(1).says("cannot be fetched");
    world.converge(&["rollback", "hosts.yaml", "--yes"]).unwrap().expect(0);
    let left = apart(&before, &state(host));
    assert!(left.is_empty(), "{left:#?}");
}

const FETCHES: &str = "inputs:
  fetch_to: {type: str, default: 'clusters/{{ inventory_hostname }}/config'}
resources:
  - name: the file is made
    command: {run: 'umask 077; echo \"kind: Config\" >/root/made', creates: /root/made, undo: 'rm -f /root/made'}
  - name: it comes
    fetch: {path: /root/made, to: '{{ fetch_to }}'}
";

/// A file of each host comes to this machine, private; drift on either side is found; a rollback brings the previous file back; no link is followed, and
/// no place is two hosts'.
#[test]
fn a_file_of_a_host_comes_to_the_controller() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let world = World::new(&format!("t-fetch-{}", std::process::id()), 2).unwrap();
    let [one, two] = world.hosts() else { unreachable!() };
    let place = |host: &Host| world.dir().join("fetched/clusters").join(host.name()).join("config");
    let text = |host: &Host| std::fs::read_to_string(place(host)).unwrap();
    let yes = |command: &str| world.converge(&[command, "hosts.yaml", "--yes"]).unwrap();
    world.only_role("shop", FETCHES).unwrap();

    // Before: one host has a file of that name here.
    std::fs::create_dir_all(place(one).parent().unwrap()).unwrap();
    std::fs::write(place(one), "former\n").unwrap();
    std::fs::set_permissions(place(one), PermissionsExt::from_mode(0o644)).unwrap();
    yes("apply").expect(0);
    for host in [one, two] {
        assert_eq!(text(host), "kind: Config\n");
        assert_eq!(std::fs::metadata(place(host)).unwrap().permissions().mode() & 0o777, 0o600);
    }
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);

    // Drift there and here.
    exec(one, "echo 'kind: Other' >/root/made");
    world.converge(&["drift", "hosts.yaml"]).unwrap().expect(2).says("+kind: Other").says("-kind: Config");
    std::fs::set_permissions(place(two), PermissionsExt::from_mode(0o644)).unwrap();
    world.converge(&["drift", "hosts.yaml"]).unwrap().expect(2).says("mode");
    yes("apply").expect(0);
    assert_eq!(text(one), "kind: Other\n");
    assert_eq!(std::fs::metadata(place(two)).unwrap().permissions().mode() & 0o777, 0o600);

    // Two runs back: the first content, then what was there before all, or nothing.
    yes("rollback").expect(0);
    assert_eq!(text(one), "kind: Config\n");
    // The mode that somebody had set came back too; he takes it away again.
    std::fs::set_permissions(place(two), PermissionsExt::from_mode(0o600)).unwrap();
    yes("rollback").expect(0);
    assert_eq!(text(one), "former\n");
    assert_eq!(std::fs::metadata(place(one)).unwrap().permissions().mode() & 0o777, 0o644);
    assert!(!place(two).exists());

    // Nothing is written through a link, and nothing in its place.
    std::fs::remove_dir_all(world.dir().join("fetched")).unwrap();
    std::fs::create_dir_all(world.dir().join("elsewhere")).unwrap();
    std::fs::create_dir_all(world.dir().join("fetched")).unwrap();
    symlink("../elsewhere", world.dir().join("fetched/clusters")).unwrap();
    yes("apply").expect(1).says("is a link");
    assert_eq!(std::fs::read_dir(world.dir().join("elsewhere")).unwrap().count(), 0);
    std::fs::remove_dir_all(world.dir().join("fetched")).unwrap();

    // One place for two hosts: neither is begun there, whichever of them the run has.
    for limit in ["all", one.name(), two.name()] {
        world
            .converge(&["apply", "hosts.yaml", "--yes", "--set", "fetch_to=same", "--limit", limit])
            .unwrap()
            .expect(1)
            .says("also writes fetched/same on this machine");
    }
    assert!(!world.dir().join("fetched").exists());
    yes("apply").expect(0);
    // No role declares it any more: what the runs made goes.
    world.only_role("shop", "resources: []\n").unwrap();
    let prune = world.prune_all().unwrap();
    let prune: Vec<&str> = prune.iter().map(String::as_str).collect();
    world.converge(&prune).unwrap().expect(0);
    assert!(!world.dir().join("fetched").exists());
}

/// The plan of an edit knows what the archive holds before it is unpacked, and what it holds below an edit that was made.
#[test]
fn a_file_of_an_archive_on_the_host_is_edited_once() {
    let world = World::new("kinds-unpacked", 1).unwrap();
    let host = &world.hosts()[0];
    exec(
        host,
        "mkdir -p /tmp/s/tool/bin && cd /tmp/s && echo 1 > \"tool/bin/a b\" && echo 2 > tool/other && tar czf /srv/one.tgz tool",
    );
    let role = |command: &str, archive: &str| {
        format!(
            "resources:\n{command}  - archive: {{on_host: {archive}, path: /opt}}\n  - line: {{path: \"/opt/tool/bin/a b\", line: edit}}\n"
        )
    };
    let converge =
        |args: &[&str], code: i32| world.converge(&[args, &["hosts.yaml"]].concat()).unwrap().expect(code);
    world.only_role("r", &role("", "/srv/one.tgz")).unwrap();
    converge(&["plan"], 2).says("+edit");
    converge(&["apply", "--yes"], 0);
    assert_eq!(exec(host, "cat '/opt/tool/bin/a b'"), "1\nedit");
    converge(&["plan"], 0);
    exec(host, "echo drift >> '/opt/tool/bin/a b'");
    converge(&["apply", "--yes"], 0);
    assert_eq!(exec(host, "cat '/opt/tool/bin/a b'"), "1\nedit");
    exec(host, "rm -r /opt/tool");
    let brought =
        "  - command: {run: cp /srv/one.tgz /srv/two.tgz, creates: /srv/two.tgz, undo: rm -f /srv/two.tgz}\n";
    world.only_role("r", &role(brought, "/srv/two.tgz")).unwrap();
    converge(&["apply", "--yes"], 0);
    assert_eq!(exec(host, "cat '/opt/tool/bin/a b'"), "1\nedit");
    converge(&["plan"], 0);
}
