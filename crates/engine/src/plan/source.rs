//! From the project's declarations to the planner's: the items of one host in order, resolved when they are asked for.

mod evaluated;
mod resolve;

use crate::plan::other_hosts::{OtherHosts, ReadingItem, Reads};
use converge_model::{
    DeclaredItem, Facts, HostDeclarations as ItemDeclaration, Project, RegisteredResults, Resolution, RoleUse,
};
use converge_planner::{
    AlteredFacts, Conflict, DeclaredGuard, GuardChoice, HostPlan, ItemDeclaration as Item, ItemSource as _,
    Outcome, Outputs, Problem, ResolvedParameters, RoleGraph, RunPosition, SourceText,
};
use converge_resource::{Disruption, ObjectId, ParamError, Place, Probe};
use converge_syntax::{Diagnostic, Diagnostics, Span};
use evaluated::EvaluatedItem;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Which items of the roles take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemSelection<'a> {
    /// Preconditions and resources.
    Converge,
    /// Postconditions only.
    Verify,
    /// Postconditions of these roles.
    VerifyOf(&'a BTreeSet<String>),
    /// All of it.
    Whole,
}

/// The declarations of the roles of a host.
#[derive(Default)]
pub(crate) struct Declarations {
    /// The objects that items claim, each with the number of these items.
    pub objects: BTreeMap<ObjectId, usize>,
    /// Whether each role was evaluated completely.
    pub roles: BTreeMap<String, bool>,
    /// Previous names of roles.
    pub renamed: BTreeMap<String, String>,
    /// Roles that were evaluated completely, but that choose some of their objects in the cluster.
    pub choosers: BTreeSet<String>,
}

/// The items of one host.
pub(crate) struct HostSource<'a> {
    declared: ItemDeclaration,
    items: Vec<Item>,
    /// For each item, where it lies in `declared`: role, section, index.
    places: Vec<(usize, ItemSection, usize)>,
    moments: Vec<RunPosition>,
    graph: &'a RoleGraph<Span>,
    facts: Facts,
    others: OtherHosts,
    others_read: Reads,
    /// Roles as they are with facts that earlier items alter: by the role's place and the alterations.
    uses: RefCell<BTreeMap<(usize, String), Arc<RoleUse>>>,
    /// For each item, the role as it was when the item was resolved last, where it is not the declared one.
    used: RefCell<BTreeMap<usize, Arc<RoleUse>>>,
    /// For each item, its last evaluation.
    evaluated: RefCell<BTreeMap<usize, Arc<EvaluatedItem>>>,
    /// For each item, the facts that it has read then.
    reads: RefCell<BTreeMap<usize, BTreeSet<String>>>,
    /// Diagnostics whose spans a `Problem` cannot hold, by item.
    complaints: RefCell<BTreeMap<usize, Diagnostics>>,
}

#[derive(Clone, Copy)]
enum ItemSection {
    Checks,
    Resources,
    Verify,
}

impl ItemSection {
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
    let clusters = project.roles().filter(|r| r.scope == Place::Cluster).map(|r| r.name.clone());
    let graph = RoleGraph::new(&roles, project.role_edges()).map(|graph| graph.on_clusters(clusters));
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
        Probe::Local(_) => "a question to this machine".to_owned(),
    }
}

impl<'a> HostSource<'a> {
    /// The items of a host with what is known of it. Lists of `for_each` over registered values are made of `outputs`.
    pub fn new(
        project: &Project,
        graph: &'a RoleGraph<Span>,
        host: &str,
        facts: &Facts,
        part: ItemSelection<'_>,
        outputs: &Outputs,
    ) -> Self {
        let declared = project.host_plan(host, facts, &registered(outputs));
        let mut source = Self {
            declared,
            items: Vec::new(),
            places: Vec::new(),
            moments: Vec::new(),
            graph,
            facts: facts.clone(),
            others: OtherHosts::default(),
            others_read: Reads::default(),
            uses: RefCell::default(),
            used: RefCell::default(),
            evaluated: RefCell::default(),
            reads: RefCell::default(),
            complaints: RefCell::default(),
        };
        source.list(part, project.start_at());
        source
    }

    /// The same beside these other hosts.
    pub fn beside(self, others: OtherHosts) -> Self {
        Self { others, ..self }
    }

    /// The hosts whose facts the items have read by `hostvars` so far.
    pub fn hosts_read(&self) -> BTreeSet<String> {
        self.others_read.hosts()
    }

    /// The reader of what item `index` reads.
    fn reader<'r>(&'r self, index: usize, role: &'r RoleUse) -> ReadingItem<'r> {
        ReadingItem { target: &self.declared.host, host: &role.host, index, moment: self.moment(index) }
    }

