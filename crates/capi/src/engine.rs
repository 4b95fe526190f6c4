//! The suites of this interface, and a chip's AES engine below those of CCM.
//!
//! With the feature `callback-aes` the program gives a function that encrypts a block. An engine
//! can fail, and a block that it left alone would be key stream that anybody knows. So a failure
//! ends all contexts: the call gives [`Code::Engine`] and zeros, and so does each later one.
#![allow(unsafe_code, reason = "calls a function of C")]

use core::ffi::c_void;

#[allow(unused_imports, reason = "a build has some of the suites")]
pub(crate) use antedate_aead::*;

/// `antedate_aes`: encrypts a block under a key of 16 bytes; 0 for success.
pub type Encrypt = Option<unsafe extern "C" fn(engine: *mut c_void, key: *const u8, block: *mut u8) -> i32>;

#[cfg(not(feature = "callback-aes"))]
pub(crate) const fn ready() -> Result<(), crate::Code> {
    Ok(())
}

#[cfg(not(feature = "callback-aes"))]
pub(crate) fn set(_: Encrypt, _: *mut c_void) -> Result<(), crate::Code> {
    Err(crate::Code::Unsupported)
}

// By name: these replace the engine's own.
#[cfg(feature = "callback-aes")]
#[allow(unused_imports, reason = "a build has some of the suites")]
pub(crate) use callback::{Aes128Ccm, Aes128Ccm8, CcmStar32, CcmStar64, CcmStar128, failures, ready, set};

#[cfg(feature = "callback-aes")]
mod callback {
    use super::Encrypt;
    use crate::Code;
    use antedate_aead::{AesCcm, BlockCipher};
    use core::ffi::c_void;
    use core::ptr::null_mut;
    use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

    #[cfg(any(feature = "sparse", feature = "aes-256-ccm"))]
    compile_error!("callback-aes is for the suites of CCM with AES-128: leave the others out");

    pub(crate) type Aes128Ccm = AesCcm<Aes128, 12, 16>;
    pub(crate) type Aes128Ccm8 = AesCcm<Aes128, 12, 8>;
    pub(crate) type CcmStar32 = AesCcm<Aes128, 13, 4>;
    pub(crate) type CcmStar64 = AesCcm<Aes128, 13, 8>;
    pub(crate) type CcmStar128 = AesCcm<Aes128, 13, 16>;

    /// The function, null before it is set, and its first argument.
    static ENCRYPT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    static ENGINE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    static FAILURES: AtomicU32 = AtomicU32::new(0);

    /// Failures of the engine so far.
    pub(crate) fn failures() -> u32 {
        FAILURES.load(Ordering::Relaxed)
    }

    fn function() -> Encrypt {
        // SAFETY: null or a function of this type, from `set`. A null function pointer is `None`.
        unsafe { core::mem::transmute::<*mut c_void, Encrypt>(ENCRYPT.load(Ordering::Acquire)) }
    }

    /// Whether a function was set.
    pub(crate) fn ready() -> Result<(), Code> {
        function().map(|_| ()).ok_or(Code::Engine)
    }

    pub(crate) fn set(encrypt: Encrypt, engine: *mut c_void) -> Result<(), Code> {
        let encrypt = encrypt.ok_or(Code::Argument)?;
        ENGINE.store(engine, Ordering::Release);
        ENCRYPT.store(encrypt as *mut c_void, Ordering::Release);
        Ok(())
    }

    /// A key for the program's function.
    pub(crate) struct Aes128([u8; 16]);

    impl BlockCipher for Aes128 {
        const KEY_LEN: usize = 16;

        // The caller has refused a key of another length.
        fn new(key: &[u8]) -> Self {
            let mut bytes = [0; 16];
            for (byte, of) in bytes.iter_mut().zip(key) {
                *byte = *of;
            }
            Self(bytes)
        }

        fn encrypt(&self, block: &mut [u8; 16]) {
            let engine = ENGINE.load(Ordering::Acquire);
            // SAFETY: the header demands a function that reads 16 bytes of key and changes a block.
            let done = function()
                .is_some_and(|encrypt| unsafe { encrypt(engine, self.0.as_ptr(), block.as_mut_ptr()) == 0 });
            if !done {
                *block = [0; 16];
                // Not one operation, which some CPUs lack: any change does.
                FAILURES.store(failures().wrapping_add(1), Ordering::Relaxed);
            }
        }
    }

    impl Drop for Aes128 {
        fn drop(&mut self) {
            for byte in &mut self.0 {
                // SAFETY: a byte of the key. Volatile, so that the compiler keeps the write.
                unsafe { core::ptr::from_mut(byte).write_volatile(0) }
            }
        }
    }
}
