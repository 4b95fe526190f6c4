//! AEAD ciphers that do their work before the data exists.
//!
//! Most of a cipher's work for a packet depends on the key and the nonce alone. The key lasts for
//! months, and the nonce is a counter. This crate does that work in idle time. When the data
//! arrives, an XOR and the MAC of the new bytes are left. The bytes on the wire are those of the
//! standard cipher.
//!
//! # Sealing and opening
//!
//! A [`Sealer`] holds a [`Key`] of a [`Suite`] and a [`NonceSequence`], which gives each nonce
//! once. The sealer [prepares](Sealer::prepare) a packet in a [`Slot`], memory of the caller. The
//! [`Prepared`] packet owns its nonce, continues in [steps](Prepared::step) of bounded work, and is
//! consumed by [`Prepared::seal`]. A packet that is not fully prepared is sealed directly, with the
//! same nonce and the same bytes.
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
//! // Idle time: take the nonce, make the key stream.
//! let mut prepared = sealer.prepare(&mut slot)?;
//! while prepared.step(1) > 0 {}
//!
//! // The value is there.
//! let number = prepared.number();
//! let mut ciphertext = [0; 8];
//! let tag = prepared.seal(b"header", b"21.5 deg", &mut ciphertext);
//!
//! // The receiver knows the next number and prepares too.
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
//! An [`Opener`] is the receiving side. A forgery is refused and gives the [`Expected`] packet
//! back, still prepared for the genuine one.
//!
//! [`SealPool`] and [`OpenPool`] are rings of slots that prepare many packets ahead: `idle(budget)`
//! prepares, `next()` and `open()` use the result.
//!
//! # Templates
//!
//! A [`Template`] has fixed bytes and [`Hole`]s, anywhere in the associated data and the payload.
//! Where the MAC is a polynomial, a [`PreparedTemplate`] has its ciphertext and tag ready except
//! for one multiplication for each block that a hole touches:
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
//! The MAC of CCM, AEGIS, MORUS and Ascon is serial: each block depends on the one before. A
//! [`Front`] is the associated data and the fixed beginning of a payload. CCM authenticates the
//! payload's length first, so a front names the possible lengths, and the packet is prepared for
//! each of them:
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
//! // One AES block and an XOR are left.
//! let sealed = prepared.seal(b"21.5").map_err(|oversize| oversize.to_string())?;
//! let (ciphertext, tag) = (sealed.ciphertext(), sealed.tag());
//! # let mut plain = [0; 16];
//! # Key::<Aes128Ccm8>::new(&[7; 16])?.open([1; 12], b"sensor 7", ciphertext, &mut plain, tag.as_bytes())?;
//! # assert_eq!(&plain, b"temperature=21.5");
//! # Ok(())
//! # }
//! ```
//!
//! A packet of another length, or one that is not fully prepared, is sealed with the same nonce and
//! at most the plain cipher's work. A [`Predictor`] learns the likely lengths from past packets.
//! [`FrontPool`] and [`TemplatePool`] are rings of such packets. A chip's AES engine replaces the
//! software's as a [`BlockCipher`].
//!
//! # Guarantees
//!
//! - Each nonce is used once: [`Nonce`] is neither `Clone` nor `Copy`, a sealer is not `Clone`,
//!   sealing consumes the packet, and dropping a packet burns its nonce. A packet that waits
//!   without a handle stays with its sealer ([`Standby`]).
//! - Time never depends on a secret: AES is bit-sliced or byte shuffles where the CPU has no
//!   instructions for it, GHASH has no tables that a secret indexes in memory, and tags are compared
//!   in constant time. Time depends on lengths, on the shape of a template or a front, and on whether
//!   a packet was prepared and matches its expectation. The one exception is the feature of AES
//!   tables, for CPUs without a data cache.
//! - Prepared secrets are wiped when used, replaced or dropped; keys are wiped when dropped.
//! - Unauthenticated plaintext is never returned: a refused packet leaves zeros in the destination.
//!
//! # Map
//!
//! Each folder imports from those below it alone:
//!
//! | module | content |
//! | --- | --- |
//! | `templates` | packets prepared for a template or a front, their pools, flow tables |
//! | `slots` | slots, sealers, openers and pools: all types that guard nonces |
//! | `suites` | the ciphers, the traits `Engine`, `SparseEngine` and `Serial` that they implement, `Key` |
//! | `backend` | primitives per CPU: `portable`, `x86`, `arm`, `table`; GCM and OCB3 over any AES |
//! | `holes` | templates and their pieces, weights and values |
//! | `bytes`, `buffers`, `nonce`, `tag` | arrays of bytes and wiping, source and destination, nonces, tags |
//!
//! A key is expanded for one backend and keeps it. `unsafe` code is in `backend`, and in
//! `holes/values.rs`, where a kernel gets the address of a value. Ciphers that are no AEAD are in
//! [`unauthenticated`] and [`research`].
#![no_std]
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
    allow(
        dead_code,
        unused_imports,
        unused_macros,
        unreachable_pub,
        reason = "used by suites that are left out"
    )
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
pub use backend::registers::wipe_registers;
pub use holes::{Hole, Template, TemplateError};
pub use nonce::{Nonce, NonceSequence};
pub use slots::expected::{Expected, Opener, RefusedError};
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
pub use suites::key::{Key, KeyLengthError};
#[cfg(feature = "gcm")]
pub use suites::linear::Linear;
#[cfg(feature = "ocb3")]
pub use suites::ocb3::Aes128Ocb3;
#[cfg(feature = "rustcrypto")]
pub use suites::rustcrypto::SizedKey;
pub use suites::suite::{Fronted, Sparse, Suite, Usual};
pub use tag::{AuthenticationError, Tag};
#[cfg(feature = "gcm")]
pub use templates::flow::{Flow, FlowPool, Halved, LENGTHS};
pub use templates::front::{Front, FrontError};
pub use templates::front_pool::{FrontPool, TemplatePool};
pub use templates::front_slot::FrontSlot;
pub use templates::fronted::{ExpectedFront, OversizeError, PreparedFront, SealedFront};
pub use templates::open_standby::OpenStandby;
pub use templates::predictor::Predictor;
pub use templates::prepare_error::PrepareError;
pub use templates::standby::{FrontStandby, Standby, TemplateStandby};
pub use templates::template_slot::TemplateSlot;
pub use templates::templated::{ExpectedTemplate, MisfitError, PreparedTemplate, Sealed};

/// Ciphers that reproduce papers. Never protect data with them.
#[cfg(feature = "research")]
pub mod research {
    #[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
    pub use crate::suites::block::SingleBlockAes256;
    pub use crate::suites::{block::SingleBlockAes128, morus::Morus1280};
}

/// Encryption without authentication: for comparison, and for data that is authenticated by other
/// means.
pub mod unauthenticated {
    #[cfg(all(feature = "cbc", not(any(feature = "table-aes-1k", feature = "table-aes-2k"))))]
    pub use crate::suites::cbc::Aes256Cbc;
    #[cfg(feature = "cbc")]
    pub use crate::suites::cbc::{Aes128Cbc, Begun, CbcError, Iv, Unverified, ciphertext_len};
    pub use crate::suites::ctr::{CounterBlock, CtrStream, OutOfStreamError, StreamEndedError};
}
