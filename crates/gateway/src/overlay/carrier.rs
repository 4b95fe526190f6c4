//! Encrypts packets into the outbox: a frame whole, in pieces, or in IP fragments.

use std::net::SocketAddr;

use antedate_channel::overlay::encapsulation::{HEADER_LEN, UDP_VXLAN_LEN};
use antedate_channel::overlay::message::{self, PIECE_HEADER_LEN, Piece};
use antedate_channel::wireguard::{Device, HEADROOM, PeerId, SendError};
use antedate_wire::vxlan;

use super::peers::Peer;
use super::uplink::Outward;
use crate::run::counters::PathCounters;

/// Octets of the IPv4 header of a fragment.
const IP: usize = HEADER_LEN - UDP_VXLAN_LEN;

/// Encrypts packets into the outbox.
pub(super) struct Carrier<'a> {
    pub(super) now: u64,
    pub(super) device: &'a mut Device,
    pub(super) uplink: &'a mut Outward,
    /// The second uplink, with the address of the copy.
    pub(super) second: Option<(&'a mut Outward, SocketAddr)>,
    pub(super) out: &'a PathCounters,
    pub(super) class: u8,
}

impl Carrier<'_> {
    /// Encrypts a packet of `len` octets, which `write` fills in.
    #[inline]
    pub(super) fn carry(
        &mut self,
        peer: PeerId,
        len: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        let room = self.uplink.place(self.out).ok_or(SendError::NoRoom)?;
        write(room.get_mut(HEADROOM..).filter(|rest| len + 32 <= rest.len()).ok_or(SendError::NoRoom)?);
        let (to, sealed) = self.device.seal(self.now, peer, room, len)?;
        if let Some((second, also)) = &mut self.second {
            second.copy(self.out, self.now, &room[..sealed], *also, self.class);
        }
        self.uplink.put(self.now, sealed, to, self.class);
        Ok(())
    }
}

/// Sends a frame in pieces with adjacent counters.
pub(super) fn pieces(
    carrier: &mut Carrier<'_>,
    peer: &Peer,
    vni: vxlan::Vni,
    frame: &[u8],
) -> Result<(), SendError> {
    let room = peer.limit.saturating_sub(PIECE_HEADER_LEN);
    let (count, size) = message::cut(frame.len(), room).ok_or(SendError::NoRoom)?;
    for (index, data) in frame.chunks(size).enumerate() {
        let piece = Piece { index: index as u8, count: count as u8, vni, offset: index * size };
        carrier.carry(peer.id, PIECE_HEADER_LEN + data.len(), |packet| {
            if let Some((head, rest)) = packet.split_first_chunk_mut::<PIECE_HEADER_LEN>() {
                *head = piece.emit(data.len());
                rest[..data.len()].copy_from_slice(data);
            }
        })?;
    }
    Ok(())
}

/// Sends a frame in IP fragments.
pub(super) fn fragments(
    carrier: &mut Carrier<'_>,
    peer: &mut Peer,
    frame: &[u8],
    port: u16,
) -> Result<(), SendError> {
    let mut head = [0; UDP_VXLAN_LEN];
    peer.template.write_datagram(&mut head, frame.len(), port);
    peer.ident = peer.ident.wrapping_add(1);
    let ecn = carrier.class & 3;
    let room = peer.limit.saturating_sub(IP) / 8 * 8;
    if room <= UDP_VXLAN_LEN {
        return Err(SendError::NoRoom);
    }
    let total = UDP_VXLAN_LEN + frame.len();
    let mut offset = 0;
    while offset < total {
        let end = (offset + room).min(total);
        carrier.carry(peer.id, IP + end - offset, |packet| {
            let Some((ip, rest)) = packet.split_first_chunk_mut() else { return };
            peer.template.write_fragment(ip, peer.ident, offset, end - offset, end < total, ecn);
            let (udp, data) =
                if offset == 0 { rest.split_at_mut(UDP_VXLAN_LEN) } else { (&mut [][..], rest) };
            udp.copy_from_slice(&head[..udp.len()]);
            let from = offset.saturating_sub(UDP_VXLAN_LEN);
            let to = end - UDP_VXLAN_LEN;
            data[..to - from].copy_from_slice(&frame[from..to]);
        })?;
        offset = end;
    }
    Ok(())
}
