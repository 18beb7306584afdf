//! Rendering nodes, conditions and template files in a scope.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use converge_syntax::{Diagnostic, Diagnostics, Node, Source, Span, UNSAFE_TAG, Value as Data};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value, escape_formatter};

use crate::chain::{Rewritings, RewrittenText};
use crate::compiled::{Code as _, CodeCache, ExpressionCode, TemplateCode, UncompiledText};
use crate::convert::{OMIT_TAG, Omit, text, to_node};
use crate::evaluation::{Evaluation, EvaluationResult};
use crate::explain::{TemplatePlace, explain, first_undefined, gave_up};
use crate::frame::{self, Notes};
use crate::measure::{LEVELS, measure};
use crate::moment::Moment;
use crate::registry::Registry;
use crate::scope::{Root, Scope};
use crate::text::{is_template, whole_expression};
use crate::{bounds, chain, filters, include, lookup, panics, slices};

/// Steps that one template may take; a loop over ten thousand items with a few filters stays far below.
const FUEL: u64 = 5_000_000;

/// Opens encrypted values.
pub trait Decrypt: Send + Sync {
    /// The text inside an encrypted one.
    ///
    /// # Errors
    /// The problem, and its correction.
    fn decrypt(&self, text: &str) -> Result<String, (String, String)>;
}

/// The environment: Jinja as Ansible sets it up. Cheap to clone.
#[derive(Clone)]
pub struct TemplateEngine {
    pub(crate) env: Arc<Environment<'static>>,
    vault: Option<Arc<dyn Decrypt>>,
    moment: Arc<Moment>,
    /// Templates that were included, by the name that errors have for them.
    included: IncludedTexts,
    expressions: Arc<CodeCache<ExpressionCode>>,
    templates: Arc<CodeCache<TemplateCode>>,
}

/// Texts by the name under which minijinja knows them.
pub(crate) type IncludedTexts = Arc<Mutex<BTreeMap<String, Arc<Source>>>>;

/// The reason why an evaluation has no value.
#[derive(Debug)]
pub(crate) enum Fail {
    /// It depends on unknown values; their names are in the notes.
    Unknown,
    /// A name in it is undefined: `default` and `is defined` of what uses it may handle that.
    Undefined(Diagnostics),
    /// Anything else.
    Fatal(Diagnostics),
}

impl Fail {
    fn diagnostics(self) -> Diagnostics {
        match self {
            Self::Unknown => Diagnostics::new(),
            Self::Undefined(diagnostics) | Self::Fatal(diagnostics) => diagnostics,
        }
    }
}

