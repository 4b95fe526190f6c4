//! The parameters of the Constrained Join Protocol (CoJP, RFC 9031 section 8.4) that concern the link
//! layer: keys, their usage, and the short address. They are CBOR.
//!
//! A device that joins asks the network's registrar with [`join_request`] and gets a [`Configuration`].
//! CoJP sends both as CoAP messages under OSCORE (RFC 8613), which is left to the caller.

use alloc::vec::Vec;
use core::fmt;

use antedate_wire::dot15d4::FrameType;
use minicbor::Decoder;
use minicbor::data::Type;

use super::key::KEY_LEN;
use super::{
    InstallError, KeyConfig, KeyIdentifier, KeyLookup, LinkKey, NonceKind, PanId, Protection, Security,
    SecurityLevel, ShortAddress, Usage,
};

/// The most keys of a configuration.
const MAX_KEYS: usize = 8;

/// Labels of parameters (table 2 of RFC 9031).
const KEY_SET: u64 = 2;
const SHORT_IDENTIFIER: u64 = 3;
const NETWORK_IDENTIFIER: u8 = 5;

/// The request of a device that joins this network, as a 6TiSCH node.
pub const fn join_request(pan: PanId) -> [u8; 5] {
    let [high, low] = pan.0.to_be_bytes();
    // A map of one pair, and a byte string of two bytes.
    [0xa1, NETWORK_IDENTIFIER, 0x42, high, low]
}

/// The use of a key: levels of security of beacons (K1), and of all other frames (K2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyUsage {
    /// of beacons, if the key is for them
    pub beacons: Option<SecurityLevel>,
    /// of data, commands and acknowledgments, if the key is for them
    pub others: Option<SecurityLevel>,
}

impl KeyUsage {
    /// The usage of a registered number (section 8.4.3.1).
    pub const fn from_number(number: u64) -> Option<Self> {
        use SecurityLevel::{EncMic32, EncMic64, EncMic128, Mic32, Mic64, Mic128};
        let of = (number % 3) as usize;
        let (plain, encrypted) = ([Mic32, Mic64, Mic128][of], [EncMic32, EncMic64, EncMic128][of]);
        Some(match number / 3 {
            0 => Self { beacons: Some(plain), others: Some(encrypted) },
            1 => Self { beacons: Some(plain), others: Some(plain) },
            2 => Self { beacons: Some(plain), others: None },
            3 => Self { beacons: None, others: Some(plain) },
            4 => Self { beacons: None, others: Some(encrypted) },
            _ => return None,
        })
    }

    const fn usage(self) -> Usage {
        use FrameType::{Ack, Beacon, Command, Data};
        match (self.beacons, self.others) {
            (Some(_), Some(_)) => Usage::ANY,
            (Some(_), None) => Usage::of(&[Beacon]),
            (None, _) => Usage::of(&[Data, Command, Ack]),
        }
    }
}

/// A key of the network.
#[derive(Debug)]
pub struct NetworkKey {
    /// its name in frames
    pub identifier: KeyIdentifier,
    /// its use
    pub usage: KeyUsage,
    /// its octets
    pub key: LinkKey,
}

/// The parameters of a joined device.
#[derive(Debug, Default)]
pub struct Configuration {
    /// the keys
    pub keys: Vec<NetworkKey>,
    /// the short address
    pub short: Option<ShortAddress>,
}

/// A configuration was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigurationError {
    /// not the CBOR that RFC 9031 prescribes
    Malformed,
    /// a usage without a registered number, or one that this device cannot have
    Usage,
    /// more keys than a device keeps
    TooMany,
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the configuration is malformed",
            Self::Usage => "a key has an unknown usage",
            Self::TooMany => "the configuration has too many keys",
        })
    }
}

impl core::error::Error for ConfigurationError {}

impl From<minicbor::decode::Error> for ConfigurationError {
    fn from(_: minicbor::decode::Error) -> Self {
        Self::Malformed
    }
}

/// The protection of a node's frames after it joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Protections {
    /// of beacons
    pub beacons: Option<Protection>,
    /// of all others
    pub others: Option<Protection>,
}

