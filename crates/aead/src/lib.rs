//! AEAD ciphers whose work is done before the data exists.
//!
//! Nearly all that a cipher does for a packet depends on the key and the nonce alone. The key is known for months, and
//! the nonce is a counter. So that work can be done in idle time, and the moment when the data is there sees only what
//! depends on the data: an XOR and a MAC that is a polynomial. The bytes on the wire are those of the standard cipher.
//!
//! # The story
//!
//! A [`Key`] of a [`Suite`] goes into a [`Sealer`] together with a [`NonceSequence`], which gives each nonce once. The
//! sealer [prepares](Sealer::prepare) a packet in a [`Slot`], memory that the caller owns: the [`Prepared`] packet
//! owns its nonce. It prepares on in [steps](Prepared::step) of bounded work, and [`Prepared::seal`] consumes it. If
//! the data comes before all is prepared, the packet goes the ordinary way, with the same nonce and the same bytes.
//!
//! ```
//! use antedate_aead::{Aes128Gcm, Key, Nonce, NonceSequence, Opener, Sealer, Slot};
//!
//! struct Counter(u64);
//!
//! fn nonce_of(number: u64) -> [u8; 12] {
//!     let mut nonce = *b"line\0\0\0\0\0\0\0\0";
//!     nonce[4..].copy_from_slice(&number.to_be_bytes());
//!     nonce
//! }
//!
//! impl NonceSequence for Counter {
//!     type Error = &'static str;
//!     fn next(&mut self) -> Result<(u64, Nonce), Self::Error> {
//!         let number = self.0;
//!         self.0 = number.checked_add(1).ok_or("the key is worn out")?;
//!         Ok((number, Nonce::assume_unique(nonce_of(number))))
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let bytes = *b"sixteen byte key";
//! let mut sealer = Sealer::new(Key::<Aes128Gcm>::new(&bytes)?, Counter(1));
//! let mut slot = Slot::<_, 128>::new();
//!
//! // Idle time: the nonce is taken, the cipherstream is made.
//! let mut prepared = sealer.prepare(&mut slot)?;
//! while prepared.step(1) > 0 {}
//!
//! // The sensor has spoken.
//! let number = prepared.number();
//! let mut ciphertext = [0; 8];
//! let tag = prepared.seal(b"header", b"21.5 deg", &mut ciphertext);
//!
//! // The receiver knows which number comes next, and prepares as well.
//! let opener = Opener::new(Key::<Aes128Gcm>::new(&bytes)?, nonce_of);
//! let mut expected = opener.expect(number, &mut slot);
//! expected.step(3);
//! let mut plain = [0; 8];
//! expected.open(b"header", &ciphertext, &mut plain, tag.as_bytes()).map_err(|_| "refused")?;
//! assert_eq!(&plain, b"21.5 deg");
//! # Ok(())
//! # }
//! ```
//!
//! An [`Opener`] mirrors the sealer. What it [expects](Opener::expect) is an [`Expected`] packet; a forgery is refused
//! and gives it back, prepared as it was, for the genuine one.
//!
//! A gateway prepares many packets ahead. [`SealPool`] and [`OpenPool`] are rings of slots with a sealer or an opener:
//! `idle(budget)` prepares, `next()` and `open()` use what is there.
//!
//! # Templates
//!
//! Where most bytes of a packet never change, a [`Template`] names the others as [`Hole`]s, anywhere in the associated
//! data and in the payload. The MACs are polynomials, so a [`PreparedTemplate`] has its ciphertext and its tag ready but for
//! one multiplication per block that a hole touches:
//!
//! ```
//! use antedate_aead::{Aes256Gcm, Hole, Key, Sealer, Template, TemplateSlot};
//! # use antedate_aead::{Nonce, NonceSequence};
//! # struct Counter(u8);
//! # impl NonceSequence for Counter {
//! #     type Error = &'static str;
//! #     fn next(&mut self) -> Result<(u64, Nonce), Self::Error> {
//! #         self.0 += 1;
//! #         Ok((self.0.into(), Nonce::assume_unique([self.0; 12])))
//! #     }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let payload = *b"pressure=....kPa;valve=.";
//! let holes = [Hole::Payload(9..13), Hole::Payload(23..24)];
//! let template = Template::new(b"plc 4", &payload, &holes)?;
//!
//! let mut sealer = Sealer::new(Key::<Aes256Gcm>::new(&[7; 32])?, Counter(0));
//! let mut slot = TemplateSlot::<_, 64, 2>::new();
//! let mut prepared = sealer.prepare_template(&template, &mut slot).map_err(|error| error.to_string())?;
//! while prepared.step(1) > 0 {}
//!
//! let sealed = prepared.seal(&[b"98.1", b"o"]).map_err(|misfit| misfit.to_string())?;
//! let (ciphertext, tag) = (sealed.ciphertext(), sealed.tag());
//! # assert_eq!(ciphertext.len(), 24);
//! # let mut plain = [0; 24];
//! # Key::<Aes256Gcm>::new(&[7; 32])?.open([1; 12], b"plc 4", ciphertext, &mut plain, tag.as_bytes())?;
//! # assert_eq!(&plain, b"pressure=98.1kPa;valve=o");
//! # Ok(())
//! # }
//! ```
//!
//! # Fronts
//!
//! The MAC of CCM, AEGIS, MORUS and Ascon is serial: each block depends on the one before, so what is known beforehand
//! must stand in front. A [`Front`] is associated data and the static beginning of a payload. CCM authenticates the
//! payload's length first, so the lengths that a packet may have are named, and it is prepared for each of them:
//!
//! ```
//! use antedate_aead::{Aes128Ccm8, Front, FrontSlot, Key, Sealer};
//! # use antedate_aead::{Nonce, NonceSequence};
//! # struct Counter(u8);
//! # impl NonceSequence for Counter {
//! #     type Error = &'static str;
//! #     fn next(&mut self) -> Result<(u64, Nonce), Self::Error> {
//! #         self.0 += 1;
//! #         Ok((self.0.into(), Nonce::assume_unique([self.0; 12])))
//! #     }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let front = Front::new(b"sensor 7", b"temperature=", &[16, 17])?;
//!
//! let mut sealer = Sealer::new(Key::<Aes128Ccm8>::new(&[7; 16])?, Counter(0));
//! let mut slot = FrontSlot::<_, 64, 2>::new();
//! let mut prepared = sealer.prepare_front(&front, &mut slot).map_err(|error| error.to_string())?;
//! while prepared.step(1) > 0 {}
//!
//! // One AES block is left to do, and an XOR.
//! let sealed = prepared.seal(b"21.5").map_err(|oversize| oversize.to_string())?;
//! let (ciphertext, tag) = (sealed.ciphertext(), sealed.tag());
//! # let mut plain = [0; 16];
//! # Key::<Aes128Ccm8>::new(&[7; 16])?.open([1; 12], b"sensor 7", ciphertext, &mut plain, tag.as_bytes())?;
//! # assert_eq!(&plain, b"temperature=21.5");
//! # Ok(())
//! # }
//! ```
//!
//! A packet of a length that was not named, or that comes early, is sealed with the same nonce: what is missing is done
//! first, which is no more than the plain cipher does. A [`Predictor`] learns from past packets which lengths to name.
//! [`FrontPool`] and [`TemplatePool`] are rings of such packets. A chip's AES engine takes the place of the software's
//! as a [`BlockCipher`].
//!
//! # What holds always
//!
//! - A nonce is spent once: [`Nonce`] is neither `Clone` nor `Copy`, a sealer is not `Clone`, sealing consumes the
//!   packet, and dropping one burns its nonce. One that waits without a handle stays with its sealer ([`Standby`]).
//! - No time depends on a secret. AES is bit-sliced where the CPU has no instructions for it, GHASH has no tables, and
//!   tags are compared in constant time. Time depends on lengths, on the shape of a template or a front, on whether a
//!   packet was prepared and is of what was expected. (One choice departs from this, and says so: the AES tables for
//!   CPUs without a data cache.)
//! - What is prepared is wiped when it is used, replaced or dropped; keys are wiped when dropped.
//! - Nothing unauthenticated comes out: a packet that is refused leaves zeros in the destination.
//!
//! # The rooms
//!
//! A suite is one file (`gcm`, `chacha20poly1305`, `ccm`, `ocb3`, `aegis`, `ascon`, `morus`) that implements the private
//! trait `Engine`, `SparseEngine` if it takes holes anywhere, and `Serial` if its MAC is serial; `duplex` is what the
//! three have in common whose state everything goes through. What guards nonces, slots and templates is written once
//! above them. `backend/portable` runs everywhere; `backend/x86` has the kernels with AES-NI, VAES, VPCLMULQDQ, AVX-512
//! and IFMA, `backend/arm` those with ARM's cryptographic extension and vectors. `unsafe` is in `backend`, and in `sparse` where a
//! kernel gets the address of a value. The backend is chosen when a key is expanded. What is no AEAD stands apart
//! and says so: [`unauthenticated`] has AES-CBC, [`research`] what reproduces a paper.
#![no_std]
// What a suite that is left out would have used.
#![cfg_attr(
    not(all(
        feature = "aegis",
        feature = "ascon",
        feature = "cbc",
        feature = "ccm",
        feature = "chacha20-poly1305",
        feature = "gcm",
        feature = "ocb3",
        feature = "research"
    )),
    allow(dead_code, unused_imports, unused_macros, unreachable_pub)
)]
#![cfg_attr(
    all(any(feature = "table-aes-2k", feature = "msp430-multiplier"), target_arch = "msp430"),
    feature(asm_experimental_arch)
)]

