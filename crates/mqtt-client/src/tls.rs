//! The settings and failures of TLS.

use std::path::Path;
use std::sync::Arc;

use antedate_host::fault::Fault;
// The type of both versions.
use rumqttc_five::TlsError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::ConnectionLostError;

/// The configuration that trusts the certificates of a file.
pub(crate) fn config(file: &Path) -> Result<Arc<rustls::ClientConfig>, Fault> {
    let cannot = |what: String| Fault::of_file(file, what, "give a file with certificates in PEM");
    let mut roots = rustls::RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(file).map_err(|error| cannot(format!("cannot be read: {error}")))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| cannot(format!("cannot be read: {error}")))?;
        roots.add(certificate).map_err(|error| cannot(format!("has a certificate that is none: {error}")))?;
    }
    if roots.is_empty() {
        return Err(cannot("has no certificate".into()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| cannot(error.to_string()))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// The reason of a lost connection. The network's own failures have no inner error.
pub(crate) fn lost(error: TlsError) -> ConnectionLostError {
    match error {
        TlsError::Io(error) if error.get_ref().is_none() => ConnectionLostError::Broken(error.to_string()),
        error => ConnectionLostError::Tls(error.to_string()),
    }
}
