//! WireGuard's keys in the form of `wg(8)`: 32 octets in base64, one key per file, as `wg genkey`,
//! `wg pubkey` and `wg genpsk` use them. No fault shows a secret.

use std::fmt;
use std::ops::Deref;
use std::path::Path;

use antedate_channel::wireguard::Device;
use antedate_host::fault::Fault;
use antedate_host::private_file::{self, MAX_KEY_FILE_LEN};
use base64ct::{Base64, Encoding};
use zeroize::{Zeroize, Zeroizing};

/// Octets of a key.
const LEN: usize = 32;
/// Characters of a key in base64.
const TEXT_LEN: usize = 44;

/// The kind of a key file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A private key.
    Private,
    /// A preshared key of two peers.
    Preshared,
}

/// A secret that is wiped on drop and never shown. It lies in a box, so that a move leaves no copy.
#[derive(Clone)]
pub struct Secret(Box<[u8; LEN]>);

impl Secret {
    /// Copies the octets, which the caller wipes.
    fn copy(octets: &[u8; LEN]) -> Self {
        let mut secret = Self(Box::new([0; LEN]));
        secret.0.copy_from_slice(octets);
        secret
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.as_mut_slice().zeroize();
    }
}

impl Deref for Secret {
    type Target = [u8; LEN];

    fn deref(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The keys of an overlay. Who runs it takes them, so that there is one copy.
#[derive(Debug, Default)]
pub struct TunnelKeys {
    /// The private key. `None` without WireGuard.
    pub private: Option<Secret>,
    /// The preshared key of each peer, if any.
    pub preshared: Vec<Option<Secret>>,
}

/// Makes a key. `random` fills a buffer from the system's generator.
///
/// # Errors
/// The error of `random`.
pub fn generate<E>(kind: Kind, random: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Secret, E> {
    let mut key = Zeroizing::new([0; LEN]);
    random(&mut key[..])?;
    if kind == Kind::Private {
        // Clamped at once (RFC 7748, section 5), as `wg genkey` does.
        key[0] &= 0xf8;
        key[LEN - 1] = key[LEN - 1] & 0x7f | 0x40;
    }
    Ok(Secret::copy(&key))
}

/// The public key of a private one.
#[must_use]
pub fn public_of(private: &Secret) -> [u8; LEN] {
    Device::public_of(private)
}

/// Encodes a key.
#[must_use]
pub fn encode(key: &[u8; LEN]) -> Zeroizing<String> {
    let mut text = [0; TEXT_LEN];
    let text = Base64::encode(key, &mut text).map(str::to_owned);
    Zeroizing::new(text.unwrap_or_default())
}

/// Decodes a key.
#[must_use]
pub fn decode(text: &str) -> Option<[u8; LEN]> {
    let mut key = [0; LEN];
    let len = Base64::decode(text.trim(), &mut key).ok()?.len();
    (len == LEN).then_some(key)
}

/// Reads a key file that only `user` (or root) can read and write.
///
/// # Errors
/// When it cannot be read, others can read it, or it holds no key.
pub fn load(file: &Path, user: u32) -> Result<Secret, Fault> {
    let mut text = Zeroizing::new(vec![0; MAX_KEY_FILE_LEN + 1]);
    let length = private_file::read(file, user, &mut text)?;
    let key = text.get(..length).and_then(|octets| std::str::from_utf8(octets).ok()).and_then(decode);
    let key = key.map(Zeroizing::new);
    if key.as_ref().is_some_and(|key| **key == [0; LEN]) {
        let what = "is a key of zeros, which everybody knows";
        return Err(Fault::of_file(file, what, "`antedate keygen wireguard --out FILE` makes one"));
    }
    key.map(|key| Secret::copy(&key)).ok_or_else(|| {
        Fault::of_file(
            file,
            "is not a key as `wg genkey` writes it: 44 characters of base64",
            "`antedate keygen wireguard --out FILE` makes one",
        )
    })
}

/// Writes a new key file that only its owner can read. An existing file is not changed.
///
/// # Errors
/// When the file exists or cannot be written.
pub fn write_new(file: &Path, key: &Secret) -> Result<(), Fault> {
    // Full capacity from the start: a string that grows leaves copies of the key in freed memory.
    let mut text = Zeroizing::new(String::with_capacity(TEXT_LEN + 1));
    text.push_str(&encode(key));
    text.push('\n');
    private_file::create(file, &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// Made by `wg genkey` and `wg pubkey`.
    const PRIVATE: &str = "uLlJ4UhUBfK3epJF5VDyoQ8HVLzAbyqkA1yFUGEA2G4=";
    const PUBLIC: &str = "KnvsL9LXvdoyj1jZhgXZxzaS1+HZdbLri7C1tE6EoWs=";

    #[test]
    fn keys_match_wg() {
        let private = Secret::copy(&decode(PRIVATE).unwrap());
        assert_eq!(*encode(&private), *PRIVATE);
        assert_eq!(*encode(&public_of(&private)), *PUBLIC);
        for wrong in ["", &PRIVATE[..4], &PRIVATE[1..], &format!("{PRIVATE}A"), &PRIVATE.replace('=', "*")] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn key_file_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        let key = generate(Kind::Private, |out| {
            out.fill(0xff);
            Ok::<_, ()>(())
        });
        let key = key.unwrap();
        assert_eq!((key[0], key[31]), (0xf8, 0x7f));
        write_new(&file, &key).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let user = std::os::unix::fs::MetadataExt::uid(&fs::metadata(&file).unwrap());
        assert_eq!(*load(&file, user).unwrap(), *key);
        assert!(write_new(&file, &key).unwrap_err().to_string().contains("not overwritten"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(load(&file, user).unwrap_err().to_string().contains("chmod 600"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, format!("{}=\n", "A".repeat(43))).unwrap();
        assert!(load(&file, user).unwrap_err().to_string().contains("a key of zeros"));
        fs::write(&file, "no key\n").unwrap();
        let fault = load(&file, user).unwrap_err().to_string();
        assert!(fault.contains("wg genkey") && !fault.contains("no key\n"), "{fault}");
    }
}
