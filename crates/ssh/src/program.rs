//! The loop that runs on the host: one line of POSIX shell for dash, bash and busybox ash.

use crate::method::Method;
use crate::quote::quote;
use crate::target::Become;
use memchr::memmem;

/// The program on the command line: it prints a greeting and reads the loop as the first line of input. The loop itself is
/// not on the command line, because sudo logs command lines. The program is given to the login user's shell inside single
/// quotes, whatever that shell is (csh, fish too), so it holds no single quote, no backslash, no exclamation mark and no
/// newline; a test checks that.
const BOOT: &str = "echo \"$1$2 $$\"; IFS= read -r p && eval \"$p\"";

/// The loop, function by function:
///
/// * `_cv_take N` copies exactly N bytes of its input to stdout. The tool is chosen at the start by trying: GNU `head -c` reads no
///   byte too many, busybox's does; `dd iflag=fullblock` is next, `dd bs=1` last.
/// * `_cv_f TEXT` writes a frame line, marked with the nonce. If its reader is gone, the loop ends.
/// * `_cv_i ID MODE PAYLOAD NEEDS SCRIPT` runs one item or skips it. Payload bytes that the item leaves are drained.
/// * the main loop reads one header line (`N` sets the nonce, `B` announces a batch text of so many bytes) from descriptor 3, where
///   standard input was moved to. A batch text defines `_cv_m`; a text cut short is thus a syntax error and runs nothing.
///
/// In a terminal both streams are one. There the standard error that an item wants apart is kept until it ends and follows its output
/// behind an `R` line (`_cv_y`).
///
/// Times are those of /proc/uptime, and the process id of an item's subshell is the name of its only task in /proc: both cost no process.
/// Without /proc these values are not numbers, and the controller does without.
const LOOP: &[&str] = &[
    "umask 077; cd /;",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; LC_ALL=C; TERM=dumb; export PATH LC_ALL TERM;",
    "unset LANGUAGE ENV BASH_ENV CDPATH IFS; set +eufx;",
    "exec 3<&0 </dev/null;",
    "_cv_take() { case $_cv_tool in",
    "head) head -c \"$1\" <&3;;",
    "dd) test \"$1\" -lt 65536 || dd bs=65536 count=$(($1/65536)) iflag=fullblock <&3 2>/dev/null;",
    "test $(($1%65536)) = 0 || dd bs=$(($1%65536)) count=1 iflag=fullblock <&3 2>/dev/null;;",
    "*) dd bs=1 count=\"$1\" <&3 2>/dev/null;; esac; };",
    "_cv_try() { test \"$(echo abcdef | { \"$@\" >/dev/null 2>&1; IFS= read -r _cv_x; echo \"$_cv_x\"; })\" = def; };",
    "_cv_f() { echo \"$_cv_a$_cv_b $1\" || exit 1; };",
    "_cv_time() { IFS=\" \" read -r _cv_u _cv_x 2>/dev/null </proc/uptime || _cv_u=-; };",
    "_cv_x() { for _cv_g in /proc/self/task/*; do :; done; _cv_time; _cv_f \"S $1 $_cv_u ${_cv_g##*/}\";",
    "test $2 != s || _cv_f \"S $1\" >&2; _cv_s=$5; set --; eval \"$_cv_s\"; };",
    "_cv_y() { { _cv_e=$( ( _cv_x \"$@\" ) 3<&- 2>&1 >&4 4>&-; _cv_r=$?; echo x; exit $_cv_r ); } 4>&1; _cv_r=$?;",
    "test \"$_cv_e\" = x || { _cv_f \"R $1\"; printf %s \"${_cv_e%x}\"; }; return $_cv_r; };",
    "_cv_i() { unset IFS; _cv_w=;",
    "if test -n \"$_cv_stop\" && test -e \"$_cv_stop\"; then _cv_w=T; else",
    "for _cv_n in $4; do case $_cv_ok in *\" $_cv_n \"*) ;; *) _cv_w=\"N $_cv_n\"; break;; esac; done; fi;",
    "if test -n \"$_cv_w\"; then test \"$3\" = - || _cv_take \"$3\" >/dev/null; _cv_f \"K $1 $_cv_w\"; return 0; fi;",
    "test \"$2$_cv_one\" != s1 || set -- \"$1\" t \"$3\" \"$4\" \"$5\";",
    "case $2$3 in",
    "m-) ( _cv_x \"$@\" ) 3<&- 2>&1;;",
    "s-) ( _cv_x \"$@\" ) 3<&-;;",
    "t-) _cv_y \"$@\";;",
    "t*) _cv_take \"$3\" | { _cv_y \"$@\"; _cv_r=$?; cat >/dev/null; exit $_cv_r; };;",
    "m*) _cv_take \"$3\" | { ( _cv_x \"$@\" ) 3<&- 2>&1; _cv_r=$?; cat >/dev/null; exit $_cv_r; };;",
    "*) _cv_take \"$3\" | { ( _cv_x \"$@\" ) 3<&-; _cv_r=$?; cat >/dev/null; exit $_cv_r; };;",
    "esac;",
    "_cv_r=$?; test $_cv_r = 0 && _cv_ok=\"$_cv_ok$1 \";",
    "_cv_time; test $2 != s || _cv_f \"E $1\" >&2; _cv_f \"E $1 $_cv_r $_cv_u\"; };",
    "_cv_tool=; _cv_try head -c 3 && _cv_tool=head || { _cv_try dd bs=3 count=1 iflag=fullblock && _cv_tool=dd; };",
    "while IFS=\" \" read -r _cv_k _cv_p _cv_q <&3; do case $_cv_k in",
    "N) _cv_a=$_cv_p; _cv_b=$_cv_q;;",
    "B) _cv_ok=\" \"; _cv_stop=; eval \"$(_cv_take \"$_cv_p\")\"; _cv_m; set +eufx; _cv_f D;;",
    "*) exit 1;; esac; done; exit 0",
];

