//! Neighbouring units that are started as one piece of shell: one look, one reading of unit files, and one watch in which each has to prove itself.

use super::together::joint_window;
use super::{ItemSpec, Piece, PlainFile};
use converge_objects::unit::{Act, UnitState, act};
use converge_resource::quote;
use std::fmt::Write as _;

/// The folder from which systemd reads the unit files of the administrator.
const UNIT_FOLDER: &str = "/etc/systemd/system/";

/// A unit that is started, so that others may be started with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedUnit {
    /// The file of the unit, where that is changed too.
    pub file: Option<PlainFile>,
}

impl ItemSpec {
    /// The unit, if its start, behind its file where that is changed too, is all of this item, given the content that its step reads. A unit that runs
    /// is not meant: what a restart disturbs is done by itself.
    pub fn started_unit(&self, content: Option<&[u8]>) -> Option<StartedUnit> {
        let (unit, files) = self.rows.split_last()?;
        let state = |state: &converge_resource::State| UnitState::try_from(state.clone()).ok();
        let is_start = unit.change.object.kind == "unit"
            && act(&state(&unit.change.from)?, &state(&unit.change.to)?) == Act::Start;
        if !is_start || !self.is_simple() || self.from_run.is_some() || self.sensitive {
            return None;
        }
        let settings = self.settings.iter().all(|(setting, _)| setting == "CV_KEEP");
        match files {
            [] if settings => Some(StartedUnit { file: None }),
            [file] if file.change.object.key.starts_with(UNIT_FOLDER) => {
                let plain = self.plain_change(&file.change, content)?;
                (plain.from_run.is_empty() && !plain.is_directory && plain.text.is_some())
                    .then_some(StartedUnit { file: Some(plain) })
            }
            _ => None,
        }
    }
}

/// The piece that starts the units of these items; what it says is read with [`super::group_answers`], by the number of each item's first row.
/// All items have this token.
pub fn units_piece(token: &str, members: &[(&ItemSpec, Option<&PlainFile>)]) -> Piece {
    let specs: Vec<&ItemSpec> = members.iter().map(|(spec, _)| *spec).collect();
    let run = specs.first().map_or("", |spec| &spec.run);
    let rows: String = specs.iter().map(|spec| spec.member_table()).collect();
    let mut script = format!("CV_RUN={} CV_TOKEN={} CV_FROM_RUN=\n", quote(run), quote(token));
    for (spec, file) in members {
        let text = file.and_then(|file| file.text.as_ref());
        if let (Some(text), Some(row)) = (text, spec.rows.first()) {
            let _infallible = writeln!(script, "cv_content_{}={}", row.seq, quote(text));
        }
    }
    let window = joint_window(&specs);
    let _infallible = writeln!(
        script,
        "CV_ROWS={}\nCV_WINDOW={}\ncv_units_together </dev/null",
        quote(&rows),
        quote(&window)
    );
    let seconds = specs.iter().flat_map(|spec| &spec.steps).map(|step| step.timeout);
    Piece { script, stdin: None, timeout: seconds.fold(60, u64::saturating_add) }
}
