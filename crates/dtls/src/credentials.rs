//! What the proxy proves itself with besides pre-shared keys, and whom it trusts. One file for each
//! kind; none depends on the version of DTLS.
//!
//! - [`own`]: the own private key, with or without certificates
//! - [`peers`]: the file of allowed keys and certificates, by digest
//! - [`authorities`]: certificates by authorities, with revocation
//! - `pem`: key files; `der`: the parts of a certificate that webpki does not read

pub mod authorities;
pub mod der;
#[cfg(test)]
pub(crate) mod made;
pub mod own;
pub mod peers;
mod pem;

use std::time::SystemTime;

use antedate_channel::dtls::{CertificateType, Distrust, PublicKey, Shown, Trusted};
use antedate_host::hex::hex;
use pki_types::CertificateDer;
pub use pki_types::ServerName;
use sha2::{Digest, Sha256};
use webpki::EndEntityCert;

use authorities::Authorities;
use peers::Peers;

/// A SHA-256 digest as it is written: `sha256:` and hexadecimal digits.
#[must_use]
pub fn digest(octets: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(octets)))
}

/// Whom a side trusts: either suffices.
#[derive(Debug, Default)]
pub struct Trust {
    /// keys and certificates by digest
    pub peers: Option<Peers>,
    /// certificates by their issuers
    pub authorities: Option<Authorities>,
}

impl Trust {
    /// Whether there is nobody.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.peers.is_none() && self.authorities.is_none()
    }

    /// What a peer may show. A side with a raw public key prefers those.
    #[must_use]
    pub fn accepts(&self, prefers_raw: bool) -> Vec<CertificateType> {
        let raw = self.peers.as_ref().map(|_| CertificateType::RawPublicKey);
        let certificates = (!self.is_empty()).then_some(CertificateType::X509);
        let both = if prefers_raw { [raw, certificates] } else { [certificates, raw] };
        both.into_iter().flatten().collect()
    }

    /// Judges what a peer shows at a time.
    ///
    /// # Errors
    /// The reason for refusing it.
    pub fn judge(&self, shown: &Shown, now: SystemTime) -> Result<Trusted, Distrust> {
        let entries = shown.entries();
        let (first, others) = entries.split_first().ok_or(Distrust::Nothing)?;
        if shown.kind() == CertificateType::RawPublicKey {
            let key = PublicKey::from_spki(first).ok_or(Distrust::Key)?;
            let name = self.peers.as_ref().and_then(|peers| peers.name(&[first]));
            let name = name.ok_or(Distrust::Unlisted)?;
            return Ok(Trusted { identity: name.as_bytes().to_vec(), key });
        }
        let der = CertificateDer::from(*first);
        let end = EndEntityCert::try_from(&der).map_err(|error| authorities::distrust(&error))?;
        let spki = end.subject_public_key_info();
        let key = PublicKey::from_spki(&spki).ok_or(Distrust::Key)?;
        if let Some(name) = self.peers.as_ref().and_then(|peers| peers.name(&[&spki, first])) {
            return Ok(Trusted { identity: name.as_bytes().to_vec(), key });
        }
        let authorities = self.authorities.as_ref().ok_or(Distrust::Unlisted)?;
        authorities.judge(&end, first, others, shown.by_server(), now)?;
        let identity = der::subject(first).unwrap_or_else(|| digest(first));
        Ok(Trusted { identity: identity.into_bytes(), key })
    }
}
