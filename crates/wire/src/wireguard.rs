//! The messages of WireGuard (J. Donenfeld, "WireGuard: Next Generation Kernel Network Tunnel",
//! NDSS 2017, section 5.4).
//!
//! Four messages, each in one UDP datagram. All integers are little-endian, and three zero octets
//! follow the type:
//!
//! ```text
//!   1 initiation   sender 4, ephemeral 32, static 32+16, timestamp 12+16, MAC1 16, MAC2 16     148
//!   2 response     sender 4, receiver 4, ephemeral 32, empty 0+16, MAC1 16, MAC2 16             92
//!   3 cookie reply receiver 4, nonce 24, cookie 16+16                                           64
//!   4 transport    receiver 4, counter 8, packet n+16                                       32 + n
//! ```
//!
//! A length of the form `n+16` is an AEAD's ciphertext and tag.

use crate::bytes::array;
use crate::{Error, Result};

/// Octets of an initiation.
pub const INITIATION_LEN: usize = 148;
/// Octets of a response.
pub const RESPONSE_LEN: usize = 92;
/// Octets of a cookie reply.
pub const COOKIE_REPLY_LEN: usize = 64;
/// Octets in front of a transport message's packet.
pub const TRANSPORT_HEADER_LEN: usize = 16;
/// Octets of the packet's tag.
pub const TAG_LEN: usize = 16;
/// Octets that a transport message adds to its packet, padding excluded.
pub const TRANSPORT_OVERHEAD: usize = TRANSPORT_HEADER_LEN + TAG_LEN;
/// Packets are padded with zeros to a multiple of this many octets.
pub const PADDING: usize = 16;
/// Octets of a MAC at the end of both handshake messages.
pub const MAC_LEN: usize = 16;

/// The type octets.
mod kind {
    pub(super) const INITIATION: u8 = 1;
    pub(super) const RESPONSE: u8 = 2;
    pub(super) const COOKIE_REPLY: u8 = 3;
    pub(super) const TRANSPORT: u8 = 4;
}

/// The first message of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Initiation {
    /// the index that identifies the sender's session
    pub sender: u32,
    /// the ephemeral public key
    pub ephemeral: [u8; 32],
    /// the static public key, encrypted
    pub static_key: [u8; 48],
    /// the TAI64N timestamp, encrypted
    pub timestamp: [u8; 28],
}

/// The second message of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// the index that identifies the sender's session
    pub sender: u32,
    /// the index of the initiation's sender
    pub receiver: u32,
    /// the ephemeral public key
    pub ephemeral: [u8; 32],
    /// nothing, encrypted
    pub empty: [u8; 16],
}

/// The answer of a peer under load: a cookie for the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CookieReply {
    /// the index in the answered message
    pub receiver: u32,
    /// the nonce
    pub nonce: [u8; 24],
    /// the cookie, encrypted
    pub cookie: [u8; 32],
}

/// A message with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transport<'a> {
    /// the index of the session at the receiver
    pub receiver: u32,
    /// the counter, which is the nonce
    pub counter: u64,
    /// the encrypted packet, without its tag; empty for a keepalive
    pub packet: &'a [u8],
    /// its tag
    pub tag: &'a [u8; TAG_LEN],
}

