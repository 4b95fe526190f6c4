//! DER as far as it is read here (X.690): private keys (RFC 5915, RFC 5958), and the subject and key
//! usage of a certificate (RFC 5280), which webpki does not show. A certificate is read after webpki
//! has accepted its form.

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const BOOLEAN: u8 = 0x01;
/// Explicit tags 0 and 3 of a TBSCertificate: version and extensions.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

const EC_PUBLIC_KEY: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const PRIME256V1: [u8; 8] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const KEY_USAGE: [u8; 3] = [0x55, 0x1d, 0x0f];
/// The attributes of a name that are shown (RFC 4514 section 3), by the last octet of 2.5.4.n.
const ATTRIBUTES: [(u8, &str); 7] =
    [(3, "CN"), (5, "serialNumber"), (6, "C"), (7, "L"), (8, "ST"), (10, "O"), (11, "OU")];
/// The longest name that is shown, in octets.
const MAX_NAME: usize = 200;

/// A reader of elements one behind the other.
#[derive(Debug, Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The tag and the content of the next element.
    fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x83 => {
                let (octets, rest) = rest.split_at_checked(usize::from(first & 3))?;
                (octets.iter().fold(0, |len, octet| len << 8 | usize::from(*octet)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The content of the next element, which has this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, content) = self.any()?;
        (found == tag).then_some(content)
    }

    /// The content of the next element if it has this tag; otherwise it stays.
    fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() == Some(&tag) { self.take(tag) } else { None }
    }
}

/// A kind of private key that is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivateKeyError {
    /// the structure is not one of RFC 5915 or RFC 5958
    Malformed,
    /// another kind of key, such as RSA or Ed25519
    Kind,
    /// another curve
    Curve,
}

/// The secret number of an ECPrivateKey on P-256 (RFC 5915), whose curve may be named outside.
///
/// # Errors
/// [`PrivateKeyError`] for other keys.
pub fn sec1(octets: &[u8], is_named: bool) -> Result<&[u8; 32], PrivateKeyError> {
    use PrivateKeyError::{Curve, Malformed};
    let mut key = Reader(Reader(octets).take(SEQUENCE).ok_or(Malformed)?);
    if key.take(INTEGER).ok_or(Malformed)? != [1] {
        return Err(Malformed);
    }
    let secret = key.take(OCTET_STRING).ok_or(Malformed)?;
    match key.optional(0xa0).map(|named| Reader(named).take(OBJECT)) {
        Some(named) if named != Some(&PRIME256V1) => return Err(Curve),
        None if !is_named => return Err(Curve),
        _ => {}
    }
    secret.try_into().map_err(|_| Curve)
}

/// The secret number of a PKCS #8 key on P-256 (RFC 5958).
///
/// # Errors
/// [`PrivateKeyError`] for other keys.
pub fn pkcs8(octets: &[u8]) -> Result<&[u8; 32], PrivateKeyError> {
    use PrivateKeyError::{Curve, Kind, Malformed};
    let mut key = Reader(Reader(octets).take(SEQUENCE).ok_or(Malformed)?);
    key.take(INTEGER).ok_or(Malformed)?;
    let mut algorithm = Reader(key.take(SEQUENCE).ok_or(Malformed)?);
    if algorithm.take(OBJECT) != Some(&EC_PUBLIC_KEY) {
        return Err(Kind);
    }
    if algorithm.take(OBJECT) != Some(&PRIME256V1) {
        return Err(Curve);
    }
    sec1(key.take(OCTET_STRING).ok_or(Malformed)?, true)
}

/// The PKCS #8 form of a secret number and its point, as OpenSSL writes it.
#[must_use]
pub fn to_pkcs8(secret: &[u8; 32], point: &[u8]) -> zeroize::Zeroizing<Vec<u8>> {
    const FRONT: [u8; 36] = [
        0x30, 0x81, 0x87, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
        0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x6d, 0x30, 0x6b, 0x02, 0x01, 0x01,
        0x04, 0x20,
    ];
    const BETWEEN: [u8; 5] = [0xa1, 0x44, 0x03, 0x42, 0x00];
    let mut out = zeroize::Zeroizing::new(Vec::with_capacity(FRONT.len() + 32 + BETWEEN.len() + point.len()));
    for part in [&FRONT[..], secret, &BETWEEN, point] {
        out.extend_from_slice(part);
    }
    out
}

/// The fields of a TBSCertificate from its subject on.
fn from_subject(certificate: &[u8]) -> Option<Reader<'_>> {
    let mut certificate = Reader(Reader(certificate).take(SEQUENCE)?);
    let mut tbs = Reader(certificate.take(SEQUENCE)?);
    tbs.optional(VERSION);
    tbs.take(INTEGER)?;
    // Signature algorithm, issuer and validity.
    for _ in 0..3 {
        tbs.take(SEQUENCE)?;
    }
    Some(tbs)
}

