//! GOOSE, authenticated or encrypted on Ethernet, modelled on IEC 62351-6 with AES-GMAC and
//! AES-GCM.
//!
//! ```text
//! | addresses | 88-B8 | APPID | Length | Reserved1 | Reserved2 | PDU | extension |
//!
//! Reserved1: length of the extension
//! Reserved2: CRC-16 of the 8 octets before it
//! extension: time of current key (4), time to next key (2), key (4),
//!            length of the IV (1), IV (12), 0x85, 16, MAC (16)
//! ```
//!
//! The text of IEC 62351-6 was not available, only public descriptions of it. From them come the
//! second octet of Reserved1 with the length of an extension after the PDU, which `Length` does not
//! count; a CRC of ISO/IEC 13239 in Reserved2; GMAC for authenticity and optional GCM for
//! confidentiality; and the extension's fields, which are those of IEC TR 61850-90-5 (and RFC
//! 8052), with the signature's tag 0x85. Our own choices are the octets covered by the CRC and the
//! MAC ([`Layout`]), the full-length tag, and the IV: the publisher's address and a counter of six
//! octets.
//!
//! The counter contains no time, so an event's packet is prepared before the event: everything but
//! `t`, `stNum`, `sqNum` and the values is known ([`antedate_wire::goose::Message`]). At the event
//! a [`Publisher`] does one multiplication in GF(2^128) for each block that they touch. If no event
//! occurs, the retransmission uses the same preparation. A number is spent once either way.
//!
//! A key of a group may be one of HMAC-SHA256-128 instead ([`GroupKey`]): the same extension, whose MAC
//! is the first 16 octets of HMAC-SHA256 over the octets that GMAC covers and the IV behind them. It
//! is a serial hash, so only what is before the first late octet is done before an event.
//!
//! A [`Subscriber`] delivers authentic messages, each number once, and counts everything else. In
//! the GMAC form the PDU is in the clear and `Length` ends with it, so a subscriber without this
//! extension can read it. An [`AgeBound`] refuses events that were held back on the way.
//!
//! [`Layout::routed`] and [`RoutedSubscriber`] are the same over UDP, in the session protocol of IEC TR
//! 61850-90-5, always encrypted.
//!
//! A [`Sampler`] protects sampled values (IEC 61850-9-2) in the same form, each frame prepared while
//! the one before is on the wire. [`Subscriber::receive_sampled`] reads them.
//!
//! A group changes its key without an interruption: a subscriber [accepts](Subscriber::accept) the next
//! key beside the last, and a publisher [continues](Publisher::continued) its states with it.
//!
//! [`Pace`] says when a publisher repeats an event, and [`Supervision`] what is wrong with the
//! publishers of a control block.

mod age;
mod counter;
mod extension;
mod mac;
mod pace;
mod publisher;
mod ring;
mod routed;
mod sampler;
mod subscriber;
mod supervision;
#[cfg(test)]
mod tests;

pub use crate::sequence::NumberError;
pub use age::{AgeBound, Ages, Untimely};
pub use counter::{Counter, END};
pub use extension::{EXTENSION_LEN, KeyPeriod};
pub use mac::{GroupKey, HMAC_KEY_LEN, HmacKey};
pub use pace::Pace;
pub use publisher::{BLOCKS, CAPACITY, Last, Layout, LayoutError, PublishError, Publisher};
pub use ring::MAX_KEYS;
pub use routed::{Freshness, RoutedSubscriber};
pub use sampler::{Sample, Sampler};
pub use subscriber::{Counters, Dropped, MAX_PUBLISHERS, Subscriber};
pub use supervision::{Expected, Supervision, Trouble};

/// The protection of the PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// AES-GMAC or HMAC: readable by all, changeable by none
    Authenticated,
    /// AES-GCM: readable only with the key
    Encrypted,
}
