//! Source text to spanned nodes; diagnostics with spans, help and a code.
