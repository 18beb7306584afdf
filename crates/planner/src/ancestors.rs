//! The ways to paths below directories and links that this run changes. The host judges the others itself when it looks.

use crate::virtual_host::above;
use crate::{Problem, VirtualHost};
use converge_objects::ancestors::{Ancestors, AncestorsEnd, EntryRefused, ancestors_of};
use converge_objects::{PathState, objects, traits_of};
use converge_resource::{Change, ObjectId, Stop, View as _};

impl VirtualHost<'_> {
    /// Refuses an object to which the host will not go when its turn comes, since an earlier item has changed a directory or a link above it.
    pub(crate) fn need_ancestors(&self, object: &ObjectId) -> Result<(), Stop> {
        match self.refused_entry(object)? {
            Some(why) => Err(Stop::invalid_help("", &why, why.help())),
            None => Ok(()),
        }
    }

    /// The error of an item whose changes cut off an object that an earlier item of this run manages: nobody could look at it any more.
    pub(crate) fn cuts_off(&self, changes: &[Change]) -> Result<Option<Problem>, Stop> {
        for change in changes.iter().filter(|change| may_cut_off(change)) {
            for kind in
                objects().iter().filter(|object| object.traits().from_inside).map(|object| object.kind())
            {
                let at = |object: &ObjectId| ObjectId::new("path", object.key.clone());
                let below = |object: &ObjectId| above(&at(object)).any(|dir| self.one(&dir) == change.object);
                for (object, _) in self.determined(kind).into_iter().filter(|(object, _)| below(object)) {
                    let Some(why) = self.refused_entry(&object)? else { continue };
                    let message = format!("{why}; a resource before this one manages {}", object.key);
                    return Ok(Some(Problem { help: Some(why.help()), ..Problem::new(message) }));
                }
            }
        }
        Ok(None)
    }

    fn refused_entry(&self, object: &ObjectId) -> Result<Option<EntryRefused>, Stop> {
        if !traits_of(object).from_inside {
            return Ok(None);
        }
        let at = |path: &str| ObjectId::new("path", path);
        let is_changed = |path: &str| above(&at(path)).any(|dir| self.changed(&dir).is_some());
        if !is_changed(&object.key) && !is_changed(&self.real(&at(&object.key)).key) {
            return Ok(None);
        }
        let Some((dir, _)) = object.key.rsplit_once('/') else { return Ok(None) };
        let look = |path: &str, _: &str| {
            PathState::try_from(self.found(&at(path))?.state)
                .map_err(|e| Stop::Failed(format!("{path}: {e}")))
        };
        match ancestors_of(dir, &look) {
            Ok(Ancestors { end: AncestorsEnd::Refused(why), .. }) => Ok(Some(why)),
            Err(Stop::Ask(probes)) => Err(Stop::Ask(probes)),
            // An answer that is not known yet refuses nothing: the item is planned again, or the host judges.
            Ok(_) | Err(_) => Ok(None),
        }
    }
}

/// Whether the change of a directory gives others than root a way to exchange what lies in it.
fn may_cut_off(change: &Change) -> bool {
    change.object.kind == "path"
        && matches!(PathState::try_from(change.to.clone()), Ok(PathState::Dir { .. }))
}
