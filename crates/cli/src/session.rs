//! The engine at work, its events shown as they come, and what Ctrl-C does.

use crate::args::{ConnectionArgs, DEFAULT_FORKS, RemovalArgs, StepUnit};
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::project;
use crate::prompt;
use crate::timings::Trace;
use camino::Utf8PathBuf;
use converge_engine::{
    ApplyReport, Engine, Event, EventSink, FleetPlan, Options, Question, Steps, StopSwitch, TimedEvent,
};
use converge_model::Project;
use converge_render::{Look, Progress, Slow, TerminalSize};
use converge_syntax::Diagnostics;
use std::io::Write;
use std::time::Instant;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// An engine with the eyes on it.
pub struct CommandSession {
    engine: Engine,
    events: UnboundedReceiver<TimedEvent>,
    progress: Progress,
    /// Ctrl-C, a polite kill, and a terminal that has gone away.
    signals: Signals,
    /// Where passphrases come from; nothing once the locked keys were handled.
    passphrases: Option<prompt::Passphrases>,
    /// The questions of `--step`.
    questions: Option<UnboundedReceiver<Question>>,
    /// The times of the run.
    trace: Trace,
}

/// The engine that a command needs.
pub struct SessionRequest<'a> {
    project: Project,
    connection: &'a ConnectionArgs,
    inventory: &'a str,
    become_user: Option<String>,
    removal: RemovalArgs,
    no_deferred: bool,
}

impl<'a> SessionRequest<'a> {
    /// One for this project, named by its inventory, that removes nothing.
    pub fn new(project: Project, connection: &'a ConnectionArgs, inventory: &'a str) -> Self {
        let removal = RemovalArgs::default();
        Self { project, connection, inventory, become_user: None, removal, no_deferred: false }
    }

    /// As this user, whatever the inventory says.
    pub fn with_user(self, become_user: Option<String>) -> Self {
        Self { become_user, ..self }
    }

    /// With these removals allowed.
    pub fn with_removal(self, removal: &RemovalArgs) -> Self {
        Self { removal: removal.clone(), ..self }
    }

    /// Whether an apply skips deferred resources.
    pub fn with_no_deferred(self, no_deferred: bool) -> Self {
        Self { no_deferred, ..self }
    }
}

impl CommandSession {
    /// Such an engine. Nothing is contacted yet.
    pub fn open(request: SessionRequest<'_>, console: &Console) -> Result<Self, Failure> {
        let wrong = request.project.connection_errors();
        if wrong.has_errors() {
            return Err(wrong.into());
        }
        Self::begin(request, console)
    }

    /// The same without a check of the connection variables: they are what `doctor` looks at.
    pub fn begin(request: SessionRequest<'_>, console: &Console) -> Result<Self, Failure> {
        let SessionRequest { project, connection, inventory, become_user, removal, no_deferred } = request;
        let hosts = project.hosts().to_vec();
        let options = Options {
            forks: usize::from(connection.forks.unwrap_or(DEFAULT_FORKS)),
            login_user: connection.user.clone(),
            connection_defaults: connection.defaults.clone(),
            become_password: prompt::become_password(connection)?,
            become_user,
            accept_new_host_keys: connection.accept_new_host_keys,
            no_deferred,
            operator: operator(),
            scope: project::scope(&project, inventory),
            folder: Some(project::folder(&project)),
            prune: removal.prune.is_some(),
            allow_destroy: removal.allow_destroy,
            ..Options::default()
        };
        let (sender, events) = unbounded_channel();
        let engine = Engine::new(project, options, EventSink::to(sender))?;
        let progress = progress(&hosts, console);
        let watch =
            |kind| signal(kind).map_err(|e| Failure::failed(format!("cannot watch for signals: {e}")));
        let signals = Signals {
            end: [watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?],
            hangup: watch(SignalKind::hangup())?,
        };
        let passphrases = Some(prompt::Passphrases::of(connection)?);
        let trace = Trace::new(&hosts, console);
        Ok(Self { engine, events, progress, signals, passphrases, questions: None, trace })
    }

