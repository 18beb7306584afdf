//! Until when a certificate is valid: the one thing of X.509 that a message needs.

use base64::Engine as _;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The end of the first certificate in this PEM text.
pub(crate) fn expires(pem: &str) -> Option<Timestamp> {
    let body = pem.split("-----BEGIN CERTIFICATE-----").nth(1)?.split("-----END").next()?;
    let text: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let der = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    end(&der)
}

/// `Certificate { tbs { [0] version, serial, algorithm, issuer, validity { from, to } … } … }`
fn end(der: &[u8]) -> Option<Timestamp> {
    let (_, certificate, _) = element(der)?;
    let (_, mut rest, _) = element(certificate)?;
    if rest.first() == Some(&0xa0) {
        rest = element(rest)?.2;
    }
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (_, validity, _) = element(rest)?;
    let (_, _, rest) = element(validity)?;
    let (tag, time, _) = element(rest)?;
    moment(tag, std::str::from_utf8(time).ok()?)
}

/// Tag, value and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if bytes.len() > 4 {
            return None;
        }
        (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((*tag, value, rest))
}

/// `YYMMDDHHMMSSZ` (tag 0x17) or `YYYYMMDDHHMMSSZ` (0x18).
fn moment(tag: u8, text: &str) -> Option<Timestamp> {
    let digits = text.strip_suffix('Z')?;
    let full = match tag {
        0x17 => {
            let century = if digits.get(..2)?.parse::<u8>().ok()? < 50 { "20" } else { "19" };
            format!("{century}{digits}")
        }
        0x18 => digits.to_owned(),
        _ => return None,
    };
    let civil = DateTime::strptime("%Y%m%d%H%M%S", &full).ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Self-signed with ed25519, until 2030-01-02 03:04:05.
    const PEM: &str = "-----BEGIN CERTIFICATE-----\n\
        MIHDMHegAwIBAgIBTTAFBgMrZXAwDDEKMAgGA1UEAwwBeDAeFw0yMDAxMDEwMDAw\n\
        MDBaFw0zMDAxMDIwMzA0MDVaMAwxCjAIBgNVBAMMAXgwKjAFBgMrZXADIQAnqnBE\n\
        +LYT6FzPgr3VarpVjb2XL28uewLvueH4cjMzETAFBgMrZXADQQDyaZP8QePb/Px+\n\
        Q1OR6jEaWqN9K+U2NwgHOTKlov2uHk4tsilVZlBQaiXJeTxr64xVQtQGYMqXNusF\n\
        Pvt7pDkO\n\
        -----END CERTIFICATE-----";

    #[test]
    fn the_end_is_read() {
        assert_eq!(expires(PEM).map(|t| t.to_string()).as_deref(), Some("2030-01-02T03:04:05Z"));
        assert_eq!(expires("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----"), None);
        assert_eq!(expires(""), None);
        assert_eq!(
            moment(0x17, "491231235959Z").map(|t| t.to_string()).as_deref(),
            Some("2049-12-31T23:59:59Z")
        );
    }
}