/// 32 random hexadecimal digits, in two halves. What is said on the host in full is never stored or passed there in one piece, so that
/// an item that prints its variables or a process list does not print a marker.
#[derive(Debug, Clone)]
pub(crate) struct Nonce {
    pub a: String,
    pub b: String,
}

impl Nonce {
    pub(crate) fn new() -> Self {
        let half = || format!("{:016x}", rand::random::<u64>());
        Self { a: half(), b: half() }
    }

    pub(crate) fn whole(&self) -> Vec<u8> {
        [self.a.as_bytes(), self.b.as_bytes()].concat()
    }
}

/// The first lines for the host: the loop, as one line, and a line with the nonce. `terminal`: both streams come as one.
pub(crate) fn first_lines(nonce: &Nonce, terminal: bool) -> String {
    format!("_cv_one={}; {}\nN {} {}\n", u8::from(terminal), LOOP.join(" "), nonce.a, nonce.b)
}

/// The command that starts a shell, and the marks that its answers begin with.
#[derive(Debug, Clone)]
pub(crate) struct ShellStart {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The greeting of the loop, before its process ID.
    pub hello: Vec<u8>,
    /// The mark of the question for a password, if there may be one.
    pub prompt: Option<Prompt>,
    /// True if it runs in a terminal: su and doas ask only there. Both streams then come as one.
    pub terminal: bool,
}

/// A question for a password.
#[derive(Debug, Clone)]
pub(crate) enum Prompt {
    /// Our own text, on standard error.
    Own(Vec<u8>),
    /// The words of su or doas, after a mark that is said just before they start.
    After(Vec<u8>),
}

impl Prompt {
    /// Whether the question was asked. `reply` is all that came on the stream it comes on, since the start or the last question.
    pub(crate) fn asked(&self, reply: &[u8], again: bool) -> bool {
        match self {
            Self::Own(prompt) => memmem::find(reply, prompt).is_some(),
            Self::After(mark) => {
                let from = memmem::find(reply, mark).map(|at| at + mark.len());
                let from = if again { Some(0) } else { from };
                let words = from.and_then(|from| reply.get(from..)).unwrap_or_default().trim_ascii_end();
                words.to_ascii_lowercase().ends_with(b"password:")
            }
        }
    }
}

/// Makes the terminal a clean line in both directions, says the mark, and goes on as the other program. Without quotes, as [`BOOT`].
const RAW: &str = "stty raw -echo && printf %s \"$1$2\" && shift 2 && exec \"$@\"";

/// In a terminal the loop and its items get pipes in its place: a program that finds a terminal behaves otherwise, and one that asks
/// there would take the next batch for the answer.
const PIPED: &str = "w=; command -v setsid >/dev/null && w=setsid; $w \"$@\" 2>&1 | cat";

impl ShellStart {
    pub(crate) fn new(shell: &[String], become_: &Become) -> Self {
        let hello = Nonce::new();
        let mut loop_words = shell.to_vec();
        loop_words.extend(["-c", BOOT, "sh", &hello.a, &hello.b].map(str::to_owned));
        let mut start = Self { words: Vec::new(), hello: hello.whole(), prompt: None, terminal: false };
        let Become::User { method, user, password } = become_ else {
            start.words = loop_words;
            return start;
        };
        // The messages of the program are parsed, so they must not be translated.
        let mut words: Vec<String> = ["env", "LC_ALL=C", method.name()].map(str::to_owned).into();
        match method {
            Method::Sudo if password.is_some() => {
                let nonce = Nonce::new();
                let text = format!("[{}{}]", nonce.a, nonce.b);
                words.extend(["-S", "-k", "-p", &text].map(str::to_owned));
                start.prompt = Some(Prompt::Own(text.into_bytes()));
                words.extend(["-u", user, "--"].map(str::to_owned));
                words.extend(loop_words);
            }
            Method::Sudo => {
                words.extend(["-n", "-u", user, "--"].map(str::to_owned));
                words.extend(loop_words);
            }
            Method::Doas if password.is_none() => {
                words.extend(["-n", "-u", user, "--"].map(str::to_owned));
                words.extend(loop_words);
            }
            Method::Doas => {
                words.extend(["-u", user, "--"].map(str::to_owned));
                words.extend(["sh", "-c", PIPED, "sh"].map(str::to_owned));
                words.extend(loop_words);
                start.in_a_terminal(&mut words);
            }
            Method::Su => {
                let mut piped: Vec<String> = ["sh", "-c", PIPED, "sh"].map(str::to_owned).into();
                piped.extend(loop_words);
                words.extend(["-s", "/bin/sh", "-c", &line(&piped), user].map(str::to_owned));
                start.in_a_terminal(&mut words);
            }
        }
        start.words = words;
        start
    }

