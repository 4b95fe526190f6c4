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
                            type $d line = $crate::$kind::$d side<$crate::engine::$suite>;
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
                $name: ManuallyDrop<crate::$kind::Sender<$crate::engine::$suite>>,
            )*
        }

        /// Memory for a receiving line of any suite.
        #[allow(dead_code, reason = "the fields only give the union its size and alignment")]
        pub(crate) union AnyReceiver {
            none: (),
            $(
                #[cfg(feature = $feature)]
                $name: ManuallyDrop<crate::$kind::Receiver<$crate::engine::$suite>>,
            )*
        }
    };
}

suites! { $
    "aes-128-ccm-8" 1 serial ccm_8 Aes128Ccm8;
    "aes-128-ccm" 2 serial ccm Aes128Ccm;
    "aes-256-ccm" 3 serial ccm_256 Aes256Ccm;
    "ccm-star-32" 4 serial star_32 CcmStar32;
    "ccm-star-64" 5 serial star_64 CcmStar64;
    "ccm-star-128" 6 serial star_128 CcmStar128;
    "aes-128-gcm" 16 sparse gcm Aes128Gcm;
    "aes-256-gcm" 17 sparse gcm_256 Aes256Gcm;
    "chacha20-poly1305" 18 sparse chacha ChaCha20Poly1305;
    "aes-128-ocb3" 19 sparse ocb3 Aes128Ocb3;
    "aegis" 32 serial aegis Aegis128L;
    "ascon" 33 serial ascon AsconAead128;
}
