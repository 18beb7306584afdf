//! `converge run`: one command on the hosts of a pattern.

use crate::args::{RunArgs, SelectArgs};
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::project;
use crate::session::{CommandSession, SessionRequest};
use converge_engine::{Engine, HostRan};
use converge_render as render;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub async fn run(args: RunArgs, console: &Console) -> Result<u8, Failure> {
    if args.pattern.trim().is_empty() {
        return Err(Failure::usage(
            "the pattern is empty, and would select no host",
            "write `all` for all hosts; a variable of the shell in it may be unset",
        ));
    }
    let root = || args.become_root.then(|| "root".to_owned());
    let user = args.become_user.or_else(root);
    let names = args.inventories.join(" ");
    let select = SelectArgs {
        inventories: args.inventories,
        limit: Some(args.pattern),
        set: args.set,
        vault: args.vault,
        allow_empty: args.allow_empty,
        ..SelectArgs::default()
    };
    let project = project::load_inventory(None, &select, console)?;
    let script = script(&args.command);
    let one = project.hosts().len() == 1 && !console.json;
    let mut session = CommandSession::open(
        SessionRequest::new(project, &args.connection, &names).with_user(user),
        console,
    )?;
    if one {
        // The command writes to the same place; a live display would disturb it.
        session.hush();
    }
    let limit = Duration::from_secs(args.timeout);
    // Files and pipes get every byte; output to a terminal must not control it.
    let streams = [(); 2].map(|()| Mutex::new(render::Stream::default()));
    let terminals = [std::io::stdout().is_terminal(), std::io::stderr().is_terminal()];
    let observed = |error: bool, bytes: &[u8]| {
        if one {
            let [out, err] = &streams;
            let [out_is_terminal, err_is_terminal] = terminals;
            let (stream, terminal) = if error { (err, err_is_terminal) } else { (out, out_is_terminal) };
            let shown = terminal.then(|| stream.lock().unwrap_or_else(PoisonError::into_inner).push(bytes));
            let bytes = shown.as_ref().map_or(bytes, |shown| shown.as_bytes());
            if error {
                // There is nowhere to tell it.
                let _gone = std::io::stderr().write_all(bytes);
            } else {
                console.write_bytes(bytes);
            }
        }
    };
    let what = "interrupted; hosts on which the command had begun may still be running it";
    let work = async |engine: &Engine| engine.run_command(&script, limit, &observed).await;
    let found = session.work_until(what, work).await?;
    session.close().await;
    let exit = exit_code(&found);
    if console.json {
        console.print_json(&render::ran_json(&script, &found, exit));
    } else if one && found.iter().all(|h| h.result.is_ok()) {
        if exit != code::DONE {
            let mut text = render::Text::new();
            text.push(render::ran_total(&found));
            console.remark_text(&text);
        }
    } else {
        console.print(&render::ran(&found));
    }
    Ok(exit)
}

/// One word is shell text; several are a command and its arguments, each taken as it is.
fn script(words: &[String]) -> String {
    match words {
        [text] => text.clone(),
        words => words.iter().map(|w| converge_resource::quote(w)).collect::<Vec<_>>().join(" "),
    }
}

/// 1 some command failed or took too long; 4 a host refused; 3 a host was unreachable; 0 all is well.
fn exit_code(found: &[HostRan]) -> u8 {
    let lost = super::snapshots::lost_code(found.iter().filter_map(|h| h.result.as_ref().err()));
    let failed = found.iter().filter_map(|h| h.result.as_ref().ok()).any(|r| r.status != Some(0));
    if failed { code::FAILED } else { lost }
}

#[cfg(test)]
mod tests {
    use super::script;

    #[test]
    fn words_are_quoted_and_text_is_not() {
        let words = |all: &[&str]| script(&all.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["uptime | wc -l"]), "uptime | wc -l");
        assert_eq!(words(&["echo", "a b", "$HOME"]), "echo 'a b' '$HOME'");
    }
}
