//! Certificates by their issuers: chain, name, time, use and revocation, by rustls-webpki (RFC 5280,
//! RFC 9525).

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use antedate_channel::dtls::Distrust;
use antedate_host::fault::Fault;
use pki_types::pem::SectionKind;
use pki_types::{CertificateDer, ServerName, SignatureVerificationAlgorithm, TrustAnchor, UnixTime};
use webpki::{
    CertRevocationList, EndEntityCert, Error, ExpirationPolicy, KeyUsage, OwnedCertRevocationList,
    RevocationCheckDepth, RevocationOptionsBuilder, UnknownStatusPolicy, ring,
};

use super::{der, pem};

/// Signatures of authorities.
const ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[
    ring::ECDSA_P256_SHA256,
    ring::ECDSA_P256_SHA384,
    ring::ECDSA_P384_SHA256,
    ring::ECDSA_P384_SHA384,
    ring::ED25519,
    ring::RSA_PKCS1_2048_8192_SHA256,
    ring::RSA_PKCS1_2048_8192_SHA384,
    ring::RSA_PKCS1_2048_8192_SHA512,
];
/// The most certificates between a peer's and an authority's that are looked at.
const MAX_BETWEEN: usize = 8;
/// 1 January 2025: a clock before that was never set.
const NEVER_SET: Duration = Duration::from_secs(1_735_689_600);
const ANCHORS: &str = "give a PEM file with the certificates of the authorities";
const LISTS: &str = "give a PEM file with lists of the authorities: openssl ca -gencrl";

/// The files of authorities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// certificates of authorities in PEM
    pub authorities: PathBuf,
    /// lists of revoked certificates in PEM
    pub revoked: Vec<PathBuf>,
}

/// Authorities, and the certificates that they have revoked.
pub struct Authorities {
    anchors: Vec<TrustAnchor<'static>>,
    lists: Vec<CertRevocationList<'static>>,
    /// The name of the server, for a client.
    name: Option<ServerName<'static>>,
}

impl Authorities {
    /// Reads the files. `name` is the server's, for a client.
    ///
    /// # Errors
    /// The first fault, with file and remedy.
    pub fn load(files: &Files, name: Option<ServerName<'static>>) -> Result<Self, Fault> {
        let fault = |what: String| Fault::of_file(&files.authorities, what, ANCHORS);
        let certificates = pem::load(&files.authorities, SectionKind::Certificate, ANCHORS)?;
        if certificates.is_empty() {
            return Err(fault("there is no certificate".to_owned()));
        }
        let mut anchors = Vec::new();
        for (index, octets) in certificates.iter().enumerate() {
            let certificate = CertificateDer::from(octets.as_slice());
            let anchor = webpki::anchor_from_trusted_cert(&certificate);
            let anchor = anchor
                .map_err(|error| fault(format!("certificate {} cannot be read: {error}", index + 1)))?;
            anchors.push(anchor.to_owned());
        }
        let mut lists = Vec::new();
        for file in &files.revoked {
            let sections = pem::load(file, SectionKind::Crl, LISTS)?;
            if sections.is_empty() {
                return Err(Fault::of_file(file, "there is no list of revoked certificates", LISTS));
            }
            for octets in sections {
                let list = OwnedCertRevocationList::from_der(&octets).map_err(|error| {
                    let what = format!("a list of revoked certificates cannot be read: {error}");
                    Fault::of_file(file, what, "make it of version 2 with nextUpdate: openssl ca -gencrl")
                })?;
                lists.push(list.into());
            }
        }
        Ok(Self { anchors, lists, name })
    }

