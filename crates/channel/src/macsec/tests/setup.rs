//! Channels and keys shared by the tests.

use super::super::*;
use std::vec::Vec;

pub(super) const SUITE: CipherSuite = CipherSuite::GcmAes128;
pub(super) const SCI: Sci = Sci([2, 2, 2, 2, 2, 2, 0, 1]);
pub(super) const SALT: [u8; 12] = [7; 12];
pub(super) const A0: An = An::ALL[0];
pub(super) const A1: An = An::ALL[1];

pub(in crate::macsec) fn sak(suite: CipherSuite, seed: u8) -> Sak {
    sak_with_salt(suite, seed, SALT)
}

pub(in crate::macsec) fn sak_with_salt(suite: CipherSuite, seed: u8, salt: [u8; 12]) -> Sak {
    let key: Vec<u8> = (0..suite.key_len() as u8).map(|i| i ^ seed).collect();
    Sak::new(suite, &key, suite.is_xpn().then_some(salt)).unwrap()
}

pub(in crate::macsec) fn transmit_config(suite: CipherSuite) -> TransmitConfig {
    TransmitConfig { ssci: Some(1), ..TransmitConfig::new(suite, SCI) }
}

pub(in crate::macsec) fn transmit(config: TransmitConfig) -> Transmit {
    let mut transmit = Transmit::new(config).unwrap();
    transmit.install(A0, &sak(config.suite, 0), 1, u64::MAX).unwrap();
    transmit
}

pub(in crate::macsec) fn receive(config: ReceiveConfig) -> Receive {
    let mut receive = Receive::new(config);
    receive.add_peer(SCI, Some(1)).unwrap();
    receive.install(SCI, A0, &sak(config.suite, 0), 1).unwrap();
    receive
}

/// A frame whose source is the address in [`SCI`].
pub(in crate::macsec) fn frame(len: usize) -> Vec<u8> {
    let mut frame = [[3; 6], [2; 6]].concat();
    frame.extend([0x88, 0x92]);
    frame.extend((0..len).map(|i| i as u8));
    frame
}

pub(in crate::macsec) fn protect(transmit: &mut Transmit, frame: &[u8]) -> Result<Vec<u8>, ProtectError> {
    let mut out = std::vec![0xaa; transmit.protected_len(frame.len())];
    transmit.protect(frame, &mut out).map(|len| out[..len].to_vec())
}

pub(in crate::macsec) fn validate(receive: &mut Receive, frame: &[u8]) -> Result<Vec<u8>, Discard> {
    let mut out = std::vec![0; frame.len()];
    receive.validate(frame, &mut out).map(|len| out[..len].to_vec())
}
