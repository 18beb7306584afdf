//! Neighbouring items of packages as one piece of shell: one transaction of apt, in which each item keeps its rows and its end.

use super::{ItemSpec, Piece, Row};
use converge_objects::APT_CHOICE;
use converge_resource::{ObjectId, encode_field, quote};
use std::collections::BTreeSet;
use std::fmt::Write as _;

impl ItemSpec {
    /// Whether it is nothing but a transaction of packages, with nothing of its own that others would get too.
    fn is_packages(&self) -> bool {
        let [step] = &*self.steps else { return false };
        !self.rows.is_empty()
            && self.rows.iter().all(|row| converge_objects::traits_of(&row.change.object).one_transaction)
            && step.stdin.is_none()
            && self.settings.iter().all(|(name, _)| APT_CHOICE.contains(&name.as_str()))
            && self.node_removal.is_none()
            && self.switch.is_none()
            && self.from_run.is_none()
            && !self.restarts
            && !self.fetched
            && !self.sensitive
    }

    /// Whether it takes packages and leaves their configuration files, and whether it takes any with all that is theirs.
    fn removes(&self) -> (bool, bool) {
        let goes = |to: &str| self.rows.iter().any(|row| row.change.to.line().starts_with(to));
        (goes("config "), goes("absent"))
    }
}

/// Whether an item may go into one transaction with these, which stand just before it: there are only packages in all of them, no
/// package is changed by two, and none keeps configuration files while another takes them. With none before it: whether it may
/// be the first of such a transaction.
pub fn joins(before: &[&ItemSpec], next: &ItemSpec) -> bool {
    let objects = |spec: &ItemSpec| -> BTreeSet<ObjectId> {
        spec.rows.iter().map(|row| row.change.object.clone()).collect()
    };
    let own = objects(next);
    let (keeps, takes) = next.removes();
    next.is_packages()
        && before.iter().all(|spec| {
            let (retained, taken) = spec.removes();
            objects(spec).is_disjoint(&own) && !(keeps && taken) && !(takes && retained)
        })
}

impl ItemSpec {
    /// Its rows as those of a group's member: `SEQ KIND KEY BEFORE AFTER ITEM FLAGS ROLE`.
    pub(super) fn member_table(&self) -> String {
        let item = encode_field(&self.address);
        let flags = if self.sensitive { "sensitive" } else { "-" };
        self.rows.iter().fold(String::new(), |mut table, Row { seq, change }| {
            let owner = self.owns.iter().find(|(of, _)| of == seq);
            let role = owner.map_or_else(|| "-".to_owned(), |(_, role)| encode_field(role));
            let (kind, key) = (&change.object.kind, encode_field(&change.object.key));
            let (from, to) = (change.from.line(), change.to.line());
            let _infallible = writeln!(table, "{seq}\t{kind}\t{key}\t{from}\t{to}\t{item}\t{flags}\t{role}");
            table
        })
    }
}

/// The rows of the window around the foreign code of all these items, `SEQ KIND KEY EXPECTED EXPECTED ITEM`: without the objects that they change.
pub(super) fn joint_window(members: &[&ItemSpec]) -> String {
    let own: BTreeSet<&ObjectId> =
        members.iter().flat_map(|spec| &spec.rows).map(|row| &row.change.object).collect();
    // The first that runs foreign code watches whatever comes after it.
    let watched = members.iter().map(|spec| &spec.window).find(|window| !window.is_empty());
    let mut window = String::new();
    for row in watched.into_iter().flatten().filter(|row| !own.contains(&row.object)) {
        let of_role =
            |spec: &&&ItemSpec| spec.address.split_once('/').is_some_and(|(role, _)| role == row.role);
        let by = members.iter().rev().find(of_role).or(members.last());
        let item = by.map_or_else(String::new, |spec| encode_field(&spec.address));
        let (kind, key, line) = (&row.object.kind, encode_field(&row.object.key), row.expected.line());
        let _infallible = writeln!(window, "{}\t{kind}\t{key}\t{line}\t{line}\t{item}", row.seq);
    }
    window
}

/// By what apt chose, and what it was asked, for all of these items. Where it was asked at several times, it is asked again.
fn joint_choice(members: &[&ItemSpec]) -> String {
    APT_CHOICE.iter().fold(String::new(), |mut out, name| {
        let mut values: Vec<&str> = members
            .iter()
            .flat_map(|spec| &spec.settings)
            .filter(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
            .collect();
        values.dedup();
        let _infallible = writeln!(out, "{name}={}", quote(&values.join("\n")));
        out
    })
}

/// The piece that changes the packages of these items in one transaction; what it says is read with [`super::group_answers`], by the number of
/// each item's first row. All items have this token.
pub fn together_piece(token: &str, members: &[&ItemSpec]) -> Piece {
    let run = members.first().map_or("", |spec| &spec.run);
    let rows: String = members.iter().map(|spec| spec.member_table()).collect();
    let window = joint_window(members);
    let script = format!(
        "CV_RUN={} CV_TOKEN={} CV_FROM_RUN=\n{}CV_ROWS={}\nCV_WINDOW={}\ncv_packages_together </dev/null\n",
        quote(run),
        quote(token),
        joint_choice(members),
        quote(&rows),
        quote(&window)
    );
    let seconds = members.iter().flat_map(|spec| &spec.steps).map(|step| step.timeout);
    Piece { script, stdin: None, timeout: seconds.max().unwrap_or(0).saturating_add(60) }
}
