//! What a side of the proxy proves itself with, and whom it trusts: the options, and what they mean
//! together.

use std::path::PathBuf;

use antedate_dtls::credentials::ServerName;
use antedate_dtls::credentials::{authorities, own};
use antedate_dtls::service::Target;
use clap::Args;

use crate::failure::{Failure, ValueError};

#[derive(Args)]
pub(crate) struct Proof {
    /// The file with identities and keys (`antedate keygen dtls`), readable by its owner only. SIGHUP
    /// reads it again, and ends the sessions of keys that are gone.
    #[arg(long, value_name = "FILE", help_heading = "Pre-shared keys")]
    pub(super) psk: Option<PathBuf>,
    /// The key file is written by the agent of a fleet, as this user or as another one of this group: take it
    /// with mode 0640, and read it again whenever it changes.
    #[arg(long, requires = "psk", help_heading = "Pre-shared keys")]
    pub(super) agent: bool,
    /// Our private key on P-256 in PEM (`antedate keygen raw-key`), readable by its owner only. Without
    /// --certificate it is shown as a raw public key (RFC 7250). SIGHUP reads all these files again.
    #[arg(long, value_name = "FILE", help_heading = "Raw public keys and certificates")]
    key: Option<PathBuf>,
    /// Our certificate in PEM, then those between it and the authority.
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "Raw public keys and certificates")]
    certificate: Option<PathBuf>,
    /// Peers that are trusted by their key, or by their certificate whatever its time: lines of
    /// `NAME sha256:DIGEST` (`antedate dtls digest`), or NAME and a public key in PEM behind it.
    #[arg(long, value_name = "FILE", help_heading = "Raw public keys and certificates")]
    peers: Option<PathBuf>,
    /// Authorities in PEM: peers with a certificate of theirs that is valid now are trusted too.
    #[arg(long, value_name = "FILE", help_heading = "Raw public keys and certificates")]
    ca: Option<PathBuf>,
    /// A list of revoked certificates in PEM. With one, each authority of a chain needs a list that is
    /// not too old. May be repeated.
    #[arg(
        long = "crl",
        value_name = "FILE",
        requires = "ca",
        help_heading = "Raw public keys and certificates"
    )]
    revoked: Vec<PathBuf>,
}

impl Proof {
    /// Checks the options of the devices' side.
    pub(super) fn check_client(&self) -> Result<(), Failure> {
        let trusts = self.peers.is_some() || self.ca.is_some();
        match (&self.psk, self.key.is_some() || trusts, trusts) {
            (Some(_), false, _) | (None, true, true) => Ok(()),
            (Some(_), true, _) => Err(Failure::usage(
                "--psk and a key or certificate at once",
                "give one of them: with both, the server would choose how it is proven",
            )),
            (None, true, false) => Err(Failure::usage(
                "nothing says which server is trusted",
                "give --peers with its key, or --ca with its authority",
            )),
            (None, false, _) => Err(Failure::usage(
                "nothing proves the two sides to each other",
                "give --psk FILE, or --key FILE and --peers FILE, or --key, --certificate and --ca",
            )),
        }
    }

    /// Checks the options of the server's side.
    pub(super) fn check_server(&self, admits_anybody: bool) -> Result<(), Failure> {
        let trusts = self.peers.is_some() || self.ca.is_some();
        match (&self.psk, &self.key) {
            (None, None) => Err(Failure::usage(
                "nothing proves this server to its clients",
                "give --psk FILE, or --key FILE, with or without --certificate; or both",
            )),
            (_, None) if trusts || admits_anybody => Err(Failure::usage(
                "clients are judged by key or certificate, and the server has none",
                "give it one with --key FILE",
            )),
            (_, Some(_)) if !trusts && !admits_anybody => Err(Failure::usage(
                "nothing says which clients are trusted",
                "give --peers with their keys, --ca with their authority, or --allow-anonymous",
            )),
            _ => Ok(()),
        }
    }

    /// The files of our key.
    pub(super) fn own(&self) -> Option<own::Files> {
        let (key, certificates) = (self.key.clone()?, self.certificate.clone());
        Some(own::Files { key, certificates })
    }

    pub(super) fn peers(&self) -> Option<PathBuf> {
        self.peers.clone()
    }

    /// The files of authorities.
    pub(super) fn authorities(&self) -> Option<authorities::Files> {
        Some(authorities::Files { authorities: self.ca.clone()?, revoked: self.revoked.clone() })
    }
}

/// The name that a server's certificate must have: the one that was given, or that of the destination.
pub(super) fn server_name(given: Option<&ServerName<'static>>, to: &Target) -> Option<ServerName<'static>> {
    given.cloned().or_else(|| match to {
        Target::Address(address) => Some(ServerName::IpAddress(address.ip().into())),
        Target::Name(host, _) => ServerName::try_from(host.clone()).ok(),
    })
}

/// The name that a client tells its server: addresses are not told (RFC 6066 section 3).
pub(super) fn told_name(name: Option<&ServerName<'static>>) -> Option<String> {
    match name? {
        ServerName::DnsName(name) => Some(name.as_ref().trim_end_matches('.').to_owned()),
        _ => None,
    }
}

pub(super) fn parse_name(text: &str) -> Result<ServerName<'static>, ValueError> {
    let name = ServerName::try_from(text.to_owned());
    name.map_err(|_| ValueError::new("this is neither a host name nor an address"))
}
