//! Commands that failed or were cut off after a part of their work, and do not say so by their state.

use super::*;

impl FakeHost {
    /// An item of a command that makes `made` and fails. Its undo takes `made` away, and counts itself.
    fn failing(&self, has_undo: bool) -> ItemSpec {
        let (made, undone) = (self.file("made"), self.file("undone"));
        let command = Cmd {
            guard: CommandGuard::OnChange("role/an item".to_owned()),
            run: format!(": >'{}'; exit 3", made.display()),
            undo: has_undo.then(|| format!("rm -f '{}'; echo once >>'{}'", made.display(), undone.display())),
            user: None,
            timeout: None,
            surroundings: Surroundings::default(),
        };
        let ran = |digest: Option<&str>| CommandState::Ran { digest: digest.map(str::to_owned) };
        let object = ObjectId::new("command", command.key());
        spec(vec![Change { object, from: ran(None).into(), to: ran(Some("d1")).into() }])
    }

    /// Whether the work of the command is there, and how many times it was undone.
    fn work(&self) -> (bool, usize) {
        let undone = std::fs::read_to_string(self.file("undone")).unwrap_or_default();
        (self.file("made").exists(), undone.lines().count())
    }
}

#[test]
fn undo_runs_the_undo_of_a_command_that_failed_once() {
    for host in hosts() {
        host.one("r1", &mut host.failing(true), &[]);
        assert_eq!(host.work(), (true, 0));
        assert!(host.records()[0].changes[0].may_have_happened());
        let (status, reply) = host.undo(&[]);
        assert_eq!((status, host.work()), (Some(0), (false, 1)), "{reply}");
        let (_, reply) = host.undo(&[]);
        assert!(reply.contains("no run to undo"), "{reply}");
        assert_eq!(host.work(), (false, 1), "{reply}");
        // The controller decides the same.
        let records = host.records();
        let ledger = converge_ledger::Ledger::of(&records);
        assert_eq!(records[0].rolled_back_by.as_deref(), records.get(1).map(|r| r.id.as_str()));
        assert_eq!(ledger.changes_in_force().count(), 0);
    }
}

#[test]
fn a_command_that_failed_and_has_no_undo_leaves_nothing_to_undo() {
    for host in hosts() {
        host.one("r1", &mut host.failing(false), &[]);
        assert!(!host.records()[0].changes[0].may_have_happened());
        let (status, reply) = host.undo(&[]);
        assert_eq!((status, host.work()), (Some(0), (true, 0)), "{reply}");
        assert!(reply.contains("no run to undo"), "{reply}");
    }
}

/// Behind a guard, whether the command came to say that it failed or not.
#[test]
fn an_automatic_revert_runs_the_undo_of_a_command_that_was_begun() {
    for is_cut_off in [false, true] {
        for host in hosts() {
            let mut item = host.failing(true);
            item.run = "r1".to_owned();
            item.switch = Some(Switch { guard: "network".to_owned(), window: 60, units: Vec::new() });
            host.in_session(&host.item(&item, &[]));
            assert_eq!(host.work(), (true, 0));
            if is_cut_off {
                let journal = host.root().join("runs/r1/journal");
                let lines = std::fs::read_to_string(&journal).unwrap();
                let rest = lines.lines().filter(|line| !line.starts_with("failed"));
                std::fs::write(&journal, rest.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
            }
            std::fs::write(host.root().join("switch/asked"), "").unwrap();
            let reply = host.act();
            assert!(reply.contains("restored       command:role/an item"), "{reply}");
            assert_eq!(host.work(), (false, 1), "{reply}");
            assert!(!host.records()[0].changes[0].may_have_happened());
        }
    }
}
