//! Counters of refusals, and of each peer.

use core::fmt;

macro_rules! refusals {
    ($( $(#[$meta:meta])* $name:ident, $field:ident, $text:literal; )*) => {
        /// The reason for refusing a datagram.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Dropped { $( $(#[$meta])* $name, )* }

        /// Refused datagrams, by reason.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Refusals { $( $(#[$meta])* pub $field: u64, )* }

        impl Refusals {
            pub(super) fn count(&mut self, refusal: Dropped) {
                match refusal { $( Dropped::$name => self.$field += 1, )* }
            }

            /// The counters with their names.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$( (stringify!($field), self.$field), )*].into_iter()
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
    /// it is not a WireGuard message
    Malformed, malformed, "no message of WireGuard";
    /// its sender does not know our public key
    Mac1, wrong_mac1, "wrong MAC1";
    /// under load its sender must show a cookie; the answer contains one
    CookieWanted, cookie_wanted, "a cookie is wanted";
    /// there is too much load
    Overload, overload, "too many handshakes";
    /// it is not a handshake message sealed for us
    ForgedHandshake, forged_handshake, "forged handshake";
    /// no peer has this public key
    UnknownPeer, unknown_peer, "unknown public key";
    /// its timestamp is not newer than the last one
    OldTimestamp, old_timestamp, "old timestamp";
    /// the peer initiates too often
    Flood, flood, "initiations too close together";
    /// its index is unknown
    UnknownIndex, unknown_index, "unknown index";
    /// the session is over
    Expired, expired, "expired session";
    /// its counter was received before, or is too old
    Replayed, replayed, "counter received before, or too old";
    /// its counter is beyond the end
    CounterEnd, counter_end, "counter beyond the end";
    /// its tag is wrong
    ForgedData, forged_data, "wrong tag";
    /// its cookie answers no message
    StrayCookie, stray_cookie, "cookie that was not asked for";
}

/// Counters of a peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerCounters {
    /// packets sealed
    pub sent: u64,
    /// octets of their messages
    pub octets_sent: u64,
    /// packets opened
    pub received: u64,
    /// octets of their messages
    pub octets_received: u64,
    /// keepalives sent
    pub keepalives_sent: u64,
    /// keepalives received
    pub keepalives_received: u64,
    /// initiations sent
    pub initiations_sent: u64,
    /// completed handshakes
    pub handshakes: u64,
    /// handshakes given up without an answer
    pub handshakes_given_up: u64,
    /// changes of the peer's address
    pub roamed: u64,
    /// time of the last completed handshake
    pub last_handshake: u64,
    /// time of the last authentic message
    pub last_received: u64,
}
