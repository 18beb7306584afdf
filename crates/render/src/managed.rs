//! The managed objects of each target.

use crate::change::{attributes, push_attributes};
use crate::json::{lost, object};
use crate::plan::lost_host;
use crate::text::{Line, Text, Tone};
use converge_engine::{HostManaged, ManagedObject, Present, Renaming};
use converge_resource::{Change, State, counted};
use serde_json::{Value, json};

/// Said below the name of each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    None,
    /// Its original state, and the one that the last run left.
    States,
    /// How its present state differs from that one. Objects that do not differ are only counted.
    Differences,
}

/// The objects, target by target.
pub fn managed(all: &[HostManaged], detail: Detail) -> Text {
    let mut text = Text::new();
    for host in all {
        text.gap();
        if let Some(lost) = &host.lost {
            text.append(lost_host(&host.host, lost));
            continue;
        }
        let own: Vec<&ManagedObject> = host.objects.iter().filter(|o| !o.is_of_others).collect();
        let others = host.objects.len() - own.len();
        let differing = own.iter().filter(|o| differs(o)).count();
        let verb = if differing == 1 { "differs" } else { "differ" };
        let line = Line::at(0).say(Tone::Strong, host.host.as_str()).faint(" · ");
        let line = match detail {
            Detail::Differences if differing > 0 => line
                .say(Tone::Warn, format!("{differing} of {} {verb}", counted(own.len(), "managed object"))),
            Detail::Differences => {
                line.plain(format!("{} as recorded", counted(own.len(), "managed object")))
            }
            Detail::None | Detail::States => line.plain(counted(own.len(), "managed object")),
        };
        text.push(
            if others > 0 { line.faint(format!(" · {others} of other projects")) } else { line }.fold(2),
        );
        for remark in &host.remarks {
            text.push(Line::at(2).say(Tone::Warn, "records: ").plain(remark.as_str()).fold(4));
        }
        for object in own.into_iter().filter(|o| detail != Detail::Differences || differs(o)) {
            push(&mut text, object, detail);
        }
    }
    text
}

fn differs(object: &ManagedObject) -> bool {
    !matches!(object.present, None | Some(Present::AsLeft))
}

fn push(text: &mut Text, thing: &ManagedObject, detail: Detail) {
    let (sign, tone) = match &thing.present {
        None | Some(Present::AsLeft) => ("·", Tone::Faint),
        Some(Present::Differs(_)) => ("~", Tone::Change),
        Some(Present::Unknown(_)) => ("?", Tone::Warn),
    };
    let came = if thing.by_product { " · came with it" } else { "" };
    let line = Line::at(2).say(tone, format!("{sign} ")).say(Tone::Strong, name(thing));
    text.push(
        line.faint(format!(" · {}{came} · since {} · run {}", thing.item, thing.since, thing.run)).fold(6),
    );
    match (detail, &thing.present) {
        (Detail::Differences, Some(Present::Differs(now))) => push_difference(text, thing, now),
        (Detail::Differences, Some(Present::Unknown(why))) => text.prose(6, Tone::Warn, "not known: ", why),
        (Detail::States, _) => {
            push_state(text, "original state", &thing.original, thing);
            push_state(text, "left by the last run", &thing.left, thing);
        }
        _ => {}
    }
}

fn push_difference(text: &mut Text, thing: &ManagedObject, now: &State) {
    match (thing.left.is_absent(), now.is_absent()) {
        (false, true) => text.push(Line::at(6).plain("it is gone")),
        (true, false) => text.push(Line::at(6).plain("it is there again")),
        _ => {}
    }
    let change = Change { object: thing.object.clone(), from: thing.left.clone(), to: now.clone() };
    push_attributes(text, &attributes(&change, thing.sensitive), &change, 6);
    if content(thing, &thing.left) != content(thing, now) {
        text.push(Line::at(6).plain("another content"));
    }
}

fn content(thing: &ManagedObject, state: &State) -> Option<String> {
    let object = converge_objects::object(&thing.object.kind)?;
    object.content(state).map(|digest| digest.to_string())
}

fn push_state(text: &mut Text, title: &str, state: &State, thing: &ManagedObject) {
    let values: Vec<String> =
        values(thing, state).into_iter().map(|(name, value)| format!("{name} {value}")).collect();
    let values = if state.is_absent() { "absent".to_owned() } else { values.join(", ") };
    text.push(Line::at(6).faint(format!("{title}: ")).plain(values).fold(8));
}

