//! The graph of roles, the virtual host, targeting and batches; the plan.