    /// Has the times of the run written to this file, however it ends.
    pub fn trace_to(&mut self, file: Option<Utf8PathBuf>) -> Result<(), Failure> {
        let Some(file) = file else { return Ok(()) };
        self.engine.tell_phases();
        self.trace.write_to(file)
    }

    /// The things that the run took longest for.
    pub fn slowest(&self, report: &ApplyReport) -> Vec<Slow> {
        self.trace.timings().slowest(report, Instant::now())
    }

    /// Asks before each item or each role of an apply.
    pub fn ask_before(&mut self, step: Option<StepUnit>) -> Result<(), Failure> {
        let Some(step) = step else { return Ok(()) };
        if !prompt::somebody_is_there() {
            return Err(Failure::refused(
                "--step needs a terminal; nothing was changed",
                "run the command at a terminal, or without --step",
            ));
        }
        let (ask, questions) = unbounded_channel();
        self.engine.ask_before(Steps { by_role: step == StepUnit::Role, ask });
        self.questions = Some(questions);
        Ok(())
    }

    /// Shows nothing of how far it is from here on.
    pub fn hush(&mut self) {
        self.progress = Progress::new(Look::PLAIN, &[], None, Box::new(std::io::sink()));
    }

    /// Does something that changes nothing, and shows how far it is.
    pub async fn look<'s, F, T>(&'s mut self, work: F) -> Result<T, Failure>
    where
        F: AsyncFnOnce(&'s Engine) -> T,
    {
        self.work_until("interrupted; nothing was changed", work).await
    }

    /// Does something, which may write, and shows how far it is; these words tell of an interrupt.
    pub async fn work_until<'s, F, T>(&'s mut self, interrupted_by: &str, work: F) -> Result<T, Failure>
    where
        F: AsyncFnOnce(&'s Engine) -> T,
    {
        self.unlock().await?;
        let Self { engine, events, progress, signals, trace, .. } = self;
        let work = work(engine);
        tokio::pin!(work);
        let mut tick = ticks();
        let outcome = loop {
            tokio::select! {
                biased;
                _ = interrupted(signals) => break Err(()),
                _ = tick.tick() => progress.tick(),
                Some(event) = events.recv() => show(progress, trace, &event),
                outcome = &mut work => break Ok(outcome),
            }
        };
        while let Ok(event) = events.try_recv() {
            show(progress, trace, &event);
        }
        progress.end();
        outcome.map_err(|()| Failure::Message {
            code: code::FAILED,
            message: interrupted_by.to_owned(),
            help: None,
        })
    }

    /// Unlocks the keys for the hosts and their jump hosts, each once, before any host is contacted.
    async fn unlock(&mut self) -> Result<(), Failure> {
        let Some(passphrases) = self.passphrases.take().filter(prompt::Passphrases::can_answer) else {
            // The refusal of a login says that a key is locked.
            return Ok(());
        };
        let keys = self.engine.locked_keys().await;
        passphrases.give(&keys, |key, passphrase| self.engine.unlock(key, passphrase))
    }

    fn wait_for_plans(&mut self) {
        self.progress.wait_for(&self.engine.hosts());
    }

    /// Plans, and gives up on diagnostics.
    pub async fn plan(&mut self) -> Result<FleetPlan, Failure> {
        self.wait_for_plans();
        Ok(self.look(async |engine: &Engine| engine.plan().await).await??)
    }

    /// Plans a rollback.
    pub async fn plan_rollback(&mut self, to: Option<&str>, roles: &[String]) -> Result<FleetPlan, Failure> {
        self.wait_for_plans();
        let plan: Result<FleetPlan, Diagnostics> =
            self.look(async |engine: &Engine| engine.plan_rollback(to, roles).await).await?;
        Ok(plan?)
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Applies a plan. The first Ctrl-C waits for the steps in progress, the second leaves at once.
    pub async fn apply(&mut self, plan: FleetPlan) -> ApplyReport {
        let Self { engine, events, progress, signals, questions, trace, .. } = self;
        let echo = prompt::hide_interrupts();
        let stop = StopSwitch::new();
        let work = engine.apply(plan, stop.clone());
        tokio::pin!(work);
        let mut tick = ticks();
        let mut asking: Option<std::thread::JoinHandle<()>> = None;
        let report = loop {
            tokio::select! {
                biased;
                hung_up = interrupted(signals) => {
                    // A terminal that goes away sends its signal more than once: that is no second request.
                    if stop.is_stopped() && !hung_up {
                        progress.end();
                        drop(echo);
                        trace.write();
                        let what = "stopped immediately; the next run checks the changes that were in progress";
                        let _gone = writeln!(std::io::stderr(), "{what}");
                        converge_engine::abandon_helm();
                        std::process::exit(i32::from(code::FAILED));
                    }
                    stop.stop();
                }
                // Nothing is drawn over a question.
                _ = tick.tick() => if asking.as_ref().is_none_or(std::thread::JoinHandle::is_finished) {
                    progress.tick();
                },
                Some(event) = events.recv() => {
                    trace.event(&event);
                    progress.event(&event.event);
                }
                Some(question) = next_question(questions) => {
                    progress.end();
                    // Not a task: an unanswered question must not delay the end.
                    asking = Some(std::thread::spawn(move || prompt::step(question)));
                },
                report = &mut work => break report,
            }
        };
        while let Ok(event) = events.try_recv() {
            trace.event(&event);
            progress.event(&event.event);
        }
        progress.end();
        report
    }

    /// Ends all sessions.
    pub async fn close(self) {
        self.engine.close().await;
    }
}

async fn next_question(questions: &mut Option<UnboundedReceiver<Question>>) -> Option<Question> {
    match questions {
        Some(questions) => questions.recv().await,
        None => None,
    }
}

/// The signals that end a run.
struct Signals {
    end: [Signal; 2],
    hangup: Signal,
}

/// Waits for one of them; whether it was a hangup.
async fn interrupted(signals: &mut Signals) -> bool {
    let [first, second] = &mut signals.end;
    tokio::select! {
        _ = first.recv() => false,
        _ = second.recv() => false,
        _ = signals.hangup.recv() => true,
    }
}

/// While looking, a lost host is no line of its own: the plan says it.
fn show(progress: &mut Progress, trace: &mut Trace, timed: &TimedEvent) {
    trace.event(timed);
    if let Event::Lost { .. } = timed.event {
        progress.advance(&timed.event);
    } else {
        progress.event(&timed.event);
    }
}

/// The interval between two drawings of the live rows.
fn ticks() -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(100));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks
}