impl Configuration {
    /// Reads a configuration. Parameters of other layers are passed over.
    ///
    /// # Errors
    ///
    /// [`ConfigurationError`]; nothing is taken from it then.
    pub fn parse(octets: &[u8]) -> Result<Self, ConfigurationError> {
        let mut decoder = Decoder::new(octets);
        let pairs = decoder.map()?.ok_or(ConfigurationError::Malformed)?;
        let mut read = Self::default();
        let mut labels = Vec::new();
        for _ in 0..pairs {
            let label = decoder.u64()?;
            if labels.contains(&label) {
                return Err(ConfigurationError::Malformed);
            }
            labels.push(label);
            match label {
                KEY_SET => read.keys = key_set(&mut decoder)?,
                SHORT_IDENTIFIER => read.short = Some(short_identifier(&mut decoder)?),
                _ => decoder.skip()?,
            }
        }
        if decoder.position() == octets.len() { Ok(read) } else { Err(ConfigurationError::Malformed) }
    }

    /// Installs the keys for slots below `limit`, which the caller has recorded as possibly used, sets
    /// the short address, and returns the protection of the node's frames: of the first key for each.
    ///
    /// # Errors
    ///
    /// [`InstallError`] of the first key that could not be installed. Those before it are.
    pub fn apply(self, security: &mut Security, limit: u64) -> Result<Protections, InstallError> {
        let mut protections = Protections::default();
        for NetworkKey { identifier, usage, key } in self.keys {
            let lookup = KeyLookup::Identified(identifier);
            let fresh = KeyConfig::fresh(lookup, key, NonceKind::Asn);
            security.install_key(KeyConfig { usage: usage.usage(), limit, ..fresh })?;
            let with =
                |level: Option<SecurityLevel>| level.map(|level| Protection { level, key: identifier });
            protections.beacons = protections.beacons.or(with(usage.beacons));
            protections.others = protections.others.or(with(usage.others));
        }
        let pan = security.config().pan;
        if self.short.is_some() {
            security.set_pan(pan, self.short);
        }
        Ok(protections)
    }
}

/// Keys one behind the other: identifier, usage (if not 0), octets, source (if any).
fn key_set(decoder: &mut Decoder<'_>) -> Result<Vec<NetworkKey>, ConfigurationError> {
    let mut left = decoder.array()?.ok_or(ConfigurationError::Malformed)?;
    let mut keys = Vec::new();
    let mut next = |decoder: &mut Decoder<'_>, wanted: Option<Type>| {
        if left == 0 || wanted.is_some_and(|wanted| decoder.datatype().ok() != Some(wanted)) {
            return false;
        }
        left -= 1;
        true
    };
    while next(decoder, None) {
        if keys.len() == MAX_KEYS {
            return Err(ConfigurationError::TooMany);
        }
        let index = decoder.u8()?;
        let mut usage = 0;
        if next(decoder, Some(Type::U8)) {
            usage = decoder.u64()?;
        }
        let usage = KeyUsage::from_number(usage).ok_or(ConfigurationError::Usage)?;
        if !next(decoder, Some(Type::Bytes)) {
            return Err(ConfigurationError::Malformed);
        }
        let key: [u8; KEY_LEN] = decoder.bytes()?.try_into().map_err(|_| ConfigurationError::Malformed)?;
        let mut identifier = KeyIdentifier::Index(index);
        if next(decoder, Some(Type::Bytes)) {
            let source = decoder.bytes()?;
            let of_8 = source.try_into().map(|source| KeyIdentifier::Source8(source, index));
            let of_4 = || source.try_into().map(|source| KeyIdentifier::Source4(source, index));
            identifier = of_8.or_else(|_| of_4()).map_err(|_| ConfigurationError::Malformed)?;
        }
        keys.push(NetworkKey { identifier, usage, key: LinkKey::new(key) });
    }
    Ok(keys)
}

/// The short address, and the hours for which it is lent, if they are bounded.
fn short_identifier(decoder: &mut Decoder<'_>) -> Result<ShortAddress, ConfigurationError> {
    let len = decoder.array()?.ok_or(ConfigurationError::Malformed)?;
    let address: [u8; 2] = decoder.bytes()?.try_into().map_err(|_| ConfigurationError::Malformed)?;
    match len {
        1 => {}
        2 => {
            decoder.u64()?;
        }
        _ => return Err(ConfigurationError::Malformed),
    }
    let address = ShortAddress(u16::from_be_bytes(address));
    if address.is_assigned() { Ok(address) } else { Err(ConfigurationError::Malformed) }
}