    /// Judges a peer's certificate.
    pub(super) fn judge(
        &self,
        end: &EndEntityCert<'_>,
        first: &[u8],
        others: &[&[u8]],
        is_server: bool,
        now: SystemTime,
    ) -> Result<(), Distrust> {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        if since < NEVER_SET {
            return Err(Distrust::Clock);
        }
        if others.len() > MAX_BETWEEN {
            return Err(Distrust::Constraint);
        }
        let between: Vec<CertificateDer<'_>> = others.iter().map(|one| CertificateDer::from(*one)).collect();
        let usage = if is_server { KeyUsage::server_auth() } else { KeyUsage::client_auth() };
        let lists: Vec<&CertRevocationList<'_>> = self.lists.iter().collect();
        let revocation = match RevocationOptionsBuilder::new(&lists) {
            // Every certificate of the chain has a list, which is not too old.
            Ok(builder) => Some(
                builder
                    .with_depth(RevocationCheckDepth::Chain)
                    .with_status_policy(UnknownStatusPolicy::Deny)
                    .with_expiration_policy(ExpirationPolicy::Enforce)
                    .build(),
            ),
            // No file is given.
            Err(_) => None,
        };
        let at = UnixTime::since_unix_epoch(since);
        end.verify_for_usage(ALGORITHMS, &self.anchors, &between, at, usage, revocation, None)
            .map_err(|error| distrust(&error))?;
        if let (true, Some(name)) = (is_server, &self.name) {
            end.verify_is_valid_for_subject_name(name).map_err(|error| distrust(&error))?;
        }
        match der::may_sign(first) {
            Some(true) => Ok(()),
            Some(false) => Err(Distrust::Usage),
            None => Err(Distrust::Malformed),
        }
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({}, {} lists)", self.anchors.len(), self.lists.len())
    }
}

