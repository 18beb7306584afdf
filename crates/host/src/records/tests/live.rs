//! The steps in force are worked out twice: by the ledger, and by awk in `undo.sh`, which needs no converge. Sequences of records are drawn, and both agree.

use super::*;
use converge_ledger::{Ledger, ProjectName, ProjectScope};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const SEQUENCES: usize = 2000;

/// The paths that runs change: one of them lies below another one, which may be a link.
const PATHS: [&str; 5] = ["/k0", "/k1", "/k2", "/l", "/l/f"];

/// One change of a run: its lines, `N` in them being its number.
fn change() -> impl Strategy<Value = String> {
    object().prop_flat_map(|object| {
        let states: &[&str] = if object == "path\t/l" {
            &["absent", "link a root root", "link b root root", "dir 755 root root"]
        } else {
            &["absent", "v 1", "v 2"]
        };
        change_of(object, states)
    })
}

fn change_of(object: String, states: &'static [&'static str]) -> impl Strategy<Value = String> {
    let state = || prop::sample::select(states);
    let end = prop_oneof![
        8 => state().prop_map(|s| format!("done\tN\t{s}\n")),
        1 => state().prop_map(|s| format!("off\tN\t{s}\n")),
        1 => state().prop_map(|s| format!("failed\tN\t1\t{s}\n")),
        1 => state().prop_map(|s| format!("putback\tN\t{s}\n")),
        2 => prop::sample::select(vec!["", "done\tN\t! cannot look\n", "failed\tN\t1\t! cannot look\n", "done\tN\n", "unsaved\tN\twhy\n"]).prop_map(str::to_owned),
    ];
    let flags = prop::sample::select(vec!["-", "-", "-", "sensitive", "sensitive,in-part", "in-part"]);
    let what = prop_oneof![9 => Just("begin"), 2 => Just("moved")];
    // Where a link led: old records do not say it.
    let at = prop::option::weighted(0.5, prop::sample::select(vec!["a", "b"]));
    (what, 0..3_u8, state(), state(), flags, at, prop::option::weighted(0.9, end)).prop_map(
        move |(what, item, from, to, flags, at, end)| {
            // A change that a command made is found afterwards: it has no end of its own, and is no part of a rollback.
            let at = at.map(|dir| format!("at\tN\t/{dir}\n")).unwrap_or_default();
            let (flags, end) = match what {
                "moved" if flags.starts_with("sensitive") => ("sensitive", None),
                "moved" => ("-", None),
                _ => (flags, end),
            };
            format!("{what}\tN\t{object}\t{from}\t{to}\tr/i{item}\t{flags}\n{at}{}", end.unwrap_or_default())
        },
    )
}

/// A path, or a command: what the script of a forgotten one has changed is so too.
fn object() -> impl Strategy<Value = String> {
    let path = prop::sample::select(&PATHS[..]).prop_map(|path| format!("path\t{path}"));
    prop_oneof![4 => path, 1 => (0..3_u8).prop_map(|key| format!("command\tk{key}"))]
}