/// Any message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// type 1
    Initiation(Initiation),
    /// type 2
    Response(Response),
    /// type 3
    CookieReply(CookieReply),
    /// type 4
    Transport(Transport<'a>),
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

impl<'a> Message<'a> {
    /// Reads a datagram. Lengths are exact: extra octets behind a handshake message are an error.
    pub fn parse(datagram: &'a [u8]) -> Result<Self> {
        let d = datagram;
        let Some([kind, 0, 0, 0]) = d.first_chunk::<4>() else {
            return Err(if d.len() < 4 { Error::Truncated } else { Error::Value });
        };
        let exactly = |len: usize| match d.len() {
            there if there < len => Err(Error::Truncated),
            there if there > len => Err(Error::Length),
            _ => Ok(()),
        };
        match *kind {
            kind::INITIATION => {
                exactly(INITIATION_LEN)?;
                Ok(Self::Initiation(Initiation {
                    sender: le32(d, 4),
                    ephemeral: array(d, 8),
                    static_key: array(d, 40),
                    timestamp: array(d, 88),
                }))
            }
            kind::RESPONSE => {
                exactly(RESPONSE_LEN)?;
                Ok(Self::Response(Response {
                    sender: le32(d, 4),
                    receiver: le32(d, 8),
                    ephemeral: array(d, 12),
                    empty: array(d, 44),
                }))
            }
            kind::COOKIE_REPLY => {
                exactly(COOKIE_REPLY_LEN)?;
                Ok(Self::CookieReply(CookieReply {
                    receiver: le32(d, 4),
                    nonce: array(d, 8),
                    cookie: array(d, 32),
                }))
            }
            kind::TRANSPORT => {
                let (packet, tag) = d
                    .get(TRANSPORT_HEADER_LEN..)
                    .and_then(|rest| rest.split_last_chunk::<TAG_LEN>())
                    .ok_or(Error::Truncated)?;
                let counter = u64::from_le_bytes(array(d, 8));
                Ok(Self::Transport(Transport { receiver: le32(d, 4), counter, packet, tag }))
            }
            _ => Err(Error::Value),
        }
    }
}

impl Initiation {
    /// The octets before the MACs, and zeros in place of the MACs.
    pub fn emit(&self) -> [u8; INITIATION_LEN] {
        let mut out = [0; INITIATION_LEN];
        out[0] = kind::INITIATION;
        out[4..8].copy_from_slice(&self.sender.to_le_bytes());
        out[8..40].copy_from_slice(&self.ephemeral);
        out[40..88].copy_from_slice(&self.static_key);
        out[88..116].copy_from_slice(&self.timestamp);
        out
    }
}

impl Response {
    /// The octets before the MACs, and zeros in place of the MACs.
    pub fn emit(&self) -> [u8; RESPONSE_LEN] {
        let mut out = [0; RESPONSE_LEN];
        out[0] = kind::RESPONSE;
        out[4..8].copy_from_slice(&self.sender.to_le_bytes());
        out[8..12].copy_from_slice(&self.receiver.to_le_bytes());
        out[12..44].copy_from_slice(&self.ephemeral);
        out[44..60].copy_from_slice(&self.empty);
        out
    }
}

impl CookieReply {
    /// The message.
    pub fn emit(&self) -> [u8; COOKIE_REPLY_LEN] {
        let mut out = [0; COOKIE_REPLY_LEN];
        out[0] = kind::COOKIE_REPLY;
        out[4..8].copy_from_slice(&self.receiver.to_le_bytes());
        out[8..32].copy_from_slice(&self.nonce);
        out[32..64].copy_from_slice(&self.cookie);
        out
    }
}

/// The header of a transport message.
#[inline]
pub fn transport_header(receiver: u32, counter: u64) -> [u8; TRANSPORT_HEADER_LEN] {
    let mut out = [0; TRANSPORT_HEADER_LEN];
    out[0] = kind::TRANSPORT;
    out[4..8].copy_from_slice(&receiver.to_le_bytes());
    out[8..16].copy_from_slice(&counter.to_le_bytes());
    out
}

/// Octets of a packet of `len` octets with its padding.
#[inline]
pub const fn padded_len(len: usize) -> usize {
    len.next_multiple_of(PADDING)
}

/// Octets of the transport message for a packet of `len` octets.
#[inline]
pub const fn transport_len(len: usize) -> usize {
    padded_len(len) + TRANSPORT_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip() {
        let initiation =
            Initiation { sender: 7, ephemeral: [1; 32], static_key: [2; 48], timestamp: [3; 28] };
        assert_eq!(Message::parse(&initiation.emit()), Ok(Message::Initiation(initiation)));
        let response = Response { sender: 8, receiver: 7, ephemeral: [4; 32], empty: [5; 16] };
        assert_eq!(Message::parse(&response.emit()), Ok(Message::Response(response)));
        let reply = CookieReply { receiver: 7, nonce: [6; 24], cookie: [7; 32] };
        assert_eq!(Message::parse(&reply.emit()), Ok(Message::CookieReply(reply)));
        let mut datagram = transport_header(9, 1 << 40).to_vec();
        datagram.extend([8; 32]);
        let transport = Transport { receiver: 9, counter: 1 << 40, packet: &[8; 16], tag: &[8; 16] };
        assert_eq!(Message::parse(&datagram), Ok(Message::Transport(transport)));
    }

    #[test]
    fn wrong_lengths_and_reserved_octets_are_refused() {
        let good = Response { sender: 8, receiver: 7, ephemeral: [4; 32], empty: [5; 16] }.emit();
        for len in 0..good.len() {
            assert_eq!(Message::parse(&good[..len]), Err(Error::Truncated), "{len}");
        }
        let mut longer = good.to_vec();
        longer.push(0);
        assert_eq!(Message::parse(&longer), Err(Error::Length));
        for at in 1..4 {
            let mut bad = good;
            bad[at] = 1;
            assert_eq!(Message::parse(&bad), Err(Error::Value));
        }
        for kind in [0, 5, 255] {
            let mut bad = good;
            bad[0] = kind;
            assert_eq!(Message::parse(&bad), Err(Error::Value));
        }
        assert_eq!(Message::parse(&transport_header(1, 1)), Err(Error::Truncated));
    }

    #[test]
    fn packets_are_padded_to_sixteen_octets() {
        assert_eq!([0, 1, 16, 17].map(transport_len), [32, 48, 48, 64]);
    }
}
