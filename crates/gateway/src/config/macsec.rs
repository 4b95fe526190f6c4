//! The types of `[macsec]`.

use std::path::PathBuf;

use antedate_channel::fragment::Marks;
use antedate_channel::macsec::CipherSuite;
use antedate_wire::Sci;

use super::agreement;

/// The settings of `[macsec]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Macsec {
    /// The cipher suite.
    pub cipher: Cipher,
    /// The source of its keys.
    pub keys: Keys,
    /// The SCI of this gateway.
    pub identity: Identity,
    /// Whether frames are encrypted and authenticated, or authenticated only.
    pub confidentiality: bool,
    /// How a receiver learns the SCI of a frame.
    pub sci_mode: SciMode,
    /// Whether frames longer than the uplink's MTU are sent, and accepted, in fragments.
    pub fragmentation: Fragmentation,
    /// How many packet numbers a frame may be late. 0: strictly increasing. Invalid frames are
    /// always discarded.
    pub replay_window: u32,
}

/// The cipher suite of MACsec.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Cipher {
    /// The suite of the key file, or GCM-AES-128 with key agreement.
    #[default]
    Unsaid,
    /// This suite.
    Named(CipherSuite),
    /// The key server chooses one of these by the speed of the members' CPUs. Only with key
    /// agreement: static keys have no negotiation.
    Auto(Vec<CipherSuite>),
}

/// Whether frames are sent and accepted in fragments. Fragments are not part of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fragmentation {
    /// No. A fragment counts as a frame with an invalid SecTAG.
    Off,
    /// With members that announce support in key agreement.
    #[default]
    Auto,
    /// Yes. All members of the key file support them.
    On(Marks),
}

impl Fragmentation {
    /// The setting without key agreement.
    #[must_use]
    pub fn agreed(self) -> Option<Marks> {
        match self {
            Self::On(marks) => Some(marks),
            Self::Off | Self::Auto => None,
        }
    }
}

/// The source of MACsec's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    /// `key_file`: static keys with their members.
    Static(PathBuf),
    /// `cak_file`: key agreement.
    Agreed(agreement::Settings),
}

/// The SCI of this gateway's transmit channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// A configured SCI.
    Explicit(Sci),
    /// The address of the uplink's interface, with this port number.
    OfUplink {
        /// 1 by default.
        port: u16,
    },
}

/// How the SecTAG names the secure channel (IEEE 802.1AE-2018, 9.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SciMode {
    /// The SCI is in every frame (SC set).
    Explicit,
    /// The SCI is the frame's source address and port 1 (ES set). For one machine, with the SCI's
    /// address.
    EndStation,
    /// The SCI is implied by the only peer (ES and SC clear).
    PointToPoint,
}
