//! Key rotation: one message with the next epoch's secret for all members, signed by the group's
//! manager.
//!
//! ```text
//! a sealed message ([`crate::sealed`]), purpose "antedate-mqtt rotation", subject the group,
//!   of << [group, epoch, algorithm, secret, seconds that the previous epoch stays readable] >>
//! ```
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
    READERS_MAX as MEMBERS_MAX, Reader as Recipient, SealError, author_public as manager_public,
    device_public, is_device_public,
};

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
            Self::Unauthentic => "is sealed for this device's name, but for another key than it has",
            Self::OtherKey => {
                "brings another key for the epoch that is in use, as after the manager's file came back from a backup: rotate once more"
            }
        })
    }
}

impl core::error::Error for RotationError {}

impl From<OpenError> for RotationError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Format => Self::Format,
            OpenError::Signature => Self::Signature,
            OpenError::NotReader => Self::NotMember,
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
    let mut plain = Zeroizing::new(Vec::with_capacity(128 + group.len()));
    let _ = Encoder::new(&mut *plain)
        .array(5)
        .and_then(|e| e.str(group))
        .and_then(|e| e.u32(rotation.epoch))
        .and_then(|e| e.i64(rotation.algorithm.number()))
        .and_then(|e| e.bytes(&*rotation.secret))
        .and_then(|e| e.u32(rotation.grace));
    sealed::seal(heading(group), &plain, manager, members, random)
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
    if decoder.array()? != Some(5) || decoder.str()? != group {
        return Err(Format);
    }
    let epoch = decoder.u32()?;
    let algorithm = Algorithm::of_number(decoder.i64()?).ok_or(Format)?;
    let secret = decoder.bytes()?.try_into().map_err(|_| Format)?;
    let grace = decoder.u32()?;
    if decoder.position() != plain.len() {
        return Err(Format);
    }
    Ok(Rotation { epoch, algorithm, secret: Zeroizing::new(secret), grace })
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
