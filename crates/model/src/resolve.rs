//! From a declared item to the parameters that its kind reads.

use std::collections::BTreeSet;
use std::fmt;

use converge_syntax::{Diagnostics, Node, Span, Value};
use converge_template::{Evaluation, EvaluationResult, Scope};
use serde_json::{Value as Json, json};

use crate::catalog::Load;
use crate::declare::{ConditionAnswer, DeclaredItem, Each, RegisteredResults, RoleUse, gate};
use crate::files::locate;
use crate::schema;

/// The result of resolving an item for a host.
#[derive(Debug)]
pub enum Resolution {
    /// The item is known completely.
    Ready(Box<Ready>),
    /// A condition does not hold.
    Skipped {
        /// Which: `when: gpu_count > 0`.
        why: String,
    },
    /// The item waits for unknown variables.
    Unknown {
        /// These variables: `facts`, `hostvars.HOST.facts`, names of results.
        names: BTreeSet<String>,
        /// Its parameters as far as they are known.
        outline: Outline,
    },
    /// The item is invalid on this host.
    Invalid(Diagnostics),
}

/// The reason why an item is skipped whose list of `for_each` is empty.
pub const EMPTY_LIST: &str = "for_each: the list is empty";

/// Stands in an [`Outline`] for a value that is not known yet. No host's name of anything holds a control character.
pub const NOT_KNOWN: &str = "\u{1}not known yet\u{1}";

/// The parameters of an item of which not all are known. With it the things that the item may touch are known before
/// the values that it gives them.
#[derive(Clone, Default)]
pub struct Outline {
    /// As the kind reads them, with [`NOT_KNOWN`] for what is not known. Null when nothing can be said: the item stands
    /// for a list that is not known itself.
    pub params: Json,
    /// Marked as secret, or a secret was in reach.
    pub sensitive: bool,
}

impl fmt::Debug for Outline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params: &dyn fmt::Debug = if self.sensitive { &"(sensitive)" } else { &self.params };
        f.debug_struct("Outline").field("params", params).finish_non_exhaustive()
    }
}

/// The parameters of an item on a host.
#[derive(Clone)]
pub struct Ready {
    /// As the kind reads them; files are loaded.
    pub params: Json,
    /// The place of the parameters.
    pub spans: ParamSpans,
    /// Marked as secret, or a secret was in reach.
    pub sensitive: bool,
    /// The parameters among them that nobody shows or records.
    pub unrecorded: Vec<String>,
    /// The user that commands run as, where one is given.
    pub become_user: Option<String>,
    /// Inputs of the role that the parameters depend on.
    pub inputs_used: BTreeSet<String>,
    /// Every variable that the parameters depend on.
    pub lookups: BTreeSet<String>,
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = self.sensitive || !self.unrecorded.is_empty();
        let params: &dyn fmt::Debug = if hidden { &"(sensitive)" } else { &self.params };
        f.debug_struct("Ready")
            .field("params", params)
            .field("sensitive", &self.sensitive)
            .field("become_user", &self.become_user)
            .field("inputs_used", &self.inputs_used)
            .finish_non_exhaustive()
    }
}

/// From a JSON pointer into the parameters to the place in the role's file.
#[derive(Clone)]
pub struct ParamSpans {
    written: Node,
    kind: Span,
}

impl ParamSpans {
    /// The place of the kind's name.
    pub fn kind(&self) -> &Span {
        &self.kind
    }

    /// The place of a value: of the value itself, or of the nearest one around it that stands in the file.
    pub fn value(&self, pointer: &str) -> Span {
        let mut pointer = pointer;
        loop {
            if let Some(node) = self.written.pointer(pointer) {
                return if pointer.is_empty() { self.kind.clone() } else { node.span.clone() };
            }
            match pointer.rsplit_once('/') {
                Some((outer, _)) => pointer = outer,
                None => return self.kind.clone(),
            }
        }
    }

    /// The place of the key of a value; the value's own place where it has no key.
    pub fn key(&self, pointer: &str) -> Span {
        let key = pointer.rsplit_once('/').and_then(|(outer, name)| {
            let name = name.replace("~1", "/").replace("~0", "~");
            self.written.pointer(outer)?.key_span(&name).cloned()
        });
        key.unwrap_or_else(|| self.value(pointer))
    }
}

impl RoleUse {
    /// Resolves an item of this role with the results so far.
    pub fn resolve(&self, item: &DeclaredItem, registered: &RegisteredResults) -> Resolution {
        self.resolve_reading(item, registered, &mut BTreeSet::new())
    }

