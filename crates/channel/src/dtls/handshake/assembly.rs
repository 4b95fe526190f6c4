//! Handshake messages assembled from fragments, in the order of their numbers (RFC 6347 section
//! 4.2.3).

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use antedate_wire::dtls::handshake::{Fragment, HandshakeType};

use super::super::Dropped;

/// Octets of the longest accepted message without certificates.
pub(super) const MAX_MESSAGE: usize = 2048;
/// Octets of the longest accepted message with certificates, of which one is awaited at most.
pub(super) const MAX_CERTIFICATE: usize = 16 << 10;
/// The most messages kept ahead of the next one.
const AHEAD: u16 = 8;
/// Octets of all incomplete and early messages of a side.
const MAX_KEPT: usize = MAX_CERTIFICATE + 2 * MAX_MESSAGE;
/// The most gaps in a message. A sender leaves few, and an attacker must not create many.
const MAX_GAPS: usize = 16;

struct Partial {
    kind: HandshakeType,
    protected: bool,
    octets: Vec<u8>,
    /// The missing ranges, in order, none adjoining.
    gaps: Vec<(usize, usize)>,
}

/// A whole message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: HandshakeType,
    pub(super) number: u16,
    /// All fragments were protected.
    pub(super) protected: bool,
    pub(super) body: Vec<u8>,
}

impl Message {
    /// The header of the message in a single fragment, which is the hashed form (RFC 6347 section
    /// 4.2.6).
    pub(super) fn header(&self) -> [u8; 12] {
        let Self { kind, number, body, .. } = self;
        Fragment { kind: *kind, length: body.len(), message: *number, offset: 0, octets: body }.header()
    }
}

/// The messages of one side.
#[derive(Default)]
pub(super) struct Assembly {
    next: u16,
    partial: BTreeMap<u16, Partial>,
}

impl Assembly {
    /// Waits for this message from now on.
    pub(super) fn expect(&mut self, number: u16) {
        self.next = number;
        self.partial.retain(|of, _| *of >= number);
    }

    pub(super) const fn next(&self) -> u16 {
        self.next
    }

    /// Adds a fragment of a message of at most `limit` octets. Fragments of older messages are
    /// ignored.
    pub(super) fn take(
        &mut self,
        fragment: &Fragment<'_>,
        protected: bool,
        limit: usize,
    ) -> Result<(), Dropped> {
        if fragment.message < self.next {
            return Ok(());
        }
        let others = self.partial.iter().filter(|(number, _)| **number != fragment.message);
        let kept: usize = others.map(|(_, partial)| partial.octets.len()).sum();
        if kept + fragment.length > MAX_KEPT {
            return Err(Dropped::Handshake);
        }
        if fragment.length > limit || fragment.message - self.next > AHEAD {
            return Err(Dropped::Handshake);
        }
        let fresh = || Partial {
            kind: fragment.kind,
            protected,
            octets: vec![0; fragment.length],
            gaps: if fragment.length == 0 { Vec::new() } else { vec![(0, fragment.length)] },
        };
        let partial = self.partial.entry(fragment.message).or_insert_with(fresh);
        let other = partial.kind != fragment.kind || partial.octets.len() != fragment.length;
        if other || partial.protected != protected {
            // Protected fragments displace unprotected ones, which may be forged.
            if !protected || partial.protected {
                return Err(Dropped::Handshake);
            }
            *partial = fresh();
        }
        let (from, to) = (fragment.offset, fragment.offset + fragment.octets.len());
        let mut gaps = Vec::new();
        for &(start, end) in &partial.gaps {
            let rest = [(start, end.min(from)), (start.max(to), end)];
            gaps.extend(rest.into_iter().filter(|(start, end)| start < end));
        }
        if gaps.len() > MAX_GAPS {
            return Err(Dropped::Handshake);
        }
        // An octet keeps its first value.
        for &(start, end) in &partial.gaps {
            let (start, end) = (start.max(from), end.min(to));
            if let (true, Some(place)) = (start < end, partial.octets.get_mut(start..end.max(start))) {
                place.copy_from_slice(fragment.octets.get(start - from..end - from).unwrap_or_default());
            }
        }
        partial.gaps = gaps;
        Ok(())
    }

