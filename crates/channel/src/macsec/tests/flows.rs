//! Frames protected by flow tables equal the frames of a channel without tables.

use std::vec;
use std::vec::Vec;

use super::setup::{A0, A1, SCI, sak};
use crate::macsec::*;

fn pair(suite: CipherSuite, confidentiality: bool) -> [Transmit; 2] {
    [(); 2].map(|()| {
        let ssci = suite.is_xpn().then_some(1);
        let config = TransmitConfig { ssci, confidentiality, ..TransmitConfig::new(suite, SCI) };
        let mut transmit = Transmit::new(config).unwrap();
        transmit.install(A0, &sak(suite, 9), 1, u64::MAX).unwrap();
        transmit
    })
}

/// A cyclic frame of `len` octets with process data in the middle and a counter at its end.
fn cyclic(source: u8, len: usize, number: u64) -> Vec<u8> {
    let mut frame = [&[2; 6][..], &[2, 0, 0, 0, 0, source], &[0x88, 0x92, 0x80, 0x01]].concat();
    frame.resize(len, 0x33);
    frame[40..48].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    frame[len - 4..len - 2].copy_from_slice(&(number as u16).to_be_bytes());
    frame
}

fn shape(len: usize) -> FlowShape {
    // From the EtherType.
    FlowShape { begins: vec![0x88, 0x92, 0x80], holes: vec![28..36, len - 16..len - 14] }
}

#[test]
fn tables_change_no_frame() {
    let suites = [CipherSuite::GcmAes128, CipherSuite::GcmAes256, CipherSuite::GcmAesXpn128];
    for suite in suites {
        for len in [64, 100, 300, 1514] {
            let [mut plain, mut tables] = pair(suite, true);
            tables.set_flows(vec![shape(len)]);
            for number in 0..100 {
                // One frame in nine matches no shape, and one in ten has another constant.
                let mut frame = cyclic((number % 3) as u8, len - usize::from(number % 9 == 8), number);
                frame[50] ^= u8::from(number % 10 == 9);
                let [mut one, mut other] = [(); 2].map(|()| vec![0; 1600]);
                let len = plain.protect(&frame, &mut one).unwrap();
                assert_eq!(tables.protect(&frame, &mut other).unwrap(), len);
                assert_eq!(one[..len], other[..len], "{suite} {} {number}", frame.len());
                while tables.idle(50) > 0 {}
            }
            let served = tables.counters().out_by_tables;
            assert!((60..=90).contains(&served), "{suite} {len}: {served} of 100 by tables");
            assert_eq!(plain.counters().out_by_tables, 0);
        }
    }
}

#[test]
fn fresh_key_makes_its_own_tables() {
    let [_, mut transmit] = pair(CipherSuite::GcmAes128, true);
    transmit.set_flows(vec![shape(64)]);
    let mut out = [0; 128];
    let mut send = |transmit: &mut Transmit, count: u64| {
        let before = transmit.counters().out_by_tables;
        for number in 0..count {
            transmit.protect(&cyclic(1, 64, number), &mut out).unwrap();
            while transmit.idle(50) > 0 {}
        }
        transmit.counters().out_by_tables - before
    };
    // The first frame makes the table. The second may have a nonce that is not yet prepared for the
    // length.
    assert!(send(&mut transmit, 20) >= 18);
    transmit.install(A1, &sak(CipherSuite::GcmAes128, 3), 1, u64::MAX).unwrap();
    transmit.set_encoding_sa(A1).unwrap();
    let served = send(&mut transmit, 20);
    assert!((18..20).contains(&served), "{served} of 20");
}

#[test]
fn table_holds_its_maximum_of_blocks() {
    let most = 16 * (FLOW_BLOCKS - 1);
    for (varies, served) in [(most, true), (most + 1, false)] {
        let [_, mut transmit] = pair(CipherSuite::GcmAes128, true);
        transmit
            .set_flows(vec![FlowShape { begins: vec![0x88, 0x92], holes: vec![16..32, 32..16 + varies] }]);
        for number in 0..20 {
            transmit.protect(&cyclic(1, 400, number)[..396], &mut [0; 512]).unwrap();
            while transmit.idle(50) > 0 {}
        }
        assert_eq!(transmit.counters().out_by_tables > 0, served, "{varies}");
    }
}

#[test]
fn shape_with_changing_octets_is_dropped() {
    let [_, mut transmit] = pair(CipherSuite::GcmAes128, true);
    transmit.set_flows(vec![FlowShape { begins: vec![0x88, 0x92], holes: vec![] }]);
    let mut out = [0; 128];
    for number in 0..1_000 {
        transmit.protect(&cyclic(1, 64, number), &mut out).unwrap();
        while transmit.idle(50) > 0 {}
    }
    assert_eq!(transmit.counters().out_by_tables, 0, "no two of these frames are alike");
}

#[test]
fn tables_need_encryption_with_aes_gcm() {
    for (suite, confidentiality) in [(CipherSuite::GcmAes128, false), (CipherSuite::ChaCha20Poly1305, true)] {
        let [mut plain, mut transmit] = pair(suite, confidentiality);
        transmit.set_flows(vec![shape(64)]);
        for number in 0..20 {
            let [mut one, mut other] = [[0; 128]; 2];
            let len = plain.protect(&cyclic(1, 64, number), &mut one).unwrap();
            transmit.protect(&cyclic(1, 64, number), &mut other).unwrap();
            assert_eq!(one[..len], other[..len]);
            while transmit.idle(50) > 0 {}
        }
        assert_eq!(transmit.counters().out_by_tables, 0);
    }
}
