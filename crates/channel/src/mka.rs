//! MACsec Key Agreement with a pre-shared key (IEEE 802.1X-2020 clause 9 and 11): who the members of a connectivity
//! association are, and under which SAK they speak.
//!
//! A [`Participant`] is one member. Its caller brings received frames ([`Participant::receive`]), the time and random
//! octets ([`Participant::tick`]), and does what it is told ([`Participant::next_action`]): send a frame, receive with
//! a key, protect with a key, forget a key.
//!
//! How it goes, from the first MKPDU to the next key:
//!
//! 1. Everyone sends an MKPDU every two seconds, and at once when there is something new. It has a member identifier,
//!    chosen at random at the start, a message number that rises, and an ICV that only holders of the CAK can make.
//! 2. Who is heard is a *potential* peer. Who names our identifier with a recent message number is *live*: a recording
//!    cannot do that.
//! 3. The live participant with the lowest priority value is the *key server*. It derives a SAK and distributes it,
//!    wrapped, until all live peers say that they receive with it. Only then it transmits with it, and when it does,
//!    the others do. The old key is forgotten when all have changed, so rotation loses no frame.
//! 4. A new member, a key server that changed, packet numbers that come to their end, or time, make the key server
//!    distribute a fresh SAK. Who is silent for six seconds is no member any more.
//!
//! A SAK is never taken up a second time, and not at all when the key server already transmits with it: packet numbers
//! begin at 1 with each key, so a member that restarts must never meet a key from before. That is why key agreement
//! needs no file of packet numbers.

mod held;
mod keys;
mod listen;
mod participant;
mod peers;
mod server;
mod speak;
mod status;
#[cfg(test)]
mod tests;

pub use antedate_wire::mka::{KeyIdentifier, MemberIdentifier};
pub use held::Install;
pub use keys::{Cak, Ckn, InvalidCak};
pub use participant::{Action, Config, HELLO_TIME, LIFE_TIME, MAX_PEERS, Participant};
pub use status::{Fault, KeyStatus, Member, Refusals, Refused, Status};
