//! Charts of a private repository and a private registry, in one run with two logins.

use crate::{Lab, says_all};
use converge_lab::ChartServer;
use converge_tests::Ran;

/// The first password is a sensitive input, the second is looked up in a file.
const ROLE: &str = r#"
scope: cluster
inputs:
  password: {type: str, sensitive: true, required: true}
check:
  - name: the chart can be had
    helm_repository: {url: "http://ONE", chart: small, version: 1.0.0, login: {username: ann, password: "{{ password }}"}}
resources:
  - name: one
    helm_release:
      {name: one, namespace: default, repository: "http://ONE", chart: small, version: 1.0.0,
       values: {size: 4}, login: {username: ann, password: "{{ password }}"}}
  - name: two
    helm_release:
      {name: two, namespace: default, oci: "oci://TWO/charts/small", plain_http: true, version: 1.0.0,
       login: {username: bob, password: "{{ lookup('file', 'DIR/second') }}"}}
"#;

/// A repository and a registry behind TLS; the registry gives its charts for a token only, which it hands out for the login.
const TLS_ROLE: &str = r#"
scope: cluster
inputs:
  password: {type: str, sensitive: true, required: true}
resources:
  - name: three
    helm_release:
      {name: three, namespace: default, repository: "https://HOST", chart: small, version: 1.0.0,
       login: {username: ann, password: "{{ password }}"}}
  - name: four
    helm_release:
      {name: four, namespace: default, oci: "oci://HOST/charts/small", version: 1.0.0,
       login: {username: ann, password: "{{ lookup('file', 'DIR/second') }}"}}
"#;

const MAP: (&str, &str) = (
    "templates/map.yaml",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-private}\ndata: {size: {{ .Values.size | quote }}}\n",
);

/// Nothing that was printed holds a password.
#[track_caller]
fn silent(ran: Ran) -> Ran {
    assert!(!ran.all().contains("hunter2"), "{}", ran.all());
    ran
}

#[test]
fn private_charts_come_with_their_logins_and_no_password_is_seen() {
    let lab = Lab::get();
    let dir = lab.world.dir();
    let serve = |user: &str, password: &str| {
        let server = ChartServer::start().unwrap();
        server.admit(user, password);
        server.pack(&lab.helm, "small", "1.0.0", &[MAP, ("values.yaml", "size: 1\n")]).unwrap();
        server
    };
    let (one, two) = (serve("ann", "hunter2-{{ first }}"), serve("bob", "hunter2-second"));
    let text = ROLE.replace("ONE", &one.host()).replace("TWO", &two.host());
    lab.role("private", &text.replace("DIR", &dir.display().to_string()));
    let first = format!("password=@{}", dir.join("first").display());
    let run = |verb: &[&str]| silent(lab.converge(&[verb, &["hosts.yaml", "--set", &first]].concat()));
    lab.world.write("first", "hunter2-wrong").unwrap();
    lab.world.write("second", "hunter2-wrong").unwrap();

    // Each refusal names its source and what to do.
    let refused = |address: String| {
        let words = format!("{address} does not accept the login (401 Unauthorized)");
        says_all(&run(&["plan"]).expect(1), &[&words, "correct `username` and `password` of `login`"]);
    };
    refused(format!("http://{}", one.host()));
    // The text of a file is no template.
    lab.world.write("first", "hunter2-{{ first }}").unwrap();
    refused(format!("oci://{}/charts/small", two.host()));

    // The resource is open: its content is shown. Neither the saved plan nor the records hold a password.
    lab.world.write("second", "hunter2-second").unwrap();
    let out = dir.join("private.plan").display().to_string();
    let plan = run(&["plan", "--out", &out]).expect(2);
    says_all(&plan, &["helm install default/one (small-1.0.0)", "helm install default/two", "size: '4'"]);
    assert!(!std::fs::read_to_string(&out).unwrap().contains("hunter2"));
    run(&["plan", "--output", "json"]).expect(2);
    let explained = ["explain", "private/one", "hosts.yaml", "--set", &first];
    says_all(&silent(lab.converge(&explained)).expect(0), &["login: not shown", "version: 1.0.0"]);
    run(&["apply", "--yes"]).expect(0);
    let size = |name: &str| lab.value(&["configmap", name], "/data/size").unwrap();
    assert_eq!((size("one-private"), size("two-private")), ("4".into(), "1".into()));
    let all = lab.api.kubectl(&["get", "secrets,configmaps", "-A", "-o", "yaml"]).unwrap().stdout;
    assert!(all.contains("one-private") && !all.contains("hunter2"), "a record holds a password");

    // A new password is no difference, even where the repository does not know it yet.
    lab.world.write("second", "hunter2-new").unwrap();
    silent(run(&["plan"])).expect(0).says("nothing to change");
    silent(lab.converge(&["rollback", "--yes", "hosts.yaml"])).expect(0);
    assert!(lab.value(&["configmap", "one-private"], "/data").is_none());
}

