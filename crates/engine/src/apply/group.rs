//! Items of a stretch that the host does together: directories and plain files (see `converge_host::records::group_piece`), packages (see
//! `converge_host::records::together_piece`), and units that are started (see `converge_host::records::units_piece`).

use super::TargetRun;
use super::running::ItemProgress;
use crate::apply::work::Work;
use crate::{Activity, Event, ItemResult};
use converge_host::records::{
    ItemSpec, MOST_FILES, MemberAnswer, Piece, PlainFile, StartedUnit, group_answers, group_piece,
    together_piece, units_piece,
};
use converge_resource::ObjectId;
use converge_ssh::{Because, ShellEvent, ShellItem, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The pieces of a stretch, and the works that they belong to.
#[derive(Default)]
pub(super) struct Stretch {
    pub items: Vec<ShellItem>,
    /// By the number of a piece.
    pub works: BTreeMap<u32, Work>,
    pub groups: BTreeMap<u32, JointItems>,
    /// The last piece of each item, by the item's number.
    pub last_piece: BTreeMap<u32, u32>,
    /// Plain files that are not sent yet: neighbours that may go as one.
    open: Vec<(Work, PlainFile)>,
    /// Items of packages that are not sent yet: neighbours that are one transaction.
    packages: Vec<Work>,
    /// Units to start that are not sent yet, with their files: elements of one resource. All of these lists but one are empty.
    units: Vec<(Work, Option<PlainFile>)>,
    /// Later items wait for the group: if not all of it is made, the lane decides what comes next.
    barrier: Option<u32>,
    next: u32,
}

/// Items that go as one piece.
pub(super) struct JointItems {
    token: String,
    pub members: Vec<Work>,
    sort: Sort,
}

/// The sort of a group's members.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// Directories and plain files: after the first that fails none is made.
    Files,
    /// One transaction of packages: all of it happens, or each comes by itself.
    Packages,
    /// Units that are started and watched together: likewise.
    Units,
}

/// The neighbours with which an item may go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Grouping {
    /// None.
    Alone,
    /// Any; an item of packages begins a transaction.
    Begins,
    /// Any; an item of packages stands right behind the one before.
    Follows,
}

impl JointItems {
    /// Whether all of it is begun at once, or nothing.
    fn is_begun_at_once(&self) -> bool {
        self.sort != Sort::Files
    }
}

impl Stretch {
    /// Adds an item.
    pub fn push(&mut self, work: Work, grouping: Grouping) {
        let alone = grouping == Grouping::Alone;
        let started = if alone { None } else { work.started_unit() };
        if let Some(StartedUnit { file }) = started {
            if !self.units.last().is_some_and(|(last, _)| last.is_element_beside(&work)) {
                self.close();
            }
            self.units.push((work, file));
            return;
        }
        self.close_units();
        if grouping == Grouping::Follows && work.joins(&self.packages.iter().collect::<Vec<_>>()) {
            self.close_files();
            self.packages.push(work);
            return;
        }
        self.close_packages();
        if !alone && work.joins(&[]) {
            self.close_files();
            self.packages.push(work);
            return;
        }
        let file = if alone { None } else { work.plain_file() };
        let fits = |file: &PlainFile| {
            let is_other = |(other, _): &(Work, PlainFile)| first_object(other) != first_object(&work);
            self.open.len() < MOST_FILES
                && self.open.first().is_none_or(|(_, first)| first.from_run == file.from_run)
                && self.open.iter().all(is_other)
                // Directories come first: files may lie in them.
                && (!file.is_directory || self.open.iter().all(|(_, other)| other.is_directory))
        };
        match file {
            Some(file) if fits(&file) => self.open.push((work, file)),
            Some(file) => {
                self.close_files();
                self.open.push((work, file));
            }
            None => {
                self.close_files();
                self.single(work);
            }
        }
    }

    /// Sends what is open.
    pub fn close(&mut self) {
        self.close_files();
        self.close_packages();
        self.close_units();
    }

    fn close_files(&mut self) {
        let open = std::mem::take(&mut self.open);
        if open.len() < 2 {
            open.into_iter().for_each(|(work, _)| self.single(work));
            return;
        }
        let token = uuid::Uuid::now_v7().simple().to_string();
        let members: Vec<_> = open.iter().map(|(work, file)| (work.spec(), file)).collect();
        let piece = group_piece(&token, &members);
        self.group(
            JointItems {
                token,
                members: open.into_iter().map(|(work, _)| work).collect(),
                sort: Sort::Files,
            },
            piece,
        );
    }

    fn close_packages(&mut self) {
        let members = std::mem::take(&mut self.packages);
        if members.len() < 2 {
            members.into_iter().for_each(|work| self.single(work));
            return;
        }
        let token = uuid::Uuid::now_v7().simple().to_string();
        let specs: Vec<&ItemSpec> = members.iter().map(Work::spec).collect();
        let piece = together_piece(&token, &specs);
        self.group(JointItems { token, members, sort: Sort::Packages }, piece);
    }

    fn close_units(&mut self) {
        let open = std::mem::take(&mut self.units);
        if open.len() < 2 {
            open.into_iter().for_each(|(work, _)| self.single(work));
            return;
        }
        let token = uuid::Uuid::now_v7().simple().to_string();
        let members: Vec<_> = open.iter().map(|(work, file)| (work.spec(), file.as_ref())).collect();
        let piece = units_piece(&token, &members);
        let members = open.into_iter().map(|(work, _)| work).collect();
        self.group(JointItems { token, members, sort: Sort::Units }, piece);
    }

