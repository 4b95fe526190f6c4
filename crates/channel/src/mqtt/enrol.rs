//! Enrolment: a device asks to become a member, and gets the group's file for members.
//!
//! ```text
//! COSE_Mac0 (RFC 9052 section 6.2), HMAC 256/256, under HKDF-SHA-256(code, no salt,
//!   "antedate-mqtt enrolment", 32), external_aad << ["antedate-mqtt enrolment", kind, group] >>, of
//!   request: << [name, X25519 key, Ed25519 key, 16 random octets] >>
//!   answer:  << [SHA-256 of the request, text of the group file] >>
//! ```
//!
//! The code has 100 random bits. The device shows it, and a person carries it to the manager by
//! another way than the broker. Who has no code can neither exchange the device's keys nor the
//! manager's, and cannot try codes. A replayed request is of no use without a person who gives its
//! code again, and the manager takes each code once ([`Code::mark`]). An answer is for one request.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use minicbor::{Decoder, Encoder, data::Tag};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::PUBLISHER_MAX;
use super::rotation::is_device_public;
use super::signed::is_verifying_key;

/// The protected header {1: 5}, HMAC 256/256.
const HMAC_256: &[u8] = &[0xa1, 0x01, 0x05];
/// Crockford's alphabet: no I, L, O and U.
const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Letters of a code, of five bits each.
const CODE_LEN: usize = 20;
/// Letters between two hyphens.
const PART: usize = 5;

/// A one-time code, which is wiped on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct Code(Zeroizing<[u8; CODE_LEN]>);

/// A text is no code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeError;

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a code has 20 letters and digits, as the device shows it: 4 parts of 5")
    }
}

impl core::error::Error for CodeError {}

impl Code {
    /// A new code. `random` fills a buffer from the system's generator.
    ///
    /// # Errors
    /// The generator's.
    pub fn new<E>(random: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut letters = Zeroizing::new([0; CODE_LEN]);
        random(&mut *letters)?;
        // 256 is a multiple of 32, so all letters are equally likely.
        for letter in &mut *letters {
            *letter = LETTERS[usize::from(*letter % 32)];
        }
        Ok(Self(letters))
    }

    /// The code as a person reads it.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(CODE_LEN + CODE_LEN / PART));
        for (at, letter) in self.0.iter().enumerate() {
            if at > 0 && at % PART == 0 {
                text.push('-');
            }
            text.push(char::from(*letter));
        }
        text
    }

    /// A mark by which the manager knows a used code again. It does not lead to the code.
    #[must_use]
    pub fn mark(&self) -> [u8; 8] {
        let mut mark = [0; 8];
        self.expand(b"antedate-mqtt used code", &mut mark);
        mark
    }

    fn expand(&self, info: &[u8], out: &mut [u8]) {
        // So short an expansion cannot fail.
        let _ = Hkdf::<Sha256>::new(None, &*self.0).expand(info, out);
    }

    /// The key of 32 octets as HMAC has it: with zeros up to SHA-256's block.
    fn key(&self) -> Zeroizing<[u8; 64]> {
        let mut key = Zeroizing::new([0; 64]);
        self.expand(b"antedate-mqtt enrolment", &mut key[..32]);
        key
    }
}

impl FromStr for Code {
    type Err = CodeError;

    /// Reads a code in either case, with or without hyphens and spaces. O, I and L are digits.
    fn from_str(text: &str) -> Result<Self, CodeError> {
        let mut letters = Zeroizing::new([0; CODE_LEN]);
        let mut places = letters.iter_mut();
        for octet in text.bytes().filter(|octet| !matches!(octet, b'-' | b' ')) {
            let letter = match octet.to_ascii_uppercase() {
                b'O' => b'0',
                b'I' | b'L' => b'1',
                other => other,
            };
            let place = places.next().filter(|_| LETTERS.contains(&letter)).ok_or(CodeError)?;
            *place = letter;
        }
        if places.next().is_some() { Err(CodeError) } else { Ok(Self(letters)) }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(..)")
    }
}

/// A device's wish to become a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The device's name.
    pub name: String,
    /// Its X25519 public key, for rotations.
    pub public: [u8; 32],
    /// Its Ed25519 public key, for signed topics.
    pub verify: [u8; 32],
}

/// The reason for refusing a request or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnrolError {
    /// It has another form.
    Format,
    /// It was not made with this code, or for another group.
    Code,
    /// A public key is of small order, or no point of the curve.
    Key,
    /// It answers another request.
    Other,
}

