//! Saved values of sensitive items, encrypted to the recipients of the options.

use crate::options::ClusterOptions;
use crate::records::{Beside, Kept};
use serde_json::Value;

/// The saved part of a sensitive item, as it was before it was sealed.
pub(crate) fn opened(kept: Kept, options: &ClusterOptions) -> Result<Kept, String> {
    let Some(Beside::Whole(sealed)) = &kept.beside else { return Ok(kept) };
    serde_json::from_value(unseal(sealed, options)?).map_err(|e| e.to_string())
}

/// Seals the saved part of a sensitive item: nothing of it is in the clear. `None` where there is no recipient.
pub(crate) fn closed(kept: &Kept, options: &ClusterOptions) -> Result<Option<Kept>, String> {
    let whole = serde_json::to_value(kept).map_err(|e| e.to_string())?;
    let sealed = seal(&whole, options)?;
    Ok(sealed.map(|sealed| Kept { text: String::new(), beside: Some(Beside::Whole(sealed)) }))
}

/// Encrypts values to the recipients; `None` when there are none.
pub(crate) fn seal(values: &Value, options: &ClusterOptions) -> Result<Option<String>, String> {
    use base64::Engine as _;
    use std::io::Write as _;
    let recipients: Vec<age::x25519::Recipient> =
        options.recipients.iter().map(|r| r.parse()).collect::<Result<_, &str>>()?;
    if recipients.is_empty() {
        return Ok(None);
    }
    let encryptor = age::Encryptor::with_recipients(recipients.iter().map(|r| r as &dyn age::Recipient))
        .map_err(|e| e.to_string())?;
    let mut sealed = Vec::new();
    let mut writer = encryptor.wrap_output(&mut sealed).map_err(|e| e.to_string())?;
    writer.write_all(values.to_string().as_bytes()).map_err(|e| e.to_string())?;
    writer.finish().map_err(|e| e.to_string())?;
    Ok(Some(base64::engine::general_purpose::STANDARD.encode(sealed)))
}

/// Reads what [`seal`] wrote.
pub(crate) fn unseal(sealed: &str, options: &ClusterOptions) -> Result<Value, String> {
    use base64::Engine as _;
    use secrecy::ExposeSecret as _;
    use std::io::Read as _;
    let identities: Vec<age::x25519::Identity> = options
        .identities
        .iter()
        .map(|i| i.expose_secret().parse())
        .collect::<Result<_, &str>>()
        .map_err(|_| "an age identity is not of the form AGE-SECRET-KEY-1…")?;
    if identities.is_empty() {
        return Err("no age identity was given to read it with".to_owned());
    }
    let sealed = base64::engine::general_purpose::STANDARD.decode(sealed).map_err(|e| e.to_string())?;
    let decryptor = age::Decryptor::new(sealed.as_slice()).map_err(|e| e.to_string())?;
    let identities = identities.iter().map(|i| i as &dyn age::Identity);
    let mut reader = decryptor.decrypt(identities).map_err(|e| e.to_string())?;
    let mut text = String::new();
    reader.read_to_string(&mut text).map_err(|e| e.to_string())?;
    serde_json::from_str(&text).map_err(|e| e.to_string())
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
        assert!(unseal(&sealed, &options).unwrap_err().contains("no age identity"));
        options.identities =
            vec![age::x25519::Identity::generate().to_string().expose_secret().to_owned().into()];
        assert!(unseal(&sealed, &options).is_err());
        options.identities = vec![identity.to_string().expose_secret().to_owned().into()];
        assert_eq!(unseal(&sealed, &options), Ok(values.clone()));
        assert_eq!(seal(&values, &ClusterOptions::default()), Ok(None));
        // A sensitive item is kept as a whole, and nothing of it stands in the open.
        let kept = Kept { text: "data: hunter2".to_owned(), beside: Some(Beside::Plain("x".to_owned())) };
        let shut = closed(&kept, &options).unwrap().unwrap();
        assert!(!serde_json::to_string(&shut).unwrap().contains("hunter2"));
        assert_eq!(opened(shut.clone(), &options), Ok(kept.clone()));
        assert!(opened(shut, &ClusterOptions::default()).is_err());
        assert_eq!(closed(&kept, &ClusterOptions::default()), Ok(None));
        assert_eq!(opened(kept.clone(), &ClusterOptions::default()), Ok(kept));
    }
}
