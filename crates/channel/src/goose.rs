//! GOOSE, authenticated or encrypted on Ethernet, in the manner of IEC 62351-6 with AES-GMAC and AES-GCM.
//!
//! ```text
//! | addresses | 88-B8 | APPID | Length | Reserved1 | Reserved2 | PDU | extension |
//!                                        length of   CRC-16 of        time of current key (4), time to next key (2), key (4),
//!                                        the         the 8 octets     length of the IV (1), IV (12), 0x85, 16, MAC (16)
//!                                        extension   before it
//! ```
//!
//! Only public descriptions of IEC 62351-6 were at hand, not its text. What is taken from them: a second octet of Reserved1 with the
//! length of an extension behind the PDU, which `Length` does not count; a CRC of ISO/IEC 13239 in Reserved2; GMAC for authenticity and
//! GCM for confidentiality besides; and the extension's fields, which are those of IEC TR 61850-90-5 (and RFC 8052), with the signature's
//! tag 0x85. What is ours, because it had to be decided: which octets the CRC and the MAC cover ([`Layout`]), the tag of full length, and the
//! IV: the sender's four octets and a counter of eight.
//!
//! That counter is the point. It contains no time, so the packet of an event is prepared before the event: all but `t`, `stNum`, `sqNum` and
//! the values is known ([`antedate_wire::goose::Message`]), and a [`Publisher`] has one multiplication in GF(2^128) for each block that
//! they touch left to do. The same preparation serves the retransmission, should no event come: a number is spent once either way.
//!
//! A [`Subscriber`] delivers what is authentic, and each number once; nothing else comes out, and all that does not is counted.
//! In the GMAC form the PDU is in the clear and `Length` ends with it, so that a subscriber that knows nothing of this reads it.

mod counter;
mod extension;
mod publisher;
mod subscriber;
#[cfg(test)]
mod tests;

pub use counter::{Counter, Spent};
pub use extension::{EXTENSION_LEN, KeyPeriod};
pub use publisher::{BLOCKS, CAPACITY, Layout, LayoutError, PublishError, Publisher};
pub use subscriber::{Counters, Dropped, Subscriber};

/// What is done to the PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// AES-GMAC: it can be read by anybody, and changed by nobody
    Authenticated,
    /// AES-GCM: it can be read by who has the key alone
    Encrypted,
}
