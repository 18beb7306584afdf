//! The whole content of a file: written in place, rendered from a template, or copied.

use converge_objects::PathState;
use converge_resource::{Content, ParamError, SourceFile, Template};

/// The three forms of content, of which at most one is used.
pub struct Body<'a> {
    pub content: Option<&'a String>,
    pub template: Option<&'a Template>,
    pub source: Option<&'a SourceFile>,
}

impl Body<'_> {
    pub fn get(&self) -> Option<Content> {
        let text = self.content.map(|c| Content::new(c.as_bytes()));
        let rendered = || self.template.map(|t| Content::new(t.text.as_bytes()));
        let copied = || self.source.map(|s| s.content.clone());
        text.or_else(rendered).or_else(copied)
    }

    pub fn validate(&self, errors: &mut Vec<ParamError>) {
        let given: Vec<&str> = [
            self.content.map(|_| "content"),
            self.template.map(|_| "template"),
            self.source.map(|_| "source"),
        ]
        .into_iter()
        .flatten()
        .collect();
        if let [first, second, ..] = given.as_slice() {
            errors.push(ParamError::new(
                &format!("/{second}"),
                format!("`{first}` and `{second}` both give the content"),
                "keep one of `content`, `template` and `source`",
            ));
        }
    }
}

/// The state of a file with this content.
pub fn file_state(content: &Content, (mode, owner, group): (u32, String, String)) -> PathState {
    let size = Some(content.bytes().len() as u64);
    PathState::File { digest: content.digest().clone(), size, mode, owner, group }
}

/// Refuses a check that does not see the candidate file.
pub fn check_validate(command: Option<&String>, errors: &mut Vec<ParamError>) {
    if let Some(command) = command.filter(|c| !c.contains("%s")) {
        errors.push(ParamError::new(
            "/validate",
            format!("`{command}` has no `%s`, so it would not check the new content"),
            "put `%s` where the candidate file belongs, as in `visudo -cf %s`",
        ));
    }
}

/// The setting by which the path object checks the candidate file.
pub fn validate_setting(command: Option<&String>) -> Vec<(String, String)> {
    command.map(|c| ("CV_VALIDATE".to_owned(), c.clone())).into_iter().collect()
}

/// The setting by which the path object gives a content that the role does not know as a whole no other owner or mode where users may
/// have moved it from elsewhere.
pub fn keep_setting(given: bool) -> Vec<(String, String)> {
    given.then(|| ("CV_KEEP".to_owned(), "yes".to_owned())).into_iter().collect()
}
