//! Several transmit channels of one member, with one key: consecutive port numbers of its SCI, and
//! short SCIs that differ in their upper octet.
//!
//! Each channel counts its own packet numbers from 1. A nonce has the SCI (IEEE 802.1AE-2018, 14.5)
//! or the SSCI (14.7) of its channel, so the nonces of two channels differ.

use super::Sci;

/// The most transmit channels of a member.
pub const CHANNELS_MAX: u8 = 8;
/// The bits of an SSCI below the place of a further channel. Key agreement numbers members from 1
/// to 64.
const PLACE: u32 = 24;

/// The SCI of the channel at this place of the member with this SCI. `None` where its port number
/// would pass 32767, behind which [express channels](super::express_sci) begin, or 65535.
#[must_use]
pub fn channel_sci(sci: Sci, place: u8) -> Option<Sci> {
    let port = sci.port().checked_add(place.into())?;
    ((sci.port() ^ port) & 0x8000 == 0).then(|| Sci::new(sci.address(), port))
}

/// The SSCI of the channel at this place, below [`CHANNELS_MAX`], of the member with this SSCI. The
/// highest bit is that of [express channels](super::express_ssci).
#[must_use]
pub const fn channel_ssci(ssci: u32, place: u8) -> u32 {
    ssci ^ (place as u32 & (CHANNELS_MAX as u32 - 1)) << PLACE
}

/// The SCIs of so many channels, at most [`CHANNELS_MAX`], of the member with this SCI.
pub fn channel_scis(sci: Sci, channels: u8) -> impl Iterator<Item = Sci> {
    (0..channels.min(CHANNELS_MAX)).map_while(move |place| channel_sci(sci, place))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::vec::Vec;

    use antedate_wire::EthernetAddress;

    use super::super::{express_sci, express_ssci};
    use super::*;

    #[test]
    fn channels_of_members_never_meet() {
        // All members of the largest association, with all channels and an express one.
        let own = |ssci: u32| {
            let further = (0..CHANNELS_MAX).map(move |place| channel_ssci(ssci, place));
            further.chain([express_ssci(ssci)])
        };
        let all: Vec<_> = (1..=64).flat_map(own).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(channel_ssci(5, 0), 5);
        let sci = |port| Sci::new(EthernetAddress([2, 0, 0, 0, 0, 1]), port);
        let scis: BTreeSet<_> = channel_scis(sci(1), 99).chain([express_sci(sci(1))]).collect();
        assert_eq!(scis.len(), usize::from(CHANNELS_MAX) + 1);
        assert!(channel_scis(sci(7), 3).eq([7, 8, 9].map(sci)));
    }

    #[test]
    fn port_numbers_end_before_express_channels() {
        let sci = |port| Sci::new(EthernetAddress([2, 0, 0, 0, 0, 1]), port);
        for (port, channels) in [(32766, 2), (32767, 1), (65534, 2), (65535, 1), (32768, 4)] {
            assert_eq!(channel_scis(sci(port), 4).count(), channels, "{port}");
        }
    }
}
