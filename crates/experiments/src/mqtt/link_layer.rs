//! The paper's fourth option on the air: the project's own link layer (CCM\* of IEEE 802.15.4) under the
//! 6LoWPAN frames of another stack.
//!
//! A secured frame has less room, so a datagram is cut anew into fragments (RFC 4944 section 5.3). Each one
//! is secured at its sender and opened at its receiver.

use antedate_channel::dot15d4::{
    Config, Device, KeyConfig, KeyLookup, Levels, LinkKey, NonceKind, Policy, Protection, Security,
};
use antedate_wire::dot15d4::{
    Address, ExtendedAddress, Frame, FrameVersion, Header, KeyIdentifier, PanId, SecurityLevel,
};
use smoltcp::wire::SixlowpanIphcPacket;

use crate::ExperimentError;

/// Octets of a secured frame's payload, as in the model: without FCS, addresses, auxiliary security
/// header and MIC.
const ROOM: usize = 127 - 2 - 21 - 5 - 4;
/// Octets of IPv6's header, which RFC 6282 compresses.
const IPV6: usize = 40;
/// Octets of a fragment's header: of the first one, and of the others.
const FIRST: usize = 4;
const NEXT: usize = 5;
/// The key of frames to all, which are no part of a publish.
const ALL: KeyIdentifier = KeyIdentifier::Index(1);
const LEVEL: SecurityLevel = SecurityLevel::EncMic32;

/// A frame on the air, and the frame in the clear that its receiver gets.
pub(super) struct Carried {
    pub(super) air: Vec<u8>,
    pub(super) heard: Vec<u8>,
}

/// The link layers of both ends, and what each has of a datagram that its stack sends in several frames.
pub(super) struct LinkLayer {
    ends: [Security; 2],
    begun: [Vec<u8>; 2],
    tag: u16,
    sequence: u8,
}

impl LinkLayer {
    /// Two devices that share a key.
    pub(super) fn new(pan: u16, addresses: [[u8; 8]; 2]) -> Result<Self, ExperimentError> {
        let pan = PanId(pan);
        let end = |own: usize| {
            let [extended, peer] = [own, 1 - own].map(|of| ExtendedAddress(addresses[of]));
            let policy = Policy::uniform(Levels::of(&[LEVEL]));
            let mut end =
                Security::new(Config { extended, pan, short: None, policy, enc_without_mic: false });
            end.add_device(Device { pan, extended: peer, short: None, exempt: false });
            let lookups = [KeyLookup::Peer(pan, Address::Extended(peer)), KeyLookup::Identified(ALL)];
            for (lookup, octet) in lookups.into_iter().zip([7, 8]) {
                let key = KeyConfig::fresh(lookup, LinkKey::new([octet; 16]), NonceKind::FrameCounter);
                end.install_key(key).map_err(|error| format!("no link key: {error:?}"))?;
            }
            Ok::<_, ExperimentError>(end)
        };
        Ok(Self { ends: [end(0)?, end(1)?], begun: Default::default(), tag: 0, sequence: 0 })
    }

    /// Takes a frame of a stack. Once its datagram is whole, returns its secured frames.
    pub(super) fn carry(&mut self, from: usize, frame: &[u8]) -> Result<Vec<Carried>, ExperimentError> {
        let parsed = Frame::parse(frame).map_err(|error| format!("no frame: {error:?}"))?;
        let payload = parsed.payload();
        let around = &frame[..frame.len() - payload.len()];
        let begun = &mut self.begun[from];
        // The dispatch of RFC 4944 section 5.3: a first fragment, another one, or no fragment.
        let size = match payload {
            [0xc0..=0xc7, low, _, _, rest @ ..] => {
                *begun = rest.to_vec();
                Some(usize::from(payload[0] & 7) << 8 | usize::from(*low))
            }
            [0xe0..=0xe7, low, _, _, _, rest @ ..] => {
                begun.extend_from_slice(rest);
                Some(usize::from(payload[0] & 7) << 8 | usize::from(*low))
            }
            _ => {
                *begun = payload.to_vec();
                None
            }
        };
        let length = uncompressed(begun)?;
        if size.is_some_and(|size| length < size) {
            return Ok(Vec::new());
        }
        let datagram = std::mem::take(begun);
        let pieces = self.cut(&datagram, length);
        pieces.iter().map(|piece| self.secured(from, parsed.header, around, piece)).collect()
    }

    /// Cuts a compressed datagram of this uncompressed length.
    fn cut(&mut self, datagram: &[u8], length: usize) -> Vec<Vec<u8>> {
        if datagram.len() <= ROOM {
            return vec![datagram.to_vec()];
        }
        self.tag = self.tag.wrapping_add(1);
        let gained = length - datagram.len();
        let [[high, low], [tag_high, tag_low]] = [(length as u16).to_be_bytes(), self.tag.to_be_bytes()];
        let first = (ROOM - FIRST + gained) / 8 * 8 - gained;
        let mut pieces = vec![[&[0xc0 | high, low, tag_high, tag_low], &datagram[..first]].concat()];
        let mut at = first;
        for piece in datagram[first..].chunks((ROOM - NEXT) / 8 * 8) {
            let offset = ((at + gained) / 8) as u8;
            pieces.push([&[0xe0 | high, low, tag_high, tag_low, offset], piece].concat());
            at += piece.len();
        }
        pieces
    }

    /// Secures a payload at one end, and opens it at the other. A damaged frame is refused there.
    fn secured(
        &mut self,
        from: usize,
        header: Header,
        around: &[u8],
        payload: &[u8],
    ) -> Result<Carried, ExperimentError> {
        let key = match header.addressing.dst {
            Address::Extended(_) => KeyIdentifier::Implicit,
            _ => ALL,
        };
        self.sequence = self.sequence.wrapping_add(1);
        let header = Header { version: FrameVersion::V2006, sequence: Some(self.sequence), ..header };
        let protection = Protection { level: LEVEL, key };
        let mut air = vec![0; 125];
        let len = self.ends[from].secure(&header, &[], payload, protection, None, &mut air);
        air.truncate(len.map_err(|status| format!("the link layer does not secure: {status:?}"))?);
        let (receiver, mut opened) = (&mut self.ends[1 - from], vec![0; 125]);
        let mut damaged = air.clone();
        if let Some(last) = damaged.last_mut() {
            *last ^= 1;
        }
        if receiver.unsecure(&damaged, None, None, &mut opened).is_ok() {
            return Err("the link layer took a damaged frame".into());
        }
        let received = receiver.unsecure(&air, None, None, &mut opened);
        let received = received.map_err(|status| format!("the link layer does not open: {status:?}"))?;
        Ok(Carried { heard: [around, &opened[..received.len]].concat(), air })
    }
}

/// Octets of a datagram that begins with a compressed header (RFC 6282), as IPv6 has it.
fn uncompressed(datagram: &[u8]) -> Result<usize, ExperimentError> {
    let packet = SixlowpanIphcPacket::new_checked(datagram);
    let packet = packet.map_err(|error| format!("no 6LoWPAN: {error}"))?;
    Ok(IPV6 + packet.payload().len())
}
