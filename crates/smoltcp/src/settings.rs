//! Settings of a device, and reasons for refusing them.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use antedate_channel::macsec::{CipherSuite, Sci};
use antedate_channel::mka::{AUTOMATIC, Config, MAX_PEERS};
use antedate_wire::EthernetAddress;
use antedate_wire::macsec::{ICV_LEN, TAG_LEN_LONG};
use smoltcp::phy::{DeviceCapabilities, Medium};

/// Octets that MACsec adds to a frame: a SecTAG with SCI and an ICV (IEEE 802.1AE-2018 clause 9).
pub const OVERHEAD: usize = TAG_LEN_LONG + ICV_LEN;
/// The smallest MTU of a driver, in octets with the Ethernet header: IPv4 datagrams of 576 octets
/// must pass (RFC 791), and MKPDUs of some members.
pub const MIN_MTU: usize = 14 + 576 + OVERHEAD;

/// Settings of a device. [`Settings::new`] has defaults for all but the address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// the device's address, which is the source of its frames and a part of its SCI
    pub address: EthernetAddress,
    /// the port identifier of the SCI, 1 to 0x7fff; different for devices with one address
    pub port: u16,
    /// the permitted cipher suites, fastest first; only GCM-AES is standard
    pub suites: Vec<CipherSuite>,
    /// encrypts, or protects integrity only; all members must agree
    pub confidentiality: bool,
    /// the priority as key server: the lowest value wins, 255 never serves
    pub priority: u8,
    /// the destinations of MKPDUs, the preferred one first, at most 8: those are used that reach the
    /// others
    pub destinations: Vec<EthernetAddress>,
    /// the most packet numbers that a received frame may be late by
    pub replay_window: u32,
    /// the most other members, up to 63
    pub max_peers: usize,
    /// the time after which the device, as key server, distributes a fresh key; `None`: only when
    /// packet numbers run out
    pub rekey_after: Option<Duration>,
}

impl Settings {
    /// A device with this address: GCM-AES-128, encryption, no replay window, up to 8 other members,
    /// and a priority behind those of gateways.
    pub fn new(address: EthernetAddress) -> Self {
        Self {
            address,
            port: Sci::PORT_END_STATION,
            suites: vec![CipherSuite::GcmAes128],
            confidentiality: true,
            priority: 200,
            destinations: AUTOMATIC.to_vec(),
            replay_window: 0,
            max_peers: 8,
            rekey_after: None,
        }
    }

    /// The secure channel of the device.
    pub fn sci(&self) -> Sci {
        Sci::new(self.address, self.port)
    }

    /// Checks the settings, and the driver's capabilities.
    pub(crate) fn check(&self, driver: &DeviceCapabilities) -> Result<(), SetupError> {
        let mtu = driver.max_transmission_unit;
        if driver.medium != Medium::Ethernet {
            return Err(SetupError::NotEthernet);
        }
        if mtu < MIN_MTU {
            return Err(SetupError::MtuTooSmall { mtu });
        }
        if self.address.is_multicast() || self.address.0 == [0; 6] {
            return Err(SetupError::NotUnicast(self.address));
        }
        if self.port == 0 || self.port >= 1 << 15 {
            return Err(SetupError::Port(self.port));
        }
        if self.suites.is_empty() {
            return Err(SetupError::NoSuite);
        }
        if self.destinations.is_empty() || self.destinations.len() > 8 {
            return Err(SetupError::Destinations(self.destinations.len()));
        }
        if self.max_peers == 0 || self.max_peers > MAX_PEERS {
            return Err(SetupError::Peers(self.max_peers));
        }
        Ok(())
    }

    /// The settings of key agreement.
    pub(crate) fn participant(self) -> Config {
        let config = Config::new(self.sci());
        Config {
            priority: self.priority,
            destinations: self.destinations,
            source: self.address,
            suites: self.suites,
            confidentiality: self.confidentiality,
            rekey_after: self.rekey_after,
            max_peers: self.max_peers,
            ..config
        }
    }
}

/// The reason for not setting up a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupError {
    /// the driver's medium is not Ethernet
    NotEthernet,
    /// the driver's MTU is below [`MIN_MTU`]
    MtuTooSmall {
        /// the driver's MTU, in octets with the Ethernet header
        mtu: usize,
    },
    /// the address is not one of a single station
    NotUnicast(EthernetAddress),
    /// the port identifier is 0, or belongs to express channels (0x8000 and above)
    Port(u16),
    /// no cipher suite is permitted
    NoSuite,
    /// there is no destination of MKPDUs, or there are more than 8
    Destinations(usize),
    /// the number of other members is 0 or above 63
    Peers(usize),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEthernet => f.write_str("the driver's medium is not Ethernet, which MACsec protects"),
            Self::MtuTooSmall { mtu } => {
                write!(f, "the driver's MTU is {mtu} octets, at least {MIN_MTU} are needed")
            }
            Self::NotUnicast(address) => write!(f, "{address} is not the address of a single station"),
            Self::Port(port) => write!(f, "the port identifier {port} is not between 1 and 32767"),
            Self::NoSuite => f.write_str("no cipher suite is permitted: name one at least"),
            Self::Destinations(count) => {
                write!(f, "{count} destinations of MKPDUs, there must be 1 to 8")
            }
            Self::Peers(count) => write!(f, "{count} other members, there must be 1 to {MAX_PEERS}"),
        }
    }
}

impl core::error::Error for SetupError {}
