//! `download`

use crate::above::need_parent;
use crate::attrs::{Attrs, Mode};
use crate::body::{check_validate, validate_setting};
use crate::look::{Asks, check_path, path, path_id, program_may_come};
use converge_objects::PathState;
use converge_resource::{Claim, Digest, ParamError, Probe, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// A file that the host fetches itself, known by its checksum.
///
/// Where the file has the checksum already, nothing is fetched. Else the host fetches it beside its place, checks it, and only then
/// puts it there: what has another checksum never gets the name. It is fetched with `curl`, `wget` or apt's own helper, whichever
/// the host has, so a proxy in their configuration counts.
///
/// The size is open in the plan until the file is there.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Download {
    /// Where it is, `https://` or `http://`. No part of the state: a file with the right checksum is right wherever it came from.
    url: String,
    /// The absolute path of the file.
    path: String,
    /// `sha256:` and 64 hexadecimal digits, as publishers give it beside their files.
    checksum: String,
    /// Octal digits in quotes, as `"0755"`, or all of it in symbols, as `"u=rwx,go=rx"`. A new file has 0644 without it.
    mode: Option<Mode>,
    /// The owner's name.
    owner: Option<String>,
    /// The group's name.
    group: Option<String>,
    /// A command that checks the new file before it replaces the old: `%s` is the candidate.
    validate: Option<String>,
}

/// The programs that fetch.
pub const FETCH_TOOLS: [&str; 3] = ["curl", "wget", "apt-helper"];

/// Whether the host has something to fetch with.
pub fn fetch_tool() -> Probe {
    Probe::run("command -v curl || command -v wget || ls /usr/lib/apt/apt-helper")
}

/// Refuses a text that is no address on the web.
pub fn check_url(pointer: &str, url: &str, schemes: &[&str], errors: &mut Vec<ParamError>) {
    let rest = schemes.iter().find_map(|s| url.strip_prefix(&format!("{s}://")));
    let plain = url.bytes().all(|b| b.is_ascii_graphic()) && !url.contains(['"', '\'', '\\', '<', '>', '`']);
    if !plain || rest.is_none_or(|r| r.is_empty() || r.starts_with('/')) {
        let schemes: Vec<String> = schemes.iter().map(|s| format!("`{s}://`")).collect();
        errors.push(ParamError::new(
            pointer,
            format!("`{url}` is not an address on the web"),
            format!("write the whole address, with {}", schemes.join(" or ")),
        ));
    }
}

impl Download {
    fn attrs(&self) -> Attrs<'_> {
        Attrs { mode: self.mode, owner: self.owner.as_deref(), group: self.group.as_deref() }
    }

    fn digest(&self) -> Option<Digest> {
        let hex = self.checksum.strip_prefix("sha256:")?;
        Digest::from_hex(&hex.to_ascii_lowercase())
    }
}

