//! Our end of the IEEE 802.15.4 peers: a device with the project's own link-layer security.

use antedate_channel::dot15d4::{
    Address, Addressing, Asn, Config, Device, ExtendedAddress, Header, KeyConfig, KeyIdentifier, KeyLookup,
    Levels, LinkKey, NonceKind, PanId, Policy, Protection, Security, SecurityLevel, ShortAddress, Status,
};

/// The PAN of all peers.
pub(super) const PAN: PanId = PanId(0xabcd);
/// The key of all peers.
pub(super) const KEY: &str = "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf";
/// Key identifier modes 0 to 3: index 7, sources of four and of eight octets.
pub(super) const MODES: [KeyIdentifier; 4] = [
    KeyIdentifier::Implicit,
    KeyIdentifier::Index(7),
    KeyIdentifier::Source4([0x44, 0x33, 0x22, 0x11], 7),
    KeyIdentifier::Source8([0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11], 7),
];

#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) extended: ExtendedAddress,
    pub(super) short: ShortAddress,
}

impl End {
    pub(super) const fn new(number: u8) -> Self {
        let extended = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 9 + number]);
        Self { extended, short: ShortAddress(number as u16) }
    }
}

/// Our device.
pub(super) struct Own {
    security: Security,
    /// Security level and key of sent frames.
    pub(super) protection: Protection,
}

impl Own {
    /// `own` with a key for `peer`, identified by `key`, which accepts `level` alone and sends from
    /// number `next` on.
    pub(super) fn new(
        [own, peer]: [End; 2],
        level: SecurityLevel,
        key: KeyIdentifier,
        octets: [u8; 16],
        (nonces, next): (NonceKind, u64),
    ) -> Result<Self, String> {
        let mut security = Security::new(Config {
            extended: own.extended,
            pan: PAN,
            short: Some(own.short),
            policy: Policy::uniform(Levels::of(&[level])),
            // Level 4 is off by default; its tests switch it on.
            enc_without_mic: level == SecurityLevel::Enc,
        });
        let lookup = match key {
            KeyIdentifier::Implicit => KeyLookup::Peer(PAN, Address::Short(peer.short)),
            identifier => KeyLookup::Identified(identifier),
        };
        let config = KeyConfig { next, ..KeyConfig::fresh(lookup, LinkKey::new(octets), nonces) };
        security.install_key(config).map_err(|e| e.to_string())?;
        security.add_device(Device {
            pan: PAN,
            extended: peer.extended,
            short: Some(peer.short),
            exempt: false,
        });
        Ok(Self { security, protection: Protection { level, key } })
    }

    /// Returns the secured frame without its FCS.
    pub(super) fn secure(
        &mut self,
        header: &Header,
        payload: &[u8],
        asn: Option<Asn>,
    ) -> Result<Vec<u8>, String> {
        let mut out = [0; 127];
        let len = self.security.secure(header, &[], payload, self.protection, asn, &mut out);
        let len = len.map_err(|status| format!("securing: {status}"))?;
        Ok(out[..len].to_vec())
    }

    /// Returns the payload of a frame, or the reason for its refusal.
    pub(super) fn unsecure(&mut self, frame: &[u8], asn: Option<Asn>) -> Result<Vec<u8>, Status> {
        let mut out = [0; 127];
        let received = self.security.unsecure(frame, asn, None, &mut out)?;
        Ok(out[..received.len].to_vec())
    }
}

/// The header of a data frame between the short addresses of two ends.
pub(super) fn header([from, to]: [End; 2], sequence: u8) -> Header {
    let addressing = Addressing::within(PAN, Address::Short(to.short), Address::Short(from.short));
    Header { ack_request: false, ..Header::data(sequence, addressing) }
}

pub(super) fn key() -> [u8; 16] {
    std::array::from_fn(|i| 0xc0 + i as u8)
}

/// Octets in hexadecimal.
pub(super) fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Octets from hexadecimal.
pub(super) fn octets(hex: &str) -> Result<Vec<u8>, String> {
    let pair = |at: usize| {
        let pair = hex.get(at..at + 2).ok_or_else(|| format!("not hexadecimal: {hex}"))?;
        u8::from_str_radix(pair, 16).map_err(|e| format!("{hex}: {e}"))
    };
    (0..hex.len()).step_by(2).map(pair).collect()
}
