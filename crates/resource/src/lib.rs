//! The contract of objects and resources: states, claims, probes, steps. No I/O.