impl Default for TemplateEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl TemplateEngine {
    /// The environment with all filters, tests and functions.
    pub fn new() -> Self {
        let mut env = Environment::new();
        env.set_syntax(bounds::syntax());
        env.set_auto_escape_callback(|_| AutoEscape::None);
        env.set_undefined_behavior(UndefinedBehavior::Strict);
        env.set_unknown_method_callback(|state, value, method, args| {
            bounds::method(value, method, args)?;
            let made = minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)?;
            measure(&made).map(|_| made)
        });
        // Null inside text prints nothing, as in Ansible.
        env.set_formatter(|out, state, value| {
            bounds::about_to_write(value)?;
            if value.is_none() { Ok(()) } else { escape_formatter(out, state, value) }
        });
        // Byte ranges of errors and the names of what is undefined come with this.
        env.set_debug(true);
        env.set_fuel(Some(FUEL));
        env.set_recursion_limit(100);
        env.add_global("omit", Value::from_object(Omit));
        let mut names = Registry::new(&mut env);
        filters::install(&mut names);
        lookup::install(&mut names);
        chain::install(&mut names);
        bounds::install(&mut names);
        slices::install(&mut names);
        let included = IncludedTexts::default();
        include::install(&mut env, &included);
        Self {
            env: Arc::new(env),
            vault: None,
            moment: Arc::new(Moment::here()),
            included,
            expressions: Arc::default(),
            templates: Arc::default(),
        }
    }

    /// The same environment at another moment.
    #[must_use]
    pub fn at(self, moment: Moment) -> Self {
        Self { moment: Arc::new(moment), ..self }
    }

    /// The time and the seed of the run.
    pub fn moment(&self) -> &Moment {
        &self.moment
    }

    /// The source of an included template.
    pub(crate) fn included(&self, name: &str) -> Option<Arc<Source>> {
        self.included.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The same environment with decryption of values with the tag `!vault` and of encrypted files. Without it these are
    /// errors.
    #[must_use]
    pub fn with_vault(self, vault: Arc<dyn Decrypt>) -> Self {
        Self { vault: Some(vault), ..self }
    }

    /// Decrypts an encrypted text; this marks the evaluation as sensitive.
    pub(crate) fn decrypt(&self, text: &str) -> Result<String, (String, String)> {
        frame::note(|notes| notes.sensitive = true);
        match &self.vault {
            Some(vault) => vault.decrypt(text),
            None => Err(("this is encrypted, and nothing here opens it".to_owned(), String::new())),
        }
    }

    /// Renders every string of a node. A string that is one whole `{{ … }}` keeps the type of its value; `!unsafe` strings
    /// stay as they are; keys are not rendered.
    ///
    /// # Errors
    /// Every string that could not be rendered.
    pub fn eval_value(&self, node: &Node, scope: &Scope) -> Result<Evaluation<Node>, Diagnostics> {
        self.outcome(scope, &node.span, || self.walk(node, scope))
    }

    /// Evaluates a `when`: a boolean, a bare expression, or a list of them that must all hold.
    ///
    /// # Errors
    /// Expressions that fail or whose value is not a boolean.
    pub fn eval_bool(&self, condition: &Node, scope: &Scope) -> Result<Evaluation<bool>, Diagnostics> {
        let Some(items) = condition.as_list() else {
            return self.outcome(scope, &condition.span, || self.condition(condition, scope));
        };
        let mut all = EvaluationResult { value: true, lookups: BTreeSet::new(), sensitive: false };
        let mut unknown = BTreeSet::new();
        for item in items {
            match self.eval_bool(item, scope)? {
                Evaluation::Known(one) => {
                    all.lookups.extend(one.lookups);
                    all.sensitive |= one.sensitive;
                    if !one.value {
                        // One that does not hold decides, whatever the others will be.
                        all.value = false;
                        return Ok(Evaluation::Known(all));
                    }
                }
                Evaluation::Unknown { names, lookups } => {
                    all.lookups.extend(lookups);
                    unknown.extend(names);
                }
            }
        }
        Ok(if unknown.is_empty() {
            Evaluation::Known(all)
        } else {
            Evaluation::Unknown { names: unknown, lookups: all.lookups }
        })
    }

    /// Renders a template file.
    ///
    /// # Errors
    /// A diagnostic with its place in the template.
    pub fn render_file(
        &self,
        source: &Arc<Source>,
        scope: &Scope,
    ) -> Result<Evaluation<String>, Diagnostics> {
        let whole = Span::whole(source.clone());
        let place = TemplatePlace::file(&whole, source.content());
        self.outcome(scope, &whole, || {
            if source.is_secret() {
                frame::note(|notes| notes.sensitive = true);
            }
            self.render(place, scope)
        })
    }

    /// Runs an evaluation and makes an outcome of it.
    fn outcome<T>(
        &self,
        scope: &Scope,
        span: &Span,
        work: impl FnOnce() -> Result<T, Fail>,
    ) -> Result<Evaluation<T>, Diagnostics> {
        let (result, notes) = frame::within(scope, None, span, work);
        let Notes { lookups, unknown, sensitive, .. } = notes;
        match result {
            Ok(value) if unknown.is_empty() => {
                Ok(Evaluation::Known(EvaluationResult { value, lookups, sensitive }))
            }
            Ok(_) | Err(Fail::Unknown) => Ok(Evaluation::Unknown { names: unknown, lookups }),
            Err(fail) => Err(fail.diagnostics()),
        }
    }

    /// Renders a tree; every part that fails is reported.
    pub(crate) fn walk(&self, node: &Node, scope: &Scope) -> Result<Node, Fail> {
        let mut fails = Vec::new();
        let done = bounds::stack(|| self.part(node, scope, &mut fails));
        if !fails.is_empty() || depth_of(&done) <= LEVELS {
            return self.walked(done, fails);
        }
        let message = format!("the value goes too deep: at most {LEVELS} lists and maps in each other");
        Err(Fail::Fatal(Diagnostic::error("template-depth", message).at(&node.span).into()))
    }

    /// The tree, or why it has none.
    fn walked(&self, done: Node, fails: Vec<Fail>) -> Result<Node, Fail> {
        let unknown = fails.iter().any(|fail| matches!(fail, Fail::Unknown));
        let fatal = fails.iter().any(|fail| matches!(fail, Fail::Fatal(_)));
        let mut all = Diagnostics::new();
        for found in fails.into_iter().flat_map(Fail::diagnostics) {
            // Several uses of one bad variable complain once.
            if !all.0.contains(&found) {
                all.push(found);
            }
        }
        match (all.is_empty(), fatal, unknown) {
            (false, true, _) => Err(Fail::Fatal(all)),
            (false, false, _) => Err(Fail::Undefined(all)),
            (true, _, true) => Err(Fail::Unknown),
            (true, _, false) => Ok(done),
        }
    }

    fn part(&self, node: &Node, scope: &Scope, fails: &mut Vec<Fail>) -> Node {
        if node.span.source.is_secret() {
            frame::note(|notes| notes.sensitive = true);
        }
        let value = match &node.value {
            Data::String(sealed) if matches!(node.tag.as_deref(), Some("!vault" | "!vault-encrypted")) => {
                // As in Ansible, what was encrypted is a value, never a template.
                return match self.decrypt(sealed) {
                    Ok(opened) => text(&opened, &node.span),
                    Err((why, help)) => {
                        let at = node.span.first_line();
                        let wrong = Diagnostic::error("vault", why).at(&at);
                        fails.push(Fail::Fatal(wrong.help_if((!help.is_empty()).then_some(help)).into()));
                        Node::null(node.span.clone())
                    }
                };
            }
            Data::String(text) if is_template(text) && node.tag.as_deref() != Some(UNSAFE_TAG) => {
                return self.string(node, text, scope).unwrap_or_else(|fail| {
                    fails.push(fail);
                    Node::null(node.span.clone())
                });
            }
            Data::List(items) => Data::List(
                items
                    .iter()
                    .map(|item| self.part(item, scope, fails))
                    .filter(|item| item.tag.as_deref() != Some(OMIT_TAG))
                    .collect(),
            ),
            Data::Map(entries) => Data::Map(
                entries
                    .iter()
                    .map(|(key, value)| (key.clone(), self.part(value, scope, fails)))
                    .filter(|(_, value)| value.tag.as_deref() != Some(OMIT_TAG))
                    .collect(),
            ),
            _ => return node.clone(),
        };
        Node { value, span: node.span.clone(), tag: node.tag.clone() }
    }

    fn string(&self, node: &Node, template: &str, scope: &Scope) -> Result<Node, Fail> {
        let Some(range) = whole_expression(template) else {
            let place = TemplatePlace::scalar(&node.span, template, 0);
            let rendered = self.render(place, scope)?;
            return Ok(text(&rendered, &node.span));
        };
        let place = TemplatePlace::scalar(&node.span, template, range.start);
        let expression = template.get(range).unwrap_or_default();
        let value = self.expression(expression, place, scope)?;
        self.evaluated(place, || to_node(&value, &node.span).map_err(|error| self.fail(&error, place, scope)))
    }

    /// Runs an evaluation with counts of its own; if the engine gives up in it, the value has an error at its place.
    fn evaluated<T>(
        &self,
        place: TemplatePlace<'_>,
        work: impl FnOnce() -> Result<T, Fail>,
    ) -> Result<T, Fail> {
        let counts = bounds::CountedEvaluation::begin();
        let done = panics::caught(work);
        drop(counts);
        done.unwrap_or_else(|why| Err(gave_up(&why, place)))
    }

    /// The value of an expression, which must be defined.
    fn expression(&self, expression: &str, place: TemplatePlace<'_>, scope: &Scope) -> Result<Value, Fail> {
        self.evaluated(place, || self.value_of(expression, place, scope))
    }

    fn value_of(&self, expression: &str, place: TemplatePlace<'_>, scope: &Scope) -> Result<Value, Fail> {
        let not_too_deep = || self.not_too_deep(expression, true, place);
        let fail = |wrong| self.uncompiled(&wrong, place, scope);
        let compiled = self.expressions.get(&self.env, ("", expression), true, not_too_deep, fail)?;
        let place = TemplatePlace { rewritten: compiled.rewritten.as_ref(), ..place };
        let result = compiled.code.eval(Value::from_object(Root(scope.clone())));
        let wanted = Rewritings { bare: true, chains: true, backslashes: true };
        if let Some(rewritten) = chained(&result).and_then(|()| chain::rewrite(expression, wanted)) {
            let Some(rewritten) = RewrittenText::guarded(expression, Some(rewritten), true) else {
                return self.settle(result, place, scope);
            };
            let again = self
                .env
                .compile_expression(&rewritten.text)
                .and_then(|compiled| compiled.eval(Value::from_object(Root(scope.clone()))));
            let place = TemplatePlace { rewritten: Some(&rewritten), ..place };
            // An error that the rewriting does not concern stays the error of the first attempt.
            if again.as_ref().is_ok_and(|value| !value.is_undefined()) || chained(&again).is_none() {
                return self.settle(again, place, scope);
            }
        }
        self.settle(result, place, scope).and_then(|value| {
            if value.is_undefined() {
                let paths = compiled.code.borrow_dependent().undeclared_variables(true);
                return Err(first_undefined(paths, expression, place, scope));
            }
            Ok(value)
        })
    }

    fn render(&self, place: TemplatePlace<'_>, scope: &Scope) -> Result<String, Fail> {
        self.evaluated(place, || self.text_of(place, scope))
    }

    fn text_of(&self, place: TemplatePlace<'_>, scope: &Scope) -> Result<String, Fail> {
        let name = place.span.source.name();
        let run = |code: &TemplateCode| {
            let counts = bounds::CountedEvaluation::begin();
            let mut written = bounds::BoundedOutput::default();
            let done = code.render(Value::from_object(Root(scope.clone())), &mut written);
            drop(counts);
            done.map(|()| String::from_utf8_lossy(&written.0).into_owned())
        };
        let not_too_deep = || self.not_too_deep(place.text, false, place);
        let fail = |wrong| self.uncompiled(&wrong, place, scope);
        // Files are Jinja's, as in Ansible.
        let backslashes = !place.file;
        let compiled = self.templates.get(&self.env, (name, place.text), backslashes, not_too_deep, fail)?;
        let place = TemplatePlace { rewritten: compiled.rewritten.as_ref(), ..place };
        let result = run(&compiled.code);
        let wanted = Rewritings { bare: false, chains: true, backslashes };
        if let Some(rewritten) = chained(&result).and_then(|()| chain::rewrite(place.text, wanted)) {
            let Some(rewritten) = RewrittenText::guarded(place.text, Some(rewritten), false) else {
                return self.settle(result, place, scope);
            };
            let owner = (self.env.clone(), name.to_owned(), rewritten.text.clone());
            let again = TemplateCode::compile(owner).and_then(|code| run(&code));
            return self.settle(again, TemplatePlace { rewritten: Some(&rewritten), ..place }, scope);
        }
        self.settle(result, place, scope)
    }

    /// Refuses a text that the parser would go too deep into.
    fn not_too_deep(&self, text: &str, bare: bool, place: TemplatePlace<'_>) -> Result<(), Fail> {
        let Some(at) = bounds::too_deep(text, bare) else { return Ok(()) };
        let message = "the template goes too deep: at most 100 brackets, operators and blocks in each other";
        let found = Diagnostic::error("template-depth", message)
            .at(&place.span_of(at..at + 1))
            .help("put parts of it into variables, or use a loop or a filter (sum, join)");
        Err(Fail::Fatal(found.into()))
    }

    /// Renders a template for `lookup('template')`: what it meets belongs to the evaluation that asks.
    pub(crate) fn render_inner(&self, source: &Arc<Source>, scope: &Scope) -> Result<String, Error> {
        if source.is_secret() {
            frame::note(|notes| notes.sensitive = true);
        }
        let whole = Span::whole(source.clone());
        let place = TemplatePlace::file(&whole, source.content());
        self.render(place, scope).map_err(|fail| {
            if let Fail::Undefined(why) | Fail::Fatal(why) = fail {
                frame::note(|notes| notes.fatal.get_or_insert(why).len());
            }
            Error::new(ErrorKind::InvalidOperation, "the template cannot be rendered")
        })
    }

    /// Chooses the result: an error or an unknown value of a variable that was looked up on the way wins over that of the
    /// template itself.
    fn settle<T>(
        &self,
        result: Result<T, Error>,
        place: TemplatePlace<'_>,
        scope: &Scope,
    ) -> Result<T, Fail> {
        let met = frame::note(|notes| (notes.fatal.clone(), !notes.unknown.is_empty()));
        match met {
            Some((Some(fatal), _)) => Err(Fail::Fatal(fatal)),
            Some((None, true)) if result.is_err() => Err(Fail::Unknown),
            _ => result.map_err(|error| self.fail(&error, place, scope)),
        }
    }

    fn uncompiled(&self, wrong: &UncompiledText, place: TemplatePlace<'_>, scope: &Scope) -> Fail {
        self.fail(&wrong.error, TemplatePlace { rewritten: wrong.rewritten.as_ref(), ..place }, scope)
    }

    fn fail(&self, error: &Error, place: TemplatePlace<'_>, scope: &Scope) -> Fail {
        explain(error, place, scope)
    }

    fn condition(&self, node: &Node, scope: &Scope) -> Result<bool, Fail> {
        let wrong = |message: String, help: &str| {
            Err(Fail::Fatal(Diagnostic::error("bad-condition", message).at(&node.span).help(help).into()))
        };
        let value = match &node.value {
            Data::Bool(value) => return Ok(*value),
            Data::String(template) if is_template(template) => match whole_expression(template) {
                Some(range) => {
                    let place = TemplatePlace::scalar(&node.span, template, range.start);
                    self.expression(template.get(range).unwrap_or_default(), place, scope)?
                }
                None => {
                    return wrong(
                        "a condition is an expression, not text with `{{ … }}` in it".to_owned(),
                        "write the expression bare: when: name == 'value'",
                    );
                }
            },
            Data::String(expression) if !expression.trim().is_empty() => {
                let place = TemplatePlace::scalar(&node.span, expression, 0);
                self.expression(expression, place, scope)?
            }
            _ => {
                return wrong(
                    format!("a condition is an expression or a boolean, not {}", node.value.kind()),
                    "write an expression: when: name == 'value'",
                );
            }
        };
        if value.kind() == minijinja::value::ValueKind::Bool {
            return Ok(value.is_true());
        }
        let help = match value.kind() {
            minijinja::value::ValueKind::String => "compare it (name == 'value'), or convert it: name | bool",
            minijinja::value::ValueKind::Number => "compare it: name > 0",
            _ => "ask for what is meant: name | length > 0, or name is not none",
        };
        wrong(format!("the condition is a {}, not a boolean", value.kind()), help)
    }
}

/// The depth of lists and maps in each other.
fn depth_of(node: &Node) -> usize {
    match &node.value {
        Data::List(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Data::Map(entries) => 1 + entries.iter().map(|(_, value)| depth_of(value)).max().unwrap_or(0),
        _ => 0,
    }
}

/// Did it fail at an attribute of something undefined?
fn chained<T>(result: &Result<T, Error>) -> Option<()> {
    result.as_ref().err().filter(|error| error.kind() == ErrorKind::UndefinedError).map(|_| ())
}
