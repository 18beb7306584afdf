//! Throw-away real hosts for tests and demos.
