use super::*;

#[test]
fn what_a_sensitive_item_has_changed_is_a_secret_of_every_project_while_it_is_managed() {
    let secret = |key: &str, before: &str, after: &str| SavedChange {
        sensitive: true,
        ..change(key, before, after, Some("r"))
    };
    let mut runs = vec![
        run("r1", vec![change("/a", "absent", "v 1", Some("r")), secret("/b", "absent", "v 1")]),
        run("r2", vec![secret("/a", "v 1", "v 2"), change("/c", "absent", "v 1", Some("r"))]),
        run("r3", vec![change("/a", "v 2", "v 3", Some("r"))]),
    ];
    let secrets = |runs: &[RunRecord]| {
        let things = after(runs).present().cloned().collect();
        let records = crate::OwnedRecords { things, ..crate::OwnedRecords::default() };
        records.secrets().into_iter().map(|object| object.key).collect::<Vec<_>>()
    };
    assert_eq!(secrets(&runs), ["/a", "/b"]);
    runs.push(run("r4", vec![change("/b", "v 1", "absent", None)]));
    assert_eq!(secrets(&runs), ["/a"], "it was given back");
    let linked = SavedChange { real_dir: Some("/srv/real".to_owned()), ..secret("/link/d", "absent", "v 1") };
    runs.push(run("r5", vec![linked]));
    assert_eq!(secrets(&runs), ["/a", "/link/d", "/srv/real/d"]);
}
