//! Saved plans of a cluster and what they bind; saved values that cannot be read.

use crate::{Lab, says_all};
use serde_json::json;

/// A Secret in a namespace that the same run makes; another one beside it takes a value that is given on the command line.
const ROLE: &str = r#"
scope: cluster
inputs:
  pw: {type: str, sensitive: true, default: none}
resources:
  - name: a place for it
    namespace: {name: bound}
  - name: login
    secret: {name: login, namespace: bound, data: {user: good}}
  - name: password
    secret: {name: password, namespace: bound, data: {pw: "{{ pw }}"}}
"#;

/// The refusal of what has changed since.
const OTHER: &str = "has changed since the plan was made";

#[test]
fn a_saved_plan_binds_a_secret_that_is_deferred() {
    let lab = Lab::get();
    let value = |name: &str, key: &str| {
        let encoded = lab.value(&["secret", "-n", "bound", name], &format!("/data/{key}"))?;
        encoded.as_str().map(str::to_owned)
    };
    let plan = |more: &[&str]| {
        drop(lab.api.kubectl(&["delete", "namespace", "bound", "--ignore-not-found"]));
        lab.role("bound", ROLE);
        let args = [&["plan", "hosts.yaml", "--out", "bound.plan"], more].concat();
        says_all(&lab.converge(&args).expect(2), &["? login", "? password"]);
        std::fs::read_to_string(lab.world.dir().join("bound.plan")).unwrap()
    };
    let apply = || lab.converge(&["apply", "bound.plan", "--yes"]);

    // As it was saved.
    lab.world.write("pw", "hunter2").unwrap();
    let saved = plan(&["--set", "pw=@pw"]);
    assert!(!saved.contains("hunter2"), "a saved plan holds no secret");
    let ran = apply().expect(0);
    assert!(!ran.all().contains(OTHER) && !ran.all().contains("hunter2"), "{}", ran.all());
    assert_eq!(
        (value("login", "user").unwrap(), value("password", "pw").unwrap()),
        ("Z29vZA==".to_owned(), "aHVudGVyMg==".to_owned())
    );

    // The role has another value: that Secret alone is refused, by name, and not made.
    plan(&["--set", "pw=@pw"]);
    lab.role("bound", &ROLE.replacen("user: good", "user: evil", 1));
    let ran = apply();
    assert_ne!(ran.code, Some(0), "{}", ran.all());
    says_all(&ran, &[OTHER, "bound/login"]);
    assert!(value("login", "user").is_none(), "it was made with what nobody has seen");
    assert!(!ran.all().contains("evil"), "{}", ran.all());

    // The file whose content is the password has another one.
    plan(&["--set", "pw=@pw"]);
    lab.world.write("pw", "hunter3").unwrap();
    let ran = apply();
    assert_ne!(ran.code, Some(0), "{}", ran.all());
    says_all(&ran, &[OTHER, "bound/password"]);
    assert!(value("password", "pw").is_none(), "it was made with another password");
    assert!(!ran.all().contains("hunter"), "{}", ran.all());
    assert_eq!(value("login", "user").unwrap(), "Z29vZA==", "nothing has changed there");
    lab.kubectl(&["delete", "namespace", "bound"]);
}

/// A Secret, a sensitive object, and one that is not.
const SEALED: &str = r#"
scope: cluster
inputs:
  pw: {type: str, sensitive: true}
resources:
  - name: a login
    secret: {name: sealed, namespace: default, data: {pw: "{{ pw }}"}}
  - name: a map
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: sealed, namespace: default}, data: {pw: "{{ pw }}"}}
  - name: an open map
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: open, namespace: default}, data: {v: "VERSION"}}
"#;

#[test]
fn a_rollback_that_cannot_read_saved_values_says_so_before_it_begins() {
    use secrecy::ExposeSecret as _;
    let lab = Lab::get();
    let (identity, other) = (age::x25519::Identity::generate(), age::x25519::Identity::generate());
    for (name, identity) in [("identity", &identity), ("other", &other)] {
        lab.world.write(name, identity.to_string().expose_secret()).unwrap();
    }
    let inventory = |file: Option<&str>, pw: &str| {
        let mut vars = format!("pw: {pw}\nconverge_age_recipients: [{}]", identity.to_public());
        if let Some(file) = file {
            vars.push_str(&format!("\nconverge_age_identity: {}", lab.world.dir().join(file).display()));
        }
        lab.world.write("hosts.yaml", &lab.world.inventory(&vars)).unwrap();
    };
    let apply = |n: &str| {
        inventory(Some("identity"), &format!("hunter{n}"));
        lab.role("sealed", &SEALED.replace("VERSION", n));
        lab.apply().expect(0);
    };
    let open = || lab.value(&["configmap", "open"], "/data/v");
    let secret = || lab.value(&["secret", "sealed"], "/data/pw");
    let files = [
        (None, "names no file with an age identity"),
        (Some("other"), "does not open it"),
        (Some("nowhere"), "cannot be read: No such file"),
    ];
    for (file, why) in files {
        apply("1");
        apply("2");
        inventory(file, "hunter2");
        // The plan says it, of both that are sealed.
        let plan = lab.converge(&["rollback", "hosts.yaml"]);
        says_all(
            &plan,
            &["1 to change", "2 refused", "its saved values cannot be read", why, "converge_age_identity"],
        );
        // The rest goes back.
        let back = lab.converge(&["rollback", "--yes", "hosts.yaml"]);
        assert_eq!(back.code, Some(4), "{}", back.all());
        says_all(&back, &[why]);
        assert!(!back.all().contains("planned against"), "{}", back.all());
        assert_eq!((open(), secret()), (Some(json!("1")), Some(json!("aHVudGVyMg=="))));
        // No older run is taken in its place: that would take the Secret away.
        let again = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(4);
        says_all(&again, &["no older run is taken"]);
        assert_eq!((open(), secret()), (Some(json!("1")), Some(json!("aHVudGVyMg=="))));
        // With the identity, so do they.
        inventory(Some("identity"), "hunter2");
        lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
        assert_eq!(secret(), Some(json!("aHVudGVyMQ==")));
        assert_eq!(lab.value(&["configmap", "sealed"], "/data/pw"), Some(json!("hunter1")));
        lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
        assert_eq!((open(), secret()), (None, None));
    }
    lab.world.write("hosts.yaml", &lab.world.inventory("")).unwrap();
}