    /// The next message, if complete. The caller inspects it, and then [passes](Self::expect) or
    /// drops it.
    pub(super) fn whole(&mut self) -> Option<Message> {
        let whole = self.partial.get(&self.next).is_some_and(|partial| partial.gaps.is_empty());
        let partial = if whole { self.partial.remove(&self.next) } else { None }?;
        let Partial { kind, protected, octets, .. } = partial;
        Some(Message { kind, number: self.next, protected, body: octets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(message: u16, offset: usize, octets: &'static [u8], length: usize) -> Fragment<'static> {
        Fragment { kind: HandshakeType::Finished, length, message, offset, octets }
    }

    #[test]
    fn fragments_may_overlap_in_any_order() {
        let mut assembly = Assembly::default();
        for piece in [fragment(0, 6, b"ghij", 10), fragment(0, 0, b"abcd", 10), fragment(0, 2, b"XXefX", 10)]
        {
            assert_eq!(assembly.whole(), None);
            assert_eq!(assembly.take(&piece, false, MAX_MESSAGE), Ok(()));
        }
        assert_eq!(assembly.whole().map(|message| message.body), Some(b"abcdefghij".to_vec()));
    }

    #[test]
    fn messages_wait_for_their_turn() {
        let mut assembly = Assembly::default();
        assembly.take(&fragment(1, 0, b"b", 1), false, MAX_MESSAGE).unwrap();
        assert_eq!(assembly.whole(), None);
        assembly.take(&fragment(0, 0, b"a", 1), false, MAX_MESSAGE).unwrap();
        assert_eq!(assembly.whole().map(|message| message.body), Some(b"a".to_vec()));
        assembly.expect(1);
        assert_eq!(assembly.whole().map(|message| message.body), Some(b"b".to_vec()));
        assembly.expect(2);
        assert_eq!(assembly.take(&fragment(1, 0, b"b", 1), false, MAX_MESSAGE), Ok(()));
        assert_eq!(assembly.whole(), None);
    }

    #[test]
    fn impossible_fragments_are_refused() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.take(&fragment(0, 0, b"", 1 << 20), false, MAX_MESSAGE), Err(Dropped::Handshake));
        assert_eq!(assembly.take(&fragment(9, 0, b"a", 1), false, MAX_MESSAGE), Err(Dropped::Handshake));
        assembly.take(&fragment(0, 0, b"a", 2), false, MAX_MESSAGE).unwrap();
        assert_eq!(assembly.take(&fragment(0, 0, b"a", 3), false, MAX_MESSAGE), Err(Dropped::Handshake));
        assert_eq!(assembly.take(&fragment(0, 0, b"xy", 2), true, MAX_MESSAGE), Ok(()));
        assert_eq!(
            assembly.whole().map(|message| (message.protected, message.body)),
            Some((true, b"xy".to_vec()))
        );
    }

    #[test]
    fn longest_message_and_farthest_are_taken() {
        let refused = Err(Dropped::Handshake);
        for (message, length, expected) in [
            (5, MAX_MESSAGE, Ok(())),
            (5, MAX_MESSAGE + 1, refused),
            (5 + AHEAD, 1, Ok(())),
            (5 + AHEAD + 1, 1, refused),
            (4, MAX_MESSAGE + 1, Ok(())),
        ] {
            let mut assembly = Assembly::default();
            assembly.expect(5);
            assert_eq!(
                assembly.take(&fragment(message, 0, b"a", length), false, MAX_MESSAGE),
                expected,
                "{message}"
            );
        }
    }

    #[test]
    fn kept_messages_are_bounded_together() {
        let mut assembly = Assembly::default();
        let of = |number, length| fragment(number, 0, b"a", length);
        assert_eq!(assembly.take(&of(0, MAX_CERTIFICATE), false, MAX_CERTIFICATE), Ok(()));
        assert_eq!(assembly.take(&of(1, MAX_MESSAGE), false, MAX_MESSAGE), Ok(()));
        assert_eq!(assembly.take(&of(2, MAX_MESSAGE), false, MAX_MESSAGE), Ok(()));
        assert_eq!(assembly.take(&of(3, 1), false, MAX_MESSAGE), Err(Dropped::Handshake));
        assert_eq!(assembly.take(&of(0, MAX_CERTIFICATE), false, MAX_CERTIFICATE), Ok(()), "more of one");
    }

    #[test]
    fn too_many_gaps_are_refused() {
        let mut assembly = Assembly::default();
        let refused = (0..1000)
            .map(|i| assembly.take(&fragment(0, 2 * i, b"a", 2000), false, MAX_MESSAGE))
            .find(Result::is_err);
        assert_eq!(refused, Some(Err(Dropped::Handshake)));
    }
}
