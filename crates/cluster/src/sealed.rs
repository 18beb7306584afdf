//! Saved values of sensitive items, encrypted to the recipients of the options.

use crate::options::ClusterOptions;
use crate::record_error::SecretSealError;
use crate::records::{Beside, StoredContent};
use serde_json::Value;

/// The saved part of a sensitive item, as it was before it was sealed.
pub(crate) fn opened(
    stored: StoredContent,
    options: &ClusterOptions,
) -> Result<StoredContent, SecretSealError> {
    let Some(Beside::Whole(sealed)) = &stored.beside else { return Ok(stored) };
    Ok(serde_json::from_value(unseal(sealed, options)?)?)
}

/// Seals the saved part of a sensitive item: nothing of it is in the clear. `None` where there is no recipient.
pub(crate) fn closed(
    stored: &StoredContent,
    options: &ClusterOptions,
) -> Result<Option<StoredContent>, SecretSealError> {
    let whole = serde_json::to_value(stored)?;
    let sealed = seal(&whole, options)?;
    Ok(sealed.map(|sealed| StoredContent { text: String::new(), beside: Some(Beside::Whole(sealed)) }))
}

/// Encrypts values to the recipients; `None` when there are none.
pub(crate) fn seal(values: &Value, options: &ClusterOptions) -> Result<Option<String>, SecretSealError> {
    use base64::Engine as _;
    use std::io::Write as _;
    let recipients: Vec<age::x25519::Recipient> = options
        .recipients
        .iter()
        .map(|r| r.parse().map_err(SecretSealError::Recipient))
        .collect::<Result<_, _>>()?;
    if recipients.is_empty() {
        return Ok(None);
    }
    let encryptor = age::Encryptor::with_recipients(recipients.iter().map(|r| r as &dyn age::Recipient))?;
    let mut sealed = Vec::new();
    let mut writer = encryptor.wrap_output(&mut sealed)?;
    writer.write_all(values.to_string().as_bytes())?;
    writer.finish()?;
    Ok(Some(base64::engine::general_purpose::STANDARD.encode(sealed)))
}

/// Reads what [`seal`] wrote.
pub(crate) fn unseal(sealed: &str, options: &ClusterOptions) -> Result<Value, SecretSealError> {
    use base64::Engine as _;
    use secrecy::ExposeSecret as _;
    use std::io::Read as _;
    let identities: Vec<age::x25519::Identity> = options
        .identities
        .iter()
        .map(|i| i.expose_secret().parse())
        .collect::<Result<_, _>>()
        .map_err(|_| SecretSealError::Identity)?;
    if let Some(unread) = &options.unread_identities {
        return Err(SecretSealError::Unread(unread.clone()));
    }
    if identities.is_empty() {
        return Err(SecretSealError::NoIdentity);
    }
    let sealed = base64::engine::general_purpose::STANDARD.decode(sealed)?;
    let decryptor = age::Decryptor::new(sealed.as_slice())?;
    let identities = identities.iter().map(|i| i as &dyn age::Identity);
    let mut reader = decryptor.decrypt(identities)?;
    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret as _;
    use serde_json::json;

    #[test]
    fn values_are_sealed_to_the_recipients_only() {
        let identity = age::x25519::Identity::generate();
        let mut options = ClusterOptions {
            recipients: vec![identity.to_public().to_string()],
            ..ClusterOptions::default()
        };
        let values = json!({"token": "aHVudGVyMg=="});
        let sealed = seal(&values, &options).unwrap().unwrap();
        assert!(matches!(unseal(&sealed, &options), Err(SecretSealError::NoIdentity)));
        options.identities =
            vec![age::x25519::Identity::generate().to_string().expose_secret().to_owned().into()];
        assert!(matches!(unseal(&sealed, &options), Err(SecretSealError::Decrypt(_))));
        options.identities = vec![identity.to_string().expose_secret().to_owned().into()];
        assert_eq!(unseal(&sealed, &options).unwrap(), values);
        assert_eq!(seal(&values, &ClusterOptions::default()).unwrap(), None);
        // A sensitive item is kept as a whole, and nothing of it stands in the open.
        let stored =
            StoredContent { text: "data: hunter2".to_owned(), beside: Some(Beside::Plain("x".to_owned())) };
        let shut = closed(&stored, &options).unwrap().unwrap();
        assert!(!serde_json::to_string(&shut).unwrap().contains("hunter2"));
        assert_eq!(opened(shut.clone(), &options).unwrap(), stored);
        assert!(opened(shut, &ClusterOptions::default()).is_err());
        assert_eq!(closed(&stored, &ClusterOptions::default()).unwrap(), None);
        assert_eq!(opened(stored.clone(), &ClusterOptions::default()).unwrap(), stored);
    }
}
