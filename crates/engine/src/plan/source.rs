//! From the project's declarations to the planner's: the items of one host in order, resolved when they are asked for.

use converge_model::{
    DeclaredItem, EMPTY_LIST, Facts, HostPlan as Declared, NOT_KNOWN, Project, Registered, Resolution,
    RoleUse,
};
use converge_planner::{
    Altered, Conflict, Declared as Item, Guard, HostPlan, Outcome, Outputs, Problem, Resolved, RoleEdge,
    RoleGraph, SaidGuard, Source, SourceText,
};
use converge_resource::{Claim, Disruption, ObjectId, Place, Probe};
use converge_syntax::{Diagnostic, Diagnostics, Span};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Which items of the roles take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// Preconditions and resources.
    Converge,
    /// Postconditions only.
    Verify,
    /// Postconditions of these roles.
    VerifyOf(&'a BTreeSet<String>),
    /// All of it.
    Whole,
}

/// The items of one host.
pub(crate) struct HostSource<'a> {
    declared: Declared,
    items: Vec<Item>,
    /// For each item, where it lies in `declared`: role, section, index.
    places: Vec<(usize, Section, usize)>,
    graph: &'a RoleGraph<Span>,
    facts: Facts,
    /// Roles as they are with facts that earlier items alter: by the role's place and the alterations.
    uses: RefCell<BTreeMap<(usize, String), Arc<RoleUse>>>,
    /// For each item, the role as it was when the item was resolved last, where it is not the declared one.
    used: RefCell<BTreeMap<usize, Arc<RoleUse>>>,
    /// For each item, the facts that it has read then.
    reads: RefCell<BTreeMap<usize, BTreeSet<String>>>,
    /// Complaints whose spans a `Problem` cannot hold, by item.
    complaints: RefCell<BTreeMap<usize, Diagnostics>>,
}

#[derive(Clone, Copy)]
enum Section {
    Checks,
    Resources,
    Verify,
}

impl Section {
    fn of(self, role: &RoleUse) -> &[DeclaredItem] {
        match self {
            Self::Checks => &role.checks,
            Self::Resources => &role.items,
            Self::Verify => &role.verify,
        }
    }
}

/// The graph of the project's roles.
pub(crate) fn role_graph(project: &Project) -> Result<RoleGraph<Span>, Diagnostics> {
    let roles: Vec<String> = project.roles().map(|r| r.name.clone()).collect();
    let edges = project.role_edges().into_iter().map(|e| RoleEdge { from: e.from, to: e.to, span: e.span });
    let clusters = project.roles().filter(|r| r.scope == Place::Cluster).map(|r| r.name.clone());
    let graph = RoleGraph::new(&roles, edges.collect()).map(|graph| graph.on_clusters(clusters));
    graph.map_err(|cycles| {
        let mut found = Diagnostics::new();
        for cycle in cycles {
            let mut complaint = Diagnostic::error(
                "role-cycle",
                format!("roles require each other in a circle: {}", cycle.path()),
            )
            .help("remove one of these edges");
            for edge in &cycle.edges {
                complaint = complaint.label(&edge.span, format!("`{}` requires `{}`", edge.from, edge.to));
            }
            found.push(complaint);
        }
        found
    })
}

/// A question, for people.
pub(crate) fn shown(probe: &Probe) -> String {
    match probe {
        Probe::Object(object) => object.to_string(),
        Probe::Content(path) => format!("the content of {path}"),
        Probe::Run { script, .. } => format!("`{}`", script.lines().next().unwrap_or_default()),
        Probe::Api(_) => "a question to the cluster".to_owned(),
    }
}

impl<'a> HostSource<'a> {
    /// The items of a host with what is known of it. Lists of `for_each` over registered values are made of `outputs`.
    pub fn new(
        project: &Project,
        graph: &'a RoleGraph<Span>,
        host: &str,
        facts: &Facts,
        part: Part<'_>,
        outputs: &Outputs,
    ) -> Self {
        let declared = project.host_plan(host, facts, &registered(outputs));
        let mut source = Self {
            declared,
            items: Vec::new(),
            places: Vec::new(),
            graph,
            facts: facts.clone(),
            uses: RefCell::default(),
            used: RefCell::default(),
            reads: RefCell::default(),
            complaints: RefCell::default(),
        };
        source.list(part, project.start_at());
        source
    }

