//! The edits that put what a template makes inside filters that measure it.

use std::ops::Range;

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, Stmt};
use minijinja::machinery::{parse, parse_expr};

use crate::bounds::{BOUNDED, MEASURED, NAMESPACED, SEARCHED, syntax};
use crate::slices;
use crate::text::is_template;

/// The edits (bytes, and what they become) that put each operator, list, tuple and map inside a measuring filter, and make filters of
/// slices. Empty for a text that does not parse: rendering reports that.
pub(crate) fn guards(text: &str, bare: bool) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    let may_grow =
        text.contains(['+', '~', '*', '[', ',', ':']) || text.contains("set") || text.contains("in");
    if !may_grow || !(bare || is_template(text)) {
        return Vec::new();
    }
    let parsed = if bare {
        parse_expr(text).map(|expression| in_expression(&expression, &mut found))
    } else {
        parse(text, "", syntax()).map(|template| in_statement(&template, &mut found))
    };
    if parsed.is_err() {
        return Vec::new();
    }
    // Both are found outermost first. Opening texts at one byte go from the outermost to the innermost, closing texts the
    // other way round, before the opening ones.
    found.reverse();
    found.sort_by_key(|(at, text)| (*at, text.starts_with('(')));
    let same =
        |a: &(usize, String), b: &(usize, String)| a.0 == b.0 && a.1.starts_with('(') == b.1.starts_with('(');
    found
        .chunk_by_mut(same)
        .filter(|texts| texts.iter().any(|(_, text)| text.starts_with('(')))
        .for_each(<[_]>::reverse);
    let mut edits: Vec<_> = found.into_iter().map(|(at, text)| (at..at, text)).collect();
    edits.extend(slices::edits(text, bare));
    // An insertion at a byte goes before the replacement of that byte.
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    edits
}

type Insertions = Vec<(usize, String)>;

fn in_all<'a, 'b: 'a>(all: impl IntoIterator<Item = &'a Expr<'b>>, found: &mut Insertions) {
    all.into_iter().for_each(|expression| in_expression(expression, found));
}

