//! Observe, plan, apply, verify, snapshot, roll back; one stream of events.