    /// Resolves an item and adds every name that was read to `reads`, whatever the result.
    pub fn resolve_reading(
        &self,
        item: &DeclaredItem,
        registered: &RegisteredResults,
        reads: &mut BTreeSet<String>,
    ) -> Resolution {
        let mut lookups = self.when_lookups.clone();
        let mut resolution = self.resolved(item, registered, &mut lookups);
        if let Resolution::Invalid(found) = &mut resolution {
            self.explain_undefined(found);
        }
        match &resolution {
            Resolution::Ready(ready) => lookups.extend(ready.lookups.iter().cloned()),
            Resolution::Unknown { names, .. } => lookups.extend(names.iter().cloned()),
            Resolution::Skipped { .. } | Resolution::Invalid(_) => {}
        }
        lookups.extend(item.list_lookups().into_iter().flatten().cloned());
        reads.extend(self.with_input_lookups(lookups));
        resolution
    }

    /// The correction where a name is undefined that stands for something elsewhere: the element of a list, a later result.
    fn explain_undefined(&self, found: &mut Diagnostics) {
        for problem in found.0.iter_mut().filter(|problem| problem.code == "undefined") {
            let name = problem.message.split(['`', '.', '[']).nth(1).unwrap_or_default();
            if name == "item" {
                problem.help =
                    Some("`item` is the element of a list: write `for_each` at this resource".to_owned());
                continue;
            }
            let later =
                self.role.items().find(|item| item.register.as_ref().is_some_and(|r| r.value == name));
            if let Some(later) = later {
                let name = later.name.value.as_str();
                let help = format!("the later resource `{name}` registers it: put that one before this one");
                problem.help = Some(help);
                problem.labels.push((later.kind.span.clone(), "registered here".to_owned()));
            }
        }
    }

    fn resolved(
        &self,
        item: &DeclaredItem,
        registered: &RegisteredResults,
        lookups: &mut BTreeSet<String>,
    ) -> Resolution {
        match &self.when {
            ConditionAnswer::No(why) => return Resolution::Skipped { why: why.clone() },
            ConditionAnswer::Wrong(why) => return Resolution::Invalid(why.clone()),
            ConditionAnswer::Unknown(names) => return self.waits(names.clone(), item, registered),
            ConditionAnswer::Yes => {}
        }
        match &item.each {
            Each::Wrong(why) => return Resolution::Invalid(why.clone()),
            Each::Waits(names) => return self.waits(names.clone(), item, registered),
            Each::Empty { .. } => {
                let scope = self.item_scope(item, registered);
                let why = match self.conditions(item, &scope, lookups) {
                    ConditionAnswer::No(why) => why,
                    // Its conditions may read the element that there is none of.
                    _ => EMPTY_LIST.to_owned(),
                };
                return Resolution::Skipped { why };
            }
            Each::One | Each::Element { .. } => {}
        }
        let scope = self.item_scope(item, registered);
        match self.conditions(item, &scope, lookups) {
            ConditionAnswer::No(why) => return Resolution::Skipped { why },
            ConditionAnswer::Wrong(why) => return Resolution::Invalid(why),
            ConditionAnswer::Unknown(names) => return self.waits(names, item, registered),
            ConditionAnswer::Yes => {}
        }
        match self.parameters(item, &scope) {
            Ok(Ok(ready)) => Resolution::Ready(ready),
            Ok(Err(unknown)) => self.waits(unknown, item, registered),
            Err(found) => Resolution::Invalid(found),
        }
    }

    /// Evaluates the conditions of an item: group by group from the outermost, then its own.
    fn conditions(
        &self,
        item: &DeclaredItem,
        scope: &Scope,
        lookups: &mut BTreeSet<String>,
    ) -> ConditionAnswer {
        for group in &item.item.groups {
            match gate(&self.project, &group.when, scope, lookups) {
                ConditionAnswer::Yes => {}
                ConditionAnswer::No(why) => return ConditionAnswer::No(group.explain(why)),
                other => return other,
            }
        }
        let shared = item.item.groups.iter().map(|group| group.when.len()).sum();
        gate(&self.project, item.item.when.get(shared..).unwrap_or_default(), scope, lookups)
    }

    /// An item that waits for an input with an error is itself in error.
    fn waits(
        &self,
        names: BTreeSet<String>,
        item: &DeclaredItem,
        registered: &RegisteredResults,
    ) -> Resolution {
        if names.iter().any(|name| self.bad.contains(name)) {
            return Resolution::Invalid(self.problems.clone());
        }
        let outline = if item.is_unexpanded() { Outline::default() } else { self.outline(item, registered) };
        Resolution::Unknown { names, outline }
    }

