//! JSON as it lies in a Secret: compressed, in Base64.

use base64::DecodeError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read as _, Write as _};

/// The compressed JSON of a value.
pub(crate) fn pack<T, E>(value: &T) -> Result<Vec<u8>, E>
where
    T: Serialize,
    E: From<serde_json::Error> + From<io::Error>,
{
    let json = serde_json::to_vec(value)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&json)?;
    Ok(encoder.finish()?)
}

/// Reads what [`pack`] wrote, in Base64. Of more than `most` bytes the rest is not read: a guard against a crafted text.
pub(crate) fn unpack<T, E>(text: &str, most: u64) -> Result<T, E>
where
    T: DeserializeOwned,
    E: From<DecodeError> + From<io::Error> + From<serde_json::Error>,
{
    Ok(serde_json::from_slice(&decompressed(&STANDARD.decode(text)?, most)?)?)
}

/// The first `most` bytes of what was compressed.
pub(crate) fn decompressed(packed: &[u8], most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
