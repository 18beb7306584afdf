//! Sends a stretch of items to a host, and takes its answers as they come.

use super::running::ItemProgress;
use super::{TargetRun, group};
use crate::apply::work::{ItemReading, Work};
use crate::controller;
use crate::{Activity, Event, ItemResult, TargetError};
use converge_host::HostConnection;
use converge_host::records as host;
use converge_planner::Item;
use converge_ssh::{Batch, Because, ShellError, Status};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// So many items are named where all that had begun would be too many.
const SHOWN: usize = 3;

/// The state of a lane that the next message to its host depends on.
#[derive(Default)]
pub(super) struct SendState {
    /// The number of the last row in the journal.
    pub(super) sequence: u32,
    /// The question to another host that is open.
    pub(super) asking: Option<super::fetch::OpenQuestion>,
    /// Items, by address, that are not to be done together with others.
    pub(super) alone: BTreeSet<String>,
    /// The host waits for an answer before it continues: something changed, and the rest was planned again.
    pub(super) resume: bool,
}

impl TargetRun {
    /// Sends one stretch whole and takes its answers as they come. `reply` is what another host said for its one item.
    pub(super) async fn send(
        &mut self,
        link: &HostConnection,
        ids: &[u32],
        reply: Option<bytes::Bytes>,
    ) -> Result<(), TargetError> {
        let stretch: Vec<Item> =
            self.lane.remaining().iter().filter(|i| ids.contains(&i.id)).cloned().collect();
        let _sends = self.context.begin(&self.lane.host, Activity::Stretch { items: stretch.len() });
        self.progress.together = None;
        let sent = self.stretch(stretch, reply.as_ref());
        if sent.items.is_empty() {
            return Ok(());
        }
        self.exchange(link, sent).await
    }

    /// The pieces of these items. One that cannot be sent ends here.
    fn stretch(&mut self, mut items: Vec<Item>, reply: Option<&bytes::Bytes>) -> group::Stretch {
        let mut sent = group::Stretch::default();
        let mut before = None;
        for item in &mut items {
            if let Some(fetched) = self.target.fetched()
                && let Err(error) = controller::prepare(fetched, item)
            {
                let message = format!("not begun: {error}");
                self.finish(item, ItemResult::Failed { message, output: String::new() }, &[], Duration::ZERO);
                continue;
            }
            let work =
                match Work::given(item, &self.lane, &self.run, &mut self.sending.sequence, reply.cloned()) {
                    Ok(work) => work,
                    Err(error) => {
                        let failed = ItemResult::Failed { message: error.to_string(), output: String::new() };
                        self.finish(item, failed, &[], Duration::ZERO);
                        continue;
                    }
                };
            let beside = before.replace(&*item).is_some_and(|before| self.lane.are_beside(before, item));
            let grouping = match self.sending.alone.contains(&item.address) {
                true => group::Grouping::Alone,
                false if beside => group::Grouping::Follows,
                false => group::Grouping::Begins,
            };
            sent.push(work, grouping);
        }
        sent.close();
        sent
    }

    /// The script that the host runs before the pieces, if there is one.
    fn prelude(&mut self, link: &HostConnection, works: &BTreeMap<u32, Work>) -> Option<String> {
        let phases = self.context.options.phases;
        let mut prelude = if phases { host::TELL_PHASES.to_owned() } else { String::new() };
        if works.values().any(Work::watches_facts) && link.must_learn_to_watch() {
            prelude.push_str(&converge_host::facts::watch_script());
        }
        if std::mem::take(&mut self.sending.resume) {
            prelude.push_str(&host::resume_script(&self.run));
        }
        (!prelude.is_empty()).then_some(prelude)
    }

