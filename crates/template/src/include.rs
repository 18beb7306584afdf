//! `{% include %}`, `{% import %}` and `{% extends %}`: templates of the role's folder `templates/`.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};
use std::sync::PoisonError;

use minijinja::{Environment, Error, ErrorKind};

use crate::engine::IncludedTexts;
use crate::files;
use crate::frame;

pub(crate) fn install(env: &mut Environment<'static>, included: &IncludedTexts) {
    // Called each time a template names another one, on the thread that evaluates: the scope says which role it is.
    env.set_path_join_callback(|name, parent| match placed(name, parent) {
        Some(path) => Cow::Owned(path.to_string_lossy().into_owned()),
        // Not absolute, so that the loader opens nothing that was not found in the role.
        None => Cow::Borrowed(name.trim_start_matches('/')),
    });
    let included = included.clone();
    env.set_loader(move |name| {
        if !Path::new(name).is_absolute() || !Path::new(name).is_file() {
            return Ok(None);
        }
        let source = files::read(Path::new(name))
            .map_err(|why| Error::new(ErrorKind::TemplateNotFound, format!("{name}: {why}")))?;
        let text = source.content().to_owned();
        if crate::bounds::too_deep(&text, false).is_some() {
            let why =
                format!("{name}: it goes too deep: at most 100 brackets, operators and blocks in each other");
            return Err(Error::new(ErrorKind::TemplateNotFound, why));
        }
        let guarded = crate::chain::RewrittenText::guarded(&text, None, false);
        included.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), source);
        Ok(Some(guarded.map_or(text, |guarded| guarded.text)))
    });
}

/// The file behind a name: below the role's `templates/`, else beside the template that names it.
fn placed(name: &str, parent: &str) -> Option<PathBuf> {
    let scope = frame::current_scope()?;
    let folder = scope.files()?.join("templates");
    let path = Path::new(name);
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return None;
    }
    let beside = Path::new(parent).parent().filter(|beside| beside.starts_with(&folder));
    let tried = [Some(folder.join(path)), beside.map(|beside| beside.join(path))];
    let found = tried.into_iter().flatten().find(|path| path.is_file())?;
    frame::note(|notes| {
        notes.lookups.insert(format!("include.{name}"));
        // The text comes from a cache the next time; that it is a secret must be noted each time.
        notes.sensitive |= files::is_encrypted(&found);
    });
    Some(found)
}
