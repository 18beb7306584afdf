//! A saved plan of a cluster binds what could not be planned yet.

use crate::{Lab, says_all};

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
const OTHER: &str = "is another than when the plan was made";

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