/// Lines go to standard output, or beside the JSON document to standard error; live lines only on a terminal.
fn progress(hosts: &[String], console: &Console) -> Progress {
    let live = console.look.width.is_some() && console.error_look.width.is_some();
    let (look, out): (Look, Box<dyn Write + Send>) = if !console.human() {
        (console.error_look, Box::new(std::io::stderr()))
    } else {
        (console.look, Box::new(std::io::stdout()))
    };
    Progress::new(look, hosts, live.then(|| Box::new(terminal_size) as TerminalSize), out)
        .aside(console.error_look, Box::new(std::io::stderr()))
}

/// Columns and rows of the terminal behind standard error, now: people resize it.
fn terminal_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    Some((usize::from(size.ws_col), usize::from(size.ws_row))).filter(|(c, r)| *c > 0 && *r > 0)
}

/// `user@machine`, for the records of runs.
pub fn operator() -> String {
    let uid = rustix::process::getuid().as_raw();
    let set = |name: &&str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let name = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(set);
    let user = name.or_else(|| login_name(uid)).unwrap_or_else(|| format!("uid-{uid}"));
    format!("{user}@{}", rustix::system::uname().nodename().to_string_lossy())
}

/// The name of a local user; cron and containers often set no variable.
fn login_name(uid: u32) -> Option<String> {
    let passwd = fs_err::read_to_string("/etc/passwd").ok()?;
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}
