//! How a device becomes a member.
//!
//! 1. The device makes its keys, and publishes a [`Request`]: its public keys, signed with its own.
//! 2. The device shows a code, which is a part of its keys' fingerprint. The operator compares it
//!    and approves. Or the request carries the proof of a [`Token`], which the operator gave to that
//!    one device before: nobody needs to compare then.
//! 3. The authority publishes a welcome: name, role and the device's pass for NATS.
//!
//! A token never travels: the request has an HMAC of the device's keys under it. So the engine cannot
//! enrol a device of its own with it.

use antedate_host::hex::{hex, parse_hex};
use ed25519_dalek::{Signature, VerifyingKey};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::identity::{self, Identity, Public, Written};
use crate::nkey::base32;
use crate::{NoRandom, random};

/// The most octets of a request.
pub const MAX_LEN: usize = 4096;
/// The most letters of a name.
pub const NAME_MAX: usize = 64;

/// Whether a text may be the name of a device, a role or a cell: 1 to 64 letters, digits and - _ .
#[must_use]
pub fn is_name(text: &str) -> bool {
    let legal = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.');
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(legal) && !text.starts_with(['.', '-'])
}

/// A token: its name, and a secret for one device.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The name, which is not secret.
    pub name: String,
    secret: [u8; 20],
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({})", self.name)
    }
}

/// The text that an operator gives to a device: `NAME.SECRET`.
impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.name, hex(&self.secret))
    }
}

impl std::str::FromStr for Token {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, digits) = text.trim().split_once('.').ok_or(RequestError::Token)?;
        let mut secret = [0; 20];
        let is_form = is_name(name) && parse_hex(digits, &mut secret);
        is_form.then(|| Self { name: name.to_owned(), secret }).ok_or(RequestError::Token)
    }
}

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn generate() -> Result<Self, NoRandom> {
        let (mut name, mut secret) = ([0; 5], [0; 20]);
        random(&mut name)?;
        random(&mut secret)?;
        Ok(Self { name: base32(&name).to_ascii_lowercase(), secret })
    }

    fn mac(&self, keys: &Public) -> Hmac<Sha256> {
        // HMAC takes keys of any length.
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.secret)
            .unwrap_or_else(|_| unreachable!("a key of 20 octets"));
        mac.update(b"antedate-fleet token\0");
        for key in [&keys.sign, &keys.read, &keys.login] {
            mac.update(key);
        }
        mac
    }

    fn proof(&self, keys: &Public) -> String {
        hex(&self.mac(keys).finalize().into_bytes())
    }

    /// Whether a proof was made with this token, for these keys.
    #[must_use]
    pub fn is_proven(&self, keys: &Public, proof: &str) -> bool {
        let mut octets = [0; 32];
        // Compares in constant time.
        parse_hex(proof, &mut octets) && self.mac(keys).verify_slice(&octets).is_ok()
    }
}

/// The proof of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// The token's name.
    pub token: String,
    /// The HMAC.
    proof: String,
}

/// A request, as it is signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    keys: Written,
    name: String,
    antedate: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<Proof>,
}

#[derive(Serialize, Deserialize)]
struct Paper {
    /// JSON of [`Asked`], which the signature covers octet by octet.
    asked: String,
    signature: String,
}

/// A request that its device has signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The device's keys.
    pub keys: Public,
    /// The name that it proposes, such as its host name; may be empty.
    pub name: String,
    /// Its version of Antedate.
    pub antedate: String,
    /// The proof of a token.
    pub proof: Option<Proof>,
}

/// Why a request is not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It is cut, or none, or its keys are none.
    #[error("is no request")]
    Format,
    /// It is not signed with its own key.
    #[error("is not signed with its own key")]
    Signature,
    /// It stands under the identifier of other keys.
    #[error("stands under the identifier of other keys")]
    OtherDevice,
    /// A token has another form.
    #[error("is no token: write NAME.SECRET as `antedate fleet token` printed it")]
    Token,
}

const PURPOSE: &[u8] = b"antedate-fleet request\0";

impl Request {
    /// The request of a device, as it is published.
    #[must_use]
    pub fn write(identity: &Identity, name: &str, antedate: &str, token: Option<&Token>) -> Vec<u8> {
        let keys = identity.public();
        let token = token.map(|token| Proof { token: token.name.clone(), proof: token.proof(&keys) });
        let name = if is_name(name) { name.to_owned() } else { String::new() };
        let asked = Asked { keys: keys.into(), name, antedate: antedate.to_owned(), token };
        let asked = serde_json::to_string(&asked).unwrap_or_default();
        let signature = hex(&identity::sign(&identity.signing(), &[PURPOSE, asked.as_bytes()].concat()));
        serde_json::to_vec(&Paper { asked, signature }).unwrap_or_default()
    }