fn in_arguments(arguments: &[CallArg<'_>], found: &mut Insertions) {
    for argument in arguments {
        match argument {
            CallArg::Pos(value)
            | CallArg::Kwarg(_, value)
            | CallArg::PosSplat(value)
            | CallArg::KwargSplat(value) => in_expression(value, found),
        }
    }
}

fn in_expression(expression: &Expr<'_>, found: &mut Insertions) {
    match expression {
        Expr::Var(_) | Expr::Const(_) => {}
        Expr::Slice(slice) => {
            around(expression, BOUNDED, found);
            in_expression(&slice.expr, found);
            in_all([&slice.start, &slice.stop, &slice.step].into_iter().flatten(), found);
        }
        Expr::UnaryOp(unary) => in_expression(&unary.expr, found),
        Expr::BinOp(_) => in_chain(expression, 0, found),
        Expr::Compare(compare) => {
            in_expression(&compare.expr, found);
            for op in &compare.ops {
                if matches!(op.op, CompareOpKind::In | CompareOpKind::NotIn) && !is_constant(&op.expr) {
                    around(&op.expr, SEARCHED, found);
                }
                in_expression(&op.expr, found);
            }
        }
        Expr::IfExpr(choice) => {
            in_all([&choice.test_expr, &choice.true_expr].into_iter().chain(&choice.false_expr), found);
        }
        Expr::Filter(filter) => {
            in_all(&filter.expr, found);
            in_arguments(&filter.args, found);
        }
        Expr::Test(test) => {
            in_expression(&test.expr, found);
            in_arguments(&test.args, found);
        }
        Expr::GetAttr(get) => in_expression(&get.expr, found),
        Expr::GetItem(get) => in_all([&get.expr, &get.subscript_expr], found),
        Expr::Call(call) => {
            in_expression(&call.expr, found);
            in_arguments(&call.args, found);
        }
        Expr::List(_) | Expr::Tuple(_) | Expr::Map(_) => {
            if !is_constant(expression) {
                around(expression, MEASURED, found);
                in_parts(expression, found);
            }
        }
    }
}

/// Puts an expression inside a filter.
fn around(expression: &Expr<'_>, filter: &str, found: &mut Insertions) {
    let end = expression.span().end_offset;
    // A subscript or a method may follow.
    found.push((start_of(expression) as usize, "((".to_owned()));
    found.push((end as usize, format!(")|{filter})")));
}

/// Where an expression begins: the span of a filter, a call or the like begins at its own name. A bracket before it stays one: the
/// text comes to the same.
fn start_of(expression: &Expr<'_>) -> u32 {
    let own = expression.span().start_offset;
    let first = match expression {
        Expr::Filter(filter) => filter.expr.as_ref(),
        Expr::Test(test) => Some(&test.expr),
        Expr::GetAttr(get) => Some(&get.expr),
        Expr::GetItem(get) => Some(&get.expr),
        Expr::Slice(slice) => Some(&slice.expr),
        Expr::Call(call) => Some(&call.expr),
        Expr::BinOp(binary) => Some(&binary.left),
        Expr::Compare(compare) => Some(&compare.expr),
        // Its span begins at the word before it.
        Expr::IfExpr(choice) => return start_of(&choice.true_expr),
        _ => None,
    };
    first.map_or(own, |first| own.min(start_of(first)))
}

/// The parts of a list, tuple or map.
fn parts_of<'a, 'b>(expression: &'a Expr<'b>) -> Option<Vec<&'a Expr<'b>>> {
    Some(match expression {
        Expr::List(list) => list.items.iter().collect(),
        Expr::Tuple(tuple) => tuple.items.iter().collect(),
        Expr::Map(map) => map.keys.iter().chain(&map.values).collect(),
        _ => return None,
    })
}

/// The outermost of lists in each other measures all of them.
fn in_parts(expression: &Expr<'_>, found: &mut Insertions) {
    match parts_of(expression) {
        Some(parts) => parts.into_iter().for_each(|part| in_parts(part, found)),
        None => in_expression(expression, found),
    }
}

/// Does it stand there as it is? The depth of the text bounds it.
fn is_constant(expression: &Expr<'_>) -> bool {
    match parts_of(expression) {
        Some(parts) => parts.into_iter().all(is_constant),
        None => matches!(expression, Expr::Const(_)),
    }
}

/// One operator of a chain `a ~ b ~ c`, which is read from its end: every fourth is looked at, since each look is a level more.
fn in_chain(expression: &Expr<'_>, place: usize, found: &mut Insertions) {
    let Expr::BinOp(binary) = expression else { return in_expression(expression, found) };
    let grows = matches!(binary.op, BinOpKind::Add | BinOpKind::Mul | BinOpKind::Concat);
    if grows && place.is_multiple_of(4) {
        around(expression, BOUNDED, found);
    }
    // `~` writes its operands out.
    for (operand, first) in [(&binary.left, true), (&binary.right, false)] {
        let written =
            matches!(binary.op, BinOpKind::Concat) && !matches!(operand, Expr::Const(_) | Expr::BinOp(_));
        if written {
            around(operand, MEASURED, found);
        }
        if first {
            in_chain(operand, if grows { place + 1 } else { 0 }, found);
        } else {
            in_expression(operand, found);
        }
    }
}

fn in_body(body: &[Stmt<'_>], found: &mut Insertions) {
    body.iter().for_each(|statement| in_statement(statement, found));
}

fn in_statement(statement: &Stmt<'_>, found: &mut Insertions) {
    match statement {
        Stmt::Template(all) => in_body(&all.children, found),
        Stmt::EmitExpr(emit) => in_expression(&emit.expr, found),
        Stmt::ForLoop(each) => {
            in_expression(&each.iter, found);
            in_all(&each.filter_expr, found);
            in_body(&each.body, found);
            in_body(&each.else_body, found);
        }
        Stmt::IfCond(choice) => {
            in_expression(&choice.expr, found);
            in_body(&choice.true_body, found);
            in_body(&choice.false_body, found);
        }
        Stmt::WithBlock(with) => {
            in_all(with.assignments.iter().map(|(_, value)| value), found);
            in_body(&with.body, found);
        }
        Stmt::Set(set) => {
            // An attribute is one of a namespace.
            if matches!(set.target, Expr::GetAttr(_)) {
                around(&set.expr, NAMESPACED, found);
            }
            in_expression(&set.expr, found);
        }
        Stmt::SetBlock(set) => {
            in_all(&set.filter, found);
            in_body(&set.body, found);
        }
        Stmt::AutoEscape(block) => in_body(&block.body, found),
        Stmt::FilterBlock(block) => {
            in_expression(&block.filter, found);
            in_body(&block.body, found);
        }
        Stmt::Macro(of) => {
            in_all(&of.defaults, found);
            in_body(&of.body, found);
        }
        Stmt::CallBlock(call) => {
            in_arguments(&call.call.args, found);
            in_body(&call.macro_decl.body, found);
        }
        Stmt::Do(call) => in_arguments(&call.call.args, found),
        Stmt::Block(block) => in_body(&block.body, found),
        _ => {}
    }
}