    fn in_a_terminal(&mut self, words: &mut Vec<String>) {
        let mark = Nonce::new();
        let before = ["sh", "-c", RAW, "sh", &mark.a, &mark.b].map(str::to_owned);
        words.splice(0..0, before);
        self.prompt = Some(Prompt::After(mark.whole()));
        self.terminal = true;
    }

    /// The words as one command line for the login user's shell.
    pub(crate) fn command_line(&self) -> String {
        line(&self.words)
    }
}

fn line(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

/// Ends the process `$item` and all its descendants: TERM, up to 2 s later KILL.
const KILL: &str = r#"
all=$(for f in /proc/[0-9]*/stat; do
  read -r s <"$f" || continue
  p=${s%% *}
  set -- ${s##*) }
  echo "$p $2"
done 2>/dev/null)
kids() { echo "$all" | while read -r p q; do if test "$q" = "$1"; then echo "$p"; kids "$p"; fi; done; }
set -- "$item" $(kids "$item")
kill -TERM "$@" 2>/dev/null
i=0
while test $i -lt 20 && kill -0 "$item" 2>/dev/null; do
  i=$((i + 1))
  sleep 0.1 2>/dev/null || { sleep 1; i=$((i + 9)); }
done
kill -KILL "$@" 2>/dev/null
exit 0
"#;

/// The script that ends an item's processes.
pub(crate) fn kill_script(pid: u32) -> String {
    format!("item={pid}\n{KILL}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_can_stand_in_single_quotes_of_any_shell_and_the_loop_is_one_line() {
        for bad in ['\'', '\\', '!', '\n'] {
            for text in [BOOT, RAW, PIPED] {
                assert!(!text.contains(bad), "{bad:?} in the command line");
            }
        }
        assert!(!first_lines(&Nonce::new(), false).trim_end().split_once('\n').unwrap().1.contains('\n'));
    }

    #[test]
    fn a_password_asks_for_a_prompt_and_none_forbids_it() {
        let sudo = |password: Option<&str>| Become::sudo("root", password.map(Into::into));
        let with = ShellStart::new(&["sh".to_owned()], &sudo(Some("x")));
        let line = with.command_line();
        assert!(line.starts_with("env 'LC_ALL=C' sudo '-S' '-k' '-p' "), "{line}");
        assert!(!line.contains("'x'"));
        assert!(with.prompt.is_some());
        let without = ShellStart::new(&["sh".to_owned()], &sudo(None));
        assert!(without.command_line().starts_with("env 'LC_ALL=C' sudo '-n' '-u' root '--' sh "));
        assert!(without.prompt.is_none());
    }

    #[test]
    fn the_greeting_never_stands_in_the_command_line_in_one_piece() {
        let start = ShellStart::new(&["sh".to_owned()], &Become::None);
        let hello = String::from_utf8(start.hello.clone()).unwrap();
        assert!(!start.command_line().contains(&hello));
    }

    /// Gives `sh` this input and its end, and returns the output.
    fn reply(input: &str) -> String {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let start = ShellStart::new(&["sh".to_owned()], &Become::None);
        let (program, arguments) = start.words.split_first().unwrap();
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    }

    #[test]
    fn a_batch_cut_short_by_a_lost_connection_runs_nothing() {
        use crate::batch::{Batch, ShellItem};
        let batch = Batch {
            prelude: Some("echo the prelude ran".to_owned()),
            items: (1..4).map(|id| ShellItem::new(id, format!("echo item {id} ran"))).collect(),
            ..Batch::default()
        };
        let text = String::from_utf8(batch.encode().unwrap().concat()).unwrap();
        let input = |text: &str| format!("{}{text}", first_lines(&Nonce::new(), false));
        let whole = reply(&input(&text));
        assert_eq!(whole.matches(" ran").count(), 4, "{whole}");
        let header = text.find('\n').unwrap();
        // The last two bytes are the closing brace and its newline.
        for cut in (header + 1..text.len() - 2).step_by(7) {
            let part = reply(&input(&text[..cut]));
            assert!(!part.contains(" ran"), "cut at {cut}: {part}");
        }
    }
}
