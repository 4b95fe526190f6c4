//! What was refused and why, and what happened with each peer.

use core::fmt;

macro_rules! refusals {
    ($( $(#[$meta:meta])* $name:ident, $field:ident, $text:literal; )*) => {
        /// Why a datagram was refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Refusal { $( $(#[$meta])* $name, )* }

        /// Datagrams that were refused, by reason.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Refusals { $( $(#[$meta])* pub $field: u64, )* }

        impl Refusals {
            pub(super) fn count(&mut self, refusal: Refusal) {
                match refusal { $( Refusal::$name => self.$field += 1, )* }
            }

            /// The counters with their names.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$( (stringify!($field), self.$field), )*].into_iter()
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
    /// it is no message of WireGuard
    Malformed, malformed, "no message of WireGuard";
    /// its sender does not know our public key
    Mac1, wrong_mac1, "wrong MAC1";
    /// there is much to do, and its sender has to show a cookie; one is in the answer
    CookieWanted, cookie_wanted, "a cookie is wanted";
    /// there is too much to do
    Overload, overload, "too many handshakes";
    /// it is no handshake message that was sealed for us
    ForgedHandshake, forged_handshake, "forged handshake";
    /// no peer has this public key
    UnknownPeer, unknown_peer, "unknown public key";
    /// an initiation that is not newer than the last one
    OldTimestamp, old_timestamp, "old timestamp";
    /// the peer begins handshakes too often
    Flood, flood, "initiations too close together";
    /// nobody here has this index
    UnknownIndex, unknown_index, "unknown index";
    /// the session is over
    Expired, expired, "expired session";
    /// it came before, or is too old
    Replayed, replayed, "counter received before, or too old";
    /// its counter is beyond the end
    CounterEnd, counter_end, "counter beyond the end";
    /// its tag is wrong
    ForgedData, forged_data, "wrong tag";
    /// a cookie that answers nothing
    StrayCookie, stray_cookie, "cookie that was not asked for";
}

/// What happened with a peer.
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
    /// handshakes that ended well
    pub handshakes: u64,
    /// handshakes that nobody answered
    pub handshakes_given_up: u64,
    /// times that the peer moved to another address
    pub roamed: u64,
    /// when the last handshake ended well
    pub last_handshake: u64,
    /// when the last genuine message came
    pub last_received: u64,
}
