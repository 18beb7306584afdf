//! `converge graph`: which role comes after which.

use crate::args::{GraphArgs, GraphFormat};
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::project;
use converge_engine::{Engine, EventSink, Options};
use converge_render as render;

pub fn run(args: GraphArgs, console: &Console) -> Result<u8, Failure> {
    let project = project::load(args.target.as_deref(), &args.select, console)?;
    let engine = Engine::new(project, Options::default(), EventSink::default())?;
    let graph = engine.graph();
    match args.format {
        GraphFormat::Text => console.print(&render::graph_text(graph)),
        GraphFormat::Dot => console.write(&render::graph_dot(graph)),
        GraphFormat::Svg => console.write(&render::graph_svg(graph)),
        GraphFormat::Mermaid => console.write(&render::graph_mermaid(graph)),
    }
    Ok(code::DONE)
}
