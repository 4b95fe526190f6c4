//! A sensor of temperature, humidity and pressure that seals its readings, for any chip.
//!
//! A message is a series of type, length and value. Types and lengths never change, so all of a packet
//! but its values is prepared before the reading: with AES-128-CCM_8 types and lengths stand in front,
//! with ChaCha20-Poly1305 the values may stand anywhere.
//!
//! The readings are a fixed series, because an emulated chip has no sensor. The programs print each
//! packet, and `cargo xtask firmware` compares it with the one of another implementation.
#![no_std]

use antedate_aead::{
    Aes128Ccm8, ChaCha20Poly1305, Front, FrontSlot, Hole, Key, Nonce, NonceSequence, Opener, Sealer,
    Template, TemplateSlot,
};
use core::fmt::{self, Write};

/// The values of a message: `21.5`, `45`, `998.3`.
pub type Reading = [u8; 11];

/// The readings.
pub const READINGS: [Reading; 4] = [*b"21.545998.3", *b"21.644998.3", *b"21.744998.4", *b"21.743998.6"];
/// Associated data: the sensor's name.
pub const NAME: &[u8] = b"sensor 7";
const CCM_KEY: &[u8; 16] = b"sixteen byte key";
const CHACHA_KEY: &[u8; 32] = b"thirty-two bytes are a long key!";
/// Types and lengths, then the values.
const SORTED: &[u8; 17] = b"T\x04H\x02P\x05...........";
const KNOWN: usize = 6;
/// Each value behind its type and length.
const IN_ORDER: &[u8; 17] = b"T\x04....H\x02..P\x05.....";
const LENGTHS: [usize; 1] = [SORTED.len()];

/// The packet numbers of one start. A product reserves them in flash, or agrees on a fresh key at
/// each start; this program has the same key and numbers each time, and protects nothing.
#[derive(Debug, Default)]
pub struct Numbers(u64);

/// All numbers are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WornOut;

impl NonceSequence for Numbers {
    type Error = WornOut;

    fn next(&mut self) -> Result<(u64, Nonce), WornOut> {
        self.0 = self.0.checked_add(1).ok_or(WornOut)?;
        Ok((self.0, Nonce::assume_unique(nonce_of(self.0))))
    }
}

/// The nonce of a packet: a salt and its number.
pub fn nonce_of(number: u64) -> [u8; 12] {
    let mut nonce = *b"line\0\0\0\0\0\0\0\0";
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

/// A failure, by what failed.
pub type Failure = &'static str;

/// A sealer of AES-128-CCM_8, and the memory of its next packet.
pub type Ccm = (Sealer<Aes128Ccm8, Numbers>, FrontSlot<Aes128Ccm8, 64, 1>);

/// The sealer at its start.
///
/// # Errors
/// Never: the key has the right length.
pub fn ccm() -> Result<Ccm, Failure> {
    let key = Key::new(CCM_KEY).map_err(|_| "the key of CCM")?;
    Ok((Sealer::new(key, Numbers::default()), FrontSlot::new()))
}

/// What is known of each packet: associated data, types and lengths.
///
/// # Errors
/// Never: the length is one of the lengths.
pub fn front() -> Result<Front<'static>, Failure> {
    Front::new(NAME, &SORTED[..KNOWN], &LENGTHS).map_err(|_| "the front")
}

/// Seals all readings with CCM_8, prints the packets, and opens them again.
///
/// # Errors
/// When a packet cannot be prepared, sealed, printed or opened.
pub fn run_ccm(out: &mut impl Write) -> Result<(), Failure> {
    let (mut sealer, mut slot) = ccm()?;
    let opener = Opener::new(Key::<Aes128Ccm8>::new(CCM_KEY).map_err(|_| "the key of CCM")?, nonce_of);
    let mut other = FrontSlot::<_, 64, 1>::new();
    let front = front()?;
    for reading in &READINGS {
        let mut prepared = sealer.prepare_front(&front, &mut slot).map_err(|_| "prepare")?;
        // Idle time, one AES block at a time: here the program looks at its radio.
        while prepared.step(1) > 0 {}
        // The reading is there.
        let sealed = prepared.seal(reading).map_err(|_| "seal")?;
        let tag = sealed.tag();
        print("ccm", sealed.number(), sealed.ciphertext(), tag.as_bytes(), out).map_err(|_| "print")?;
        // The receiver, on the same chip for once.
        let expected = opener.expect_front(sealed.number(), &front, &mut other).map_err(|_| "expect")?;
        let mut plain = [0; SORTED.len()];
        expected.open(NAME, sealed.ciphertext(), &mut plain, tag.as_bytes()).map_err(|_| "forged")?;
        if &plain[KNOWN..] != reading {
            return Err("another reading");
        }
    }
    Ok(())
}

/// The places of the values.
const HOLES: [Hole; 3] = [Hole::Payload(2..6), Hole::Payload(8..10), Hole::Payload(12..17)];

/// Seals all readings with ChaCha20-Poly1305, and prints the packets.
///
/// # Errors
/// When a packet cannot be prepared, sealed or printed.
pub fn run_chacha(out: &mut impl Write) -> Result<(), Failure> {
    let key = Key::<ChaCha20Poly1305>::new(CHACHA_KEY).map_err(|_| "the key of ChaCha20")?;
    let mut sealer = Sealer::new(key, Numbers::default());
    let mut slot = TemplateSlot::<_, 64, 4>::new();
    let template = Template::new(NAME, IN_ORDER, &HOLES).map_err(|_| "the template")?;
    for reading in &READINGS {
        let mut prepared = sealer.prepare_template(&template, &mut slot).map_err(|_| "prepare")?;
        while prepared.step(1) > 0 {}
        let (temperature, rest) = reading.split_at(4);
        let (humidity, pressure) = rest.split_at(2);
        let sealed = prepared.seal(&[temperature, humidity, pressure]).map_err(|_| "seal")?;
        let tag = sealed.tag();
        print("chacha", sealed.number(), sealed.ciphertext(), tag.as_bytes(), out).map_err(|_| "print")?;
    }
    Ok(())
}

/// Prints a packet: cipher, number, ciphertext and tag in hexadecimal digits.
///
/// # Errors
/// When `out` fails.
pub fn print(cipher: &str, number: u64, ciphertext: &[u8], tag: &[u8], out: &mut impl Write) -> fmt::Result {
    write!(out, "{cipher} {number} ")?;
    ciphertext.iter().chain(tag).try_for_each(|octet| write!(out, "{octet:02x}"))?;
    writeln!(out)
}
