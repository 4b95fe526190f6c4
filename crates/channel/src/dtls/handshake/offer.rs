//! The offer of a ClientHello, for a log line about a refused one.

use alloc::vec::Vec;
use core::fmt;

use antedate_wire::dtls::VERSION_1_2;
use antedate_wire::dtls::handshake::ExtensionType;

use super::super::CipherSuite;
use super::Settings;
use super::client::X25519;
use super::cookie::client_hello;

/// The most suites, and the most groups, in a line.
const MAX_SHOWN: usize = 32;

/// Version, suites and groups of a ClientHello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    version: u16,
    suites: Vec<u16>,
    groups: Vec<u16>,
    extended_master_secret: bool,
}

impl Offer {
    /// The offer in a datagram; `None` if it is no ClientHello.
    pub fn of(datagram: &[u8]) -> Option<Self> {
        let (_, _, hello) = client_hello(datagram).ok()?;
        let groups = hello.extensions.get(ExtensionType::SupportedGroups).unwrap_or_default();
        let groups = groups.get(2..).unwrap_or_default();
        Some(Self {
            version: hello.version,
            suites: hello.suites().collect(),
            groups: groups.as_chunks().0.iter().map(|group| u16::from_be_bytes(*group)).collect(),
            extended_master_secret: hello.extensions.get(ExtensionType::ExtendedMasterSecret).is_some(),
        })
    }

    /// The reason why a server with these settings refuses it.
    pub fn mismatch(&self, settings: &Settings) -> &'static str {
        let common = |suite: &&CipherSuite| self.suites.contains(&suite.number());
        let mut common = settings.suites.iter().filter(common).peekable();
        if self.version > VERSION_1_2 {
            "the client speaks DTLS 1.0 only"
        } else if common.peek().is_none() {
            "no cipher suite of the client is enabled here"
        } else if common.all(|suite| suite.is_ecdhe()) && !self.groups.contains(&X25519) {
            "the common cipher suites need the group X25519, which the client lacks"
        } else if settings.require_extended_master_secret && !self.extended_master_secret {
            "the client lacks the extended master secret (RFC 7627)"
        } else {
            "the ClientHello breaks a rule"
        }
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("suites")?;
        for number in self.suites.iter().take(MAX_SHOWN) {
            match CipherSuite::from_number(*number) {
                Some(suite) => write!(f, " {suite}")?,
                None => write!(f, " {number:#06x}")?,
            }
        }
        f.write_str(", groups")?;
        self.groups.iter().take(MAX_SHOWN).try_for_each(|group| write!(f, " {group:#06x}"))
    }
}