/// One line with the cause and a remedy, also with a login, where helm says its progress; and a saved plan says what a plan says.
#[test]
fn a_chart_that_does_not_come_is_one_line_with_the_cause() {
    let lab = Lab::get();
    let server = ChartServer::start().unwrap();
    server.admit("ann", "hunter2");
    server.pack(&lab.helm, "small", "1.0.0", &[MAP, ("values.yaml", "size: 1\n")]).unwrap();
    let here = format!("http://{}", server.host());
    let declare = |url: &str, chart: &str, version: &str, password: &str| {
        lab.role(
            "sources",
            &format!(
                "scope: cluster\nresources:\n  - name: one\n    helm_release:\n      {{name: sources, namespace: default, repository: \"{url}\", chart: {chart}, version: {version}, \
                 wait: false, login: {{username: ann, password: {password}}}}}\n"
            ),
        );
    };
    for (url, chart, version, words, help) in [
        (
            "http://127.0.0.1:9",
            "small",
            "1.0.0",
            "http://127.0.0.1:9 cannot be reached: connection refused",
            "correct the address",
        ),
        (
            here.as_str(),
            "small",
            "9.9.9",
            "has no version 9.9.9 of the chart: the newest are 1.0.0",
            "correct `version`",
        ),
        (
            here.as_str(),
            "none",
            "1.0.0",
            "has no chart `none`: its charts are small",
            "correct the name in `chart`",
        ),
    ] {
        declare(url, chart, version, "hunter2");
        let plan = lab.plan().expect(1);
        says_all(&plan, &[words, help]);
        assert!(
            !plan.all().contains("Hang tight") && !plan.all().contains("Happy Helming"),
            "{}",
            plan.all()
        );
    }

    declare(&here, "small", "1.0.0", "hunter2");
    let out = lab.world.dir().join("sources.plan").display().to_string();
    lab.converge(&["plan", "hosts.yaml", "--out", &out]).expect(2);
    server.admit("ann", "hunter2-new");
    let refused = lab.converge(&["apply", "--yes", &out]).expect(4);
    says_all(
        &refused,
        &["does not accept the login (401 Unauthorized); correct `username` and `password` of `login`"],
    );
    assert!(!refused.all().contains("changed since the plan"), "{}", refused.all());

    // A call that does not come to its end says how long it had, and the parameter that gives it more.
    server.admit("ann", "hunter2");
    let hook = "apiVersion: v1\nkind: Pod\nmetadata: {name: sources-hook, annotations: {helm.sh/hook: pre-install}}\n\
        spec: {nodeSelector: {sources: nowhere}, containers: [{name: c, image: example.com/c}]}\n";
    server
        .pack(&lab.helm, "hooked", "1.0.0", &[("templates/hook.yaml", hook), ("values.yaml", "{}\n")])
        .unwrap();
    declare(&here, "hooked", "1.0.0", "hunter2, timeout: 3");
    let text = std::fs::read_to_string(lab.world.dir().join("roles/sources/role.yaml")).unwrap();
    let text = text.replace("password: hunter2, timeout: 3}}", "password: hunter2}, timeout: 3}");
    lab.role("sources", &text);
    let late = lab.apply();
    says_all(&late, &["it had 3 s", "`timeout` of this `helm_release` gives it more"]);
    lab.kubectl(&["delete", "pod", "sources-hook", "--ignore-not-found", "--force"]);
}

/// The authority is one that helm's environment names, as an organisation's own is.
#[test]
fn private_charts_come_over_tls_and_for_a_token() {
    let lab = Lab::get();
    let server = ChartServer::start_with_tls(&lab.world.dir().join("tls")).unwrap();
    server.admit("ann", "hunter2");
    server.hand_out_tokens();
    server.pack(&lab.helm, "small", "1.0.0", &[MAP, ("values.yaml", "size: 1\n")]).unwrap();
    let dir = lab.world.dir();
    lab.role("private", &TLS_ROLE.replace("HOST", &server.host()).replace("DIR", &dir.display().to_string()));
    let first = format!("password=@{}", dir.join("first").display());
    let run = |verb: &[&str]| {
        let mut command = lab.command(&[verb, &["hosts.yaml", "--set", &first]].concat());
        command.env("SSL_CERT_FILE", server.authority().unwrap());
        silent(converge_tests::ran(&mut command).unwrap())
    };

    // A server that nobody vouches for gets no login.
    lab.world.write("first", "hunter2").unwrap();
    lab.world.write("second", "wrong").unwrap();
    let unknown = silent(lab.converge(&["plan", "hosts.yaml", "--set", &first])).expect(1);
    says_all(&unknown, &["certificate signed by unknown authority"]);
    assert!(server.given().is_empty(), "a login went to an unknown server");

    // The address of the tokens refuses the login.
    let words = format!("oci://{}/charts/small does not accept the login (401 Unauthorized)", server.host());
    says_all(&run(&["plan"]).expect(1), &[&words, "correct `username` and `password` of `login`"]);

    lab.world.write("second", "hunter2").unwrap();
    run(&["apply", "--yes"]).expect(0);
    assert!(server.given().iter().any(|path| path.starts_with("/token?")), "no token was handed out");
    for name in ["three-private", "four-private"] {
        assert_eq!(lab.value(&["configmap", name], "/data/size").unwrap(), "1");
    }
    run(&["plan"]).expect(0).says("nothing to change");
    silent(lab.converge(&["rollback", "--yes", "hosts.yaml"])).expect(0);
    assert!(lab.value(&["configmap", "three-private"], "/data").is_none());
}
