//! OpenSSL, built by the crate openssl, with a context that keeps the key between packets.
#![allow(unsafe_code, reason = "a library in C")]

use crate::packet::{AAD, Cipher, key};
use openssl::cipher::{Cipher as Algorithm, CipherRef};
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;

/// One context for each direction.
pub struct Peer<const T: usize> {
    sealing: CipherCtx,
    opening: CipherCtx,
    /// CCM needs the length before the data, and has no final step.
    ccm: bool,
}

fn peer<const T: usize>(algorithm: &CipherRef, key: &[u8], ccm: bool) -> Peer<T> {
    let context = |sealing: bool| -> Result<CipherCtx, ErrorStack> {
        let mut context = CipherCtx::new()?;
        if sealing {
            context.encrypt_init(Some(algorithm), None, None)?;
        } else {
            context.decrypt_init(Some(algorithm), None, None)?;
        }
        if ccm {
            context.set_iv_length(12)?;
            context.set_tag_length(T)?;
        }
        if sealing {
            context.encrypt_init(None, Some(key), None)?;
        } else {
            context.decrypt_init(None, Some(key), None)?;
        }
        Ok(context)
    };
    let context = |sealing| context(sealing).expect("OpenSSL has this cipher");
    Peer { sealing: context(true), opening: context(false), ccm }
}

/// AES-128-GCM.
pub fn aes_128_gcm() -> Peer<16> {
    peer(Algorithm::aes_128_gcm(), &key::<16>(), false)
}

/// AES-256-GCM.
pub fn aes_256_gcm() -> Peer<16> {
    peer(Algorithm::aes_256_gcm(), &key::<32>(), false)
}

/// ChaCha20-Poly1305.
pub fn chacha20_poly1305() -> Peer<16> {
    peer(Algorithm::chacha20_poly1305(), &key::<32>(), false)
}

/// AES-128-CCM with an 8-byte tag.
pub fn aes_128_ccm_8() -> Peer<8> {
    peer(Algorithm::aes_128_ccm(), &key::<16>(), true)
}

/// AES-128-OCB.
pub fn aes_128_ocb() -> Peer<16> {
    peer(Algorithm::aes_128_ocb(), &key::<16>(), false)
}

/// Processes a whole buffer in place. The crate's own function requires space for one more block,
/// which OCB never uses: a partial block waits for the end.
fn update(context: &mut CipherCtx, buffer: &mut [u8]) -> Result<usize, ErrorStack> {
    // SAFETY: OpenSSL reads and writes `len` bytes at the same address, which it permits; nothing
    // else accesses them.
    unsafe {
        let input = std::slice::from_raw_parts(buffer.as_ptr(), buffer.len());
        context.cipher_update_unchecked(input, Some(buffer))
    }
}

/// Processes a remaining partial block.
fn finish(context: &mut CipherCtx, buffer: &mut [u8], done: usize) -> Result<(), ErrorStack> {
    // SAFETY: these modes write exactly the bytes given and not yet processed: those after `done`.
    unsafe { context.cipher_final_unchecked(buffer.get_mut(done..).unwrap_or_default()) }.map(|_| ())
}

impl<const T: usize> Peer<T> {
    fn try_seal(&mut self, nonce: &[u8; 12], buffer: &mut [u8]) -> Result<[u8; T], ErrorStack> {
        let (context, len) = (&mut self.sealing, buffer.len());
        context.encrypt_init(None, None, Some(nonce))?;
        if self.ccm {
            context.set_data_len(len)?;
        }
        context.cipher_update(&AAD, None)?;
        let done = update(context, buffer)?;
        if !self.ccm {
            finish(context, buffer, done)?;
        }
        let mut tag = [0; T];
        context.tag(&mut tag)?;
        Ok(tag)
    }

    fn try_open(&mut self, nonce: &[u8; 12], buffer: &mut [u8], tag: &[u8; T]) -> Result<(), ErrorStack> {
        let (context, len) = (&mut self.opening, buffer.len());
        context.decrypt_init(None, None, Some(nonce))?;
        context.set_tag(tag)?;
        if self.ccm {
            context.set_data_len(len)?;
        }
        context.cipher_update(&AAD, None)?;
        let done = update(context, buffer)?;
        if !self.ccm {
            finish(context, buffer, done)?;
        }
        Ok(())
    }
}

impl<const T: usize> Cipher<12, T> for Peer<T> {
    #[inline]
    fn seal(&mut self, nonce: &[u8; 12], buffer: &mut [u8]) -> [u8; T] {
        self.try_seal(nonce, buffer).expect("OpenSSL seals")
    }

    #[inline]
    fn open(&mut self, nonce: &[u8; 12], buffer: &mut [u8], tag: &[u8; T]) -> bool {
        self.try_open(nonce, buffer, tag).is_ok()
    }
}
