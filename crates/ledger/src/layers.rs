//! File systems that runs mount and unmount, links that they lead elsewhere, and directories to which links lead. A path below such a place is one object
//! before that, and another one after it; in each of these directories it is one.

use crate::lead::{Lead, LedPath, lead, led_elsewhere};
use crate::paths::is_at_path;
use crate::{RunRecord, SavedChange, SavedOutcome};
use converge_resource::{ObjectId, State};
use std::collections::BTreeMap;

/// The file systems in which an object lies, at each place above it at which runs mount something: none there is the one that the first of these
/// runs found. And where the links above it led, where runs have led them elsewhere; and its real directory, where that is another one than in the first
/// change of the object that says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MountLayer {
    mounts: BTreeMap<String, String>,
    links: BTreeMap<String, Lead>,
    dir: Option<String>,
}

impl MountLayer {
    /// The same without the directory: an object and what lies above it have different ones.
    pub(crate) fn without_dir(&self) -> Self {
        Self { dir: None, ..self.clone() }
    }

    /// The file systems as one text, empty where the object lies in what was there before; [`MountLayer::from_text`] reads it. Managed objects are distinguished
    /// by them alone ([`MountLayers::take`]).
    pub(crate) fn text(&self) -> String {
        let places = self.mounts.iter().map(|(place, system)| format!("{place}\n{system}"));
        places.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn from_text(text: &str) -> Self {
        let mut lines = text.split('\n').map(str::to_owned);
        let mut layer = Self::default();
        while let (Some(place), Some(system)) = (lines.next(), lines.next()) {
            layer.mounts.insert(place, system);
        }
        layer
    }
}

/// The file system that is mounted at a place, by the state of its mount: `-` for nothing.
pub fn file_system(mount: &State) -> &str {
    let words: Vec<&str> = mount.line().split(' ').collect();
    match words.as_slice() {
        ["mount", source, _, _, "-"] => source,
        ["mount", _, _, _, bind] => bind,
        _ => "-",
    }
}

/// The file systems at one place: the one that the first run found, and the present one. The real directories of an object likewise.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MountPlace<T> {
    first: T,
    now: T,
}

/// The places at which runs have mounted or unmounted something, and the links that they have led elsewhere, as of some change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountLayers {
    mounts: BTreeMap<String, MountPlace<String>>,
    links: BTreeMap<String, MountPlace<Lead>>,
    dirs: BTreeMap<(ObjectId, MountLayer), MountPlace<String>>,
}

impl MountLayers {
    /// Takes where the links led that a run found when it began: somebody may have led them back since the runs before it.
    pub(crate) fn begin(&mut self, run: &RunRecord) {
        for change in run.changes.iter().rev().filter(|change| change.object.kind == "path") {
            if let Some(place) = self.links.get_mut(&change.object.key)
                && let Some(found) = lead(&change.before)
            {
                place.now = found;
            }
        }
    }

    /// Takes a change of a run: that of a mount, or of a link that it leads elsewhere.
    pub(crate) fn follow(&mut self, change: &SavedChange) {
        self.take(&change.object, &change.before, &change.after);
        let foreign = change.outcome == SavedOutcome::Moved;
        let led = led_elsewhere(&change.object, &change.before, &change.after, foreign);
        if let Some(place) = self.links.get_mut(&change.object.key).filter(|_| change.object.kind == "path") {
            place.now = lead(&change.after).unwrap_or_else(|| place.now.clone());
        } else if let Some((first, now)) = led {
            self.links.insert(change.object.key.clone(), MountPlace { first, now });
        }
    }

    /// Takes a change of a mount.
    pub(crate) fn take(&mut self, object: &ObjectId, before: &State, after: &State) {
        if converge_objects::traits_of(object).mounts {
            let first = file_system(before).to_owned();
            let place =
                self.mounts.entry(object.key.clone()).or_insert(MountPlace { now: first.clone(), first });
            file_system(after).clone_into(&mut place.now);
        }
    }

    /// The layer in which an object lies now.
    pub(crate) fn of(&self, object: &ObjectId) -> MountLayer {
        let moved = above(&self.mounts, object, true).filter(|(_, place)| place.now != place.first);
        let led = above(&self.links, object, false).filter(|(_, place)| place.now != place.first);
        MountLayer {
            mounts: moved.map(|(at, place)| (at.clone(), place.now.clone())).collect(),
            links: led.map(|(at, place)| (at.clone(), place.now.clone())).collect(),
            dir: None,
        }
    }

