//! OpenPGP public keys: as much as it takes to say whose they are. No signature is checked here: apt and rpm do that.

use base64::Engine as _;
use sha1::{Digest as _, Sha1};

/// The reason why bytes are no public keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenPgpError {
    #[error("the end of its armour is missing")]
    OpenArmour,
    #[error("its armour is damaged")]
    DamagedArmour,
    #[error("it is no OpenPGP key")]
    NotOpenPgp,
    #[error("it is cut off")]
    CutOff,
    #[error("it has a packet in parts")]
    PartialPacket,
    #[error("it has a packet without a length")]
    NoLength,
    #[error("a key in it is not of version 4")]
    Version,
    #[error("a key in it is too large")]
    TooLarge,
    #[error("it does not begin with a public key")]
    NoKeyFirst,
    #[error("there is no public key in it")]
    NoKey,
}

/// The keys of a text or file as packets, without armour.
///
/// # Errors
/// The error in the text.
pub fn dearmor(bytes: &[u8]) -> Result<Vec<u8>, OpenPgpError> {
    const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
    const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
    let Some(text) = std::str::from_utf8(bytes).ok().filter(|t| t.contains(BEGIN)) else {
        return Ok(bytes.to_vec());
    };
    let mut packets = Vec::new();
    for block in text.split(BEGIN).skip(1) {
        let (block, _) = block.split_once(END).ok_or(OpenPgpError::OpenArmour)?;
        // Headers end with a blank line; a checksum begins with `=`.
        let block = block.replace('\r', "");
        let body = block.split_once("\n\n").map_or(block.as_str(), |(_, body)| body);
        let data: String = body.lines().map(str::trim).filter(|l| !l.starts_with('=')).collect();
        packets.extend(
            base64::engine::general_purpose::STANDARD
                .decode(data)
                .map_err(|_| OpenPgpError::DamagedArmour)?,
        );
    }
    Ok(packets)
}

/// The fingerprints of all primary keys, in upper-case hexadecimal (RFC 9580 sections 4.2 and 5.5.4).
///
/// # Errors
/// The error in the packets.
pub fn fingerprints(packets: &[u8]) -> Result<Vec<String>, OpenPgpError> {
    let mut rest = packets;
    let mut found = Vec::new();
    while let Some((tag, body, after)) = packet(rest)? {
        if tag == 6 {
            if body.first() != Some(&4) {
                return Err(OpenPgpError::Version);
            }
            let length = u16::try_from(body.len()).map_err(|_| OpenPgpError::TooLarge)?;
            let mut hash = Sha1::new();
            hash.update([0x99]);
            hash.update(length.to_be_bytes());
            hash.update(body);
            found.push(hash.finalize().iter().map(|b| format!("{b:02X}")).collect());
        } else if found.is_empty() {
            return Err(OpenPgpError::NoKeyFirst);
        }
        rest = after;
    }
    if found.is_empty() { Err(OpenPgpError::NoKey) } else { Ok(found) }
}

/// The keys in these packets, each a text with armour of its own, in lines of 64 characters as rpm keeps it. The same order as their [`fingerprints`].
///
/// # Errors
/// The error in the packets.
pub fn armoured(packets: &[u8]) -> Result<Vec<String>, OpenPgpError> {
    fingerprints(packets)?;
    let mut ends = Vec::new();
    let mut rest = packets;
    while let Some((tag, _, after)) = packet(rest)? {
        if tag == 6 {
            ends.push(packets.len() - rest.len());
        }
        rest = after;
    }
    let begins = ends.clone();
    ends.push(packets.len());
    let keys = begins.iter().zip(ends.iter().skip(1)).filter_map(|(from, to)| packets.get(*from..*to));
    Ok(keys.map(armour).collect())
}

/// One armoured block (RFC 9580 section 6), with the checksum without which rpm takes none.
fn armour(bytes: &[u8]) -> String {
    let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let data = encode(bytes);
    let mut lines = String::new();
    for (at, character) in data.chars().enumerate() {
        if at > 0 && at % 64 == 0 {
            lines.push('\n');
        }
        lines.push(character);
    }
    let mut crc: u32 = 0x00b7_04ce;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0186_4cfb;
            }
        }
    }
    let [_, sum @ ..] = crc.to_be_bytes();
    format!(
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{lines}\n={}\n-----END PGP PUBLIC KEY BLOCK-----\n",
        encode(&sum)
    )
}

/// A packet: its tag, its body, and what follows it.
type Packet<'b> = (u8, &'b [u8], &'b [u8]);

/// The first packet.
fn packet(bytes: &[u8]) -> Result<Option<Packet<'_>>, OpenPgpError> {
    let cut = OpenPgpError::CutOff;
    let Some((head, rest)) = bytes.split_first() else { return Ok(None) };
    if head & 0x80 == 0 {
        return Err(OpenPgpError::NotOpenPgp);
    }
    let number = |bytes: &[u8]| bytes.iter().fold(0usize, |n, b| (n << 8) | usize::from(*b));
    let (tag, octets, length) = if head & 0x40 != 0 {
        let first = usize::from(*rest.first().ok_or(cut)?);
        let (octets, length) = match first {
            0..=191 => (1, first),
            192..=223 => (2, ((first - 192) << 8) + usize::from(*rest.get(1).ok_or(cut)?) + 192),
            255 => (5, number(rest.get(1..5).ok_or(cut)?)),
            _ => return Err(OpenPgpError::PartialPacket),
        };
        (head & 0x3f, octets, length)
    } else {
        let octets = match head & 3 {
            0 => 1,
            1 => 2,
            2 => 4,
            _ => return Err(OpenPgpError::NoLength),
        };
        ((head >> 2) & 0xf, octets, number(rest.get(..octets).ok_or(cut)?))
    };
    let end = octets.checked_add(length).ok_or(cut)?;
    Ok(Some((tag, rest.get(octets..end).ok_or(cut)?, rest.get(end..).unwrap_or_default())))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Made with `gpg --quick-generate-key 'Throw Away <t@example.org>' ed25519 sign never`; its secret half is gone.
    pub const KEY: &str = include_str!("openpgp_key.asc");
    pub const FINGERPRINT: &str = "76D4C5AF3BE731F6CF4C548A2B3C9EB6E01B72D8";

    #[test]
    fn a_key_is_known_by_its_fingerprint() {
        let packets = dearmor(KEY.as_bytes()).unwrap();
        assert_eq!(fingerprints(&packets).unwrap(), [FINGERPRINT]);
        let two = dearmor(format!("{KEY}\n{KEY}").as_bytes()).unwrap();
        assert_eq!(fingerprints(&two).unwrap().len(), 2, "no key hides behind another");
        assert_eq!(dearmor(&packets).unwrap(), packets);
    }

    #[test]
    fn keys_get_armour_as_gpg_and_rpm_write_it() {
        let packets = dearmor(KEY.as_bytes()).unwrap();
        assert_eq!(armoured(&packets).unwrap(), [KEY]);
        let two = armoured(&[packets.clone(), packets].concat()).unwrap();
        assert_eq!(two, [KEY, KEY], "a block each: some versions of rpm take the first key of a block");
        assert!(armoured(b"<html>").is_err());
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let packets = dearmor(KEY.as_bytes()).unwrap();
        for bad in [&b"<html>"[..], b"", &packets[..40], &[0x99]] {
            assert!(fingerprints(bad).is_err(), "{bad:?}");
        }
        assert!(dearmor(KEY.split_once("-----END").unwrap().0.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            drop(fingerprints(&bytes));
            drop(armoured(&bytes));
            drop(dearmor(&bytes));
        }
    }
}
