//! Intel's library for IPsec, through its C interface.
#![allow(unsafe_code, reason = "a library in C")]

use crate::packet::{AAD, Cipher, key};
use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;

#[repr(C)]
struct Opaque([u8; 0]);

type Call = unsafe extern "C" fn(*mut Opaque, c_int, *const u8, *const u8, u64, *mut u8, u64, *mut u8);

unsafe extern "C" {
    fn peer_version() -> *const c_char;
    fn peer_new(key: *const u8, key_bytes: c_int) -> *mut Opaque;
    fn peer_free(peer: *mut Opaque);
    fn gcm128(_: *mut Opaque, _: c_int, _: *const u8, _: *const u8, _: u64, _: *mut u8, _: u64, _: *mut u8);
    fn gcm256(_: *mut Opaque, _: c_int, _: *const u8, _: *const u8, _: u64, _: *mut u8, _: u64, _: *mut u8);
    fn chacha_direct(
        _: *mut Opaque,
        _: c_int,
        _: *const u8,
        _: *const u8,
        _: u64,
        _: *mut u8,
        _: u64,
        _: *mut u8,
    );
    fn chacha_job(
        _: *mut Opaque,
        _: c_int,
        _: *const u8,
        _: *const u8,
        _: u64,
        _: *mut u8,
        _: u64,
        _: *mut u8,
    );
    fn ccm8_job(_: *mut Opaque, _: c_int, _: *const u8, _: *const u8, _: u64, _: *mut u8, _: u64, _: *mut u8);
}

/// A manager with a key.
pub struct Peer<const T: usize> {
    peer: NonNull<Opaque>,
    call: Call,
}

fn peer<const T: usize>(key: &[u8], call: Call) -> Peer<T> {
    // SAFETY: the key has as many bytes as passed, and is copied.
    let peer = unsafe { peer_new(key.as_ptr(), key.len() as c_int) };
    Peer { peer: NonNull::new(peer).expect("ipsec-mb starts"), call }
}

impl<const T: usize> Drop for Peer<T> {
    fn drop(&mut self) {
        // SAFETY: it came from `peer_new`, and is not used after this.
        unsafe { peer_free(self.peer.as_ptr()) }
    }
}

/// Whether this CPU has the instructions without which version 1.3 ends the process.
pub fn runs_here() -> bool {
    is_x86_feature_detected!("aes")
}

/// The library's version.
pub fn version() -> String {
    // SAFETY: the library returns a zero-terminated string with static lifetime.
    unsafe { CStr::from_ptr(peer_version()) }.to_string_lossy().into_owned()
}

/// AES-128-GCM, direct.
pub fn aes_128_gcm() -> Peer<16> {
    peer(&key::<16>(), gcm128)
}

/// AES-256-GCM, direct.
pub fn aes_256_gcm() -> Peer<16> {
    peer(&key::<32>(), gcm256)
}

/// ChaCha20-Poly1305, direct.
pub fn chacha20_poly1305() -> Peer<16> {
    peer(&key::<32>(), chacha_direct)
}

/// ChaCha20-Poly1305, as a job.
pub fn chacha20_poly1305_job() -> Peer<16> {
    peer(&key::<32>(), chacha_job)
}

/// AES-128-CCM with an 8-byte tag: there is no direct call.
pub fn aes_128_ccm_8_job() -> Peer<8> {
    peer(&key::<16>(), ccm8_job)
}

impl<const T: usize> Peer<T> {
    #[inline]
    fn run(&mut self, seal: bool, nonce: &[u8; 12], buffer: &mut [u8]) -> [u8; T] {
        let mut tag = [0; T];
        let (data, len) = (buffer.as_mut_ptr(), buffer.len() as u64);
        let (peer, aad, aad_len) = (self.peer.as_ptr(), AAD.as_ptr(), AAD.len() as u64);
        // SAFETY: the pointers are to slices of the lengths passed, and to a tag as long as `call`
        // writes.
        unsafe {
            (self.call)(peer, c_int::from(seal), nonce.as_ptr(), aad, aad_len, data, len, tag.as_mut_ptr())
        };
        tag
    }
}

impl<const T: usize> Cipher<12, T> for Peer<T> {
    #[inline]
    fn seal(&mut self, nonce: &[u8; 12], buffer: &mut [u8]) -> [u8; T] {
        self.run(true, nonce, buffer)
    }

    #[inline]
    fn open(&mut self, nonce: &[u8; 12], buffer: &mut [u8], tag: &[u8; T]) -> bool {
        // The library leaves the comparison to the caller.
        let expected = self.run(false, nonce, buffer);
        expected.iter().zip(tag).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
    }
}