    /// The layer of the object of a change, with its directory. A change that does not say one (an older record, or no link led there) was made where the
    /// one before it was, or else where the next one is.
    pub(crate) fn of_change(&mut self, change: &SavedChange) -> MountLayer {
        let layer = self.of(&change.object);
        let key = (change.object.clone(), layer);
        let place = match &change.real_dir {
            Some(dir) => {
                let first = MountPlace { first: dir.clone(), now: dir.clone() };
                let place = self.dirs.entry(key.clone()).or_insert(first);
                place.now.clone_from(dir);
                Some(&*place)
            }
            None => self.dirs.get(&key),
        };
        let dir = place.filter(|place| place.now != place.first).map(|place| place.now.clone());
        MountLayer { dir, ..key.1 }
    }

    /// The mounts above an object, with what is mounted there where it is visible in this layer.
    pub(crate) fn needed(&self, object: &ObjectId, layer: &MountLayer) -> Vec<(String, String)> {
        let mut needed: BTreeMap<String, String> =
            above(&self.mounts, object, true).map(|(at, place)| (at.clone(), place.first.clone())).collect();
        // A place that no record tells of any more counts too.
        needed.extend(layer.mounts.clone());
        needed.into_iter().collect()
    }

    /// The paths above an object that runs have led elsewhere, with where they must lead for it to be visible.
    pub(crate) fn led(&self, object: &ObjectId, layer: &MountLayer) -> Vec<LedPath> {
        let led = |(path, place): (&String, &MountPlace<Lead>)| LedPath {
            path: path.clone(),
            lies_in: layer.links.get(path).unwrap_or(&place.first).clone(),
            now: place.now.clone(),
        };
        above(&self.links, object, false).map(led).collect()
    }
}

/// The places above an object. The directory at which something is mounted is out of sight itself, and so `hides` says.
fn above<'a, T>(
    places: &'a BTreeMap<String, MountPlace<T>>,
    object: &'a ObjectId,
    hides: bool,
) -> impl Iterator<Item = (&'a String, &'a MountPlace<T>)> {
    let lies = is_at_path(&object.kind);
    places.iter().filter(move |(at, _)| {
        let rest = object.key.strip_prefix(at.trim_end_matches('/'));
        let is_at = |rest: &str| hides && rest.is_empty() && object.kind == "path";
        lies && rest.is_some_and(|rest| rest.starts_with('/') || is_at(rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(line: &str) -> State {
        State::from_line(line)
    }

    #[test]
    fn a_path_is_another_object_while_something_is_mounted_above_it() {
        let (file, mount) = (ObjectId::new("path", "/srv/m/file"), ObjectId::new("mount", "/srv/m"));
        let mut layers = MountLayers::default();
        let below = layers.of(&file);
        assert_eq!(below, MountLayer::default());
        layers.take(&mount, &state("absent"), &state("mount /dev/sdb ext4 rw -"));
        let inside = layers.of(&file);
        assert_ne!(inside, below);
        assert_eq!(MountLayer::from_text(&inside.text()), inside);
        assert_eq!(MountLayer::from_text(&below.text()), below);
        assert_eq!(layers.needed(&file, &below), [("/srv/m".to_owned(), "-".to_owned())]);
        assert_eq!(layers.needed(&file, &inside), [("/srv/m".to_owned(), "/dev/sdb".to_owned())]);
        assert_eq!(layers.of(&ObjectId::new("path", "/srv/m")), inside);
        for other in ["path:/srv/mine", "path:/srv", "mount:/srv/m", "package:/srv/m/file"] {
            let (kind, key) = other.split_once(':').unwrap();
            assert_eq!(layers.of(&ObjectId::new(kind, key)), below, "{other}");
        }
        // Another look at it is the same file system; another device is another one.
        layers.take(&mount, &state("mount /dev/sdb ext4 rw -"), &state("mount /dev/sdb ext4 ro -"));
        assert_eq!(layers.of(&file), inside);
        layers.take(&mount, &state("mount /dev/sdb ext4 ro -"), &state("mount /dev/sda1 ext4 rw /opt"));
        assert_ne!(layers.of(&file), inside);
        layers.take(&mount, &state("mount /dev/sda1 ext4 rw /opt"), &state("absent"));
        assert_eq!(layers.of(&file), below);
    }
}