    fn group(&mut self, group: JointItems, piece: Piece) {
        let JointItems { token, members, sort } = group;
        // A member may need one before it: when one fails, none after it is made.
        let mut needs: BTreeSet<u32> = self.barrier.into_iter().collect();
        for work in &members {
            needs.extend(self.needs(work));
        }
        let id = self.number();
        self.items.push(ShellItem {
            needs: needs.into_iter().collect(),
            timeout: Some(Duration::from_secs(piece.timeout)),
            ..ShellItem::new(id, piece.script)
        });
        let members: Vec<Work> = members.into_iter().map(|work| work.of_group(&token)).collect();
        self.last_piece.extend(members.iter().map(|work| (work.item.id, id)));
        self.groups.insert(id, JointItems { token, members, sort });
        self.barrier = Some(id);
    }

    fn single(&mut self, work: Work) {
        let mut needs = self.needs(&work);
        needs.extend(self.barrier);
        self.next = self.next.max(1);
        let pieces = work.items(needs, &mut self.next);
        if let Some(last) = pieces.last() {
            self.last_piece.insert(work.item.id, last.id);
        }
        self.works.extend(pieces.iter().map(|piece| (piece.id, work.clone())));
        self.items.extend(pieces);
    }

    fn needs(&self, work: &Work) -> Vec<u32> {
        work.item.needs.iter().filter_map(|need| self.last_piece.get(need).copied()).collect()
    }

    fn number(&mut self) -> u32 {
        let id = self.next.max(1);
        self.next = id.saturating_add(1);
        id
    }

    /// The items that wait for an answer, by number.
    pub fn unanswered(&self) -> BTreeSet<u32> {
        let members = self.groups.values().flat_map(|group| &group.members);
        self.works.values().chain(members).map(|work| work.item.id).collect()
    }
}

fn first_object(work: &Work) -> Option<&ObjectId> {
    work.item.changes().first().map(|planned| &planned.change.object)
}

impl TargetRun {
    /// Takes an event of the host about a group.
    pub(super) fn take_group(
        &mut self,
        event: ShellEvent,
        group: &JointItems,
        running: &mut BTreeMap<u32, ItemProgress>,
    ) {
        let host = self.lane.host.clone();
        let Some(first) = group.members.first().map(|work| work.item.id) else { return };
        match event {
            ShellEvent::Started(_) => {
                let (items, packages) = (group.members.len(), group.sort == Sort::Packages);
                self.progress.together =
                    Some(self.context.begin(&host, Activity::Together { items, packages }));
                for Work { item, .. } in &group.members {
                    running.insert(
                        item.id,
                        ItemProgress { begun: self.progress.epoch.elapsed(), ..ItemProgress::default() },
                    );
                    let address = item.address.clone();
                    self.context.events.send(Event::ItemStarted { host: host.clone(), id: item.id, address });
                }
            }
            // The members' own words come with their ends.
            ShellEvent::Output { bytes, .. } => {
                let lines = running.entry(first).or_default().complete_lines(&bytes);
                self.tell_phases(first, &group.token, lines);
            }
            ShellEvent::Finished { status, duration, .. } => {
                let output = running.get(&first).map(|reply| reply.output.clone()).unwrap_or_default();
                self.conclude_group(group, status, duration, &output, running);
                self.progress.together = None;
            }
            ShellEvent::Skipped { because: Because::Stopped, .. } => {
                for work in &group.members {
                    self.finish(&work.item, ItemResult::Stopped, &[], Duration::ZERO);
                }
            }
            ShellEvent::Skipped { .. } => {}
        }
    }

    fn conclude_group(
        &mut self,
        group: &JointItems,
        status: Status,
        duration: Duration,
        output: &[u8],
        running: &mut BTreeMap<u32, ItemProgress>,
    ) {
        let mut whole = true;
        let mut reply = group_answers(&group.token, output);
        let each = duration / u32::try_from(group.members.len()).unwrap_or(u32::MAX).max(1);
        let mut ended = self.progress.epoch.elapsed().saturating_sub(duration);
        let first = group.members.first().map_or(0, |work| work.item.id);
        for work in &group.members {
            running.remove(&work.item.id);
            let begun = ended;
            ended += each;
            let reported = work.spec().rows.first().and_then(|row| reply.remove(&row.seq));
            let (status, output) = match reported {
                Some(MemberAnswer::Alone) => {
                    // Files after it come as a group again, unless they stand on what has failed.
                    if std::mem::take(&mut whole) || group.is_begun_at_once() {
                        self.sending.alone.insert(work.item.address.clone());
                    }
                    self.put_off(&work.item);
                    continue;
                }
                Some(MemberAnswer::Ended(code, text)) => (Status::Exited(code), text),
                // It broke off: it is not known how far it came. Its own status says nothing of one member.
                None if matches!(status, Status::Exited(0 | 73)) => (Status::Exited(1), String::new()),
                // The output of the transaction is shown once.
                None if group.is_begun_at_once() && work.item.id != first => (status, String::new()),
                None => (status, String::from_utf8_lossy(output).into_owned()),
            };
            whole = whole && status.success();
            self.record_time(&work.item, begun, ended);
            let reading = work.read(status, output.as_bytes());
            self.take_remarks(&work.item, &reading);
            match reading.result {
                None => self.begin_again(&work.item),
                Some(result) => {
                    let done = !result.is_bad();
                    self.finish(&work.item, work.hide(result, reading.names_paths), &reading.after, each);
                    if done && group.is_begun_at_once() {
                        self.lane.stands_on_what_failed(&work.item);
                    }
                }
            }
        }
        self.report();
    }
}