    fn outline(&self, item: &DeclaredItem, registered: &RegisteredResults) -> Outline {
        let scope = self.item_scope(item, registered);
        let mut sensitive = item.item.sensitive;
        // A parameter that is not recorded decides nothing about what is touched.
        let open = self.recorded_part(item);
        let open = open.as_ref().map_or(&item.item.params, |(open, _)| open);
        let mut params = self.known_parts(open, &scope, &mut sensitive);
        // Files are loaded later: what is written in them decides nothing about what is touched.
        let spec = self.project.catalog.get(&item.kind);
        for (name, load) in spec.map(|spec| spec.loads()).unwrap_or_default() {
            if let Some(slot) = params.get_mut(name) {
                *slot = match load {
                    Load::Source | Load::Tree => json!({"path": slot.clone(), "hex": ""}),
                    Load::Template => json!({"path": slot.clone(), "text": NOT_KNOWN}),
                };
            }
        }
        Outline { params, sensitive }
    }

    fn known_parts(&self, node: &Node, scope: &Scope, sensitive: &mut bool) -> Json {
        if let Some(list) = node.as_list() {
            return list.iter().map(|node| self.known_parts(node, scope, sensitive)).collect();
        }
        if let Value::Map(map) = &node.value {
            let name = |key: &Node| key.as_str().map_or_else(|| key.to_json().to_string(), str::to_owned);
            let parts = map.iter().map(|(key, node)| (name(key), self.known_parts(node, scope, sensitive)));
            return Json::Object(parts.collect());
        }
        match self.project.shared.engine.eval_value(node, scope) {
            Ok(Evaluation::Known(found)) => {
                *sensitive |= found.sensitive;
                found.value.to_json()
            }
            _ => NOT_KNOWN.into(),
        }
    }

    /// The parameters, or the variables that they wait for.
    fn parameters(
        &self,
        item: &DeclaredItem,
        scope: &Scope,
    ) -> Result<Result<Box<Ready>, BTreeSet<String>>, Diagnostics> {
        let engine = &self.project.shared.engine;
        let mut diags = Diagnostics::new();
        let mut unknown = BTreeSet::new();
        let mut notes = EvaluationNotes { lookups: BTreeSet::new(), sensitive: item.item.sensitive };
        let mut known = |outcome: Evaluation<Node>, unknown: &mut BTreeSet<String>| match outcome {
            Evaluation::Known(found) => Some(notes.take(found)),
            Evaluation::Unknown { names, .. } => {
                unknown.extend(names);
                None
            }
        };
        let mut evaluated = engine.eval_value(&item.item.params, scope);
        let unrecorded = self.keep_open(item, scope, &mut evaluated);
        let params = diags.take(evaluated).and_then(|p| known(p, &mut unknown));
        let user = item.item.become_user.as_ref().and_then(|user| diags.take(engine.eval_value(user, scope)));
        let user = user.and_then(|user| known(user, &mut unknown));
        let become_user = user.and_then(|user| match user.as_str() {
            Some(name) if !name.is_empty() => Some(name.to_owned()),
            _ => {
                diags.push(crate::fields::wrong_type(&user, "`become_user`", "the name of a user"));
                None
            }
        });
        let Some(params) = params else {
            return if diags.is_empty() { Ok(Err(unknown)) } else { Err(diags) };
        };
        let spec = self.project.catalog.get(&item.kind);
        let kind = Node::new(item.kind.as_str(), item.item.kind.span.clone());
        if let Some(spec) = spec {
            diags.extend(schema::check(spec, &format!("`{}`", item.kind), &params, &kind));
        }
        let mut json = params.to_json();
        for (name, load) in spec.map(|spec| spec.loads()).unwrap_or_default() {
            let Some((value, written)) = params.get(name).and_then(|value| Some((value, value.as_str()?)))
            else {
                continue;
            };
            match self.load(load, written, &value.span, scope) {
                Ok(Evaluation::Known(found)) => {
                    let found = notes.take(found);
                    if let Some(slot) = json.get_mut(name) {
                        *slot = found;
                    }
                }
                Ok(Evaluation::Unknown { names, .. }) => unknown.extend(names),
                Err(more) => diags.extend(more),
            }
        }
        if !diags.is_empty() {
            return Err(diags);
        }
        if !unknown.is_empty() {
            return Ok(Err(unknown));
        }
        let lookups = self.with_input_lookups(notes.lookups);
        Ok(Ok(Box::new(Ready {
            params: json,
            spans: ParamSpans { written: item.item.params.clone(), kind: item.item.kind.span.clone() },
            sensitive: notes.sensitive,
            unrecorded,
            become_user,
            inputs_used: lookups
                .iter()
                .filter(|name| self.role.inputs.contains_key(*name))
                .cloned()
                .collect(),
            lookups,
        })))
    }