    fn list(&mut self, part: ItemSelection<'_>, start: Option<(&str, Option<&str>)>) {
        let order = self.graph.order();
        let rank = |role: &RoleUse| order.iter().position(|r| *r == role.role.name);
        let mut roles: Vec<(usize, &RoleUse)> = self.declared.roles.iter().enumerate().collect();
        roles.sort_by_key(|(_, role)| rank(role));
        let sections: &[ItemSection] = match part {
            ItemSelection::Converge => &[ItemSection::Checks, ItemSection::Resources],
            ItemSelection::Verify | ItemSelection::VerifyOf(_) => &[ItemSection::Verify],
            ItemSelection::Whole => &[ItemSection::Checks, ItemSection::Resources, ItemSection::Verify],
        };
        let mut items = Vec::new();
        let mut places = Vec::new();
        let mut moments = Vec::new();
        let first = start.and_then(|(role, _)| order.iter().position(|r| r == role));
        for (at, role) in roles {
            let left_out = matches!(part, ItemSelection::VerifyOf(roles) if !roles.contains(&role.role.name));
            if left_out || rank(role) < first {
                continue;
            }
            // Within the role the run starts at an item; checks, and queries that later items read, are made nevertheless.
            let skipped = match start {
                Some((name, Some(item))) if name == role.role.name => {
                    role.items.iter().position(|i| i.name == item).unwrap_or_default()
                }
                _ => 0,
            };
            let names: BTreeMap<&str, usize> =
                role.role.items().enumerate().map(|(n, item)| (item.name.value.as_str(), n)).collect();
            for section in sections {
                let left_out = |index: usize, item: &DeclaredItem| {
                    matches!(section, ItemSection::Resources) && index < skipped && item.register.is_none()
                };
                let listed = section.of(role).iter().enumerate();
                for (index, item) in listed.filter(|(n, i)| i.selected && !left_out(*n, i)) {
                    places.push((at, *section, index));
                    moments.push(RunPosition {
                        verify: matches!(section, ItemSection::Verify),
                        role: rank(role).unwrap_or(usize::MAX),
                        item: names.get(item.name.as_str()).copied().unwrap_or(usize::MAX),
                    });
                    items.push(Item {
                        address: item.address.clone(),
                        name: item.name.clone(),
                        item_id: item.item.id.as_ref().map(|id| id.value.clone()),
                        role: item.role.clone(),
                        kind: item.kind.clone(),
                        location: location(&item.span),
                        register: item.register.clone(),
                        disruption: item.item.disruption.as_deref().and_then(Disruption::from_word),
                        guard: DeclaredGuard {
                            choice: item
                                .item
                                .guard
                                .as_deref()
                                .map(GuardChoice::from_word)
                                .unwrap_or_default(),
                            seconds: item.item.guard_seconds,
                        },
                    });
                }
            }
        }
        self.items = items;
        self.places = places;
        self.moments = moments;
    }

    /// Whether a list of `for_each` is not made yet.
    pub fn has_open_lists(&self) -> bool {
        (0..self.items.len()).any(|index| self.at(index).is_some_and(|(_, item)| item.is_unexpanded()))
    }