/// The attributes of a state, as far as they may be shown.
fn values(thing: &ManagedObject, state: &State) -> Vec<(String, String)> {
    let change = Change { object: thing.object.clone(), from: State::absent(), to: state.clone() };
    let mut all: Vec<(String, String)> =
        attributes(&change, thing.sensitive).into_iter().filter_map(|a| Some((a.name, a.after?))).collect();
    if !thing.sensitive
        && let Some(digest) = content(thing, state)
    {
        all.push(("sha256".to_owned(), digest));
    }
    all
}

/// The objects that are to have another name, each with the present one and the new one.
pub fn to_move(all: &[HostManaged], renaming: &Renaming) -> Text {
    let mut text = Text::new();
    for host in all.iter().filter(|host| host.lost.is_some() || !host.objects.is_empty()) {
        text.gap();
        if let Some(lost) = &host.lost {
            text.append(lost_host(&host.host, lost));
            continue;
        }
        let count = counted(host.objects.len(), "managed object");
        text.push(Line::at(0).say(Tone::Strong, host.host.as_str()).faint(" · ").plain(count).fold(2));
        for thing in &host.objects {
            let to = renaming.of(&thing.item).unwrap_or_default();
            let line = Line::at(2).say(Tone::Change, "~ ").say(Tone::Strong, name(thing));
            text.push(line.faint(format!(" · {}", thing.item)).plain(format!(" → {to}")).fold(6));
        }
    }
    text
}

/// The objects that are to be managed.
pub fn to_adopt(all: &[HostManaged]) -> Text {
    let mut text = Text::new();
    for host in all {
        text.gap();
        if let Some(lost) = &host.lost {
            text.append(lost_host(&host.host, lost));
            continue;
        }
        let count = format!("{} to adopt", counted(host.objects.len(), "object"));
        text.push(Line::at(0).say(Tone::Strong, host.host.as_str()).faint(" · ").plain(count).fold(2));
        for thing in &host.objects {
            let line = Line::at(2).say(Tone::Change, "~ ").say(Tone::Strong, name(thing));
            text.push(line.faint(format!(" · {}", thing.item)).fold(6));
        }
    }
    if all.is_empty() {
        text.push(
            Line::at(0)
                .plain("nothing to adopt: all that these resources have on the hosts is managed already"),
        );
    }
    text
}

/// The objects whose records a run has amended, by what they are now (`forgotten`), and the targets where it could not.
pub fn amended(all: &[HostManaged], past: &str, run: &str) -> Text {
    let mut text = Text::new();
    for host in all.iter().filter(|host| host.lost.is_some() || !host.objects.is_empty()) {
        match &host.lost {
            Some(lost) => text.append(lost_host(&host.host, lost)),
            None => {
                let objects = counted(host.objects.len(), "object");
                let line = Line::at(0).say(Tone::Strong, host.host.as_str()).faint(" · ");
                text.push(line.plain(format!("{objects} {past}")).faint(format!(" · run {run}")).fold(2));
            }
        }
    }
    text
}

/// A command is known by its item.
fn name(thing: &ManagedObject) -> String {
    if converge_objects::traits_of(&thing.object).key_is_text {
        format!("a {}", thing.object.kind)
    } else {
        thing.object.to_string()
    }
}

/// The same as a document.
pub fn managed_json(all: &[HostManaged]) -> Value {
    let hosts: Vec<Value> = all
        .iter()
        .map(|host| {
            let objects: Vec<Value> = host.objects.iter().map(one).collect();
            json!({"host": host.host, "objects": objects, "lost": host.lost.as_ref().map(lost), "remarks": host.remarks})
        })
        .collect();
    json!({"format": "converge-state", "version": crate::json::VERSION, "hosts": hosts})
}

