//! Filters and functions as they are registered: what each is given and makes is measured.

use minijinja::functions::Function;
use minijinja::value::{FunctionArgs, FunctionResult, Rest, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value, filters as builtin, functions};

use crate::bounds::{charge, handled, makes, settled, stack};
use crate::measure::measure;

/// An environment to which no filter and no function comes without a measure around it.
pub(crate) struct Registry<'e> {
    env: &'e mut Environment<'static>,
    /// The names of the filters.
    pub filters: std::collections::BTreeSet<&'static str>,
}

impl<'e> Registry<'e> {
    /// Begins with the filters and functions of minijinja.
    pub fn new(env: &'e mut Environment<'static>) -> Self {
        let mut all = Self { env, filters: std::collections::BTreeSet::new() };
        all.add_builtins();
        all
    }

    /// Adds or replaces a filter.
    pub fn add_filter<F, Rv, Args>(&mut self, name: &'static str, f: F)
    where
        F: Function<Rv, Args>,
        Rv: FunctionResult,
        Args: for<'a> FunctionArgs<'a>,
    {
        self.filters.insert(name);
        let inner = Value::from_function(f);
        self.env.add_filter(name, move |state: &mut State<'_, '_>, given: Rest<ValueOrKwargs>| {
            call(name, &inner, state, given)
        });
    }

    /// Adds a filter that measures by itself.
    pub fn add_unmeasured<F, Rv, Args>(&mut self, name: &'static str, f: F)
    where
        F: Function<Rv, Args>,
        Rv: FunctionResult,
        Args: for<'a> FunctionArgs<'a>,
    {
        self.env.add_filter(name, f);
    }

    /// Adds or replaces a function.
    pub fn add_function<F, Rv, Args>(&mut self, name: &'static str, f: F)
    where
        F: Function<Rv, Args>,
        Rv: FunctionResult,
        Args: for<'a> FunctionArgs<'a>,
    {
        let inner = Value::from_function(f);
        self.env.add_function(name, move |state: &mut State<'_, '_>, given: Rest<ValueOrKwargs>| {
            call(name, &inner, state, given)
        });
    }

    /// Adds or replaces a test.
    pub fn add_test<F, Rv, Args>(&mut self, name: &'static str, f: F)
    where
        F: Function<Rv, Args>,
        Rv: FunctionResult,
        Args: for<'a> FunctionArgs<'a>,
    {
        self.env.add_test(name, f);
    }

    fn add_builtins(&mut self) {
        self.add_filter("safe", builtin::safe);
        for name in ["escape", "e"] {
            self.add_filter(name, builtin::escape);
        }
        self.add_filter("lower", builtin::lower);
        self.add_filter("upper", builtin::upper);
        self.add_filter("title", builtin::title);
        self.add_filter("capitalize", builtin::capitalize);
        for name in ["length", "count"] {
            self.add_filter(name, builtin::length);
        }
        self.add_filter("dictsort", builtin::dictsort);
        self.add_filter("items", builtin::items);
        self.add_filter("reverse", builtin::reverse);
        self.add_filter("trim", builtin::trim);
        self.add_filter("split", builtin::split);
        self.add_filter("lines", builtin::lines);
        for name in ["default", "d"] {
            self.add_filter(name, builtin::default);
        }
        self.add_filter("round", builtin::round);
        self.add_filter("abs", builtin::abs);
        self.add_filter("int", builtin::int);
        self.add_filter("float", builtin::float);
        self.add_filter("attr", builtin::attr);
        self.add_filter("first", builtin::first);
        self.add_filter("last", builtin::last);
        self.add_filter("min", builtin::min);
        self.add_filter("max", builtin::max);
        self.add_filter("sort", builtin::sort);
        self.add_filter("list", builtin::list);
        self.add_filter("string", builtin::string);
        self.add_filter("bool", builtin::bool);
        self.add_filter("sum", builtin::sum);
        self.add_filter("select", builtin::select);
        self.add_filter("reject", builtin::reject);
        self.add_filter("selectattr", builtin::selectattr);
        self.add_filter("rejectattr", builtin::rejectattr);
        self.add_filter("map", builtin::map);
        self.add_filter("groupby", builtin::groupby);
        self.add_filter("unique", builtin::unique);
        self.add_filter("chain", builtin::chain);
        self.add_filter("zip", builtin::zip);
        self.add_filter("pprint", builtin::pprint);
        self.add_filter("tojson", builtin::tojson);
        self.add_filter("urlencode", builtin::urlencode);
        self.add_function("range", functions::range);
        self.add_function("dict", functions::dict);
        self.add_function("debug", functions::debug);
        self.add_function("namespace", functions::namespace);
    }
}

fn call(
    name: &str,
    inner: &Value,
    state: &mut State<'_, '_>,
    given: Rest<ValueOrKwargs>,
) -> Result<Value, Error> {
    let given: Vec<Value> = given.into_values();
    let mut bytes = 0_usize;
    for value in &given {
        let size = measure(value)?;
        handled(size)?;
        bytes = bytes.saturating_add(size.bytes);
    }
    charge(1)?;
    makes(name, Some(bytes))?;
    let made = settled(stack(|| inner.call(state, &given))?)?;
    let size = measure(&made)?;
    handled(size)?;
    makes(name, Some(size.bytes))?;
    Ok(made)
}
