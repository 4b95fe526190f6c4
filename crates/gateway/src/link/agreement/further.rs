//! The channels of members behind their first ones.

use std::collections::BTreeMap;

use antedate_wire::Sci;

/// Channels with a key in a forwarding thread, by member. Only these are forgotten with a member, as
/// another one may have the next port number.
#[derive(Debug, Default)]
pub(super) struct Further(BTreeMap<[u8; 8], Vec<Sci>>);

impl Further {
    /// Notes channels of a member.
    pub(super) fn note(&mut self, member: Sci, channels: impl Iterator<Item = Sci>) {
        let known = self.0.entry(member.0).or_default();
        let new: Vec<_> = channels.filter(|sci| !known.contains(sci)).collect();
        known.extend(new);
    }

    /// Those of a member.
    pub(super) fn of(&self, member: Sci) -> impl Iterator<Item = Sci> {
        self.0.get(&member.0).into_iter().flatten().copied()
    }

    /// Forgets those of a member, and returns them.
    pub(super) fn forget(&mut self, member: Sci) -> Vec<Sci> {
        self.0.remove(&member.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use antedate_wire::EthernetAddress;

    use super::*;

    #[test]
    fn only_own_channels_are_forgotten() {
        let sci = |port| Sci::new(EthernetAddress([2, 0, 0, 0, 0, 1]), port);
        let mut further = Further::default();
        further.note(sci(1), [2, 3].map(sci).into_iter());
        further.note(sci(1), [3, 4].map(sci).into_iter());
        further.note(sci(5), [6].map(sci).into_iter());
        assert!(further.of(sci(1)).eq([2, 3, 4].map(sci)));
        assert_eq!(further.forget(sci(1)), [2, 3, 4].map(sci));
        assert_eq!(further.forget(sci(1)), []);
        assert!(further.of(sci(5)).eq([sci(6)]));
    }
}