mod backend;
mod buffers;
mod bytes;
mod holes;
mod nonce;
mod slots;
mod suites;
mod tag;
mod templates;

#[doc(hidden)]
pub use backend::Backend;
pub use holes::{Hole, Template, TemplateError};
pub use nonce::{Nonce, NonceSequence};
pub use slots::expected::{Expected, Opener, Refused};
#[cfg(feature = "ccm")]
pub use slots::frame_slot::{FrameError, FrameSlot, Shape};
pub use slots::pool::{OpenPool, SealPool};
pub use slots::prepared::{Prepared, Ready, Sealer};
pub use slots::slot::Slot;
#[cfg(feature = "aegis")]
pub use suites::aegis::Aegis128L;
pub use suites::aes::{Aes128, Aes256};
#[cfg(feature = "ascon")]
pub use suites::ascon::AsconAead128;
pub use suites::block_cipher::BlockCipher;
#[cfg(feature = "ccm")]
pub use suites::ccm::{
    Aes128Ccm, Aes128Ccm8, Aes256Ccm, Aes256Ccm8, AesCcm, CcmStar32, CcmStar64, CcmStar128, CoseCcm16_64_128,
    CoseCcm16_64_256, CoseCcm16_128_128, CoseCcm16_128_256, CoseCcm64_64_128, CoseCcm64_64_256,
    CoseCcm64_128_128, CoseCcm64_128_256,
};
#[cfg(feature = "chacha20-poly1305")]
pub use suites::chacha20poly1305::ChaCha20Poly1305;
#[cfg(feature = "gcm")]
pub use suites::gcm::{Aes128Gcm, Aes256Gcm};
pub use suites::key::{InvalidKeyLength, Key};
#[cfg(feature = "gcm")]
pub use suites::linear::Linear;
#[cfg(feature = "ocb3")]
pub use suites::ocb3::Aes128Ocb3;
pub use suites::suite::{Fronted, Sparse, Suite, Usual};
pub use tag::{Tag, Unauthentic};
#[cfg(feature = "gcm")]
pub use templates::flow::{Flow, FlowPool, Halved, LENGTHS};
pub use templates::front::{Front, FrontError};
pub use templates::front_pool::{FrontPool, TemplatePool};
pub use templates::front_slot::FrontSlot;
pub use templates::fronted::{ExpectedFront, Oversize, PreparedFront, SealedFront};
pub use templates::open_standby::OpenStandby;
pub use templates::predictor::Predictor;
pub use templates::prepare_error::PrepareError;
pub use templates::standby::{FrontStandby, Standby, TemplateStandby};
pub use templates::template_slot::TemplateSlot;
pub use templates::templated::{ExpectedTemplate, Misfit, PreparedTemplate, Sealed};

/// Ciphers that are here to reproduce papers, and not to protect anything.
#[cfg(feature = "research")]
pub mod research {
    #[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
    pub use crate::suites::block::SingleBlockAes256;
    pub use crate::suites::{block::SingleBlockAes128, morus::Morus1280};
}

/// Encryption that authenticates nothing: for comparison, and for what is authenticated by other means.
pub mod unauthenticated {
    #[cfg(all(feature = "cbc", not(any(feature = "table-aes-1k", feature = "table-aes-2k"))))]
    pub use crate::suites::cbc::Aes256Cbc;
    #[cfg(feature = "cbc")]
    pub use crate::suites::cbc::{Aes128Cbc, CbcError, Iv, Unverified, ciphertext_len};
    pub use crate::suites::ctr::{CounterBlock, CtrStream, OutOfStream, StreamEnded};
}
