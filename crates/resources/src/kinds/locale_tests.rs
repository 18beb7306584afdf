use super::*;
use crate::fake::{FakeView, read, settle, wrong};
use serde_json::json;

const ALL: &str =
    "C.UTF-8 UTF-8\nde_DE.UTF-8 UTF-8\nde_DE ISO-8859-1\nde_DE@euro ISO-8859-15\nen_US.UTF-8 UTF-8\n";
const LIST: &str =
    "# This file lists locales\n\n# de_DE ISO-8859-1\n# de_DE.UTF-8 UTF-8\n  en_US.UTF-8   UTF-8\n";

/// A Debian host with the package locales.
fn host() -> FakeView {
    bare().file(SUPPORTED, 0o644, ALL).file(GENERATED, 0o644, LIST)
}

fn bare() -> FakeView {
    let absent = |view: FakeView, name: &&str| view.has(id(name), LocaleState::Absent);
    let view = ["de_DE.UTF-8", "de_DE", "de_DE@euro", "en_US.UTF-8", "xx_XX.UTF-8", "de_DE.utf8"]
        .iter()
        .fold(FakeView::new(), absent);
    view.has(id("C.UTF-8"), LocaleState::Generated).dir("/etc/default")
}

fn site() -> Locale {
    read(json!({
        "names": ["en_US.UTF-8", "de_DE.UTF-8", "de_DE@euro"],
        "default": "en_US.UTF-8",
        "categories": {"LC_TIME": "de_DE.UTF-8"},
    }))
}

/// The pointer and the help of the refusal.
fn refusal(kind: &Locale, view: &FakeView) -> (String, String) {
    match kind.plan(view) {
        Err(Stop::Invalid { pointer, help, .. }) => (pointer, help.unwrap_or_default()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn locales_are_listed_generated_and_the_default() {
    let after = settle(&site(), host().file(DEBIAN, 0o644, "# ours\nLC_TIME=C\nLANG=C\nLC_PAPER=C\n"));
    let list = "# This file lists locales\n\n# de_DE ISO-8859-1\nde_DE.UTF-8 UTF-8\n  en_US.UTF-8   UTF-8\nde_DE@euro ISO-8859-15\n";
    assert_eq!(after.text(GENERATED), list);
    for name in &site().names.0 {
        assert_eq!(after.line(&id(name)), "generated", "{name}");
    }
    assert_eq!(after.text(DEBIAN), "# ours\nLC_TIME=de_DE.UTF-8\nLANG=en_US.UTF-8\nLC_PAPER=C\n");
    assert_eq!(settle(&site(), host()).text(DEBIAN), "LANG=en_US.UTF-8\nLC_TIME=de_DE.UTF-8\n");
}

#[test]
fn the_default_is_where_the_host_keeps_it() {
    let c: Locale = read(json!({"default": "C.UTF-8"}));
    let new = "LANG=C.UTF-8\n";
    let linked = bare().link(DEBIAN, "../locale.conf").file(CONF, 0o644, "LANG=C\n");
    assert_eq!(settle(&c, linked).text(CONF), new);
    assert_eq!(settle(&c, bare().file(CONF, 0o644, "LANG=C\n")).text(CONF), new);
    assert_eq!(settle(&c, bare().link(CONF, "default/locale")).text(DEBIAN), new);
    // One in quotes is as good.
    let quoted = settle(&c, bare().file(DEBIAN, 0o644, "LANG=\"C.UTF-8\"\n"));
    assert_eq!(quoted.text(DEBIAN), "LANG=\"C.UTF-8\"\n");
}

#[test]
fn removed_locales_keep_a_comment() {
    let gone: Locale = read(json!({"names": "en_US.UTF-8", "state": "absent"}));
    let after = settle(&gone, host().has(id("en_US.UTF-8"), LocaleState::Generated));
    assert_eq!(after.text(GENERATED), LIST.replace("  en_US.UTF-8 ", "# en_US.UTF-8 "));
    assert_eq!(after.line(&id("en_US.UTF-8")), "absent");
    assert_eq!(settle(&gone, bare()).line(&path_id(GENERATED)), "absent");
}

#[test]
fn all_locales_need_no_line() {
    let all = bare().file(SUPPORTED, 0o644, ALL).link(GENERATED, SUPPORTED);
    let kind: Locale = read(json!({"names": "de_DE"}));
    assert_eq!(settle(&kind, all.clone()).line(&path_id(GENERATED)), format!("link {SUPPORTED}"));
    let gone: Locale = read(json!({"names": "de_DE", "state": "absent"}));
    assert_eq!(refusal(&gone, &all).0, "/names");
}

#[test]
fn a_locale_must_be_known() {
    let kind = |name: &str| read::<Locale>(json!({"names": [name]}));
    assert_eq!(refusal(&kind("de_DE.utf8"), &host()).1, "write it as `de_DE.UTF-8`");
    assert!(refusal(&kind("xx_XX.UTF-8"), &host()).1.contains(SUPPORTED));
    assert!(refusal(&kind("de_DE.UTF-8"), &bare()).1.contains("install the package `locales`"));
    let later = bare().may(path_id(SUPPORTED));
    assert!(matches!(kind("de_DE.UTF-8").plan(&later), Err(Stop::Deferred(_))));
    // As RHEL has it: a package has brought the locale, and there is no list.
    let there = bare().has(id("de_DE.utf8"), LocaleState::Generated);
    assert_eq!(settle(&kind("de_DE.utf8"), there).line(&path_id(GENERATED)), "absent");
    // The host's own list counts too.
    let own = host().file(SUPPORTED_HERE, 0o644, "xx_XX.UTF-8 UTF-8\n");
    assert!(settle(&kind("xx_XX.UTF-8"), own).text(GENERATED).ends_with("xx_XX.UTF-8 UTF-8\n"));
}

#[test]
fn a_default_must_be_there() {
    let kind: Locale = read(json!({"categories": {"LC_TIME": "de_DE.UTF-8"}}));
    assert_eq!(refusal(&kind, &host()).0, "/categories/LC_TIME");
    settle(&kind, host().has(id("de_DE.UTF-8"), LocaleState::Generated));
    assert!(matches!(kind.plan(&host().may(id("de_DE.UTF-8"))), Err(Stop::Deferred(_))));
}

#[test]
fn two_defaults_of_a_variable_disagree() {
    let of = |value: &str| read::<Locale>(json!({"default": value})).claims();
    let (c, posix) = (of("C"), of("POSIX"));
    assert!(
        c.iter().any(|a| posix.iter().any(|b| a.facet == b.facet && a.facet == LANG && a.mode != b.mode))
    );
}

#[test]
fn wrong_parameters_are_named() {
    assert_eq!(wrong::<Locale>(json!({})), [""]);
    assert_eq!(wrong::<Locale>(json!({"names": ["de_DE", "../x", "a b"]})), ["/names/1", "/names/2"]);
    assert_eq!(wrong::<Locale>(json!({"default": "-x"})), ["/default"]);
    let bad = json!({"categories": {"LC_ALL": "C", "LC_TIME": ""}});
    assert_eq!(wrong::<Locale>(bad), ["/categories/LC_TIME", "/categories/LC_ALL"]);
    let gone = json!({"names": ["C.UTF-8"], "state": "absent", "default": "C"});
    assert_eq!(wrong::<Locale>(gone), ["/names/0", "/state"]);
}
