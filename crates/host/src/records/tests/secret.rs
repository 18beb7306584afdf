//! Secrets: `undo.sh` and the automatic revert print nothing of them.

use super::*;

const SECRET: &str = "zqSECRETzq";

/// The line of a sensitive command that failed.
const HIDDEN: &str = "FAILED         command:role/an item: its output is sensitive and not shown\n";

impl FakeHost {
    /// A command that has run, whose guard holds a secret and whose undo prints it, and fails.
    fn secret_command(&self, sensitive: bool) -> ItemSpec {
        let made = self.file("made");
        let made = quote(made.to_str().unwrap());
        let command = Cmd {
            guard: CommandGuard::Unless(format!("grep -qs '{SECRET}' {made}")),
            run: format!("echo '{SECRET}' >{made}"),
            undo: Some(format!("echo 'it says {SECRET}'; exit 3")),
            user: None,
            timeout: None,
            surroundings: Surroundings::default(),
        };
        let change = Change {
            object: ObjectId::new("command", command.key()),
            from: CommandState::Pending.into(),
            to: CommandState::Done.into(),
        };
        ItemSpec { sensitive, ..spec(vec![change]) }
    }
}

#[test]
fn a_command_is_reported_by_its_item_and_what_a_sensitive_one_prints_is_not() {
    for host in hosts() {
        assert_eq!(host.one("r1", &mut host.secret_command(true), &[]).reading, Reading::Done);
        let (status, reply) = host.undo(&[]);
        assert_eq!(status, Some(1), "{reply}");
        assert!(reply.contains(HIDDEN), "{reply}");
        assert!(!reply.contains(SECRET), "{reply}");
        let records = host.records();
        assert!(records[1].changes[0].sensitive, "its own record says it too");
        assert_eq!(records[1].purpose, RunPurpose::Undo);
        assert!(!host.undo(&["--list"]).1.contains(SECRET));
        // An older undo.sh did not.
        let run = host.root().join("runs").join(&records[1].id);
        for (file, reply, once) in [("meta", "undo\tflags", "undo"), ("journal", "\tsensitive", "\t-")] {
            let text = std::fs::read_to_string(run.join(file)).unwrap();
            assert!(text.contains(reply), "{text}");
            std::fs::write(run.join(file), text.replace(reply, once)).unwrap();
        }
        std::fs::write(host.file("made"), "").unwrap();
        let (_, reply) = host.undo(&["--force", &records[1].id]);
        assert!(reply.contains("command:role/an item") && !reply.contains(SECRET), "{reply}");
    }
}

#[test]
fn a_command_that_is_not_sensitive_says_why_it_failed() {
    for host in hosts() {
        assert_eq!(host.one("r1", &mut host.secret_command(false), &[]).reading, Reading::Done);
        let (status, reply) = host.undo(&[]);
        assert_eq!(status, Some(1), "{reply}");
        let why = "FAILED         command:role/an item: the command ended with status 3\n";
        assert!(reply.contains(why) && reply.contains("it says"), "{reply}");
        assert!(!reply.contains("grep"), "{reply}");
    }
}

#[test]
fn an_automatic_revert_writes_nothing_secret_into_the_journal_of_the_host() {
    for host in hosts() {
        let mut item = host.secret_command(true);
        item.run = "r1".to_owned();
        item.switch = Some(Switch { guard: "network".to_owned(), window: 60, units: Vec::new() });
        let reply = host.in_session(&host.item(&item, &[]));
        assert!(reply.contains("status 0"), "{reply}");
        std::fs::write(host.root().join("switch/asked"), "").unwrap();
        let reply = host.act();
        assert!(reply.contains(HIDDEN), "{reply}");
        assert!(!reply.contains(SECRET), "{reply}");
    }
}