    fn list(&mut self, part: Part<'_>, start: Option<(&str, Option<&str>)>) {
        let order = self.graph.order();
        let rank = |role: &RoleUse| order.iter().position(|r| *r == role.role.name);
        let mut roles: Vec<(usize, &RoleUse)> = self.declared.roles.iter().enumerate().collect();
        roles.sort_by_key(|(_, role)| rank(role));
        let sections: &[Section] = match part {
            Part::Converge => &[Section::Checks, Section::Resources],
            Part::Verify | Part::VerifyOf(_) => &[Section::Verify],
            Part::Whole => &[Section::Checks, Section::Resources, Section::Verify],
        };
        let mut items = Vec::new();
        let mut places = Vec::new();
        let first = start.and_then(|(role, _)| order.iter().position(|r| r == role));
        for (at, role) in roles {
            let left_out = matches!(part, Part::VerifyOf(roles) if !roles.contains(&role.role.name));
            if left_out || rank(role) < first {
                continue;
            }
            // Within the role the run starts at an item; checks, and queries that later items read, are made all the same.
            let skipped = match start {
                Some((name, Some(item))) if name == role.role.name => {
                    role.items.iter().position(|i| i.name == item).unwrap_or_default()
                }
                _ => 0,
            };
            for section in sections {
                let left_out = |index: usize, item: &DeclaredItem| {
                    matches!(section, Section::Resources) && index < skipped && item.register.is_none()
                };
                let listed = section.of(role).iter().enumerate();
                for (index, item) in listed.filter(|(n, i)| i.selected && !left_out(*n, i)) {
                    places.push((at, *section, index));
                    items.push(Item {
                        address: item.address.clone(),
                        name: item.name.clone(),
                        item_id: item.item.id.as_ref().map(|id| id.value.clone()),
                        role: item.role.clone(),
                        kind: item.kind.clone(),
                        location: location(&item.span),
                        register: item.register.clone(),
                        disruption: item.item.disruption.as_deref().and_then(Disruption::from_word),
                        guard: SaidGuard {
                            guard: item.item.guard.as_deref().map(Guard::from_word),
                            seconds: item.item.guard_seconds,
                        },
                    });
                }
            }
        }
        self.items = items;
        self.places = places;
    }

    /// Whether a list of `for_each` is not made yet.
    pub fn has_open_lists(&self) -> bool {
        (0..self.items.len()).any(|index| self.at(index).is_some_and(|(_, item)| item.is_unexpanded()))
    }

    /// A list that only the run itself will know makes no items that anyone could be shown: an error, not a surprise.
    pub fn refuse_open_lists(&self, plan: &mut HostPlan) {
        for item in &mut plan.items {
            let index = usize::try_from(item.id).unwrap_or(usize::MAX);
            let Some((_, declared)) = self.at(index).filter(|(_, d)| d.is_unexpanded()) else { continue };
            let Outcome::Deferred { wait, .. } = &item.outcome else { continue };
            let message =
                format!("the list of its `for_each` must be known when the plan is made: {}", wait.reason);
            item.outcome = Outcome::Failed(Problem {
                message,
                help: Some(
                    "once that is there, the next run knows the list; or ask for it with `before_changes: true`".to_owned(),
                ),
                pointer: String::new(),
                at: Some(declared.span.to_string()),
                blocked: false,
            });
        }
    }

    fn at(&self, index: usize) -> Option<(&RoleUse, &DeclaredItem)> {
        let (role, section, item) = self.places.get(index)?;
        let role = self.declared.roles.get(*role)?;
        Some((role, section.of(role).get(*item)?))
    }

