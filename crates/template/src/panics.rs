//! A panic of the template engine, or of a library behind a filter, is an error of the value that is evaluated: one answer of one host
//! must not end the run of all others.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    // A panic is handled by the thread that it happens on.
    static CATCHING: Cell<usize> = const { Cell::new(0) };
}

static HOOK: Once = Once::new();

/// Runs something that may panic and says why it did.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        if std::thread::panicking() {
            return;
        }
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            if CATCHING.get() == 0 {
                before(panicked);
            }
        }));
    });
    CATCHING.set(CATCHING.get() + 1);
    // Destructors restore the state of this thread after a panic, and a poisoned lock is taken like any other.
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(CATCHING.get() - 1);
    done.map_err(|panicked| reason(&*panicked))
}

fn reason(panicked: &(dyn Any + Send)) -> String {
    let text = panicked.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panicked.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no reason".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::TemplateEngine;
    use crate::scope::{Scope, Variable};
    use converge_syntax::{Node, Source, Span};
    use std::sync::Arc;

    #[test]
    fn a_panic_is_a_reason() {
        assert_eq!(caught(|| 1), Ok(1));
        assert_eq!(caught::<()>(|| panic!("one {}", 1)), Err("one 1".to_owned()));
        assert_eq!(caught(|| caught::<()>(|| panic!("inner"))), Ok(Err("inner".to_owned())));
        assert_eq!(CATCHING.get(), 0);
    }

    #[test]
    fn a_panic_of_a_filter_is_an_error_of_its_value() {
        let mut engine = TemplateEngine::new();
        let env = Arc::get_mut(&mut engine.env).unwrap();
        env.add_function("boom", || -> Result<bool, minijinja::Error> { panic!("the reason") });
        let mut scope = Scope::new(&engine);
        let node = |text: &str| {
            let source = Source::new("test", format!("# one\n{text}\n"));
            Node::new(text, Span::new(source, 6, 6 + text.len()))
        };
        scope.set("bad", Variable::template(node("{{ boom() }}")));
        scope.set_sensitive("secret", Variable::template(node("x")));
        for text in
            ["{{ boom() }}", "a {{ boom() }}", "{{ [1] | map('upper') | list and boom() }}", "{{ bad }}"]
        {
            let why = engine.eval_value(&node(text), &scope).unwrap_err().to_string();
            assert!(why.contains("the template engine gave up on this: the reason"), "{why}");
            assert!(why.contains("test:2:1") && why.contains("help: write it in another way"), "{why}");
        }
        let why = engine.eval_bool(&node("boom()"), &scope).unwrap_err().to_string();
        assert!(why.contains("the reason"), "{why}");
        let why = engine.eval_value(&node("{{ secret and boom() }}"), &scope).unwrap_err().to_string();
        assert!(why.contains("not shown") && !why.contains("the reason,"), "{why}");
        // The next evaluation begins anew.
        let fine = engine.eval_value(&node("{{ 1 + 1 }}"), &scope).unwrap().known().unwrap();
        assert_eq!(fine.scalar_text().as_deref(), Some("2"));
    }
}
