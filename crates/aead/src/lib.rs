//! AEAD ciphers whose work is done before the data exists.
#![no_std]

mod backend;
mod buffers;
mod chacha20poly1305;
mod engine;
mod expected;
mod gcm;
mod key;
mod nonce;
mod pool;
mod prepared;
mod slot;
mod suite;
mod tag;
mod template;
mod templated;

#[doc(hidden)]
pub use backend::Backend;
pub use chacha20poly1305::ChaCha20Poly1305;
pub use expected::{Expected, Opener, Refused};
pub use gcm::{Aes128Gcm, Aes256Gcm};
pub use key::{InvalidKeyLength, Key};
pub use nonce::{Nonce, NonceSequence};
pub use pool::{OpenPool, SealPool};
pub use prepared::{Prepared, Sealer};
pub use slot::Slot;
pub use suite::Suite;
pub use tag::{Tag, Unauthentic};
pub use template::{Hole, Template, TemplateError};
pub use templated::{ExpectedTemplate, Misfit, PrepareError, PreparedTemplate, Sealed, TemplateSlot};