    /// The role of an item where earlier items alter facts; `None` when it is as declared.
    fn use_with(&self, index: usize, altered: &Altered) -> Option<Arc<RoleUse>> {
        let (at, ..) = *self.places.get(index)?;
        let declared = self.declared.roles.get(at).filter(|_| !altered.is_empty())?;
        let made = self.uses.borrow().get(&(at, altered.key())).cloned();
        let used = made.unwrap_or_else(|| {
            let unknown = altered.unknown().map(str::to_owned);
            let facts = self.facts.altered(&declared.host, altered.predicted(), unknown);
            let used = Arc::new(declared.with_facts(&facts));
            self.uses.borrow_mut().insert((at, altered.key()), used.clone());
            used
        });
        self.used.borrow_mut().insert(index, used.clone());
        Some(used)
    }

    /// Says of each deferred item what it is made of: a saved plan binds that.
    pub fn bind(&self, plan: &mut HostPlan, outputs: &Outputs) {
        let registered = registered(outputs);
        for item in plan.items.iter_mut().filter(|i| matches!(i.outcome, Outcome::Deferred { .. })) {
            let index = usize::try_from(item.id).unwrap_or(usize::MAX);
            let Some((role, declared)) = self.at(index) else { continue };
            let used = self.used.borrow().get(&index).cloned();
            let binding = used.as_deref().unwrap_or(role).binding(declared, &registered);
            let sensitive = binding.sensitive || item.sensitive;
            item.source = Some(SourceText { text: binding.text, sensitive });
        }
    }

    /// The resource of an item whose parameters are known.
    fn ready(&self, index: usize, item: &DeclaredItem, mut ready: Box<converge_model::Ready>) -> Resolved {
        let Some(kind) = converge_resources::kind(&item.kind) else {
            return Resolved::Invalid(Problem::new(format!("there is no kind `{}`", item.kind)));
        };
        if let Some(user) = ready.become_user.take() {
            let takes_user = (kind.schema)().pointer("/properties/user").is_some();
            if !takes_user {
                let message = format!("`become_user` means nothing for `{}`", item.kind);
                return self.invalid(
                    index,
                    &ready,
                    "",
                    message,
                    Some(
                        "only commands and queries run as a user; \
                    files have `owner`"
                            .to_owned(),
                    ),
                );
            }
            if let Some(params) = ready.params.as_object_mut() {
                params.entry("user").or_insert(user.into());
            }
        }
        // An error of a secret is reported without its value too.
        ready.sensitive |= kind.sensitive;
        let resource = match (kind.parse)(&ready.params) {
            Ok(resource) => resource,
            Err(e) => return self.invalid(index, &ready, &e.pointer, e.message, e.help),
        };
        let wrong = resource.validate();
        if let Some(first) = wrong.first() {
            let resolved =
                self.invalid(index, &ready, &first.pointer, first.message.clone(), first.help.clone());
            for more in wrong.iter().skip(1) {
                self.invalid(index, &ready, &more.pointer, more.message.clone(), more.help.clone());
            }
            return resolved;
        }
        Resolved::Ready { resource, params: ready.params, sensitive: ready.sensitive }
    }

    /// The claims of the roles of this host, selected or not; whether each role was evaluated completely; and the former
    /// names of roles.
    pub fn declares(
        &self,
        outputs: &Outputs,
    ) -> (BTreeSet<ObjectId>, BTreeMap<String, bool>, BTreeMap<String, String>) {
        let registered = registered(outputs);
        let (mut objects, mut roles, mut renamed) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        for role in &self.declared.roles {
            let mut complete = role.complete && role.problems.is_empty();
            for item in &role.items {
                let index = self.items.iter().position(|i| i.address == item.address);
                let used = index.and_then(|index| self.used.borrow().get(&index).cloned());
                let resolved = match used.as_deref().unwrap_or(role).resolve(item, &registered) {
                    Resolution::Skipped { .. } => continue,
                    Resolution::Ready(ready) => self.ready(usize::MAX, item, ready),
                    Resolution::Unknown { .. } | Resolution::Invalid(_) => {
                        complete = false;
                        continue;
                    }
                };
                match resolved {
                    Resolved::Ready { resource, .. } => {
                        objects.extend(resource.claims().into_iter().map(|c| c.object));
                    }
                    _ => complete = false,
                }
            }
            roles.insert(role.role.name.clone(), complete);
            let former = role.role.renamed_from.iter().map(|old| old.value.clone());
            renamed.extend(former.map(|old| (old, role.role.name.clone())));
        }
        (objects, roles, renamed)
    }