/// The subject's name in the form of RFC 4514, without attributes that are not listed there. `None`
/// if there is nothing to show. Control characters are left out.
#[must_use]
pub fn subject(certificate: &[u8]) -> Option<String> {
    let mut names = Reader(from_subject(certificate)?.take(SEQUENCE)?);
    let mut parts = Vec::new();
    while let Some(set) = names.take(SET) {
        let mut pair = Reader(Reader(set).take(SEQUENCE)?);
        let kind = pair.take(OBJECT)?;
        let (_, value) = pair.any()?;
        let known = ATTRIBUTES.iter().find(|(last, _)| kind == [0x55, 0x04, *last]);
        let text: String =
            String::from_utf8_lossy(value).chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
        if let Some((_, attribute)) = known {
            parts.push(format!("{attribute}={}", text.replace(',', "\\,")));
        }
    }
    // The most specific part comes first.
    parts.reverse();
    let mut name = parts.join(",");
    while name.len() > MAX_NAME {
        name.pop();
    }
    (!name.is_empty()).then_some(name)
}

/// Whether the key may sign: there is no key usage, or it has digitalSignature (RFC 5280 section
/// 4.2.1.3, RFC 8422 section 5.3). `None` if the extensions cannot be read.
#[must_use]
pub fn may_sign(certificate: &[u8]) -> Option<bool> {
    let mut rest = from_subject(certificate)?;
    // Subject and key.
    rest.take(SEQUENCE)?;
    rest.take(SEQUENCE)?;
    while let Some((tag, content)) = rest.any() {
        if tag != EXTENSIONS {
            continue;
        }
        let mut list = Reader(Reader(content).take(SEQUENCE)?);
        while let Some(extension) = list.take(SEQUENCE) {
            let mut extension = Reader(extension);
            let kind = extension.take(OBJECT)?;
            extension.optional(BOOLEAN);
            let value = extension.take(OCTET_STRING)?;
            if kind == KEY_USAGE {
                let bits = Reader(value).take(BIT_STRING)?;
                return Some(bits.get(1).is_some_and(|bits| bits & 0x80 != 0));
            }
        }
        return list.0.is_empty().then_some(true);
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::made::Made;

    #[test]
    fn subject_and_usage_are_read() {
        let made = Made::new();
        let leaf = made.leaf("turbine", "/C=DE/O=Wind, Park/CN=turbine 3", &[]);
        assert_eq!(subject(&leaf).as_deref(), Some("CN=turbine 3,O=Wind\\, Park,C=DE"));
        assert_eq!(may_sign(&leaf), Some(true), "no key usage");
        let signs = made.leaf("a", "/CN=a", &["keyUsage=critical,digitalSignature"]);
        let agrees = made.leaf("b", "/CN=b", &["keyUsage=critical,keyAgreement"]);
        assert_eq!((may_sign(&signs), may_sign(&agrees)), (Some(true), Some(false)));
        assert_eq!(subject(&made.leaf("c", "/", &[])), None);
        for len in 0..leaf.len() {
            let _ = (subject(&leaf[..len]), may_sign(&leaf[..len]));
        }
    }

    #[test]
    fn private_keys_are_read_in_both_forms() {
        let made = Made::new();
        made.openssl("ecparam -name prime256v1 -genkey -noout -outform DER -out sec1.der");
        made.openssl("pkcs8 -topk8 -nocrypt -inform DER -outform DER -in sec1.der -out pkcs8.der");
        let (old, new) = (made.read("sec1.der"), made.read("pkcs8.der"));
        let secret = *sec1(&old, false).unwrap();
        assert_eq!(pkcs8(&new), Ok(&secret));
        let key = antedate_channel::dtls::SigningKey::new(&secret).unwrap();
        assert_eq!(to_pkcs8(&secret, &key.public().spki()[26..])[..], new[..]);
        made.openssl("ecparam -name secp384r1 -genkey -noout -outform DER -out p384.der");
        made.openssl("pkcs8 -topk8 -nocrypt -inform DER -outform DER -in p384.der -out p384-8.der");
        made.openssl("genpkey -algorithm ED25519 -outform DER -out ed.der");
        assert_eq!(sec1(&made.read("p384.der"), false), Err(PrivateKeyError::Curve));
        assert_eq!(pkcs8(&made.read("p384-8.der")), Err(PrivateKeyError::Curve));
        assert_eq!(pkcs8(&made.read("ed.der")), Err(PrivateKeyError::Kind));
        assert_eq!(pkcs8(&old), Err(PrivateKeyError::Malformed));
        assert_eq!(sec1(&new, false), Err(PrivateKeyError::Malformed));
    }

    #[test]
    fn lengths_stay_inside() {
        for wrong in
            [&[0x30, 0x80][..], &[0x30, 0x84, 0, 0, 0, 1, 0], &[0x30, 2, 1], &[0x30], &[0x30, 0x82, 1]]
        {
            assert_eq!(Reader(wrong).any(), None);
        }
        assert_eq!(Reader(&[0x30, 0x81, 1, 7]).any(), Some((0x30, &[7][..])));
    }
}
