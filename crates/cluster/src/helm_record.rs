//! helm's record of a revision, as it lies in a Secret.

use crate::fault::Fault;
use crate::object::text;
use crate::packed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io;

/// The limit of the unpacked size of a record.
const UNPACKED: u64 = 128 << 20;

/// The reason why a record is not corrected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordFault {
    #[error(transparent)]
    Api(#[from] Fault),
    #[error(transparent)]
    Packed(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// The record in a Secret of helm.
pub(crate) fn record(secret: &Value) -> Option<Value> {
    let outer = STANDARD.decode(text(secret, "/data/release")).ok()?;
    let inner = STANDARD.decode(&outer).ok()?;
    let is_packed = inner.starts_with(&[0x1f, 0x8b]);
    let bytes = if is_packed { packed::decompressed(&inner, UNPACKED).ok()? } else { inner };
    serde_json::from_slice(&bytes).ok()
}

/// The data of the Secret of a record.
pub(crate) fn data(record: &Value) -> Result<Value, RecordFault> {
    let packed = STANDARD.encode(packed::pack::<_, RecordFault>(record)?);
    Ok(json!({"release": STANDARD.encode(packed)}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let written = json!({"name": "r", "version": 3, "manifest": "---\nkind: X\n", "config": {"n": 1.5}});
        assert_eq!(record(&json!({"data": data(&written).unwrap()})), Some(written));
        assert_eq!(record(&json!({"data": {"release": "%%"}})), None);
    }
}
