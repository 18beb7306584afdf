//! `b64encode`, `b64decode`, `hash` and its short forms.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::{Error, Value};
use sha2::Digest as _;

use super::invalid;
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("b64encode", |text: Value| STANDARD.encode(bytes(&text)));
    env.add_filter("b64decode", b64decode);
    env.add_filter("hash", |text: Value, name: Option<String>| {
        hash(&text, name.as_deref().unwrap_or("sha1"))
    });
    env.add_filter("checksum", |text: Value| hash(&text, "sha1"));
    env.add_filter("sha1", |text: Value| hash(&text, "sha1"));
    env.add_filter("md5", |text: Value| hash(&text, "md5"));
}

fn bytes(value: &Value) -> Vec<u8> {
    match value.as_bytes() {
        Some(bytes) => bytes.to_vec(),
        None => value.to_string().into_bytes(),
    }
}

fn b64decode(text: String) -> Result<String, Error> {
    let compact: String = text.split_whitespace().collect();
    let bytes = STANDARD.decode(compact).map_err(|error| invalid(format!("b64decode: {error}")))?;
    String::from_utf8(bytes).map_err(|_| invalid("b64decode: the bytes are not UTF-8 text"))
}

fn hash(value: &Value, name: &str) -> Result<String, Error> {
    let data = bytes(value);
    Ok(match name {
        "md5" => format!("{:x}", md5::compute(&data)),
        "sha1" => hex(&sha1::Sha1::digest(&data)),
        "sha224" => hex(&sha2::Sha224::digest(&data)),
        "sha256" => hex(&sha2::Sha256::digest(&data)),
        "sha384" => hex(&sha2::Sha384::digest(&data)),
        "sha512" => hex(&sha2::Sha512::digest(&data)),
        _ => {
            return Err(invalid(format!(
                "hash: there is no algorithm `{name}`; known are md5, sha1, sha224, sha256, sha384, sha512"
            )));
        }
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use crate::filters::check::table;

    #[test]
    fn encodings() {
        table(&[
            ("'héllo' | b64encode", "aMOpbGxv"),
            ("'aMOpbGxv' | b64decode", "héllo"),
            ("'/w==' | b64decode", "!not UTF-8"),
            ("'*' | b64decode", "!b64decode"),
            ("'abc' | hash", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("'abc' | hash('sha256')", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            ("'abc' | md5", "900150983cd24fb0d6963f7d28e17f72"),
            ("'abc' | hash('crc')", "!no algorithm `crc`"),
        ]);
    }
}
