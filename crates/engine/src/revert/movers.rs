//! The commands of a run that have changed other objects. Pure.

/// The run of a command that has changed the object at this place: an item of one name can be another command in each run, and what foreign code has
/// changed is recorded after it.
pub(crate) fn nearest_older(at: usize, commands: impl Iterator<Item = usize>) -> Option<usize> {
    commands.min_by_key(|command| (*command < at, *command))
}
