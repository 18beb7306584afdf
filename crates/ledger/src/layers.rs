//! File systems that runs mount and unmount. A path below such a place is one object before that, and another one after it.

use converge_resource::{ObjectId, State};
use std::collections::BTreeMap;

/// Whether objects of this kind lie at their keys.
pub(crate) fn is_at_path(kind: &str) -> bool {
    converge_objects::object(kind).is_some_and(|object| object.traits().at_path)
}

/// The file systems in which an object lies, at each place above it at which runs mount something: none there is the one that the first of these
/// runs found.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MountLayer(BTreeMap<String, String>);

impl MountLayer {
    /// The layer as one text, empty where the object lies in what was there before; [`MountLayer::from_text`] reads it.
    pub(crate) fn text(&self) -> String {
        let places = self.0.iter().map(|(place, system)| format!("{place}\n{system}"));
        places.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn from_text(text: &str) -> Self {
        let mut lines = text.split('\n').map(str::to_owned);
        let mut layer = Self::default();
        while let (Some(place), Some(system)) = (lines.next(), lines.next()) {
            layer.0.insert(place, system);
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

/// The file systems at one place: the one that the first run found, and the present one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MountPlace {
    first: String,
    now: String,
}

/// The places at which runs have mounted or unmounted something, as of some change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountLayers(BTreeMap<String, MountPlace>);

impl MountLayers {
    /// Takes a change of an object.
    pub(crate) fn take(&mut self, object: &ObjectId, before: &State, after: &State) {
        if object.kind == "mount" {
            let first = file_system(before).to_owned();
            let place = self.0.entry(object.key.clone()).or_insert(MountPlace { now: first.clone(), first });
            file_system(after).clone_into(&mut place.now);
        }
    }

    /// The layer in which an object lies now.
    pub(crate) fn of(&self, object: &ObjectId) -> MountLayer {
        let moved = self.above(object).filter(|(_, place)| place.now != place.first);
        MountLayer(moved.map(|(at, place)| (at.clone(), place.now.clone())).collect())
    }

    /// The mounts above an object, with what is mounted there where it is seen in this layer.
    pub(crate) fn needed(&self, object: &ObjectId, layer: &MountLayer) -> Vec<(String, String)> {
        let mut needed: BTreeMap<String, String> =
            self.above(object).map(|(at, place)| (at.clone(), place.first.clone())).collect();
        // A place that no record tells of any more counts too.
        needed.extend(layer.0.clone());
        needed.into_iter().collect()
    }

    fn above(&self, object: &ObjectId) -> impl Iterator<Item = (&String, &MountPlace)> {
        let lies = is_at_path(&object.kind);
        self.0.iter().filter(move |(at, _)| {
            let rest = object.key.strip_prefix(at.trim_end_matches('/'));
            // The directory at which something is mounted is out of sight itself.
            let is_at = |rest: &str| rest.is_empty() && object.kind == "path";
            lies && rest.is_some_and(|rest| rest.starts_with('/') || is_at(rest))
        })
    }
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