impl fmt::Display for EnrolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => "is no message of an enrolment",
            Self::Code => "was not made with this code for this group",
            Self::Key => "has a public key of small order, so everybody could know its secrets",
            Self::Other => "answers another request",
        })
    }
}

impl core::error::Error for EnrolError {}

impl From<minicbor::decode::Error> for EnrolError {
    fn from(_: minicbor::decode::Error) -> Self {
        Self::Format
    }
}

/// Makes a request. `random` fills a buffer from the system's generator.
///
/// # Errors
/// The generator's.
pub fn request<E>(
    group: &str,
    request: &Request,
    code: &Code,
    random: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let mut nonce = [0; 16];
    random(&mut nonce)?;
    let mut payload = Vec::new();
    // Writing to a vector cannot fail, here and below.
    let _ = Encoder::new(&mut payload)
        .array(4)
        .and_then(|e| e.str(&request.name))
        .and_then(|e| e.bytes(&request.public))
        .and_then(|e| e.bytes(&request.verify))
        .and_then(|e| e.bytes(&nonce));
    Ok(authenticated("request", group, &payload, code))
}

/// Opens a request.
///
/// # Errors
/// [`EnrolError`].
pub fn open_request(group: &str, message: &[u8], code: &Code) -> Result<Request, EnrolError> {
    use EnrolError::{Format, Key};
    let payload = verified("request", group, message, code)?;
    let mut decoder = Decoder::new(payload);
    if decoder.array()? != Some(4) {
        return Err(Format);
    }
    let name = decoder.str()?;
    let public = decoder.bytes()?.try_into().map_err(|_| Format)?;
    let verify = decoder.bytes()?.try_into().map_err(|_| Format)?;
    let nonce = decoder.bytes()?;
    if nonce.len() != 16 || decoder.position() != payload.len() || !(1..=PUBLISHER_MAX).contains(&name.len())
    {
        return Err(Format);
    }
    if !is_device_public(&public) || !is_verifying_key(&verify) {
        return Err(Key);
    }
    Ok(Request { name: name.into(), public, verify })
}

/// Makes the answer to a request: the text of the group file for members.
#[must_use]
pub fn answer(group: &str, request: &[u8], text: &str, code: &Code) -> Vec<u8> {
    let mut payload = Vec::with_capacity(text.len() + 64);
    let _ = Encoder::new(&mut payload)
        .array(2)
        .and_then(|e| e.bytes(&Sha256::digest(request)))
        .and_then(|e| e.str(text));
    authenticated("answer", group, &payload, code)
}

/// Opens the answer to a request.
///
/// # Errors
/// [`EnrolError`].
pub fn open_answer(group: &str, request: &[u8], message: &[u8], code: &Code) -> Result<String, EnrolError> {
    let payload = verified("answer", group, message, code)?;
    let mut decoder = Decoder::new(payload);
    if decoder.array()? != Some(2) {
        return Err(EnrolError::Format);
    }
    let of = decoder.bytes()?;
    let text = decoder.str()?;
    if decoder.position() != payload.len() {
        return Err(EnrolError::Format);
    }
    if of != Sha256::digest(request).as_slice() {
        return Err(EnrolError::Other);
    }
    Ok(text.into())
}

/// The fingerprint of a device's keys, for people: 16 octets of SHA-256 over both.
#[must_use]
pub fn fingerprint(public: &[u8; 32], verify: &[u8; 32]) -> String {
    let digest = Sha256::new().chain_update(public).chain_update(verify).finalize();
    let mut text = String::with_capacity(40);
    for (at, octet) in digest.iter().take(16).enumerate() {
        if at > 0 && at % 2 == 0 {
            text.push(' ');
        }
        for digit in [octet >> 4, octet & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or_default());
        }
    }
    text
}

/// The MAC over the MAC_structure (RFC 9052 section 6.3).
fn mac(kind: &str, group: &str, payload: &[u8], code: &Code) -> Hmac<Sha256> {
    let mut external = Vec::new();
    let _ = Encoder::new(&mut external)
        .array(3)
        .and_then(|e| e.str("antedate-mqtt enrolment"))
        .and_then(|e| e.str(kind))
        .and_then(|e| e.str(group));
    let mut bytes = Vec::new();
    let _ = Encoder::new(&mut bytes)
        .array(4)
        .and_then(|e| e.str("MAC0"))
        .and_then(|e| e.bytes(HMAC_256))
        .and_then(|e| e.bytes(&external))
        .and_then(|e| e.bytes(payload));
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&(*code.key()).into());
    mac.update(&bytes);
    mac
}