/// Its purpose and plan, the runs that it names (counted from the first one) in `undoes` and in `attempts`, its changes, and how it was closed.
type Run = (Vec<String>, Vec<usize>, Option<usize>, Vec<String>, &'static str);

fn run() -> impl Strategy<Value = Run> {
    let purpose = prop_oneof![
        5 => Just(vec!["purpose\tconverge".to_owned()]),
        4 => Just(vec!["purpose\trollback".to_owned()]),
        1 => Just(vec!["purpose\trollback\tr".to_owned()]),
        2 => Just(vec!["purpose\tundo".to_owned()]),
        1 => Just(vec![]),
    ];
    let planned = prop::collection::vec(0..3_u8, 0..2);
    let close = prop::sample::select(vec![
        "close\tfinished\t1\n",
        "close\tfinished\t1\n",
        "close\tfailed\t1\n",
        "close\tcut-off\t1\n",
        "",
    ]);
    let changes = (prop::collection::vec(change(), 0..6), prop::option::weighted(0.1, object())).prop_map(
        |(mut changes, forgotten): (Vec<String>, Option<String>)| {
            changes.extend(forgotten.map(|object| format!("forget\t{object}\n")));
            changes
        },
    );
    (
        purpose,
        planned,
        prop::collection::vec(0..8_usize, 0..4),
        prop::option::weighted(0.5, 0..8_usize),
        changes,
        close,
    )
        .prop_flat_map(|run| (Just(run), prop::sample::select(vec!["p", "p", "q"])))
        .prop_map(|((mut meta, planned, undoes, attempts, changes, close), project)| {
            let of = |what: &str| meta.first().is_some_and(|p| p.ends_with(what));
            // Only what a rollback writes has targets.
            let undoes = if of("converge") { Vec::new() } else { undoes };
            let attempts = attempts.filter(|_| of("undo"));
            meta.push(format!("scope\t{project}\ti"));
            meta.extend(planned.iter().map(|k| format!("planned\tr/i{k}")));
            (meta, undoes, attempts, changes, close)
        })
}

/// The ledger's result, in the lines of `cv_live` but for their last field.
fn in_force(text: &str) -> String {
    let records = parse_records(&format!("converge\t6\n{text}")).unwrap();
    let ledger = Ledger::of(&records.runs);
    let projects =
        ["p", "q"].map(|p| ProjectScope(ProjectName { playbook: p.to_owned(), inventory: "i".to_owned() }));
    let mut reply = String::new();
    for (at, run) in records.runs.iter().enumerate() {
        for change in &run.changes {
            if projects.iter().any(|p| ledger.candidates(p, &|c| std::ptr::eq(c, change)).contains(&at)) {
                let after = change.after.line();
                let (last, planned) =
                    if change.outcome == SavedOutcome::Unknown { ("?", after) } else { (after, "-") };
                reply.push_str(&format!(
                    "{}\t{}\t{}\t{}\t{}\t{last}\t{planned}\t{}\n",
                    run.id,
                    change.seq,
                    change.object.kind,
                    change.object.key,
                    change.before.line(),
                    records.runs.iter().position(|r| r.scope == run.scope).map_or(0, |first| first + 1)
                ));
            }
        }
    }
    reply
}

#[test]
fn undo_sh_and_the_ledger_agree_on_what_is_in_force() {
    let mut runner = TestRunner::deterministic();
    let drawn = prop::collection::vec(run(), 1..8);
    let dir = tempfile::tempdir().unwrap();
    let mut cases = Vec::new();
    for case in 0..SEQUENCES {
        let runs = drawn.new_tree(&mut runner).unwrap().current();
        let (mut text, mut order) = (String::new(), String::new());
        for (n, (meta, undoes, attempts, changes, close)) in runs.into_iter().enumerate() {
            let mut lines = format!("seq\t{}\n", n + 1);
            lines.extend(meta.iter().map(|l| format!("{l}\n")));
            lines.extend(attempts.map(|t| format!("attempts\tR{t}\n")));
            lines.extend(changes.iter().enumerate().map(|(n, c)| c.replace("\tN", &format!("\t{}", n + 1))));
            lines.push_str(close);
            // `undo.sh` writes these last.
            lines.extend(undoes.iter().map(|t| format!("undoes\tR{t}\n")));
            text.push_str(&format!("run\tR{n}\n{lines}"));
            std::fs::write(dir.path().join(format!("{case}.R{n}")), &lines).unwrap();
            order.push_str(&format!(" R{n}"));
        }
        cases.push((text, order));
    }
    let orders: String = cases.iter().enumerate().map(|(n, (_, order))| format!("{n}{order}\n")).collect();
    std::fs::write(dir.path().join("orders"), orders).unwrap();
    let functions = include_str!("../../../sh/undo_rows.sh");
    let script = format!(
        "{}\n{functions}
        cv_order() {{ printf '%s\\n' $runs; }}
        cv_lines_of() {{ while IFS= read -r line; do printf '%s\\n' \"$line\"; done <\"$dir/$case.$1\"; }}
        dir=$1
        while read -r case runs; do cv_live; echo \"end $case\"; done <\"$dir/orders\"",
        library(true)
    );
    let file = dir.path().join("script");
    std::fs::write(&file, script).unwrap();
    let output = Command::new("sh").arg(&file).arg(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reply = String::from_utf8(output.stdout).unwrap();
    let mut rest = reply.as_str();
    let (mut wrong, mut alive) = (Vec::new(), 0);
    for (n, (text, _)) in cases.iter().enumerate() {
        let (awk, behind) = rest.split_once(&format!("end {n}\n")).unwrap();
        rest = behind;
        // The ledger does not tell the directory by itself.
        let awk: String = awk.lines().map(|l| format!("{}\n", l.rsplit_once('\t').unwrap().0)).collect();
        let ledger = in_force(text);
        alive += usize::from(!ledger.is_empty());
        if awk != ledger {
            wrong.push((text.lines().count(), format!("{text}--- undo.sh\n{awk}--- ledger\n{ledger}")));
        }
    }
    wrong.sort();
    let shortest: Vec<&str> = wrong.iter().take(3).map(|(_, reply)| reply.as_str()).collect();
    assert!(wrong.is_empty(), "{} of {SEQUENCES}; the shortest:\n{}", wrong.len(), shortest.join("\n"));
    assert!(alive > SEQUENCES / 3, "{alive}");
}
