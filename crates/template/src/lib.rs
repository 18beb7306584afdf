//! The minijinja environment: filters, tests, native values, spans.
