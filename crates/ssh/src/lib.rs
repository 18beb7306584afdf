//! The SSH executor: sessions, host keys, the framed shell; a local twin. Knows no resource.
