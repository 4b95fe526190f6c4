//! Key rotation: one message with the next epoch's secret for all members, signed by the group's
//! manager.
//!
//! ```text
//! a sealed message ([`crate::sealed`]), purpose "antedate-mqtt rotation", subject the group,
//!   of << [group, epoch, algorithm, secret, seconds that the previous epoch stays readable,
//!          ? [+ secret of an epoch before, the oldest first]] >>
//! ```
//!
//! A message for all members grows with the group. So large groups have one message for each member,
//! under a topic of its own, with the same form and one recipient. A message without recipients says
//! so where the one for all would be.
//!
//! A member is revoked by leaving it out: it cannot open the message. The signature is necessary
//! because otherwise anyone with the members' public keys could rotate. A replayed message is
//! detected by its epoch, which must rise ([`super::Group::rotate`]). A broker that retains the
//! message delivers it to members that were offline.

use alloc::{string::String, vec::Vec};
use core::fmt;

use minicbor::{Decoder, Encoder};
use zeroize::Zeroizing;

use super::{Algorithm, SECRET_LEN};
use crate::sealed::{self, Heading, OpenError};
pub use crate::sealed::{
    READERS_MAX as MEMBERS_MAX, Reader as Recipient, author_public as manager_public, device_public,
    is_device_public,
};

/// The most epochs before the new one that a message brings.
pub const PAST_MAX: usize = 32;

fn heading(group: &str) -> Heading<'_> {
    Heading { purpose: "antedate-mqtt rotation", subject: group }
}

/// The contents of a rotation.
#[derive(Clone)]
pub struct Rotation {
    /// The new epoch, above all earlier ones.
    pub epoch: u32,
    /// The algorithm of the group.
    pub algorithm: Algorithm,
    /// The new secret.
    pub secret: Zeroizing<[u8; SECRET_LEN]>,
    /// Seconds during which members still read messages of the previous epoch, 0 after a
    /// revocation.
    pub grace: u32,
    /// The secrets of the epochs directly before, the oldest first, which stay readable. At most
    /// [`PAST_MAX`].
    pub past: Vec<Zeroizing<[u8; SECRET_LEN]>>,
}

impl Rotation {
    /// The first epoch that stays readable, after the grace too.
    #[must_use]
    pub fn first(&self) -> u32 {
        // `rotation` and `seal` refuse more than there are.
        self.epoch.saturating_sub(u32::try_from(self.past.len()).unwrap_or(u32::MAX))
    }

    /// The readable epochs before the new one, with their secrets.
    pub fn past(&self) -> impl Iterator<Item = (u32, &Zeroizing<[u8; SECRET_LEN]>)> {
        (self.first()..).zip(&self.past)
    }
}

impl fmt::Debug for Rotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rotation(epoch {}, {}, grace {} s, ..)", self.epoch, self.algorithm, self.grace)
    }
}

/// The reason for refusing a rotation message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationError {
    /// It is no rotation message.
    Format,
    /// The manager has not signed it for this group.
    Signature,
    /// It is not sealed for this member: it was left out, or revoked.
    NotMember,
    /// It is sealed for no member: each member has a message under its own topic.
    PerMember,
    /// The part sealed for this member cannot be opened with its key.
    Unauthentic,
    /// It has another key for the epoch in use.
    OtherKey,
}

impl fmt::Display for RotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => "is no rotation message",
            Self::Signature => "is not signed by the group's manager",
            Self::NotMember => "is not sealed for this device, which is no member any more or was never one",
            Self::PerMember => "is sealed for no member here: each has a message under its own topic",
            Self::Unauthentic => "is sealed for this device's name, but for another key than it has",
            Self::OtherKey => {
                "brings another key for the epoch that is in use, as after the manager's file came back from a backup: rotate once more"
            }
        })
    }
}

impl core::error::Error for RotationError {}

/// The reason for not making a rotation message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealError<E> {
    /// There are more past epochs than [`PAST_MAX`], or than there were.
    Past,
    /// It cannot be sealed.
    Message(sealed::SealError<E>),
}

