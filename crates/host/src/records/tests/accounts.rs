//! An account that a run made stays while something stays that belongs to it. No account of this machine is touched: programs of straw
//! are asked.

use super::*;

impl FakeHost {
    /// Records in the run that it made the user and the group `root` first of all, and gives the host account files that have them.
    fn made_accounts(&self, run: &str) {
        let etc = self.dir.path().join("etc");
        std::fs::create_dir_all(&etc).unwrap();
        std::fs::write(etc.join("passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        std::fs::write(etc.join("group"), "root:x:0:\n").unwrap();
        std::fs::write(etc.join("shadow"), "root:*:1:0:9:7:::\n").unwrap();
        let reply = self.sh(&format!("CV_ETC='{}'; cv_line_group root; cv_line_user root", etc.display()));
        let text = String::from_utf8(reply.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let made = |seq: u32, kind: &str, line: &str| {
            format!("begin\t{seq}\t{kind}\troot\tabsent\t{line}\tr/a\t-\ndone\t{seq}\t{line}\n")
        };
        let journal = self.root().join("runs").join(run).join("journal");
        let text = std::fs::read_to_string(&journal).unwrap();
        let accounts = made(90, "group", lines[0]) + &made(91, "user", lines[1]);
        std::fs::write(&journal, accounts + &text).unwrap();
    }

    /// undo.sh, and the programs that it asked.
    fn undo_accounts(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let asked = self.dir.path().join("asked");
        std::fs::write(&asked, "").unwrap();
        let straw = |name: &str, file: &str| {
            format!("{name}() {{ echo \"{name} $*\" >>'{}'; : >\"$CV_ETC/{file}\"; }}\n", asked.display())
        };
        let text = format!("{}{}{}", straw("userdel", "passwd"), straw("groupdel", "group"), undo_text());
        let script = self.dir.path().join("undo.sh");
        std::fs::write(&script, text).unwrap();
        let etc = self.dir.path().join("etc");
        let output = self.command().env("CV_ETC", etc).arg(script).args(args).output().unwrap();
        let reply = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), reply, std::fs::read_to_string(asked).unwrap())
    }
}

#[test]
fn an_account_stays_with_a_directory_that_holds_what_is_not_undone() {
    for host in hosts() {
        let (other, home) = (host.file("other"), host.file("home"));
        let change = host.change(&other, host.file_line(b"1", 0o600));
        host.one("r1", &mut spec(vec![change]), &[b"1"]);
        let change = host.change(&home, State::from_line("dir 755 root root"));
        host.one("r2", &mut spec(vec![change]), &[]);
        host.made_accounts("r2");
        std::fs::write(home.join("history"), "").unwrap();
        let (status, reply, asked) = host.undo_accounts(&["r2"]);
        assert_eq!((status, asked.as_str()), (Some(1), ""), "{:?}: {reply}", host.argv);
        for account in ["user:root", "group:root"] {
            let wanted =
                format!("LEFT ALONE     {account}: something that stays belongs to it: left alone\n");
            assert!(reply.contains(&wanted), "{reply}");
        }
        // The accounts alone are nothing that can be undone: the run before is reached.
        let (_, reply, _) = host.undo_accounts(&[]);
        assert!(reply.contains("undoing run r1") && !other.exists(), "{reply}");
        // Without it they go.
        std::fs::remove_file(home.join("history")).unwrap();
        let (_, reply, asked) = host.undo_accounts(&["r2"]);
        assert_eq!(asked, "userdel -- root\ngroupdel -- root\n", "{reply}");
    }
}

#[test]
fn an_account_stays_with_a_file_that_could_not_be_restored() {
    for host in hosts() {
        let file = host.file("file");
        std::fs::write(&file, "old").unwrap();
        let change = host.change(&file, host.file_line(b"new", 0o600));
        host.one("r1", &mut spec(vec![change]), &[b"new"]);
        host.made_accounts("r1");
        std::fs::remove_file(host.root().join("blobs").join(Digest::of(b"old").as_str())).unwrap();
        let (status, reply, asked) = host.undo_accounts(&["r1"]);
        assert!(reply.contains("FAILED         path:"), "{reply}");
        assert!(reply.contains("LEFT ALONE     user:root:"), "{reply}");
        assert_eq!((status, asked.as_str()), (Some(1), ""), "{reply}");
    }
}
