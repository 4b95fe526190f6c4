//! The own private key, and the certificates that are shown with it.

use std::path::{Path, PathBuf};

use antedate_channel::dtls::{Certificate, Credentials, PublicKey, RawPublicKey, SPKI_LEN, SigningKey};
use antedate_host::fault::Fault;
use antedate_host::{private_file, process};
use base64ct::{Base64, Encoding};
use pki_types::CertificateDer;
use pki_types::pem::SectionKind;
use webpki::EndEntityCert;
use zeroize::Zeroizing;

use super::der::{self, PrivateKeyError};
use super::{digest, pem};

/// Octets of the longest key file.
const MAX_LEN: usize = 16 << 10;
/// How to make a key that fits.
const MAKE: &str = "make one: antedate keygen raw-key, or openssl ecparam -name prime256v1 -genkey";
const CERTIFICATES: &str =
    "give a PEM file with the certificate of the key first, then those between it and the authority";
/// The place of the point in a SubjectPublicKeyInfo.
const POINT_AT: usize = SPKI_LEN - 65;

/// The files of the own key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// the private key in PEM, PKCS #8 or SEC 1
    pub key: PathBuf,
    /// the certificates; without them the key is shown as a raw public key
    pub certificates: Option<PathBuf>,
}

impl Files {
    /// Reads the files.
    ///
    /// # Errors
    /// The first fault, with file and remedy: a key that others may read, of another kind, or one that
    /// the certificate is not of.
    pub fn load(&self) -> Result<Credentials, Fault> {
        let key = private_key(&self.key)?;
        let Some(file) = &self.certificates else {
            return Ok(Credentials::RawPublicKey(RawPublicKey::new(key)));
        };
        let fault = |what: &str, remedy: &str| Fault::of_file(file, what, remedy);
        let chain = pem::load(file, SectionKind::Certificate, CERTIFICATES)?;
        let first = chain.first().ok_or_else(|| fault("there is no certificate", CERTIFICATES))?;
        let spki = spki_of_certificate(first).map_err(|error| fault(&unreadable(&error), CERTIFICATES))?;
        if PublicKey::from_spki(&spki) != Some(key.public()) {
            let what = "the first certificate is not of the private key";
            return Err(fault(
                what,
                "compare: antedate dtls digest KEY CERTIFICATE; it may be the second one",
            ));
        }
        let certificate = Certificate::new(key, &chain)
            .ok_or_else(|| fault("the certificates have more than 15,000 octets", "leave out the root"))?;
        Ok(Credentials::Certificate(certificate))
    }
}

/// The SubjectPublicKeyInfo of a certificate.
fn spki_of_certificate(certificate: &[u8]) -> Result<Vec<u8>, webpki::Error> {
    let certificate = CertificateDer::from(certificate);
    Ok(EndEntityCert::try_from(&certificate)?.subject_public_key_info().to_vec())
}

fn unreadable(error: &webpki::Error) -> String {
    format!("the certificate cannot be read: {error}")
}

/// Reads a private key.
fn private_key(file: &Path) -> Result<SigningKey, Fault> {
    let mut text = Zeroizing::new(vec![0; MAX_LEN + 1]);
    let len = private_file::read(file, process::user(), &mut text)?;
    let text = text.get(..len).unwrap_or_default();
    parse_key(text).map_err(|(what, remedy)| Fault::of_file(file, what, remedy))
}

fn parse_key(text: &[u8]) -> Result<SigningKey, (String, &'static str)> {
    let find = |needle: &[u8]| text.windows(needle.len()).any(|part| part == needle);
    if find(b"BEGIN ENCRYPTED PRIVATE KEY") || find(b"Proc-Type: 4,ENCRYPTED") {
        let what = "the private key is encrypted".to_owned();
        return Err((
            what,
            "remove the passphrase: openssl pkcs8 -topk8 -nocrypt; the file's mode protects it",
        ));
    }
    let sections = pem::sections(text).map_err(|error| (pem::wrong_form(&error), MAKE))?;
    let sections: Vec<_> =
        sections.into_iter().map(|(kind, octets)| (kind, Zeroizing::new(octets))).collect();
    for (kind, octets) in &sections {
        let secret = match kind {
            SectionKind::PrivateKey => der::pkcs8(octets),
            SectionKind::EcPrivateKey => der::sec1(octets, false),
            SectionKind::RsaPrivateKey => Err(PrivateKeyError::Kind),
            _ => continue,
        };
        let secret = secret.map_err(|error| {
            let what = match error {
                PrivateKeyError::Malformed => "the private key cannot be read",
                PrivateKeyError::Kind => "the private key is not one of an elliptic curve",
                PrivateKeyError::Curve => "the private key is on another curve than P-256",
            };
            (what.to_owned(), MAKE)
        })?;
        return SigningKey::new(secret).map_err(|error| (error.to_string(), MAKE));
    }
    Err(("there is no private key in PEM".to_owned(), MAKE))
}

