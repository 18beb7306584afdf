//! The end of the commands that amend records (`converge state forget|adopt|move`): the user agrees, the records are written, the result is shown.

use super::snapshots::lost_code;
use crate::console::Console;
use crate::failure::Failure;
use crate::prompt::{self, Agreement};
use crate::session::CommandSession;
use converge_engine::{Amendment, Engine, HostManaged};
use converge_render as render;
use converge_resource::counted;

/// An amendment, in words.
pub struct AmendmentText<'a> {
    /// `forget`.
    pub verb: &'a str,
    /// The question, of a number of objects.
    pub question: &'a dyn Fn(&str) -> String,
    /// True of hosts in the middle of it: `some hosts may have forgotten these objects`.
    pub in_doubt: &'a str,
    /// Nobody is asked.
    pub yes: bool,
}

impl AmendmentText<'_> {
    /// Amends the records of the objects that were found, and ends the session. Calls `written` for each host whose records were amended, with the
    /// objects that remain the project's and the run; a host that failed is reported as lost, without objects.
    pub async fn run(
        self,
        mut session: CommandSession,
        mut found: Vec<HostManaged>,
        of: impl Fn(&HostManaged) -> Amendment,
        written: impl FnMut(&mut HostManaged, Vec<String>, &str),
        console: &Console,
    ) -> Result<u8, Failure> {
        let chosen = found.iter().filter(|host| host.lost.is_none() && !host.objects.is_empty());
        let chosen: Vec<(String, Amendment)> = chosen.map(|host| (host.host.clone(), of(host))).collect();
        if let Some(past) = chosen.first().map(|(_, amendment)| amendment.past()) {
            self.ask(&found, past, console)?;
            self.write(&mut session, &mut found, (chosen, past), written, console).await?;
        }
        session.close().await;
        if console.json {
            console.print_json(&render::managed_json(&found));
        }
        Ok(lost_code(found.iter().filter_map(|h| h.lost.as_ref())))
    }

    fn ask(&self, found: &[HostManaged], past: &str, console: &Console) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        let verb = self.verb;
        let objects = counted(found.iter().map(|host| host.objects.len()).sum(), "object");
        let agreement = Agreement {
            deed: &format!("{verb} these objects"),
            short: &format!("{verb} them"),
            otherwise: &format!("nothing was {past}"),
            question: &(self.question)(&objects),
        };
        agreement.ask(console.human() && prompt::somebody_is_there())
    }

    async fn write(
        &self,
        session: &mut CommandSession,
        found: &mut [HostManaged],
        (chosen, past): (Vec<(String, Amendment)>, &str),
        mut written: impl FnMut(&mut HostManaged, Vec<String>, &str),
        console: &Console,
    ) -> Result<(), Failure> {
        let cut = format!("interrupted: {}, see `converge state list`", self.in_doubt);
        let done = session.work_until(&cut, async |engine: &Engine| engine.amend(chosen).await).await?;
        for (name, result) in done.targets {
            let Some(host) = found.iter_mut().find(|host| host.host == name) else { continue };
            match result {
                Ok(still) => written(host, still, &done.run),
                Err(lost) => {
                    host.objects.clear();
                    host.lost = Some(lost);
                }
            }
        }
        if console.human() {
            console.write("\n");
            console.print(&render::amended(found, past, &done.run));
        }
        Ok(())
    }
}