impl Resource for Download {
    const KIND: &'static str = "download";
    const EXAMPLE: &'static str = "\
- name: helm as published
  download:
    url: https://get.helm.sh/helm-v3.16.2-linux-amd64.tar.gz
    path: /var/cache/helm-v3.16.2.tar.gz
    checksum: sha256:9318379b847e333460d33d291d4c088156299a26cd93d570a7f5d0c36e50b5bb
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_url("/url", &self.url, &["https", "http"], &mut errors);
        check_path("/path", &self.path, &mut errors);
        self.attrs().validate(&mut errors);
        check_validate(self.validate.as_ref(), &mut errors);
        if self.digest().is_none() {
            errors.push(ParamError::new(
                "/checksum",
                format!("`{}` is not a checksum", self.checksum),
                "write `sha256:` and 64 hexadecimal digits; `sha256sum FILE` prints them",
            ));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let id = path_id(&self.path);
        let mut claims =
            vec![Claim::shared(id.clone(), "presence", "file"), Claim::exclusive(id.clone(), "content")];
        claims.extend(self.attrs().claims(&id));
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let Some(digest) = self.digest() else {
            return Err(Stop::invalid("/checksum", "the checksum is not known"));
        };
        let present = match path(view, &self.path)? {
            PathState::File { digest, size, mode, owner, group } => Some((digest, size, mode, owner, group)),
            PathState::Absent | PathState::Link { .. } => None,
            PathState::Dir { .. } => {
                return Err(Stop::invalid("/path", format!("{} is a directory", self.path)));
            }
            PathState::Other { what } => {
                return Err(Stop::invalid("/path", format!("{} is a {what}", self.path)));
            }
        };
        let there = present.as_ref().filter(|p| p.0 == digest);
        let mut asks = Asks::default();
        if present.is_none() {
            asks.take(need_parent(view, "/path", &self.path))?;
        }
        let as_present = present.as_ref().map(|(_, _, m, o, g)| (*m, o.as_str(), g.as_str()));
        let attrs = self.attrs().settle(view, as_present, 0o644, &mut asks)?;
        let tool = if there.is_none() { asks.take(view.run(&fetch_tool()))? } else { None };
        asks.finish()?;
        let has_none = tool.is_some_and(|t| t.stdout.trim().is_empty());
        if has_none && program_may_come(view, &FETCH_TOOLS).is_none() {
            return Err(Stop::invalid_help(
                "/url",
                "this host has no curl and no wget to fetch it with",
                "add a resource before this one: `package: {name: curl}`",
            ));
        }
        let Some((mode, owner, group)) = attrs else {
            return Err(Stop::Failed(format!("{}: its owner is not known", self.path)));
        };
        let size = there.and_then(|p| p.1);
        let fetched = there.is_none();
        let mut wanted =
            WantedStates::one(path_id(&self.path), PathState::File { digest, size, mode, owner, group });
        wanted.settings = validate_setting(self.validate.as_ref());
        if fetched {
            wanted.settings.push(("CV_FETCH".to_owned(), self.url.clone()));
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::{Value, json};

    const HELLO: &str = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

    fn params() -> Value {
        json!({"url": "https://example.org/x", "path": "/etc/x", "checksum": HELLO})
    }

    fn host() -> FakeView {
        FakeView::new().answer(&fetch_tool(), 0, "/usr/bin/curl\n")
    }

    #[test]
    fn the_plan_knows_the_digest_and_not_the_size() {
        let kind = read::<Download>(params());
        let after = settle(&kind, host());
        assert_eq!(after.line(&path_id("/etc/x")), format!("file 644 root root ~ {}", &HELLO[7..]));
        let settings = kind.plan(&host()).unwrap().settings;
        assert_eq!(settings, [("CV_FETCH".to_owned(), "https://example.org/x".to_owned())]);
    }

    #[test]
    fn what_is_there_is_not_fetched() {
        let view = FakeView::strict().file("/etc/x", 0o600, "hello");
        let wanted = read::<Download>(params()).plan(&view).unwrap();
        assert_eq!(wanted.targets[0].1.line(), view.line(&path_id("/etc/x")));
        assert_eq!(wanted.settings, []);
        let mut mode = params();
        mode["mode"] = json!("0755");
        let after = settle(&read::<Download>(mode), FakeView::new().file("/etc/x", 0o600, "hello"));
        assert!(after.line(&path_id("/etc/x")).starts_with("file 755 root root 5 "));
    }

    #[test]
    fn another_content_is_replaced_and_keeps_its_mode() {
        let after = settle(&read::<Download>(params()), host().file("/etc/x", 0o600, "old"));
        assert_eq!(after.line(&path_id("/etc/x")), format!("file 600 root root ~ {}", &HELLO[7..]));
    }

    #[test]
    fn something_to_fetch_with_is_needed() {
        let bare = FakeView::new().answer(&fetch_tool(), 2, "");
        let kind = read::<Download>(params());
        assert!(matches!(kind.plan(&bare), Err(Stop::Invalid { pointer, .. }) if pointer == "/url"));
        let text = bare.clone().acts(path_id("/etc/y"), false);
        assert!(matches!(kind.plan(&text), Err(Stop::Invalid { .. })), "a text file brings no curl");
        for (object, foreign) in [
            (converge_resource::ObjectId::new("package", "curl"), false),
            (path_id("/usr/local/bin/curl"), false),
            (converge_resource::ObjectId::new("command", "x"), true),
        ] {
            assert!(kind.plan(&bare.clone().acts(object, foreign)).is_ok(), "it may bring curl");
        }
    }

    #[test]
    fn wrong_parameters_are_named() {
        let bad = json!({"url": "ftp://x/y", "path": "x", "checksum": "md5:1"});
        assert_eq!(wrong::<Download>(bad), ["/url", "/path", "/checksum"]);
        assert_eq!(wrong::<Download>(json!({"url": "https://x/y", "path": "/x"})), ["parse "]);
        for url in ["https://", "https:///x", "https://x/a b", "https://x/'$(id)'", "x"] {
            let bad = json!({"url": url, "path": "/x", "checksum": HELLO});
            assert_eq!(wrong::<Download>(bad), ["/url"], "{url}");
        }
    }
}
