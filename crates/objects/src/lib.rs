//! What a machine has: one file an object, with its state, probe, parsing, steps, save and restore.
