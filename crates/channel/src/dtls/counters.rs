//! What was refused, and why.

use core::fmt;

macro_rules! refusals {
    ($( $(#[$meta:meta])* $name:ident, $field:ident, $text:literal; )*) => {
        /// Why a record, or a whole datagram, was dropped. On the wire nothing tells (RFC 6347 section 4.1.2.7); here it is counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Refusal { $( $(#[$meta])* $name, )* }

        /// What was dropped, by reason.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Refusals { $( $(#[$meta])* pub $field: u64, )* }

        impl Refusals {
            /// One more of these.
            pub const fn count(&mut self, refusal: Refusal) {
                match refusal { $( Refusal::$name => self.$field += 1, )* }
            }

            /// The counters with their names.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$( (stringify!($field), self.$field), )*].into_iter()
            }

            /// All of them together.
            pub fn total(&self) -> u64 {
                self.each().map(|(_, count)| count).sum()
            }

            /// Adds what another has counted.
            pub const fn add(&mut self, other: &Self) {
                $( self.$field += other.$field; )*
            }
        }

        impl fmt::Display for Refusal {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $( Self::$name => $text, )* })
            }
        }
    };
}

refusals! {
    /// it is no record, or it is cut short
    Malformed, malformed, "no record of DTLS 1.2";
    /// nobody here has its connection ID, or there is no connection with its address
    UnknownConnection, unknown_connection, "of no connection that is known";
    /// it is of another epoch than the present one
    Epoch, other_epoch, "of another epoch";
    /// it came before
    Replayed, replayed, "received before";
    /// it is older than the window
    Late, late, "older than the replay window";
    /// it is too short for its nonce and tag
    Short, too_short, "too short for nonce and tag";
    /// its tag is wrong
    Forged, forged, "wrong tag";
    /// its plaintext is longer than a record may hold
    Overlong, overlong, "plaintext longer than a record holds";
    /// it is authentic, but there is no content type in it
    NoType, no_content_type, "no content type inside";
    /// it holds data and is not protected
    Unprotected, unprotected, "data without protection";
    /// it came before its keys, and too many others did
    Early, early, "too early";
    /// its handshake message cannot be read, or does not fit
    Handshake, bad_handshake, "impossible handshake message";
    /// its ClientHello came with a cookie that we did not give
    Cookie, bad_cookie, "wrong cookie";
    /// it is an alert that nobody vouches for
    Alert, unprotected_alert, "alert without protection";
}
