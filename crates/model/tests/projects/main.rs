//! Whole projects in temporary folders: their errors, and their declarations.

mod common;
mod expressions;
mod facts;
mod groups;
mod ids;
mod kinds;
mod places;
mod project;
mod reference;
mod role_values;
mod roles;
mod scenarios;
mod systems;
mod templates;
mod variables;
mod vault;
