//! Two devices that know each other.

use std::vec::Vec;

use super::super::*;

pub(in crate::dot15d4) const PAN: PanId = PanId(0xabcd);
pub(in crate::dot15d4) const A: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 0x0a]);
pub(in crate::dot15d4) const B: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 0x0b]);
pub(super) const LEVEL: SecurityLevel = SecurityLevel::EncMic32;
pub(super) const KEY: [u8; 16] = *b"a key of 16 byte";
pub(super) const INDEX_1: KeyLookup = KeyLookup::Identified(KeyIdentifier::Index(1));

pub(super) fn config(extended: ExtendedAddress, policy: Policy) -> Config {
    Config {
        extended,
        pan: PAN,
        short: Some(ShortAddress(u16::from(extended.0[7]))),
        policy,
        enc_without_mic: false,
    }
}

pub(super) fn device(extended: ExtendedAddress) -> Device {
    Device { pan: PAN, extended, short: Some(ShortAddress(u16::from(extended.0[7]))), exempt: false }
}

/// A device that knows `peer` and has [`KEY`] under index 1.
pub(super) fn security(own: ExtendedAddress, peer: ExtendedAddress, nonces: NonceKind) -> Security {
    let mut security = Security::new(config(own, Policy::uniform(Levels::AUTHENTICATED)));
    security.add_device(device(peer));
    security.install_key(KeyConfig::fresh(INDEX_1, LinkKey::new(KEY), nonces)).unwrap();
    security
}

pub(super) fn pair(nonces: NonceKind) -> (Security, Security) {
    (security(A, B, nonces), security(B, A, nonces))
}

pub(super) fn header(sequence: u8) -> Header {
    Header::data(sequence, Addressing::within(PAN, Address::Extended(B), Address::Extended(A)))
}

pub(super) const fn at(level: SecurityLevel) -> Protection {
    Protection { level, key: KeyIdentifier::Index(1) }
}

pub(super) fn asn(number: u64) -> Option<Asn> {
    Asn::new(number)
}

pub(super) fn secure(
    security: &mut Security,
    header: &Header,
    payload: &[u8],
    level: SecurityLevel,
    asn: Option<Asn>,
) -> Result<Vec<u8>, Status> {
    let mut out = std::vec![0xaa; 160];
    security.secure(header, &[], payload, at(level), asn, &mut out).map(|len| out[..len].to_vec())
}

pub(super) fn unsecure(security: &mut Security, frame: &[u8], asn: Option<Asn>) -> Result<Vec<u8>, Status> {
    let mut out = std::vec![0; frame.len()];
    security.unsecure(frame, asn, None, &mut out).map(|received| out[..received.len].to_vec())
}
