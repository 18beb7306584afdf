//! The cipher of Ansible Vault, on bytes.
//!
//! Facts: `VaultAES256` in `ansible/parsing/vault/__init__.py`. PBKDF2-HMAC-SHA256 with 10 000 rounds makes 80 bytes of the
//! password: a key for AES-256, a key for the HMAC, and the first counter block. The text is padded as PKCS #7 asks, encrypted in
//! counter mode, and the HMAC-SHA256 covers what is encrypted.

use aes::Aes256;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

const ROUNDS: u32 = 10_000;
const BLOCK: usize = 16;
const KEY: usize = 32;

/// The parts of a vault text, as bytes.
pub(super) struct VaultParts {
    pub salt: Vec<u8>,
    pub mac: Vec<u8>,
    pub text: Vec<u8>,
}

/// The reason why bytes could not be opened.
#[derive(Debug, PartialEq)]
pub(super) enum CipherError {
    /// The HMAC is another: a wrong password, or changed data.
    Mac,
    /// The padding is wrong, which the HMAC rules out but for data that no Ansible wrote.
    Padding,
}

struct Keys(Zeroizing<[u8; 2 * KEY + BLOCK]>);

impl Keys {
    fn of(password: &[u8], salt: &[u8]) -> Self {
        let mut keys = Zeroizing::new([0; 2 * KEY + BLOCK]);
        pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, ROUNDS, keys.as_mut());
        Self(keys)
    }

    /// Runs the stream of the cipher over bytes: the same call encrypts and decrypts.
    fn stream(&self, bytes: &mut [u8]) -> Option<()> {
        let (key, counter) = (self.0.get(..KEY)?, self.0.get(2 * KEY..)?);
        Ctr128BE::<Aes256>::new_from_slices(key, counter).ok()?.try_apply_keystream(bytes).ok()
    }

    fn mac(&self, bytes: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.get(KEY..2 * KEY)?).ok()?;
        mac.update(bytes);
        Some(mac)
    }

    /// The HMAC and the encrypted text, as [`seal`] makes them.
    fn seal(&self, plain: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let pad = BLOCK - plain.len() % BLOCK;
        let mut text = plain.to_vec();
        text.extend(std::iter::repeat_n(u8::try_from(pad).ok()?, pad));
        self.stream(&mut text)?;
        Some((self.mac(&text)?.finalize().into_bytes().to_vec(), text))
    }

    fn open(&self, mac: &[u8], text: &[u8]) -> Result<Zeroizing<Vec<u8>>, CipherError> {
        let expected = self.mac(text).ok_or(CipherError::Mac)?;
        expected.verify_slice(mac).map_err(|_| CipherError::Mac)?;
        let mut text = Zeroizing::new(text.to_vec());
        self.stream(&mut text).ok_or(CipherError::Padding)?;
        let pad = text.last().copied().map(usize::from).filter(|pad| (1..=BLOCK).contains(pad));
        let length = pad.and_then(|pad| text.len().checked_sub(pad)).ok_or(CipherError::Padding)?;
        if text.iter().skip(length).any(|byte| usize::from(*byte) != text.len() - length) {
            return Err(CipherError::Padding);
        }
        text.truncate(length);
        Ok(text)
    }
}

/// Encrypts. `None` only where the cipher refuses the length (more than 2^70 bytes).
pub(super) fn seal(plain: &[u8], password: &[u8], salt: &[u8]) -> Option<VaultParts> {
    let (mac, text) = Keys::of(password, salt).seal(plain)?;
    Some(VaultParts { salt: salt.to_vec(), mac, text })
}

/// Decrypts, after the HMAC was compared in constant time.
pub(super) fn open(sealed: &VaultParts, password: &[u8]) -> Result<Zeroizing<Vec<u8>>, CipherError> {
    Keys::of(password, &sealed.salt).open(&sealed.mac, &sealed.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_with_the_same_password_alone() {
        let sealed = seal(b"text", b"pw", b"salt").unwrap();
        assert_eq!(**open(&sealed, b"pw").unwrap(), *b"text");
        assert_eq!(open(&sealed, b"pW").unwrap_err(), CipherError::Mac);
        assert_eq!(
            open(&VaultParts { salt: b"Salt".to_vec(), ..sealed }, b"pw").unwrap_err(),
            CipherError::Mac
        );
    }

    /// The keys of one password: making them is what takes long.
    #[test]
    fn there_and_back_for_every_padding() {
        let keys = Keys::of(b"pw", b"salt");
        for length in 0..=17 {
            let plain: Vec<u8> = (0..length).collect();
            let (mac, text) = keys.seal(&plain).unwrap();
            assert_eq!(*keys.open(&mac, &text).unwrap(), plain);
        }
    }

    #[test]
    fn every_changed_bit_is_found() {
        let keys = Keys::of(b"pw", b"salt");
        let (mac, text) = keys.seal(b"text").unwrap();
        for bit in 0..8 * text.len() {
            let mut other = text.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(keys.open(&mac, &other).unwrap_err(), CipherError::Mac);
        }
    }
}
