//! The offer of a ClientHello, for its refusal and the log line about it.

use alloc::vec::Vec;
use core::fmt;

use antedate_wire::dtls::VERSION_1_2;
use antedate_wire::dtls::handshake::certificates::{CertificateType, SignatureScheme};
use antedate_wire::dtls::handshake::{ClientHello, ExtensionType};

use super::super::{Cause, CipherSuite};
use super::cookie::client_hello;
use super::group::Group;
use super::misfit::NO_COMMON_TYPE;
use super::signed::Choice;
use super::{Asks, Settings};

/// The most suites, and the most groups, in a line.
const MAX_SHOWN: usize = 32;

/// Versions, suites and groups of a ClientHello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    version: u16,
    /// The list that replaces `version` from DTLS 1.3 on (RFC 8446 section 4.2.1).
    versions: Vec<u16>,
    suites: Vec<u16>,
    groups: Vec<u16>,
    schemes: Vec<u16>,
    /// What the client shows, and what it accepts of a server (RFC 7250).
    client_types: Vec<u8>,
    server_types: Vec<u8>,
    extended_master_secret: bool,
}

impl Offer {
    /// The offer in a datagram; `None` if it is no ClientHello.
    pub fn of(datagram: &[u8]) -> Option<Self> {
        client_hello(datagram).ok().map(|(_, _, hello)| Self::in_hello(&hello))
    }

    pub(super) fn in_hello(hello: &ClientHello<'_>) -> Self {
        let list = |kind, prefix| {
            let list = hello.extensions.get(kind).unwrap_or_default().get(prefix..).unwrap_or_default();
            list.as_chunks().0.iter().map(|number| u16::from_be_bytes(*number)).collect()
        };
        let types = |kind| {
            let list = hello.extensions.list8(kind).ok().flatten();
            list.map_or_else(|| alloc::vec![CertificateType::X509.number()], <[u8]>::to_vec)
        };
        Self {
            version: hello.version,
            versions: list(ExtensionType::SupportedVersions, 1),
            suites: hello.suites().collect(),
            groups: list(ExtensionType::SupportedGroups, 2),
            schemes: list(ExtensionType::SignatureAlgorithms, 2),
            client_types: types(ExtensionType::ClientCertificateType),
            server_types: types(ExtensionType::ServerCertificateType),
            extended_master_secret: hello.extensions.get(ExtensionType::ExtendedMasterSecret).is_some(),
        }
    }

    /// Whether DTLS 1.2 is among the versions. DTLS counts down: a later version is a smaller
    /// number.
    pub(super) fn has_version(&self) -> bool {
        self.version <= VERSION_1_2 && (self.versions.is_empty() || self.versions.contains(&VERSION_1_2))
    }

    /// The group that a server chooses.
    pub(super) fn group(&self) -> Option<Group> {
        Group::choose(&self.groups)
    }

    /// The suite that a server chooses.
    pub(super) fn suite(&self, settings: &Settings) -> Option<CipherSuite> {
        let group = self.group();
        let usable = |suite: &&CipherSuite| {
            self.suites.contains(&suite.number())
                && (!suite.is_ecdhe() || group.is_some())
                && (suite.is_psk() || self.choice(settings).is_ok())
        };
        settings.suites.iter().find(usable).copied()
    }

    /// What a server shows, and asks for, or why there is nothing in common.
    pub(super) fn choice(&self, settings: &Settings) -> Result<Choice, (Cause, &'static str)> {
        if settings.credentials.is_empty() {
            return Err((Cause::Suite, "the client wants a certificate or raw public key; see --key"));
        }
        let has = |numbers: &[u16], number: u16| numbers.contains(&number);
        if !has(&self.schemes, SignatureScheme::EcdsaSha256.number()) {
            return Err((Cause::Suite, "the client accepts no signatures by ECDSA with SHA-256"));
        }
        if !has(&self.groups, Group::P256.number()) {
            return Err((
                Cause::Group,
                "the client does not accept keys on P-256, as certificates here have",
            ));
        }
        let offered = |types: &[u8], kind: CertificateType| types.contains(&kind.number());
        let fits = |own: &super::Credentials| {
            own.signed().is_some_and(|(kind, _)| offered(&self.server_types, kind))
        };
        let own = settings.credentials.iter().position(fits);
        let own = own.ok_or((Cause::CertificateType, NO_COMMON_TYPE))?;
        let asked = settings.accepts.iter().filter(|_| settings.asks != Asks::No);
        let theirs = asked.copied().find(|kind| offered(&self.client_types, *kind));
        if theirs.is_none() && settings.asks == Asks::Firmly {
            return Err((Cause::CertificateType, NO_COMMON_TYPE));
        }
        Ok(Choice { own, theirs })
    }

    /// The reason why a server with these settings refuses it.
    pub fn mismatch(&self, settings: &Settings) -> (Cause, &'static str) {
        let common = |suite: &&CipherSuite| self.suites.contains(&suite.number());
        let mut common = settings.suites.iter().filter(common).peekable();
        if self.version > VERSION_1_2 {
            (Cause::Version, "the client speaks DTLS 1.0 only, which is not secure; configure DTLS 1.2 there")
        } else if !self.has_version() {
            (Cause::Version, "the client speaks DTLS 1.3 only; allow DTLS 1.2 there")
        } else if common.peek().is_none() {
            (Cause::Suite, "no cipher suite of the client is enabled here; see --suite, --psk and --key")
        } else if common.all(|suite| suite.is_ecdhe()) && self.group().is_none() {
            (Cause::Group, "the common cipher suites need X25519 or P-256, which the client lacks")
        } else if let (None, Err(reason)) = (self.suite(settings), self.choice(settings)) {
            reason
        } else if settings.require_extended_master_secret && !self.extended_master_secret {
            let what =
                "the client lacks the extended master secret (RFC 7627); see --allow-plain-master-secret";
            (Cause::MasterSecret, what)
        } else {
            (Cause::Message, "the ClientHello breaks a rule")
        }
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("versions")?;
        let versions =
            if self.versions.is_empty() { core::slice::from_ref(&self.version) } else { &self.versions };
        for version in versions.iter().take(MAX_SHOWN) {
            match version {
                0xfeff => f.write_str(" 1.0")?,
                0xfefd => f.write_str(" 1.2")?,
                0xfefc => f.write_str(" 1.3")?,
                other => write!(f, " {other:#06x}")?,
            }
        }
        f.write_str(", suites")?;
        for number in self.suites.iter().take(MAX_SHOWN) {
            match CipherSuite::from_number(*number) {
                Some(suite) => write!(f, " {suite}")?,
                None => write!(f, " {number:#06x}")?,
            }
        }
        f.write_str(", groups")?;
        for group in self.groups.iter().take(MAX_SHOWN) {
            match group {
                23 => f.write_str(" P-256")?,
                24 => f.write_str(" P-384")?,
                25 => f.write_str(" P-521")?,
                29 => f.write_str(" X25519")?,
                30 => f.write_str(" X448")?,
                other => write!(f, " {other:#06x}")?,
            }
        }
        Ok(())
    }
}