    /// Reads the request that stands under an identifier.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn read(id: &str, octets: &[u8]) -> Result<Self, RequestError> {
        if octets.len() > MAX_LEN {
            return Err(RequestError::Format);
        }
        let form = |_| RequestError::Format;
        let paper: Paper = serde_json::from_slice(octets).map_err(form)?;
        let asked: Asked = serde_json::from_str(&paper.asked).map_err(form)?;
        let keys = asked.keys.read().ok_or(RequestError::Format)?;
        if keys.id() != id {
            return Err(RequestError::OtherDevice);
        }
        let mut signature = [0; 64];
        let verifies = VerifyingKey::from_bytes(&keys.sign).map_err(|_| RequestError::Format)?;
        let signed = [PURPOSE, paper.asked.as_bytes()].concat();
        let is_signed = parse_hex(&paper.signature, &mut signature)
            && verifies.verify_strict(&signed, &Signature::from_bytes(&signature)).is_ok();
        if !is_signed {
            return Err(RequestError::Signature);
        }
        // What an operator sees has letters only.
        let name = if is_name(&asked.name) { asked.name } else { String::new() };
        let antedate = if is_name(&asked.antedate) { asked.antedate } else { String::new() };
        Ok(Self { keys, name, antedate, proof: asked.token })
    }
}

impl Proof {
    /// Whether it was made with this token, for these keys.
    #[must_use]
    pub fn is_of(&self, token: &Token, keys: &Public) -> bool {
        self.token == token.name && token.is_proven(keys, &self.proof)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Seed;

    fn device(octet: u8) -> Identity {
        Identity::of(Seed::of([octet; 32]))
    }

    #[test]
    fn request_is_signed_by_its_own_key() {
        let octets = Request::write(&device(1), "press", "0.1.0", None);
        let id = device(1).public().id();
        let request = Request::read(&id, &octets).unwrap();
        assert_eq!((request.keys, request.name.as_str()), (device(1).public(), "press"));
        assert_eq!(Request::read(&device(2).public().id(), &octets), Err(RequestError::OtherDevice));
        for at in 0..octets.len() {
            let mut changed = octets.clone();
            changed[at] ^= 1;
            // Digits may be written in capitals.
            assert!(
                Request::read(&id, &changed).is_err_and(|error| error != RequestError::Token),
                "octet {at}"
            );
        }
        let text = String::from_utf8(octets).unwrap().replace("press", "hall5");
        assert_eq!(Request::read(&id, text.as_bytes()), Err(RequestError::Signature));
        for wrong in [&b""[..], b"{}", &[b' '; MAX_LEN + 1]] {
            assert_eq!(Request::read(&id, wrong), Err(RequestError::Format));
        }
    }

    #[test]
    fn proof_is_bound_to_its_device() {
        let token = Token::generate().unwrap();
        let read: Token = token.to_string().parse().unwrap();
        assert_eq!(read, token);
        let octets = Request::write(&device(1), "", "0.1.0", Some(&token));
        let request = Request::read(&device(1).public().id(), &octets).unwrap();
        let proof = request.proof.unwrap();
        assert!(proof.is_of(&token, &device(1).public()));
        // The engine takes the proof for a device of its own.
        assert!(!proof.is_of(&token, &device(2).public()));
        let other = Token { secret: [1; 20], ..token.clone() };
        assert!(!proof.is_of(&other, &device(1).public()));
        // The token itself is not in the request.
        let secret = hex(&token.secret);
        assert!(!String::from_utf8(octets).unwrap().contains(&secret));
        assert!(!format!("{token:?}").contains(&secret));
        for wrong in ["", "a", "a.b", ".00", "abcd.0011"] {
            assert_eq!(wrong.parse::<Token>(), Err(RequestError::Token), "{wrong}");
        }
    }

    #[test]
    fn names_are_harmless() {
        for name in ["press", "hall-5.west_2", "A"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "..", "../x", "a b", "-rf", "a/b", "press\n", "a>", "*", &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
        let octets = Request::write(&device(1), "\u{1b}[2J", "0.1.0", None);
        assert_eq!(Request::read(&device(1).public().id(), &octets).unwrap().name, "");
    }
}
