//! The suites of this interface, by the numbers that `antedate.h` gives them.

use core::mem::ManuallyDrop;

/// The dispatch by number: does `$call` with the line of the suite as `$line`; another number is `Code::Suite`.
macro_rules! with_suite {
    ($number:expr, $side:ident, $line:ident => $call:expr) => {
        match $number {
            #[cfg(feature = "ccm")]
            1 => {
                type $line = $crate::serial::$side<antedate_aead::Aes128Ccm8>;
                $call
            }
            #[cfg(feature = "ccm")]
            2 => {
                type $line = $crate::serial::$side<antedate_aead::Aes128Ccm>;
                $call
            }
            #[cfg(feature = "ccm")]
            3 => {
                type $line = $crate::serial::$side<antedate_aead::Aes256Ccm>;
                $call
            }
            #[cfg(feature = "ccm")]
            4 => {
                type $line = $crate::serial::$side<antedate_aead::CcmStar32>;
                $call
            }
            #[cfg(feature = "ccm")]
            5 => {
                type $line = $crate::serial::$side<antedate_aead::CcmStar64>;
                $call
            }
            #[cfg(feature = "ccm")]
            6 => {
                type $line = $crate::serial::$side<antedate_aead::CcmStar128>;
                $call
            }
            #[cfg(feature = "gcm")]
            16 => {
                type $line = $crate::sparse::$side<antedate_aead::Aes128Gcm>;
                $call
            }
            #[cfg(feature = "gcm")]
            17 => {
                type $line = $crate::sparse::$side<antedate_aead::Aes256Gcm>;
                $call
            }
            #[cfg(feature = "chacha20-poly1305")]
            18 => {
                type $line = $crate::sparse::$side<antedate_aead::ChaCha20Poly1305>;
                $call
            }
            _ => Err($crate::Code::Suite),
        }
    };
}
pub(crate) use with_suite;

/// Memory for a line of any suite.
#[allow(dead_code)]
pub(crate) union AnySender {
    none: (),
    #[cfg(feature = "ccm")]
    ccm_8: ManuallyDrop<crate::serial::Sender<antedate_aead::Aes128Ccm8>>,
    #[cfg(feature = "ccm")]
    ccm: ManuallyDrop<crate::serial::Sender<antedate_aead::Aes128Ccm>>,
    #[cfg(feature = "ccm")]
    ccm_256: ManuallyDrop<crate::serial::Sender<antedate_aead::Aes256Ccm>>,
    #[cfg(feature = "ccm")]
    star_32: ManuallyDrop<crate::serial::Sender<antedate_aead::CcmStar32>>,
    #[cfg(feature = "ccm")]
    star_64: ManuallyDrop<crate::serial::Sender<antedate_aead::CcmStar64>>,
    #[cfg(feature = "ccm")]
    star_128: ManuallyDrop<crate::serial::Sender<antedate_aead::CcmStar128>>,
    #[cfg(feature = "gcm")]
    gcm: ManuallyDrop<crate::sparse::Sender<antedate_aead::Aes128Gcm>>,
    #[cfg(feature = "gcm")]
    gcm_256: ManuallyDrop<crate::sparse::Sender<antedate_aead::Aes256Gcm>>,
    #[cfg(feature = "chacha20-poly1305")]
    chacha: ManuallyDrop<crate::sparse::Sender<antedate_aead::ChaCha20Poly1305>>,
}

/// As [`AnySender`], for the receiving side.
#[allow(dead_code)]
pub(crate) union AnyReceiver {
    none: (),
    #[cfg(feature = "ccm")]
    ccm_8: ManuallyDrop<crate::serial::Receiver<antedate_aead::Aes128Ccm8>>,
    #[cfg(feature = "ccm")]
    ccm: ManuallyDrop<crate::serial::Receiver<antedate_aead::Aes128Ccm>>,
    #[cfg(feature = "ccm")]
    ccm_256: ManuallyDrop<crate::serial::Receiver<antedate_aead::Aes256Ccm>>,
    #[cfg(feature = "ccm")]
    star_32: ManuallyDrop<crate::serial::Receiver<antedate_aead::CcmStar32>>,
    #[cfg(feature = "ccm")]
    star_64: ManuallyDrop<crate::serial::Receiver<antedate_aead::CcmStar64>>,
    #[cfg(feature = "ccm")]
    star_128: ManuallyDrop<crate::serial::Receiver<antedate_aead::CcmStar128>>,
    #[cfg(feature = "gcm")]
    gcm: ManuallyDrop<crate::sparse::Receiver<antedate_aead::Aes128Gcm>>,
    #[cfg(feature = "gcm")]
    gcm_256: ManuallyDrop<crate::sparse::Receiver<antedate_aead::Aes256Gcm>>,
    #[cfg(feature = "chacha20-poly1305")]
    chacha: ManuallyDrop<crate::sparse::Receiver<antedate_aead::ChaCha20Poly1305>>,
}
