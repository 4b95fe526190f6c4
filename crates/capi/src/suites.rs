//! The suites of this interface, by their numbers in `antedate.h`.

use core::mem::ManuallyDrop;

/// The table of suites: feature, number, kind of MAC, name and type. It generates the dispatch by
/// number and the memory for a line of any suite. The first argument is the dollar sign of the
/// generated macro.
macro_rules! suites {
    ($d:tt $($feature:literal $number:literal $kind:ident $name:ident $suite:ident;)*) => {
        /// Dispatch by number: evaluates `call` with `line` as the suite's line. An unknown number
        /// is `Code::Suite`.
        macro_rules! with_suite {
            ($d number:expr, $d side:ident, $d line:ident => $d call:expr) => {
                match $d number {
                    $(
                        #[cfg(feature = $feature)]
                        $number => {
                            type $d line = $crate::$kind::$d side<antedate_aead::$suite>;
                            $d call
                        }
                    )*
                    _ => Err($crate::Code::Suite),
                }
            };
        }
        pub(crate) use with_suite;

        /// Memory for a line of any suite.
        #[allow(dead_code, reason = "the fields only give the union its size and alignment")]
        pub(crate) union AnySender {
            none: (),
            $(
                #[cfg(feature = $feature)]
                $name: ManuallyDrop<crate::$kind::Sender<antedate_aead::$suite>>,
            )*
        }

        /// Memory for a receiving line of any suite.
        #[allow(dead_code, reason = "the fields only give the union its size and alignment")]
        pub(crate) union AnyReceiver {
            none: (),
            $(
                #[cfg(feature = $feature)]
                $name: ManuallyDrop<crate::$kind::Receiver<antedate_aead::$suite>>,
            )*
        }
    };
}

suites! { $
    "ccm" 1 serial ccm_8 Aes128Ccm8;
    "ccm" 2 serial ccm Aes128Ccm;
    "ccm" 3 serial ccm_256 Aes256Ccm;
    "ccm" 4 serial star_32 CcmStar32;
    "ccm" 5 serial star_64 CcmStar64;
    "ccm" 6 serial star_128 CcmStar128;
    "gcm" 16 sparse gcm Aes128Gcm;
    "gcm" 17 sparse gcm_256 Aes256Gcm;
    "chacha20-poly1305" 18 sparse chacha ChaCha20Poly1305;
    "ocb3" 19 sparse ocb3 Aes128Ocb3;
    "aegis" 32 serial aegis Aegis128L;
    "ascon" 33 serial ascon AsconAead128;
}