    /// The names that an item may read once the results that it waits for exist: every name that its parameters, conditions
    /// and template file refer to, directly and through variables.
    pub(crate) fn possible_lookups(&self, item: &DeclaredItem, names: BTreeSet<String>) -> BTreeSet<String> {
        let engine = &self.project.shared.engine;
        let mut open: Vec<String> = names.into_iter().collect();
        open.extend(engine.references(&item.item.params));
        open.extend(item.item.when.iter().flat_map(|condition| engine.condition_references(condition)));
        open.extend(item.item.for_each.iter().flat_map(|each| engine.references(each)));
        let spec = self.project.catalog.get(&item.kind);
        for (name, load) in spec.map(|spec| spec.loads()).unwrap_or_default() {
            let Some(value) = item.item.params.get(name) else {
                continue;
            };
            let source = value
                .as_str()
                .filter(|_| load == Load::Template)
                .and_then(|text| locate(&self.role, load, text, &value.span).ok())
                .and_then(|path| self.project.files.template(&path, &value.span).ok());
            open.extend(source.iter().flat_map(|source| engine.file_references(source)));
        }
        let mut all = BTreeSet::new();
        while let Some(name) = open.pop() {
            if !all.insert(name.clone()) {
                continue;
            }
            if let Some(winner) = self.layers.get(&name).and_then(|candidates| candidates.last()) {
                open.extend(engine.references(&winner.node));
            }
        }
        all
    }

    /// A file of the role as the kind reads it.
    fn load(
        &self,
        load: Load,
        written: &str,
        span: &Span,
        scope: &Scope,
    ) -> Result<Evaluation<Json>, Diagnostics> {
        let path = locate(&self.role, load, written, span)?;
        match load {
            Load::Source | Load::Tree => {
                let bytes = self.project.files.bytes(load, &path, span)?;
                let value = json!({"path": written, "hex": &*bytes.hex});
                Ok(Evaluation::Known(EvaluationResult {
                    value,
                    lookups: BTreeSet::new(),
                    sensitive: bytes.secret,
                }))
            }
            Load::Template => {
                let source = self.project.files.template(&path, span)?;
                let rendered = self.project.shared.engine.render_file(&source, scope)?;
                Ok(rendered.map(|text| json!({"path": written, "text": text})))
            }
        }
    }

    /// Adds to a set of names those that the inputs among them were made of.
    pub(crate) fn with_input_lookups(&self, names: BTreeSet<String>) -> BTreeSet<String> {
        let mut all = names.clone();
        let mut open: Vec<String> = names.into_iter().collect();
        while let Some(name) = open.pop() {
            for more in self.input_lookups.get(&name).into_iter().flatten() {
                if all.insert(more.clone()) {
                    open.push(more.clone());
                }
            }
        }
        all
    }
}

/// Notes on the evaluations of one item.
struct EvaluationNotes {
    lookups: BTreeSet<String>,
    sensitive: bool,
}

impl EvaluationNotes {
    fn take<T>(&mut self, found: EvaluationResult<T>) -> T {
        self.lookups.extend(found.lookups);
        self.sensitive |= found.sensitive;
        found.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_syntax::{Dialect, Source, parse_yaml};

    #[test]
    fn pointers_lead_to_the_nearest_place() {
        let source = Source::new("r.yaml", "file:\n  path: /a\n  names: \"{{ list }}\"\n  a/b: [1, 2]\n");
        let root = parse_yaml(source, Dialect::Ansible).unwrap().remove(0);
        let (kind, written) = root.entry("file").unwrap();
        let spans = ParamSpans { written: written.clone(), kind: kind.span.clone() };
        assert_eq!(spans.value("/path").to_string(), "r.yaml:2:9");
        assert_eq!(spans.key("/path").to_string(), "r.yaml:2:3");
        assert_eq!(spans.value("/names/3").to_string(), "r.yaml:3:10");
        assert_eq!(spans.key("/names/3").to_string(), "r.yaml:3:10");
        assert_eq!(spans.key("/a~1b").to_string(), "r.yaml:4:3");
        assert_eq!(spans.value("/a~1b/1").to_string(), "r.yaml:4:12");
        for missing in ["", "/nope", "nope"] {
            assert_eq!(spans.value(missing).to_string(), "r.yaml:1:1", "{missing}");
        }
    }
}
