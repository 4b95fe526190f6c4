//! The token that a client proves itself by.

use std::path::Path;

use antedate_host::fault::Fault;
use antedate_host::private_file::{self, MAX_KEY_FILE_LEN};
use base64ct::{Base64, Encoding as _};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// The shortest and the longest token in characters.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=256;
const REMEDY: &str = "make one with `openssl rand -base64 24`, in a file of mode 0600";

/// The digest of a token. The token itself is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl Token {
    /// Reads a file of one line.
    ///
    /// # Errors
    /// When it cannot be read, others have rights on it, or it is no token.
    pub fn load(file: &Path, user: u32) -> Result<Self, Fault> {
        let mut text = Zeroizing::new(vec![0; MAX_KEY_FILE_LEN + 1]);
        let length = private_file::read(file, user, &mut text)?;
        let token = text.get(..length).unwrap_or_default().trim_ascii();
        if !LENGTHS.contains(&token.len()) || !token.iter().all(u8::is_ascii_graphic) {
            let what = format!("is no token of {} to {} characters", LENGTHS.start(), LENGTHS.end());
            return Err(Fault::of_file(file, what, REMEDY));
        }
        Ok(Self::of(token))
    }

    fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Whether the value of `Authorization` has the token: `Bearer`, or `Basic` with any user name
    /// (RFC 6750, RFC 7617). Takes the same time for each wrong token.
    #[must_use]
    pub fn admits(&self, authorization: &str) -> bool {
        let (scheme, value) = authorization.split_once(' ').unwrap_or_default();
        let shown = match &*scheme.to_ascii_lowercase() {
            "bearer" => Zeroizing::new(value.trim().as_bytes().to_vec()),
            "basic" => {
                let mut room = Zeroizing::new(vec![0; value.len()]);
                let decoded = Base64::decode(value.trim(), &mut room).unwrap_or_default();
                let from = decoded.iter().position(|octet| *octet == b':').map_or(decoded.len(), |at| at + 1);
                Zeroizing::new(decoded.get(from..).unwrap_or_default().to_vec())
            }
            _ => return false,
        };
        let Self(shown) = Self::of(&shown);
        self.0.iter().zip(shown).fold(0, |all, (mine, theirs)| all | (mine ^ theirs)) == 0
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn token_is_read_and_proven() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        let user = antedate_host::process::user();
        fs::write(&file, "0123456789abcdef\n").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert!(Token::load(&file, user).unwrap_err().what.contains("others than its owner"));
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let token = Token::load(&file, user).unwrap();
        let basic = |text: &str| {
            let mut room = [0; 64];
            format!("Basic {}", Base64::encode(text.as_bytes(), &mut room).unwrap())
        };
        assert!(token.admits("Bearer 0123456789abcdef") && token.admits(&basic("me:0123456789abcdef")));
        assert!(token.admits(&basic(":0123456789abcdef")));
        for wrong in [
            String::new(),
            "Bearer".into(),
            "Bearer 0123456789abcdee".into(),
            "Digest 0123456789abcdef".into(),
            basic("0123456789abcdef"),
            basic("0123456789abcdef:"),
            "Basic ????".into(),
        ] {
            assert!(!token.admits(&wrong), "{wrong}");
        }
        for text in ["short", "with a space inside", &"x".repeat(257)] {
            fs::write(&file, text).unwrap();
            assert!(Token::load(&file, user).unwrap_err().what.contains("is no token"), "{text}");
        }
    }
}
