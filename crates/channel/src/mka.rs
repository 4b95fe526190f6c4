//! MACsec Key Agreement with a pre-shared key (IEEE 802.1X-2020 clauses 9 and 11): the members of a
//! connectivity association, and their SAK.
//!
//! A [`Participant`] is one member. Its caller passes in received frames
//! ([`Participant::receive`]), the time and random octets ([`Participant::tick`]), and carries out
//! the actions it returns ([`Participant::next_action`]): send a frame, receive with a key, protect
//! with a key, forget a key.
//!
//! The protocol, from the first MKPDU to the next key:
//!
//! 1. Every participant sends an MKPDU every two seconds, and at once on a change. It contains a
//!    member identifier, chosen at random at the start, a rising message number, and an ICV that
//!    proves possession of the CAK.
//! 2. A peer that was heard is *potential*. A peer that names our identifier with a recent message
//!    number is *live*: a recording cannot do that.
//! 3. The live participant with the lowest priority value is the *key server*. It derives a SAK and
//!    distributes it, wrapped, until all live peers report that they receive with it. Only then
//!    does it transmit with the SAK, and the others follow. The old key is dropped when all have
//!    changed, so rotation loses no frame.
//! 4. The key server distributes a fresh SAK for a new member, after a change of key server, near
//!    the end of the packet numbers, or after a time. A participant that is silent for six seconds
//!    is no longer a member.
//!
//! A gateway that changes its CAK has several participants, one for each. A [`Kay`] decides which
//! of their SAKs is transmitted with, and so loses no frame.
//!
//! A SAK is never accepted twice, and never if the key server already transmits with it. Packet
//! numbers start at 1 with each key, so a member that restarts must not meet an earlier key. Key
//! agreement therefore needs no file of packet numbers.

mod destination;
mod held;
mod kay;
mod keys;
mod listen;
mod overheard;
mod participant;
mod peers;
mod server;
mod speak;
mod status;
#[cfg(test)]
mod tests;

pub use antedate_wire::mka::{KeyIdentifier, MemberIdentifier};
pub use destination::AUTOMATIC;
pub use held::{Install, short_scis};
pub use kay::{CakStatus, GRACE, Kay, Listed, OtherKey};
pub use keys::{Cak, CakError, Ckn, HelloKey, MSK_LEN};
pub use overheard::Overheard;
pub use participant::{Action, Config, HELLO_TIME, LIFE_TIME, MAX_PEERS, Participant};
pub use status::{Dropped, Fault, KeyStatus, Member, Refusals, Status};