    /// Sends pieces, and takes the answers until there is one to each.
    async fn exchange(&mut self, link: &HostConnection, sent: group::Stretch) -> Result<(), TargetError> {
        let mut unanswered = sent.unanswered();
        let group::Stretch { items, works, groups, last_piece, .. } = sent;
        let stop_file = host::stop_file(&self.run);
        let prelude = self.prelude(link, &works);
        let batch = Batch { prelude, stop_file: Some(stop_file.clone()), items };
        let mut events = match link.run(&batch) {
            Ok(events) => events,
            Err(error) => return Err(link.lost(&error)),
        };
        let mut stopping = false;
        let mut running: BTreeMap<u32, ItemProgress> = BTreeMap::new();
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = self.stop.stopped(), if !stopping => {
                    stopping = true;
                    link.raise_stop(&stop_file).await;
                    continue;
                }
            };
            let event = match event {
                None => {
                    self.context.tell_traffic(&link.host, Some(link.traffic()));
                    return Ok(());
                }
                Some(Ok(event)) => event,
                Some(Err(error)) => return Err(self.broken(link, &error, &unanswered, &running)),
            };
            if let converge_ssh::ShellEvent::Finished { id, .. }
            | converge_ssh::ShellEvent::Skipped { id, .. } = &event
                && let Some(work) = works.get(id)
                && last_piece.get(&work.item.id) == Some(id)
            {
                unanswered.remove(&work.item.id);
            }
            let (converge_ssh::ShellEvent::Started(id)
            | converge_ssh::ShellEvent::Output { id, .. }
            | converge_ssh::ShellEvent::Finished { id, .. }
            | converge_ssh::ShellEvent::Skipped { id, .. }) = &event;
            match groups.get(id) {
                Some(group) => {
                    if matches!(
                        event,
                        converge_ssh::ShellEvent::Finished { .. } | converge_ssh::ShellEvent::Skipped { .. }
                    ) {
                        group.members.iter().for_each(|work| _ = unanswered.remove(&work.item.id));
                    }
                    self.take_group(event, group, &mut running);
                }
                None => self.take(event, &works, &last_piece, &mut running),
            }
        }
    }

    pub(super) fn take(
        &mut self,
        event: converge_ssh::ShellEvent,
        works: &BTreeMap<u32, Work>,
        last_piece: &BTreeMap<u32, u32>,
        running: &mut BTreeMap<u32, ItemProgress>,
    ) {
        use converge_ssh::ShellEvent;
        let (ShellEvent::Started(piece)
        | ShellEvent::Output { id: piece, .. }
        | ShellEvent::Finished { id: piece, .. }
        | ShellEvent::Skipped { id: piece, .. }) = event;
        let Some(work) = works.get(&piece) else { return };
        let item = &work.item;
        let host = self.lane.host.clone();
        match event {
            ShellEvent::Started(_) => {
                if item.guard.is_some() {
                    self.switch.arm();
                }
                if let Entry::Vacant(first) = running.entry(item.id) {
                    first.insert(ItemProgress {
                        begun: self.progress.epoch.elapsed(),
                        ..ItemProgress::default()
                    });
                    let address = item.address.clone();
                    self.context.events.send(Event::ItemStarted { host, id: item.id, address });
                }
            }
            ShellEvent::Output { bytes, .. } => {
                let reply = running.entry(item.id).or_default();
                let lines = reply.complete_lines(&bytes);
                self.tell_phases(item.id, &work.spec().token, lines);
                let text = work.shown(lines);
                if !item.sensitive && !text.is_empty() {
                    self.context.events.send(Event::ItemOutput { host, id: item.id, text });
                }
            }
            ShellEvent::Finished { status, duration, .. } => {
                let mut reply = running.remove(&item.id).unwrap_or_default();
                reply.took += duration;
                let is_last = last_piece.get(&item.id) == Some(&piece);
                if status.success() && !is_last {
                    running.insert(item.id, reply);
                } else {
                    self.record_time(item, reply.begun, self.progress.epoch.elapsed());
                    self.conclude(work, status, &reply);
                }
            }
            ShellEvent::Skipped { because, .. } => {
                if self.lane.remaining().iter().any(|i| i.id == item.id) && because == Because::Stopped {
                    self.finish(item, ItemResult::Stopped, &[], Duration::ZERO);
                }
                // A need that failed is the lane's own knowledge: it says so when it decides what comes next.
            }
        }
    }

    /// The last piece of an item is over, or one failed.
    pub(super) fn conclude(&mut self, work: &Work, status: Status, reply: &ItemProgress) {
        let reading = work.read(status, &reply.output);
        self.take_remarks(&work.item, &reading);
        match reading.result {
            None => self.begin_again(&work.item),
            Some(mut result) => {
                if matches!(result, ItemResult::Changed)
                    && let Some(fetched) = self.target.fetched()
                    && let Err(error) = controller::make(fetched, &work.item, self.lane.contents())
                {
                    let message = format!("it was not written on this machine: {error}");
                    result = ItemResult::Failed { message, output: String::new() };
                }
                let result = work.hide(result, reading.names_paths);
                self.finish(&work.item, result, &reading.after, reply.took);
            }
        }
        self.report();
    }

    /// Takes all that the host says of an item besides its result.
    pub(super) fn take_remarks(&mut self, item: &Item, reading: &ItemReading) {
        if let Some((before, after)) = &reading.window {
            self.lane.window(item, before, after);
        }
        for text in reading.notes.iter().filter(|_| !item.sensitive) {
            self.lane.note(item.id, text.clone());
            let (host, address) = (self.lane.host.clone(), item.address.clone());
            self.context.events.send(Event::ItemNote { host, address, text: text.clone() });
        }
    }

    pub(super) fn finish(
        &mut self,
        item: &Item,
        result: ItemResult,
        after: &[(converge_resource::ObjectId, converge_resource::State)],
        took: Duration,
    ) {
        self.lane.finish(item.id, result.clone(), after);
        if !took.is_zero() {
            self.progress.times.insert(item.address.clone(), took);
        }
        // The result of a guarded item is reported when the guard has ended.
        let held = self.lane.unconfirmed().iter().any(|(i, _)| i.address == item.address);
        if !held && (!item.only_records() || result.is_bad()) {
            self.context.events.send(Event::ItemFinished {
                host: self.lane.host.clone(),
                id: item.id,
                address: item.address.clone(),
                result,
                took,
            });
        }
    }

    /// The link broke in the middle. The host has all that was sent and goes on with it for a while: what it did not answer is unknown.
    pub(super) fn broken(
        &mut self,
        link: &HostConnection,
        error: &ShellError,
        unanswered: &BTreeSet<u32>,
        running: &BTreeMap<u32, ItemProgress>,
    ) -> TargetError {
        let mut lost = link.lost(error);
        let open = self.lane.remaining().iter().filter(|i| unanswered.contains(&i.id));
        let open: Vec<Item> = open.cloned().collect();
        let begun: Vec<&str> =
            open.iter().filter(|i| running.contains_key(&i.id)).map(|i| i.address.as_str()).collect();
        if !begun.is_empty() {
            // The items of one group begin together.
            let named = begun.get(..SHOWN).unwrap_or(&begun);
            let more = match begun.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            lost = lost.map_message(|why| format!("{why}; in the middle of: {}{more}", named.join(", ")));
        }
        for item in &open {
            let message = match running.contains_key(&item.id) {
                true => lost.to_string(),
                false => "it was sent to the host, but no result was received".to_owned(),
            };
            self.finish(item, ItemResult::Unknown { message }, &[], Duration::ZERO);
        }
        lost
    }
}