impl<E> From<sealed::SealError<E>> for SealError<E> {
    fn from(error: sealed::SealError<E>) -> Self {
        Self::Message(error)
    }
}

impl<E: fmt::Display> fmt::Display for SealError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Past => {
                write!(f, "a rotation brings {PAST_MAX} past epochs at most, and none before the first")
            }
            Self::Message(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error> core::error::Error for SealError<E> {}

impl From<OpenError> for RotationError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Format => Self::Format,
            OpenError::Signature => Self::Signature,
            OpenError::NotReader => Self::NotMember,
            OpenError::NoReader => Self::PerMember,
            OpenError::Unauthentic => Self::Unauthentic,
        }
    }
}

impl From<minicbor::decode::Error> for RotationError {
    fn from(_: minicbor::decode::Error) -> Self {
        Self::Format
    }
}

/// Makes the rotation message. `random` fills a buffer from the system's generator.
///
/// # Errors
/// [`SealError`].
pub fn seal<E>(
    group: &str,
    rotation: &Rotation,
    manager: &[u8; 32],
    members: &[Recipient<'_>],
    random: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<Vec<u8>, SealError<E>> {
    let before = usize::try_from(rotation.epoch).unwrap_or(usize::MAX);
    if rotation.past.len() > PAST_MAX.min(before) {
        return Err(SealError::Past);
    }
    // Full capacity at once: a growing vector leaves copies of the secrets behind.
    let mut plain = Zeroizing::new(Vec::with_capacity(128 + group.len() + 34 * rotation.past.len()));
    let mut encoder = Encoder::new(&mut *plain);
    let past = !rotation.past.is_empty();
    let _ = encoder
        .array(if past { 6 } else { 5 })
        .and_then(|e| e.str(group))
        .and_then(|e| e.u32(rotation.epoch))
        .and_then(|e| e.i64(rotation.algorithm.number()))
        .and_then(|e| e.bytes(&*rotation.secret))
        .and_then(|e| e.u32(rotation.grace));
    if past {
        let _ = encoder.array(rotation.past.len() as u64);
        for secret in &rotation.past {
            let _ = encoder.bytes(&**secret);
        }
    }
    Ok(sealed::seal(heading(group), &plain, manager, members, random)?)
}

/// Opens a rotation message as one of the group's members.
///
/// # Errors
/// [`RotationError`].
pub fn open(
    group: &str,
    message: &[u8],
    manager: &[u8; 32],
    member: &[u8],
    secret: &[u8; 32],
) -> Result<Rotation, RotationError> {
    rotation(group, &sealed::open(heading(group), message, manager, member, secret)?)
}

fn rotation(group: &str, plain: &[u8]) -> Result<Rotation, RotationError> {
    use RotationError::Format;
    let mut decoder = Decoder::new(plain);
    let fields = decoder.array()?;
    if !matches!(fields, Some(5 | 6)) || decoder.str()? != group {
        return Err(Format);
    }
    let epoch = decoder.u32()?;
    let algorithm = Algorithm::of_number(decoder.i64()?).ok_or(Format)?;
    let secret = decoder.bytes()?.try_into().map_err(|_| Format)?;
    let grace = decoder.u32()?;
    let mut past = Vec::new();
    if fields == Some(6) {
        let count = decoder.array()?.ok_or(Format)?;
        let most = u64::from(epoch).min(PAST_MAX as u64);
        if !(1..=most).contains(&count) {
            return Err(Format);
        }
        for _ in 0..count {
            past.push(Zeroizing::new(decoder.bytes()?.try_into().map_err(|_| Format)?));
        }
    }
    if decoder.position() != plain.len() {
        return Err(Format);
    }
    Ok(Rotation { epoch, algorithm, secret: Zeroizing::new(secret), grace, past })
}

/// The members of a signed rotation message, in its order.
///
/// # Errors
/// The message is not signed by the manager, or has another form.
pub fn members(group: &str, message: &[u8], manager: &[u8; 32]) -> Result<Vec<String>, RotationError> {
    Ok(sealed::readers(heading(group), message, manager)?)
}

#[cfg(test)]
mod tests;
