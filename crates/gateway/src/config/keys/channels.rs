//! Several transmit channels of one member: consecutive port numbers, and consecutive SSCIs with an
//! XPN suite.
//!
//! Each channel counts its own packet numbers. A nonce has the SCI (IEEE 802.1AE-2018, 14.5) or the
//! SSCI (14.7) of its channel, so that channels with one key and equal packet numbers have different
//! nonces, as long as no two of a key file share an SCI or SSCI.

use antedate_host::document::Field;
use antedate_wire::Sci;

use super::{CHANNELS_MAX, Member};

/// The mark in the name of a further channel, which no member's name has.
const MARK: char = '#';

/// The SCI of a channel, and its SSCI with an XPN suite.
pub type Identity = (Sci, Option<u32>);

/// The SCI and SSCI of the channel at this place of a member.
#[must_use]
pub fn at(member: &Member, place: u16) -> Identity {
    let sci = Sci::new(member.sci.address(), member.sci.port().wrapping_add(place));
    (sci, member.ssci.map(|ssci| ssci.wrapping_add(place.into())))
}

/// The SCIs and SSCIs of all channels of a member.
pub fn all(member: &Member) -> impl Iterator<Item = Identity> {
    (0..member.channels).map(|place| at(member, place))
}

/// The channels of a member behind its first one, each as a member with the name `NAME#PLACE`.
pub fn further(member: &Member) -> impl Iterator<Item = Member> {
    (1..member.channels).map(|place| {
        let (sci, ssci) = at(member, place);
        Member { name: format!("{}{MARK}{}", member.name, place + 1), sci, ssci, channels: 1 }
    })
}

/// Whether [`further`] made the member of this name.
#[must_use]
pub fn is_further(name: &str) -> bool {
    name.contains(MARK)
}

/// The worker, of so many, that opens the frames of this channel.
#[must_use]
pub const fn owner(sci: Sci, workers: usize) -> usize {
    match (sci.port() as usize).checked_rem(workers) {
        Some(owner) => owner,
        None => 0,
    }
}

/// Reads the number of channels of the member with this SCI.
pub(super) fn read(field: &Field<'_, '_>, sci: Option<Sci>) -> Option<u16> {
    let channels = u16::try_from(field.integer(1..=CHANNELS_MAX.into())?).ok()?;
    let first = sci.map_or(1, |sci| sci.port());
    // The highest bit of a port number marks express channels.
    let last = first.checked_add(channels - 1).filter(|last| (first ^ last) & 0x8000 == 0);
    if last.is_none() {
        field.fault(
            format!(
                "{channels} port numbers from {first} on pass 32767, where express channels begin, or 65535"
            ),
            "give the member a lower port number: its address, and e.g. 1",
        );
        return None;
    }
    Some(channels)
}

/// Reports what this member's channels share with those of the others.
pub(super) fn apart(field: &Field<'_, '_>, others: &[Member], member: &Member) {
    let shared = |same: fn(Identity, Identity) -> bool| {
        others.iter().find_map(|other| {
            let pairs = all(other).flat_map(|a| all(member).map(move |b| (a, b)));
            pairs.into_iter().find(|(a, b)| same(*a, *b)).map(|((sci, _), _)| (other, sci))
        })
    };
    if let Some((other, sci)) = shared(|(a, _), (b, _)| a == b) {
        field.fault(
            format!("\"{}\" has the SCI {sci} too", other.name),
            "give each member an SCI of its own: its address and a port number; with channels = N, those of the next N port numbers are its own too",
        );
    }
    if let Some((other, _)) = shared(|(_, a), (_, b)| a.is_some() && a == b) {
        field.fault(
            format!("\"{}\" has the same SSCI", other.name),
            "number the members from 1; with channels = N, the next N SSCIs are the member's own too",
        );
    }
}
