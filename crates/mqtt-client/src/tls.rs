//! The settings and failures of TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use antedate_host::fault::Fault;
use antedate_host::{private_file, process};
// The type of both versions.
use rumqttc_five::TlsError;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use zeroize::Zeroizing;

use crate::ConnectionLostError;

/// TLS to the broker.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// A file of root certificates (PEM).
    pub cafile: Option<PathBuf>,
    /// A directory of such files.
    pub capath: Option<PathBuf>,
    /// The client's certificates, its own first, and the private key of that one (PEM).
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Whether the broker's certificate may be of any name.
    pub any_name: bool,
}

/// The longest file of a private key.
const KEY_MAX: usize = 1 << 16;

impl Tls {
    /// The files and directories that a client reads.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let (certificates, key) = self.identity.clone().unzip();
        [self.cafile.clone(), self.capath.clone(), certificates, key].into_iter().flatten()
    }

    /// Reads the files, for a client of rustls.
    ///
    /// # Errors
    /// When a file cannot be read, or is none of certificates or keys.
    pub fn config(&self) -> Result<Arc<ClientConfig>, Fault> {
        let mut roots = RootCertStore::empty();
        if let Some(file) = &self.cafile {
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|error| {
                    cannot(file, format!("has a certificate that cannot be a root: {error}"))
                })?;
            }
        }
        if let Some(directory) = &self.capath {
            add_all(&mut roots, directory)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let whole = self.cafile.as_deref().or(self.capath.as_deref()).unwrap_or(Path::new("TLS"));
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| cannot(whole, error.to_string()))?;
        let roots = Arc::new(roots);
        let config = if self.any_name {
            let inner = WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|error| cannot(whole, error.to_string()))?;
            config.dangerous().with_custom_certificate_verifier(Arc::new(AnyName(inner)))
        } else {
            config.with_root_certificates(roots)
        };
        let Some((file, key)) = &self.identity else { return Ok(Arc::new(config.with_no_client_auth())) };
        let own = certificates(file)?;
        let config = config.with_client_auth_cert(own, private_key(key)?).map_err(|error| {
            Fault::of_file(
                key,
                format!("is not the key of the certificate in {}: {error}", file.display()),
                "give --cert and --key of one pair",
            )
        })?;
        Ok(Arc::new(config))
    }
}

fn cannot(file: &Path, what: String) -> Fault {
    Fault::of_file(file, what, "give a file with certificates in PEM")
}

/// The certificates of a file, at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let found = found.map_err(|error| cannot(file, format!("cannot be read: {error}")))?;
    if found.is_empty() { Err(cannot(file, "has no certificate".into())) } else { Ok(found) }
}

/// Adds the certificates of all files of a directory. Files without any are others', and so are
/// authorities that this library does not know to use.
fn add_all(roots: &mut RootCertStore, directory: &Path) -> Result<(), Fault> {
    let remedy = "give a directory with certificates in PEM, such as /etc/ssl/certs";
    let entries = std::fs::read_dir(directory)
        .map_err(|error| Fault::of_io(directory, "read the directory", &error, remedy))?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|file| file.is_file());
    let mut found: Vec<CertificateDer<'static>> =
        files.filter_map(|file| certificates(&file).ok()).flatten().collect();
    // Names by hash are links to the others.
    found.sort_unstable_by(|one, other| one.as_ref().cmp(other.as_ref()));
    found.dedup();
    let (added, _) = roots.add_parsable_certificates(found);
    if added == 0 { Err(Fault::of_file(directory, "has no certificate", remedy)) } else { Ok(()) }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, Fault> {
    let mut text = Zeroizing::new(vec![0; KEY_MAX]);
    let length = private_file::read(file, process::user(), &mut text)?;
    PrivateKeyDer::from_pem_slice(&text[..length]).map_err(|error| {
        Fault::of_file(
            file,
            format!("is no private key: {error}"),
            "give the key of --cert, in PEM, without a password",
        )
    })
}

/// Verifies the chain of a certificate and leaves its name out.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The name is what it verifies last.
        match self.0.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// The reason of a lost connection.
pub(crate) fn lost(error: &TlsError) -> ConnectionLostError {
    match error {
        TlsError::Io(error) => ConnectionLostError::of_io(error),
        error => ConnectionLostError::broken(error),
    }
}