#[cfg(test)]
mod tests {
    use std::borrow::ToOwned;
    use std::string::String;

    use super::super::{Config, ExtendedAddress, Levels, Policy};
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().chunks(2).map(|pair| core::str::from_utf8(pair).unwrap());
        digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    fn device() -> Security {
        let policy = Policy::uniform(Levels::AUTHENTICATED);
        let extended = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 9]);
        Security::new(Config { extended, pan: PanId(0xcafe), short: None, policy, enc_without_mic: false })
    }

    #[test]
    fn configuration_of_one_key_is_read() {
        // As in appendix A, by hand.
        assert_eq!(join_request(PanId(0xcafe)).to_vec(), hex("a10542cafe"));
        let read =
            Configuration::parse(&hex("a202820150e6bf4287c2d7618d6a9687445ffd33e6038142af93")).unwrap();
        assert_eq!((read.keys.len(), read.short), (1, Some(ShortAddress(0xaf93))));
        let mut security = device();
        let protections = read.apply(&mut security, u64::MAX).unwrap();
        let key = KeyIdentifier::Index(1);
        let with = |level| Some(Protection { level, key });
        let of = (with(SecurityLevel::Mic32), with(SecurityLevel::EncMic32));
        assert_eq!((protections.beacons, protections.others), of);
        assert_eq!(security.config().short, Some(ShortAddress(0xaf93)));
        assert!(security.keys().eq([KeyLookup::Identified(key)]));
    }

    #[test]
    fn keys_have_usages_and_sources() {
        // K1 for beacons under MIC-64; K2 of a source of eight octets under ENC-MIC-128. A lease of 24
        // hours; a join rate.
        let octets = hex("a302870107501111111111111111111111111111111102\
             0e5022222222222222222222222222222222480102030405060708\
             038242000118180707");
        let mut octets = octets;
        // Eight elements: one and its usage and key, then one with a source.
        octets[2] = 0x87;
        let read = Configuration::parse(&octets).unwrap();
        let [k1, k2] = &read.keys[..] else { panic!("{read:?}") };
        assert_eq!(k1.usage, KeyUsage { beacons: Some(SecurityLevel::Mic64), others: None });
        assert_eq!(k2.usage, KeyUsage { beacons: None, others: Some(SecurityLevel::EncMic128) });
        assert_eq!(k2.identifier, KeyIdentifier::Source8([1, 2, 3, 4, 5, 6, 7, 8], 2));
        let mut security = device();
        let protections = read.apply(&mut security, 100).unwrap();
        assert_eq!(protections.beacons.unwrap().key, KeyIdentifier::Index(1));
        assert_eq!(security.numbers(&KeyLookup::Identified(k2_name())), Some((0, 100)));
        // The same again: nothing is installed twice.
        let again = Configuration::parse(&octets).unwrap().apply(&mut security, 100);
        assert_eq!(again.err(), Some(InstallError::KeyInUse));
    }

    fn k2_name() -> KeyIdentifier {
        KeyIdentifier::Source8([1, 2, 3, 4, 5, 6, 7, 8], 2)
    }

    #[test]
    fn malformed_configurations_are_refused() {
        let error = |text: &str| Configuration::parse(&hex(text)).err();
        let malformed = Some(ConfigurationError::Malformed);
        for text in [
            "",
            "80",
            "a1",
            // A key of 15 bytes, a source of 3, no key, a label twice, octets behind, an address for all.
            "a10282014f111111111111111111111111111111",
            "a1028301501111111111111111111111111111111143010203",
            "a1028101",
            "a202800280",
            "a0ff",
            "a1038142ffff",
            "a103834200010102",
        ] {
            assert_eq!(error(text), malformed, "{text}");
        }
        let usage = "a10283010f5011111111111111111111111111111111";
        assert_eq!(error(usage), Some(ConfigurationError::Usage));
        let key = "0150".to_owned() + &"11".repeat(16);
        let many: String = "a10292".to_owned() + &key.repeat(9);
        assert_eq!(error(&many), Some(ConfigurationError::TooMany));
        assert_eq!(error("a0"), None);
    }
}