fn authenticated(kind: &str, group: &str, payload: &[u8], code: &Code) -> Vec<u8> {
    let tag = mac(kind, group, payload, code).finalize().into_bytes();
    let mut message = Vec::with_capacity(payload.len() + 48);
    let _ = Encoder::new(&mut message)
        .tag(Tag::new(17))
        .and_then(|e| e.array(4))
        .and_then(|e| e.bytes(HMAC_256))
        .and_then(|e| e.map(0))
        .and_then(|e| e.bytes(payload))
        .and_then(|e| e.bytes(&tag));
    message
}

fn verified<'a>(kind: &str, group: &str, message: &'a [u8], code: &Code) -> Result<&'a [u8], EnrolError> {
    use EnrolError::Format;
    let mut decoder = Decoder::new(message);
    if decoder.tag()?.as_u64() != 17 || decoder.array()? != Some(4) || decoder.bytes()? != HMAC_256 {
        return Err(Format);
    }
    if decoder.map()? != Some(0) {
        return Err(Format);
    }
    let payload = decoder.bytes()?;
    let tag = decoder.bytes()?;
    if decoder.position() != message.len() {
        return Err(Format);
    }
    mac(kind, group, payload, code).verify_slice(tag).map_err(|_| EnrolError::Code)?;
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use super::super::rotation::{device_public, manager_public};
    use super::*;

    fn code(octet: u8) -> Code {
        Code::new(|out| {
            out.fill(octet);
            Ok::<_, ()>(())
        })
        .unwrap()
    }

    fn wish() -> Request {
        Request { name: "press7".into(), public: device_public(&[1; 32]), verify: manager_public(&[2; 32]) }
    }

    fn asked(code: &Code) -> Vec<u8> {
        super::request("line4", &wish(), code, |out| {
            out.fill(7);
            Ok::<_, ()>(())
        })
        .unwrap()
    }

    #[test]
    fn code_admits_and_brings_the_file() {
        let code = code(9);
        let message = asked(&code);
        assert_eq!(open_request("line4", &message, &code), Ok(wish()));
        let answered = answer("line4", &message, "group = \"line4\"", &code);
        assert_eq!(open_answer("line4", &message, &answered, &code), Ok("group = \"line4\"".into()));
        // An answer is no request, and of one request.
        assert_eq!(open_request("line4", &answered, &code), Err(EnrolError::Code));
        assert_eq!(open_answer("line4", &message, &message, &code), Err(EnrolError::Code));
        assert_eq!(open_answer("line4", b"another", &answered, &code), Err(EnrolError::Other));
    }

    #[test]
    fn nobody_without_the_code_is_admitted() {
        let message = asked(&code(9));
        assert_eq!(open_request("line4", &message, &code(8)), Err(EnrolError::Code));
        assert_eq!(open_request("line5", &message, &code(9)), Err(EnrolError::Code));
        for at in 0..message.len() {
            let mut changed = message.clone();
            changed[at] ^= 1;
            assert!(open_request("line4", &changed, &code(9)).is_err(), "octet {at}");
            assert!(open_request("line4", &message[..at], &code(9)).is_err(), "cut at {at}");
        }
        assert_eq!(open_request("line4", b"", &code(9)), Err(EnrolError::Format));
    }

    #[test]
    fn weak_key_is_not_enrolled() {
        let weak = Request { public: [0; 32], ..wish() };
        let message = super::request("line4", &weak, &code(1), |_| Ok::<_, ()>(())).unwrap();
        assert_eq!(open_request("line4", &message, &code(1)), Err(EnrolError::Key));
    }

    #[test]
    fn code_is_read_as_people_write_it() {
        let shown = code(0).to_text();
        assert_eq!(shown.as_str(), "00000-00000-00000-00000");
        assert_eq!("ooooo ooooo-0000000000".parse::<Code>(), Ok(code(0)));
        assert_eq!("iiiiiLLLLL1111111111".parse::<Code>(), Ok(code(1)));
        for wrong in ["", "0000", "000000000000000000000", "0000000000000000000U"] {
            assert_eq!(wrong.parse::<Code>(), Err(CodeError), "{wrong}");
        }
        assert!(code(0).mark() != code(1).mark() && Code::new(|_| Err(())).is_err());
        assert_eq!(fingerprint(&[0; 32], &[0; 32]).len(), 39);
    }
}