    /// A list that only the run itself will know makes no items that anyone could be shown: an error, not a surprise.
    pub fn refuse_open_lists(&self, plan: &mut HostPlan) {
        let failed = plan.items.iter().filter(|i| matches!(i.outcome, Outcome::Failed(_)));
        let failed: BTreeSet<String> = failed.map(|i| i.address.clone()).collect();
        for item in &mut plan.items {
            let index = usize::try_from(item.id).unwrap_or(usize::MAX);
            let Some((_, declared)) = self.at(index).filter(|(_, d)| d.is_unexpanded()) else { continue };
            let Outcome::Deferred { wait, .. } = &item.outcome else { continue };
            if failed.contains(&wait.item) {
                let why = format!("`{}` has an error, and has the list of its `for_each`", wait.item);
                item.outcome = Outcome::Failed(Problem { blocked: true, ..Problem::new(why) });
                continue;
            }
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

    /// The role of an item where earlier items, of this host or of others, alter facts; `None` when it is as declared.
    fn use_with(&self, index: usize, altered: &AlteredFacts) -> Option<Arc<RoleUse>> {
        let (at, ..) = *self.places.get(index)?;
        let others = &self.others.facts;
        let declared = self.declared.roles.get(at).filter(|_| !altered.is_empty() || !others.is_empty())?;
        let moment = self.moment(index);
        let key = format!("{} {}", others.count_before(moment), altered.key());
        let made = self.uses.borrow().get(&(at, key.clone())).cloned();
        let used = made.unwrap_or_else(|| {
            let mut hosts = self.others.altered(&self.declared.host, moment);
            if !altered.is_empty() {
                hosts.insert(declared.host.clone(), altered.clone());
            }
            let facts = self.facts.altered(hosts.iter().map(|(host, altered)| {
                (host.as_str(), altered.predicted(), altered.unknown().map(str::to_owned).collect())
            }));
            let used = Arc::new(declared.with_facts(&facts));
            self.uses.borrow_mut().insert((at, key), used.clone());
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
    fn ready(
        &self,
        index: usize,
        item: &DeclaredItem,
        mut ready: Box<converge_model::Ready>,
    ) -> ResolvedParameters {
        let Some(kind) = converge_resources::kind(&item.kind) else {
            return ResolvedParameters::Invalid(Problem::new(format!("there is no kind `{}`", item.kind)));
        };
        if let Some(user) = ready.become_user.take() {
            let takes_user = (kind.schema)().pointer("/properties/user").is_some();
            if !takes_user {
                let message = format!("the kind `{}` does not support `become_user`", item.kind);
                let help = "only commands and queries run as a user; files have `owner`";
                let holds_no_value = true;
                return self.invalid(
                    index,
                    &ready,
                    ParamError { holds_no_value, ..ParamError::new("", message, help) },
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
            Err(e) => return self.invalid(index, &ready, e),
        };
        let mut wrong = resource.validate().into_iter();
        if let Some(first) = wrong.next() {
            let resolved = self.invalid(index, &ready, first);
            for more in wrong {
                self.invalid(index, &ready, more);
            }
            return resolved;
        }
        if let Some(params) = ready.params.as_object_mut() {
            params.retain(|name, _| !ready.unrecorded.contains(name));
        }
        ResolvedParameters::Ready { resource, params: ready.params, sensitive: ready.sensitive }
    }

    /// The declarations of the roles of this host, selected or not.
    pub fn declares(&self, outputs: &Outputs) -> Declarations {
        let Declarations { mut objects, mut roles, mut renamed, mut choosers } = Declarations::default();
        let listed = self.places.iter().enumerate();
        let listed = listed.filter(|(_, (_, section, _))| matches!(section, ItemSection::Resources));
        let listed: BTreeMap<(usize, usize), usize> =
            listed.map(|(index, (role, _, item))| ((*role, *item), index)).collect();
        for (role_at, role) in self.declared.roles.iter().enumerate() {
            let mut complete = role.complete && role.problems.is_empty();
            let mut chooses = false;
            for (item_at, item) in role.items.iter().enumerate() {
                let evaluated = match listed.get(&(role_at, item_at)) {
                    Some(index) => {
                        let used = self.used.borrow().get(index).cloned();
                        self.evaluated(*index, (role, item), used, outputs)
                    }
                    None => Arc::new(EvaluatedItem::new(item, role, None, outputs)),
                };
                let resolved = match &evaluated.resolution {
                    Resolution::Skipped { .. } => continue,
                    Resolution::Ready(ready) => self.ready(usize::MAX, item, ready.clone()),
                    Resolution::Unknown { .. } | Resolution::Invalid(_) => {
                        complete = false;
                        continue;
                    }
                };
                match resolved {
                    ResolvedParameters::Ready { resource, .. } => {
                        // Nobody knows here which objects a selector chooses: none of its role is taken for orphaned.
                        chooses |= resource.chooses();
                        let claimed: BTreeSet<ObjectId> =
                            resource.claims().into_iter().map(|c| c.object).collect();
                        claimed.into_iter().for_each(|object| *objects.entry(object).or_default() += 1);
                    }
                    _ => complete = false,
                }
            }
            let name = &role.role.name;
            roles.insert(name.clone(), complete && !chooses);
            choosers.extend((complete && chooses).then(|| name.clone()));
            let previous = role.role.renamed_from.iter().map(|old| old.value.clone());
            renamed.extend(previous.map(|old| (old, role.role.name.clone())));
        }
        Declarations { objects, roles, renamed, choosers }
    }

    /// A wrong parameter, with its place.
    fn invalid(&self, index: usize, ready: &converge_model::Ready, error: ParamError) -> ResolvedParameters {
        let ParamError { pointer, message, help, holds_no_value } = error;
        let top = pointer.split('/').nth(1).unwrap_or_default();
        let hidden = ready.sensitive || ready.unrecorded.iter().any(|name| name == top);
        // The help may name the value too.
        let (message, help) = if hidden && !holds_no_value {
            ("a parameter is wrong (its value is sensitive)".to_owned(), None)
        } else {
            (message, help)
        };
        let span = if pointer.is_empty() { ready.spans.kind().clone() } else { ready.spans.value(&pointer) };
        let complaint =
            Diagnostic::error("invalid-parameter", message.clone()).at(&span).help_if(help.clone());
        self.complain(index, [complaint]);
        ResolvedParameters::Invalid(Problem {
            message,
            help,
            pointer,
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

fn location(span: &Span) -> String {
    span.to_string().rsplit_once(':').map(|(line, _)| line.to_owned()).unwrap_or_default()
}

fn registered(outputs: &Outputs) -> RegisteredResults {
    let mut registered = RegisteredResults::new();
    for ((role, name), output) in outputs {
        if output.sensitive {
            registered.set_sensitive(role, name, output.value.clone());
        } else {
            registered.set(role, name, output.value.clone());
        }
    }
    registered
}