/// A new private key in PEM, and its SubjectPublicKeyInfo.
///
/// # Errors
/// When the system has no random numbers.
pub fn generate() -> Result<(Zeroizing<String>, [u8; SPKI_LEN]), getrandom::Error> {
    let mut secret = Zeroizing::new([0; 32]);
    let key = loop {
        getrandom::fill(&mut secret[..])?;
        // One number in 2^32 is none of the curve.
        if let Ok(key) = SigningKey::new(&secret) {
            break key;
        }
    };
    let spki = key.public().spki();
    let der = der::to_pkcs8(&secret, spki.get(POINT_AT..).unwrap_or_default());
    let text = Zeroizing::new(Base64::encode_string(&der));
    Ok((armoured("PRIVATE KEY", &text), spki))
}

/// A text in PEM.
fn armoured(label: &str, base64: &str) -> Zeroizing<String> {
    // Full length at once: a growing text leaves copies behind.
    let mut out = Zeroizing::new(String::with_capacity(2 * base64.len() + 128));
    out.push_str("-----BEGIN ");
    out.push_str(label);
    out.push_str("-----\n");
    let mut rest = base64;
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = behind;
    }
    out.push_str("-----END ");
    out.push_str(label);
    out.push_str("-----\n");
    out
}

/// The public key of a raw key pair in PEM, for other programs.
#[must_use]
pub fn public_pem(spki: &[u8]) -> String {
    armoured("PUBLIC KEY", &Base64::encode_string(spki)).to_string()
}

/// The digest of the public key in a file: of a private key, a public key or a certificate.
///
/// # Errors
/// When there is none in the file, or others may read a private key.
pub fn digest_of_file(file: &Path) -> Result<String, Fault> {
    let remedy = "give a PEM file with a private key, a public key or a certificate";
    let octets = Zeroizing::new(pem::read_public(file, remedy)?);
    let sections =
        pem::sections(&octets).map_err(|error| Fault::of_file(file, pem::wrong_form(&error), remedy))?;
    for (kind, section) in &sections {
        match kind {
            SectionKind::PublicKey => return Ok(digest(section)),
            SectionKind::Certificate => {
                let spki = spki_of_certificate(section);
                return spki
                    .map(|spki| digest(&spki))
                    .map_err(|error| Fault::of_file(file, unreadable(&error), remedy));
            }
            _ => {}
        }
    }
    Ok(digest(&private_key(file)?.public().spki()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::made::Made;

    fn fault(made: &Made, key: &str, certificates: Option<&str>) -> String {
        let files = Files { key: made.at(key), certificates: certificates.map(|name| made.at(name)) };
        files.load().unwrap_err().to_string()
    }

    #[test]
    fn keys_and_certificates_fit_together() {
        let made = Made::new();
        made.leaf("a", "/CN=a", &[]);
        made.leaf("b", "/CN=b", &[]);
        for certificates in [None, Some(made.at("a.pem"))] {
            let files = Files { key: made.at("a.key"), certificates };
            assert!(files.load().is_ok());
        }
        assert!(fault(&made, "a.key", Some("b.pem")).contains("not of the private key"));
        assert!(fault(&made, "a.key", Some("a.key")).contains("no certificate"));
        assert!(fault(&made, "a.pem", None).contains("chmod 600"), "a certificate is not private");
        assert_eq!(digest_of_file(&made.at("a.pem")), digest_of_file(&made.at("a.key")));
    }

    #[test]
    fn other_keys_are_refused_with_a_remedy() {
        let made = Made::new();
        for (command, expected) in [
            ("ecparam -name secp384r1 -genkey -out x.key", "another curve"),
            ("genpkey -algorithm ED25519 -out x.key", "not one of an elliptic curve"),
            ("genrsa -traditional -out x.key 2048", "not one of an elliptic curve"),
            ("ecparam -name prime256v1 -out x.key", "no private key"),
            (
                "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes128 -pass pass:x -out x.key",
                "is encrypted",
            ),
        ] {
            let _ = std::fs::remove_file(made.at("x.key"));
            made.openssl(command);
            made.close("x.key");
            let said = fault(&made, "x.key", None);
            assert!(said.contains(expected), "{said}");
        }
        made.openssl("ecparam -name prime256v1 -genkey -out y.key");
        made.close("y.key");
        assert!(Files { key: made.at("y.key"), certificates: None }.load().is_ok(), "behind EC PARAMETERS");
    }

    #[test]
    fn made_key_is_one_of_openssl() {
        let made = Made::new();
        let (pem, spki) = generate().unwrap();
        private_file::create(&made.at("raw.key"), &pem).unwrap();
        assert_eq!(digest_of_file(&made.at("raw.key")).unwrap(), digest(&spki));
        made.openssl("pkey -in raw.key -pubout -out raw.pub");
        assert_eq!(std::fs::read_to_string(made.at("raw.pub")).unwrap(), public_pem(&spki));
        assert_eq!(digest_of_file(&made.at("raw.pub")).unwrap(), digest(&spki));
    }
}