    /// A wrong parameter, with its place.
    fn invalid(
        &self,
        index: usize,
        ready: &converge_model::Ready,
        pointer: &str,
        message: String,
        help: Option<String>,
    ) -> Resolved {
        // The help may name the value too.
        let (message, help) = if ready.sensitive {
            ("a parameter is wrong (its value is sensitive)".to_owned(), None)
        } else {
            (message, help)
        };
        let span = if pointer.is_empty() { ready.spans.kind().clone() } else { ready.spans.value(pointer) };
        let complaint =
            Diagnostic::error("invalid-parameter", message.clone()).at(&span).help_if(help.clone());
        self.complain(index, [complaint]);
        Resolved::Invalid(Problem {
            message,
            help,
            pointer: pointer.to_owned(),
            at: Some(span.to_string()),
            blocked: false,
        })
    }

    fn complain(&self, index: usize, more: impl IntoIterator<Item = Diagnostic>) {
        let mut complaints = self.complaints.borrow_mut();
        let own = complaints.entry(index).or_default();
        for complaint in more {
            // An item may be evaluated several times.
            if !own.iter().any(|had| had.message == complaint.message && had.span() == complaint.span()) {
                own.push(complaint);
            }
        }
    }

    /// Moves out the errors of the declarations that no host decides.
    pub fn take_complaints(&self, found: &mut Diagnostics) {
        for (_, complaints) in std::mem::take(&mut *self.complaints.borrow_mut()) {
            found.extend(complaints);
        }
    }

    /// Two owners of one thing.
    pub fn explain_conflict(&self, conflict: &Conflict, found: &mut Diagnostics) {
        let (Some((_, first)), Some((_, second))) = (self.at(conflict.items.0), self.at(conflict.items.1))
        else {
            return;
        };
        let message = format!(
            "two resources manage the {} of {} {}: `{}` and `{}`",
            conflict.facet, conflict.object.kind, conflict.object.key, first.address, second.address
        );
        found.push(
            Diagnostic::error("two-owners", message)
                .label(&second.span.first_line(), "this one")
                .label(&first.span.first_line(), "and this one")
                .help("keep one of them, or let one role require the other and edit what it made"),
        );
    }

    /// Puts places into problems that kinds found on a host.
    pub fn locate(&self, plan: &mut HostPlan, outputs: &Outputs) {
        for item in &mut plan.items {
            let Outcome::Failed(problem) = &mut item.outcome else { continue };
            if problem.at.is_some() {
                continue;
            }
            let index = usize::try_from(item.id).unwrap_or(usize::MAX);
            let Some((role, declared)) = self.at(index) else { continue };
            let span = match role.resolve(declared, &registered(outputs)) {
                Resolution::Ready(ready) if !problem.pointer.is_empty() => {
                    ready.spans.value(&problem.pointer)
                }
                _ => declared.span.clone(),
            };
            problem.at = Some(span.to_string());
        }
    }
}

/// The claims of an item, by the parameters that are known. A parameter that must be known to be read is left out
/// where it may be; nothing is claimed whose name is not known.
fn outlined_claims(kind: &str, mut params: serde_json::Value) -> Vec<Claim> {
    let Some(kind) = converge_resources::kind(kind) else { return Vec::new() };
    loop {
        let fault = match (kind.parse)(&params) {
            Ok(resource) => {
                let known = |claim: &Claim| !claim.object.key.contains(NOT_KNOWN);
                return resource.claims().into_iter().filter(known).collect();
            }
            Err(fault) => fault,
        };
        let unknown = params.pointer(&fault.pointer).is_some_and(|v| v.as_str() == Some(NOT_KNOWN));
        let at = fault.pointer.rsplit_once('/').filter(|_| unknown);
        let parent = at.and_then(|(parent, name)| Some((params.pointer_mut(parent)?.as_object_mut()?, name)));
        match parent {
            Some((parent, name)) => drop(parent.remove(name)),
            None => return Vec::new(),
        }
    }
}