/// The reason in webpki's error.
pub(super) fn distrust(error: &Error) -> Distrust {
    match error {
        Error::CertExpired { .. } => Distrust::Expired,
        Error::CertNotValidYet { .. } => Distrust::Early,
        Error::CertNotValidForName(_) => Distrust::Name,
        Error::CertRevoked => Distrust::Revoked,
        Error::CrlExpired { .. } => Distrust::OldList,
        Error::UnknownRevocationStatus
        | Error::IssuerNotCrlSigner
        | Error::InvalidCrlSignatureForPublicKey => Distrust::Unchecked,
        Error::UnknownIssuer | Error::CertDistrusted => Distrust::Issuer,
        Error::CaUsedAsEndEntity => Distrust::Authority,
        Error::RequiredEkuNotFoundContext(_) | Error::EmptyEkuExtension => Distrust::Usage,
        Error::UnsupportedCriticalExtension => Distrust::Critical,
        Error::InvalidSignatureForPublicKey
        | Error::SignatureAlgorithmMismatch
        | Error::UnsupportedSignatureAlgorithmContext(_)
        | Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => Distrust::Chain,
        Error::EndEntityUsedAsCa
        | Error::NameConstraintViolation
        | Error::InvalidNetworkMaskConstraint
        | Error::MalformedNameConstraint
        | Error::PathLenConstraintViolated
        | Error::MaximumNameConstraintComparisonsExceeded
        | Error::MaximumPathBuildCallsExceeded
        | Error::MaximumPathDepthExceeded
        | Error::MaximumSignatureChecksExceeded => Distrust::Constraint,
        _ => Distrust::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use antedate_channel::dtls::{CertificateType, Shown};

    use super::*;
    use crate::credentials::Trust;
    use crate::credentials::made::{DAY, Made, shown};
    use crate::credentials::peers::Peers;

    /// Of the test's authority, for a server of this name.
    fn trust(made: &Made, revoked: &[&str], name: Option<&str>) -> Trust {
        let revoked = revoked.iter().map(|name| made.at(name)).collect();
        let files = Files { authorities: made.at("ca.pem"), revoked };
        let name = name.map(|name| ServerName::try_from(name.to_owned()).unwrap());
        Trust { peers: None, authorities: Some(Authorities::load(&files, name).unwrap()) }
    }

    fn judged(trust: &Trust, chain: &[&[u8]], by_server: bool, now: SystemTime) -> Result<String, Distrust> {
        let trusted = trust.judge(&shown(chain, by_server), now)?;
        Ok(String::from_utf8(trusted.identity).unwrap())
    }

    #[test]
    fn name_time_and_use_are_judged() {
        let made = Made::new();
        let named = "subjectAltName=DNS:plant.example,IP:192.0.2.1";
        let server = made.leaf("server", "/CN=plant", &[named, "extendedKeyUsage=serverAuth"]);
        let client =
            made.leaf("client", "/CN=turbine", &["extendedKeyUsage=clientAuth", "keyUsage=digitalSignature"]);
        let agrees = made.leaf("agrees", "/CN=turbine", &["keyUsage=keyAgreement"]);
        let critical = made.leaf("critical", "/CN=turbine", &["1.2.3.4=critical,ASN1:NULL"]);
        let ca = made.leaf("own-ca", "/CN=turbine", &["basicConstraints=critical,CA:TRUE"]);
        // Certificates begin with the second in which they are made.
        let now = SystemTime::now();
        let by_ip = trust(&made, &[], Some("192.0.2.1"));
        let (clients, by_name) = (trust(&made, &[], None), trust(&made, &[], Some("plant.example")));
        let other = trust(&made, &[], Some("other.example"));
        for (trust, leaf, by_server, at, expected) in [
            (&by_name, &server, true, now, Ok("CN=plant")),
            (&by_ip, &server, true, now, Ok("CN=plant")),
            (&other, &server, true, now, Err(Distrust::Name)),
            (&clients, &client, false, now, Ok("CN=turbine")),
            (&clients, &server, false, now, Err(Distrust::Usage)),
            (&by_name, &client, true, now, Err(Distrust::Usage)),
            (&clients, &agrees, false, now, Err(Distrust::Usage)),
            (&clients, &ca, false, now, Err(Distrust::Authority)),
            (&clients, &critical, false, now, Err(Distrust::Critical)),
            (&clients, &client, false, now + DAY * 40, Err(Distrust::Expired)),
            (&clients, &client, false, now - DAY * 40, Err(Distrust::Early)),
            (&clients, &client, false, UNIX_EPOCH + DAY, Err(Distrust::Clock)),
        ] {
            assert_eq!(judged(trust, &[leaf], by_server, at), expected.map(str::to_owned));
        }
    }

    #[test]
    fn chain_leads_to_an_authority() {
        let made = Made::new();
        let clients = trust(&made, &[], None);
        let leaf = made.leaf("a", "/CN=a", &[]);
        let (between, below) = made.below("b", "/CN=b");
        let foreign = Made::new().leaf("a", "/CN=a", &[]);
        // A leaf that plays an authority, and another curve.
        let under = made.signed_by("c", "/CN=c", "a", &[]);
        let p384 = made.on_curve("d", "/CN=d", "secp384r1");
        let now = SystemTime::now();
        assert_eq!(judged(&clients, &[&below, &between], false, now), Ok("CN=b".to_owned()));
        assert_eq!(judged(&clients, &[&below], false, now), Err(Distrust::Issuer));
        assert_eq!(
            judged(&clients, &[&foreign], false, now),
            Err(Distrust::Chain),
            "the same name of authority"
        );
        let mut forged = leaf.clone();
        *forged.last_mut().unwrap() ^= 1;
        assert_eq!(judged(&clients, &[&forged], false, now), Err(Distrust::Chain));
        assert_eq!(judged(&clients, &[&leaf[..40]], false, now), Err(Distrust::Malformed));
        let many: Vec<&[u8]> = std::iter::repeat_n(&leaf[..], 10).collect();
        assert_eq!(judged(&clients, &many, false, now), Err(Distrust::Constraint));
        assert_eq!(judged(&Trust::default(), &[&leaf], false, now), Err(Distrust::Unlisted));
        assert_eq!(judged(&clients, &[], false, now), Err(Distrust::Nothing));
        assert_eq!(judged(&clients, &[&under, &leaf], false, now), Err(Distrust::Constraint));
        assert_eq!(judged(&clients, &[&p384], false, now), Err(Distrust::Key));
    }

    #[test]
    fn revoked_certificates_are_refused() {
        let made = Made::new();
        let (good, bad) = (made.leaf("good", "/CN=good", &[]), made.leaf("bad", "/CN=bad", &[]));
        made.revoke(&["bad"], "crl.pem");
        let (between, below) = made.below("b", "/CN=b");
        let now = SystemTime::now();
        let clients = trust(&made, &["crl.pem"], None);
        assert_eq!(judged(&clients, &[&good], false, now), Ok("CN=good".to_owned()));
        assert_eq!(judged(&clients, &[&bad], false, now), Err(Distrust::Revoked));
        assert_eq!(judged(&clients, &[&good], false, now + DAY * 10), Err(Distrust::OldList));
        let other = Made::new();
        other.revoke(&[], "crl.pem");
        std::fs::copy(other.at("crl.pem"), made.at("other.pem")).unwrap();
        let wrong = trust(&made, &["other.pem"], None);
        assert_eq!(
            judged(&wrong, &[&good], false, now),
            Err(Distrust::Unchecked),
            "another authority's signature"
        );
        assert_eq!(
            judged(&clients, &[&below, &between], false, now),
            Err(Distrust::Unchecked),
            "a list for each"
        );
    }

    #[test]
    fn pinned_certificates_need_no_authority() {
        let made = Made::new();
        let old = SystemTime::now() + DAY * 4000;
        let leaf = made.leaf("a", "/CN=a", &[]);
        let spki = crate::credentials::own::digest_of_file(&made.at("a.pem")).unwrap();
        for pin in [spki, crate::credentials::digest(&leaf)] {
            let peers = Peers::parse(&format!("turbine {pin}")).unwrap();
            let trust = Trust { peers: Some(peers), authorities: None };
            assert_eq!(judged(&trust, &[&leaf], false, old), Ok("turbine".to_owned()));
            let other = made.leaf("b", "/CN=a", &[]);
            assert_eq!(judged(&trust, &[&other], false, old), Err(Distrust::Unlisted));
        }
        let raw = |body: &[u8]| Shown::new(CertificateType::RawPublicKey, true, body).unwrap();
        let trust = Trust {
            peers: Some(Peers::parse(&format!("a sha256:{}", "ab".repeat(32))).unwrap()),
            authorities: None,
        };
        assert_eq!(trust.judge(&raw(b"\0\0\x02ab"), old), Err(Distrust::Key));
        let (_, key) = crate::credentials::own::generate().unwrap();
        let body = [&[0, 0, 91][..], &key].concat();
        assert_eq!(trust.judge(&raw(&body), old), Err(Distrust::Unlisted));
        assert_eq!(trust.accepts(true), [CertificateType::RawPublicKey, CertificateType::X509]);
        assert_eq!(Trust::default().accepts(true), []);
    }

    #[test]
    fn faulty_files_have_a_remedy() {
        let made = Made::new();
        std::fs::write(made.at("empty"), "").unwrap();
        std::fs::write(made.at("torn"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            .unwrap();
        std::fs::write(made.at("torn-list"), "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n")
            .unwrap();
        std::fs::write(made.at("cut"), "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap();
        let load = |authorities: &str, revoked: &[&str]| {
            let revoked = revoked.iter().map(|name| made.at(name)).collect();
            Authorities::load(&Files { authorities: made.at(authorities), revoked }, None)
                .unwrap_err()
                .to_string()
        };
        for (said, expected) in [
            (load("empty", &[]), "no certificate"),
            (load("torn", &[]), "certificate 1 cannot be read"),
            (load("cut", &[]), "the PEM form is wrong"),
            (load("missing", &[]), "missing"),
            (load("ca.pem", &["empty"]), "no list"),
            (load("ca.pem", &["torn-list"]), "cannot be read"),
        ] {
            assert!(said.contains(expected), "{said}");
        }
    }
}
