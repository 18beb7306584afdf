//! The diff renderer: plans, diffs, progress and graphs to terminal, JSON, DOT and Mermaid.