fn location(span: &Span) -> String {
    span.to_string().rsplit_once(':').map(|(line, _)| line.to_owned()).unwrap_or_default()
}

fn registered(outputs: &Outputs) -> Registered {
    let mut registered = Registered::new();
    for ((role, name), output) in outputs {
        if output.sensitive {
            registered.set_sensitive(role, name, output.value.clone());
        } else {
            registered.set(role, name, output.value.clone());
        }
    }
    registered
}

/// The first names of the facts of this host among names that an evaluation has reached.
fn facts_among<'n>(reached: impl IntoIterator<Item = &'n String>, host: &str) -> BTreeSet<String> {
    let others = format!("hostvars.{host}.facts.");
    let names = reached.into_iter().filter_map(|name| {
        let fact = name.strip_prefix("facts.").or_else(|| name.strip_prefix(&others))?;
        fact.split('.').next()
    });
    names.map(str::to_owned).collect()
}

impl HostSource<'_> {
    /// A list that is made of facts which an earlier item alters: its elements are not known yet.
    fn altered_list(&self, item: &DeclaredItem, fact: &str, altered: &Altered) -> Resolved {
        let wait =
            altered.wait(fact).map_or_else(|| format!("facts.{fact} changes first"), |w| w.reason.clone());
        Resolved::Invalid(Problem {
            message: format!("the list of its `for_each` must be known when the plan is made: {wait}"),
            help: Some(
                "once that is done, the next run knows the list; or make it of `facts_before`, the facts before this run".to_owned(),
            ),
            pointer: String::new(),
            at: Some(item.span.to_string()),
            blocked: false,
        })
    }
}

impl Source for HostSource<'_> {
    fn items(&self) -> &[Item] {
        &self.items
    }

    fn facts_read(&self, index: usize) -> BTreeSet<String> {
        self.reads.borrow().get(&index).cloned().unwrap_or_default()
    }

    fn resolve(&self, index: usize, outputs: &Outputs, altered: &Altered) -> Resolved {
        let Some((role, item)) = self.at(index) else {
            return Resolved::Invalid(Problem::new("the resource is gone"));
        };
        let used = self.use_with(index, altered);
        let role = used.as_deref().unwrap_or(role);
        let mut read = BTreeSet::new();
        let resolution = role.resolve_reading(item, &registered(outputs), &mut read);
        let read = facts_among(&read, &role.host);
        let list = facts_among(item.list_lookups().into_iter().flatten(), &role.host);
        self.reads.borrow_mut().insert(index, read);
        if let Some(fact) = list.iter().find(|fact| altered.has(fact))
            && !matches!(&resolution, Resolution::Skipped { why } if why != EMPTY_LIST)
        {
            return self.altered_list(item, fact, altered);
        }
        match resolution {
            Resolution::Skipped { why } => Resolved::Skipped(why),
            Resolution::Unknown { names, outline } => Resolved::Unknown {
                names: names.into_iter().collect(),
                claims: outlined_claims(&item.kind, outline.params),
                sensitive: outline.sensitive,
            },
            Resolution::Invalid(found) => {
                let first = found.iter().next();
                let problem = Problem {
                    message: first.map_or_else(|| "it is invalid".to_owned(), |d| d.message.clone()),
                    help: first.and_then(|d| d.help.clone()),
                    pointer: String::new(),
                    at: first.and_then(Diagnostic::span).map(ToString::to_string),
                    blocked: false,
                };
                self.complain(index, found.0);
                Resolved::Invalid(problem)
            }
            Resolution::Ready(ready) => self.ready(index, item, ready),
        }
    }

    fn ordered(&self, a: &str, b: &str) -> bool {
        self.graph.comes_before(a, b)
    }

    fn stage(&self, index: usize, outputs: &Outputs) -> Option<String> {
        // Only these ask together: the others need not be evaluated twice.
        if self.items.get(index)?.kind != "package" {
            return None;
        }
        match self.resolve(index, outputs, &Altered::default()) {
            Resolved::Ready { resource, .. } => resource.stage(),
            _ => None,
        }
    }
}
