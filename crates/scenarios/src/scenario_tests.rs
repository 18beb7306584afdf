use super::*;

fn read(text: &str) -> (Option<Scenario>, String) {
    let mut diags = Diagnostics::new();
    let scenario =
        Scenario::parse(Utf8Path::new("roles/r/tests/one.yaml"), Source::new("one.yaml", text), &mut diags);
    (scenario, diags.to_string())
}

#[test]
fn a_scenario_says_what_is_given_and_what_is_expected() {
    let (scenario, complaints) = read(
        "version: 1\nhosts: {web1: {groups: [web]}, db1: }\ngroups: {all_of_them: [web1, db1]}\n\
         inputs: {port: 80}\nbefore:\n  files: {/etc/x: hello, /srv: {directory: true, mode: \"0750\"}}\n\
         expect:\n  plan:\n    settings: change\n    \"web/site\": {waits_for: web/package, says: bring}\n\
         \x20   queue: [{is: unchanged, host: web1}, {changes: [\"sysctl:a\"], host: db1}]\n  others: unchanged\n\
         \x20 after: [test -f /etc/x]\n",
    );
    assert_eq!(complaints, "");
    let scenario = scenario.unwrap();
    assert_eq!(scenario.name, "one");
    assert_eq!(scenario.host_names(), ["web1", "db1"]);
    assert_eq!(scenario.hosts[0].groups, ["web", "all_of_them"]);
    let is: Vec<Option<ExpectedOutcome>> = scenario.expect.plan.iter().map(|e| e.is).collect();
    let wanted = [
        ExpectedOutcome::Change,
        ExpectedOutcome::Deferred,
        ExpectedOutcome::Unchanged,
        ExpectedOutcome::Change,
    ]
    .map(Some);
    assert_eq!(is, wanted);
    assert_eq!(scenario.expect.others, Some(ExpectedOutcome::Unchanged));
}

#[test]
fn an_empty_file_is_one_host_with_the_defaults() {
    for text in ["", "# nothing\n", "---\n"] {
        let (scenario, complaints) = read(text);
        assert_eq!(complaints, "", "{text:?}");
        assert_eq!(scenario.unwrap().host_names(), ["h1"]);
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, says) in [
        ("input: {a: 1}\n", "one.yaml:1:1"),
        ("input: {a: 1}\n", "did you mean `inputs`?"),
        ("version: 2\n", "version 2 of scenarios is not known"),
        ("hosts: 99\n", "1 to 16 hosts"),
        ("hosts: {Web: }\n", "`Web` cannot be the name of a host"),
        ("groups: {a: [h2]}\n", "the scenario has no host `h2`"),
        ("expect: {plan: {x: changed}}\n", "one.yaml:1:20"),
        ("expect: {plan: {x: {is: change, host: h9}}}\n", "no host `h9`"),
        ("expect: {errors: [{mesage: x}]}\n", "unknown key `mesage`"),
        ("before: {files: {etc/x: a}}\n", "must be absolute"),
        ("before: {files: {/etc/x: {mode: rw}}}\n", "octal digits"),
        ("inputs: [a]\n", "`inputs` must be a map"),
    ] {
        let (_, complaints) = read(text);
        assert!(complaints.contains(says), "{text}: {complaints}");
    }
}
