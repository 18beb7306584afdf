//! Texts that were compiled: the roles of a project have the same ones on every host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::{Environment, Error, Expression, Template, Value};
use self_cell::self_cell;

use crate::bounds::BoundedOutput;
use crate::chain::{Rewritings, RewrittenText, rewrite};

type BorrowedExpression<'a> = Expression<'a, 'a>;
type BorrowedTemplate<'a> = Template<'a, 'a>;

/// The environment, the name of the text, and the text.
type CodeOwner = (Arc<Environment<'static>>, String, String);

self_cell!(
    /// An expression with the text and the environment that it borrows from.
    pub(crate) struct ExpressionCode {
        owner: CodeOwner,
        #[covariant]
        dependent: BorrowedExpression,
    }
);

self_cell!(
    /// A template with the text and the environment that it borrows from.
    pub(crate) struct TemplateCode {
        owner: CodeOwner,
        #[covariant]
        dependent: BorrowedTemplate,
    }
);

/// Code that a text is compiled to.
pub(crate) trait Code: Sized {
    /// Whether the text is one expression, without `{{ }}`.
    const BARE: bool;

    /// Compiles a text.
    fn compile(owner: CodeOwner) -> Result<Self, Error>;
}

impl Code for ExpressionCode {
    const BARE: bool = true;

    fn compile(owner: CodeOwner) -> Result<Self, Error> {
        Self::try_new(owner, |(env, _, text)| env.compile_expression(text))
    }
}

impl Code for TemplateCode {
    const BARE: bool = false;

    fn compile(owner: CodeOwner) -> Result<Self, Error> {
        Self::try_new(owner, |(env, name, text)| env.template_from_named_str(name, text))
    }
}

impl ExpressionCode {
    pub fn eval(&self, root: Value) -> Result<Value, Error> {
        self.borrow_dependent().eval(root)
    }
}

impl TemplateCode {
    pub fn render(&self, root: Value, written: &mut BoundedOutput) -> Result<(), Error> {
        self.borrow_dependent().render_captured_to(root, written).map(drop)
    }
}

/// A text as it was rewritten, and its code.
pub(crate) struct CompiledText<C> {
    pub rewritten: Option<RewrittenText>,
    pub code: C,
}

/// A text that cannot be compiled, as it was rewritten.
pub(crate) struct UncompiledText {
    pub rewritten: Option<RewrittenText>,
    pub error: Error,
}

/// Name, whether backslashes were rewritten, and text as it was written.
type CodeKey = (String, bool, String);

/// The code of all texts of one sort. Only what users wrote is compiled, never a value, so it is as large as the project.
pub(crate) struct CodeCache<C>(Mutex<HashMap<CodeKey, Arc<CompiledText<C>>>>);

impl<C> Default for CodeCache<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C: Code> CodeCache<C> {
    /// The code of a text: compiled the first time, after `check`. Errors are made anew each time, since their places differ.
    pub fn get<E>(
        &self,
        env: &Arc<Environment<'static>>,
        (name, text): (&str, &str),
        backslashes: bool,
        check: impl FnOnce() -> Result<(), E>,
        explain: impl FnOnce(UncompiledText) -> E,
    ) -> Result<Arc<CompiledText<C>>, E> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.to_owned(), backslashes, text.to_owned());
        if let Some(known) = lock().get(&key) {
            return Ok(known.clone());
        }
        check()?;
        let wanted = Rewritings { bare: C::BARE, chains: false, backslashes };
        let rewritten = RewrittenText::guarded(text, rewrite(text, wanted), C::BARE);
        let compiled = rewritten.as_ref().map_or(text, |rewritten| &rewritten.text).to_owned();
        let made = match C::compile((env.clone(), name.to_owned(), compiled)) {
            Ok(code) => Arc::new(CompiledText { rewritten, code }),
            Err(error) => return Err(explain(UncompiledText { rewritten, error })),
        };
        // Where two threads come for it at once, both have the same.
        Ok(lock().entry(key).or_insert(made).clone())
    }
}
