//! Refusals and their counters.

use core::fmt;

macro_rules! refusals {
    ($( $(#[$meta:meta])* $name:ident, $field:ident, $text:literal; )*) => {
        /// The reason for dropping a record or a whole datagram. The peer is not told (RFC 6347
        /// section 4.1.2.7); it is only counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Dropped { $( $(#[$meta])* $name, )* }

        /// Dropped records and datagrams, by reason.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Refusals { $( $(#[$meta])* pub $field: u64, )* }

        impl Refusals {
            /// Counts a refusal.
            pub const fn count(&mut self, refusal: Dropped) {
                match refusal { $( Dropped::$name => self.$field += 1, )* }
            }

            /// The counters with their names.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$( (stringify!($field), self.$field), )*].into_iter()
            }

            /// The sum of all counters.
            #[cfg(test)]
            pub(super) fn total(&self) -> u64 {
                self.each().map(|(_, count)| count).sum()
            }

            /// Adds another's counters.
            pub const fn add(&mut self, other: &Self) {
                $( self.$field += other.$field; )*
            }
        }

        impl fmt::Display for Dropped {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $( Self::$name => $text, )* })
            }
        }
    };
}

refusals! {
    /// it is not a record, or it is truncated
    Malformed, malformed, "no record of DTLS 1.2";
    /// its connection ID is unknown, or there is no connection with its address
    UnknownConnection, unknown_connection, "of no connection that is known";
    /// it is of another epoch than the present one
    Epoch, other_epoch, "of another epoch";
    /// it was received before
    Replayed, replayed, "received before";
    /// it is older than the window
    Late, late, "older than the replay window";
    /// it is too short for its nonce and tag
    Short, too_short, "too short for nonce and tag";
    /// its tag is wrong
    Forged, forged, "wrong tag";
    /// its plaintext exceeds the maximum length
    Overlong, overlong, "plaintext longer than a record holds";
    /// it is authentic, but contains no content type
    NoType, no_content_type, "no content type inside";
    /// it contains data and is not protected
    Unprotected, unprotected, "data without protection";
    /// it arrived before its keys, as did too many others
    Early, early, "too early";
    /// its handshake message cannot be parsed, or does not fit
    Handshake, bad_handshake, "impossible handshake message";
    /// its ClientHello has a cookie that is not ours
    Cookie, bad_cookie, "wrong cookie";
    /// it is an unprotected alert
    Alert, unprotected_alert, "alert without protection";
}

macro_rules! causes {
    ($( $(#[$meta:meta])* $name:ident, $field:ident; )*) => {
        /// The cause of a failed handshake.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Cause { $( $(#[$meta])* $name, )* }

        /// Failed handshakes, by cause.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Failures { $( $(#[$meta])* pub $field: u64, )* }

        impl Failures {
            /// Counts a failed handshake.
            pub const fn count(&mut self, cause: Cause) {
                match cause { $( Cause::$name => self.$field += 1, )* }
            }

            /// The counters with their names.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$( (stringify!($field), self.$field), )*].into_iter()
            }
        }
    };
}

causes! {
    /// no common version
    Version, no_version;
    /// no common cipher suite
    Suite, no_suite;
    /// no common group for the ephemeral keys
    Group, no_group;
    /// no extended master secret
    MasterSecret, no_master_secret;
    /// an identity without a key
    Identity, no_identity;
    /// another key than the peer's
    Key, wrong_key;
    /// no common form of certificate
    CertificateType, no_certificate_type;
    /// no certificate, or one that cannot be read
    Certificate, bad_certificate;
    /// a certificate or key without permission
    Trust, not_trusted;
    /// a certificate out of its time
    Expired, expired;
    /// a clock that cannot be right
    Clock, wrong_clock;
    /// a revoked certificate
    Revoked, revoked;
    /// no valid list of revoked certificates
    Revocation, no_revocation_list;
    /// a wrong signature
    Signature, wrong_signature;
    /// a message that broke a rule
    Message, bad_message;
    /// an alert of the peer
    Alert, peer_alert;
    /// no valid answer in time
    Silence, no_answer;
}
