//! AES-128 and the keys of IEEE 802.1X, apart from the code under test.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit as _};
use aes_kw::KwAes128;
use cmac::{Cmac, Mac};

pub(super) fn encrypted(key: [u8; 16], block: [u8; 16]) -> [u8; 16] {
    let mut block = block.into();
    Aes128::new(&key.into()).encrypt_block(&mut block);
    block.into()
}

/// The keys of the rounds (FIPS 197, section 5.2). The first is the key.
pub(super) fn expanded(key: [u8; 16]) -> [[u8; 16]; 11] {
    let mut rounds = [key; 11];
    let mut constant = 1;
    for at in 1..11 {
        let last = rounds[at - 1];
        let mut word = [last[13], last[14], last[15], last[12]].map(substituted);
        word[0] ^= constant;
        constant = doubled(constant);
        for (column, octets) in last.chunks(4).enumerate() {
            for (place, octet) in octets.iter().enumerate() {
                word[place] ^= octet;
                rounds[at][4 * column + place] = word[place];
            }
        }
    }
    rounds
}

/// A key derived from a CAK of 128 bits (IEEE 802.1X-2020, clauses 6.2.1 and 9.3.3).
pub(super) fn derived(cak: [u8; 16], label: &[u8], name: &str) -> [u8; 16] {
    let mut id: Vec<u8> = name.as_bytes().chunks(2).map(octet).collect();
    id.resize(16, 0);
    let mut mac = Cmac::<Aes128>::new(&cak.into());
    [&[1], label, &[0], &id, &128_u16.to_be_bytes()].iter().for_each(|piece| mac.update(piece));
    mac.finalize().into_bytes().into()
}

fn octet(digits: &[u8]) -> u8 {
    digits.iter().fold(0, |octet, digit| octet << 4 | char::from(*digit).to_digit(16).expect("a digit") as u8)
}

/// A key out of its wrapping (RFC 3394).
pub(super) fn unwrapped(kek: [u8; 16], wrapped: &[u8]) -> [u8; 16] {
    let mut key = [0; 16];
    KwAes128::new(&kek.into()).unwrap_key(wrapped, &mut key).expect("a wrapped key");
    key
}

/// A product with x in GF(2^8).
fn doubled(octet: u8) -> u8 {
    octet << 1 ^ if octet & 0x80 == 0 { 0 } else { 0x1b }
}

fn product(a: u8, b: u8) -> u8 {
    let mut power = a;
    (0..8).fold(0, |sum, bit| {
        let next = if b >> bit & 1 == 1 { sum ^ power } else { sum };
        power = doubled(power);
        next
    })
}

/// SubBytes of one octet (FIPS 197, section 5.1.1).
fn substituted(octet: u8) -> u8 {
    let inverse = (1..=255).find(|other| product(octet, *other) == 1).unwrap_or(0);
    (0..5).fold(0x63, |sum, turns| sum ^ inverse.rotate_left(turns))
}
