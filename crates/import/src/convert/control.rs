//! assert, fail, debug, and modules that nothing stands for.

use super::{Context, Conversion, ConvertedPart, Params};
use crate::expression::ImportProblem;
use crate::yaml::made;
use converge_syntax::{Node, Value};

/// A condition as an expression of its own.
fn braced(condition: &Node) -> Node {
    match condition.as_str() {
        Some(text) => made(format!("{{{{ {} }}}}", text.trim())),
        None => condition.clone(),
    }
}

pub(super) fn assert(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["success_msg", "quiet"]);
    let that =
        params.take(&["that"]).ok_or_else(|| ImportProblem::new("no condition is given", "write `that`"))?;
    if that.as_list().is_some_and(<[Node]>::is_empty) {
        return Ok(Conversion { left_out: Some("left out"), ..Conversion::default() });
    }
    let that = match &that.value {
        Value::List(items) if items.len() == 1 => items.first().map(braced).unwrap_or(that),
        Value::List(items) => made(Value::List(items.iter().map(braced).collect())),
        _ => braced(&that),
    };
    let mut out = vec![("that".to_owned(), that)];
    params.same(&[("fail_msg", "message"), ("msg", "message")], &mut out);
    one_line(&mut out);
    params.finish("assert")?;
    Ok(check(out))
}

pub(super) fn fail(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    let conditions: Vec<String> = context.when.iter().filter_map(Node::scalar_text).collect();
    let that = match conditions.as_slice() {
        [] => made(false),
        [one] => made(format!("{{{{ not ({one}) }}}}")),
        all => {
            let all: Vec<String> = all.iter().map(|one| format!("({one})")).collect();
            made(format!("{{{{ not ({}) }}}}", all.join(" and ")))
        }
    };
    let mut out = vec![("that".to_owned(), that)];
    params.same(&[("msg", "message")], &mut out);
    one_line(&mut out);
    params.finish("assert")?;
    let mut all = check(out);
    all.dropped_when = (0..conditions.len()).collect();
    Ok(all)
}

/// A message is one line.
fn one_line(out: &mut [(String, Node)]) {
    for (key, value) in out {
        if key == "message"
            && let Some(text) = value.scalar_text()
        {
            *value = made(text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
}

fn check(out: Vec<(String, Node)>) -> Conversion {
    let mut made = ConvertedPart::new("assert", out);
    made.is_check = true;
    Conversion { made: vec![made], ..Conversion::default() }
}

/// Modules that change nothing on a host: `debug`, `ping`, and those whose work happens by itself here.
pub(super) fn left_out(_: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    Ok(Conversion { left_out: Some("left out"), ..Conversion::default() })
}