fn one(thing: &ManagedObject) -> Value {
    let now = match &thing.present {
        None | Some(Present::Unknown(_)) => None,
        Some(Present::AsLeft) => Some(&thing.left),
        Some(Present::Differs(now)) => Some(now),
    };
    let states = [Some(&thing.original), Some(&thing.left), now];
    let states = states.map(|state| state.map(|s| values(thing, s)).unwrap_or_default());
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in states.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let value = |at: usize, name: &str| {
        states.get(at).and_then(|s| s.iter().find(|(n, _)| n == name)).map(|(_, value)| value.clone())
    };
    let attributes: Vec<Value> = names
        .iter()
        .map(|n| json!({"name": n, "original": value(0, n), "left": value(1, n), "present": value(2, n)}))
        .collect();
    let unknown = match &thing.present {
        Some(Present::Unknown(why)) => Some(why),
        _ => None,
    };
    json!({
        "object": object(&thing.object, true),
        "role": thing.role,
        "item": thing.item,
        "since": thing.since,
        "run": thing.run,
        "playbook": thing.scope.playbook,
        "inventory": thing.scope.inventory,
        "of_another_project": thing.is_of_others,
        "by_product": thing.by_product,
        "sensitive": thing.sensitive,
        "was_there": !thing.original.is_absent(),
        "attributes": attributes,
        "differs": now.map(|_| matches!(thing.present, Some(Present::Differs(_)))),
        "unknown": unknown,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::text::Look;
    use converge_engine::{ProjectName, TargetError};
    use converge_resource::ObjectId;

    pub(crate) fn sample() -> Vec<HostManaged> {
        let thing =
            |kind: &str, key: &str, original: &str, left: &str, present: Option<Present>| ManagedObject {
                object: ObjectId::new(kind, key),
                role: "web".into(),
                item: "web/it".into(),
                since: "2026-11-20T08:00:00Z".into(),
                run: "r1".into(),
                scope: ProjectName { playbook: "site.yaml".into(), inventory: "prod.yaml".into() },
                is_of_others: false,
                by_product: false,
                sensitive: false,
                original: State::from_line(original),
                left: State::from_line(left),
                present,
            };
        let differs = |line: &str| Some(Present::Differs(State::from_line(line)));
        let file =
            |mode: &str, digest: char| format!("file {mode} root root 2 {}", digest.to_string().repeat(64));
        let mut secret = thing("path", "/etc/key", "absent", &file("600", 'a'), differs(&file("600", 'b')));
        secret.sensitive = true;
        let mut came = thing("package", "libc-bin", "absent", "present 1", Some(Present::AsLeft));
        came.by_product = true;
        let mut others = came.clone();
        others.is_of_others = true;
        let objects = vec![
            thing("path", "/etc/web", "dir 700 root root", "dir 755 root root", differs("dir 755 web web")),
            thing("path", "/etc/gone", "absent", &file("644", 'c'), differs("absent")),
            secret,
            came,
            others,
            thing("unit", "web.service", "absent", "bad", Some(Present::Unknown("no answer".into()))),
        ];
        vec![
            HostManaged {
                host: "web1".into(),
                objects,
                lost: None,
                remarks: vec!["line 3 is damaged".into()],
            },
            HostManaged { host: "web2".into(), objects: vec![], lost: None, remarks: vec![] },
            HostManaged {
                host: "web3".into(),
                objects: vec![],
                lost: Some(TargetError::Unreachable("no answer".into())),
                remarks: vec![],
            },
        ]
    }

    #[test]
    fn managed_objects_are_listed() {
        let drawn = managed(&sample(), Detail::None).draw(&Look::PLAIN);
        for words in
            ["web1 · ", "1 of other projects", "records: line 3 is damaged", "path:/etc/web · web/it"]
        {
            assert!(drawn.contains(words), "{words}: {drawn}");
        }
        assert!(
            drawn.contains("web/it · came with it") && drawn.contains("web2 · 0 managed objects"),
            "{drawn}"
        );
    }

    #[test]
    fn states_are_shown() {
        let drawn = managed(&sample(), Detail::States).draw(&Look::PLAIN);
        assert!(drawn.contains("original state: type directory, mode 0700"), "{drawn}");
        assert!(!drawn.contains("aaaa"), "of a secret not even the digest is shown: {drawn}");
    }

    #[test]
    fn differences_are_shown() {
        let drawn = managed(&sample(), Detail::Differences).draw(&Look::PLAIN);
        assert!(!drawn.contains("libc-bin"), "{drawn}");
        for words in
            ["4 of 5 managed objects differ", "it is gone", "another content", "not known: no answer"]
        {
            assert!(drawn.contains(words), "{words}: {drawn}");
        }
        assert!(!managed_json(&sample()).to_string().contains("bbbb"));
    }
}
