//! Probes to a stock end of a tunnel: echo requests to its address in the tunnel (RFC 792), which
//! any IP stack answers.

use core::net::Ipv4Addr;

use antedate_wire::checksum::Sum;

/// Octets of the IPv4 and ICMP headers.
pub const HEADER_LEN: usize = 28;
const ICMP: u8 = 1;
const REQUEST: u8 = 8;
const ANSWER: u8 = 0;

/// Writes a request of the buffer's length, at least [`HEADER_LEN`], with zeros as data.
pub fn request(packet: &mut [u8], from: Ipv4Addr, to: Ipv4Addr, number: u32) {
    let len = packet.len() as u16;
    packet.fill(0);
    let Some(head) = packet.first_chunk_mut::<HEADER_LEN>() else { return };
    head[0] = 0x45;
    head[2..4].copy_from_slice(&len.to_be_bytes());
    head[8] = 64;
    head[9] = ICMP;
    head[12..16].copy_from_slice(&from.octets());
    head[16..20].copy_from_slice(&to.octets());
    let sum = Sum::of(&head[..20]).checksum();
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    head[20] = REQUEST;
    // Identifier and sequence number.
    head[24..28].copy_from_slice(&number.to_be_bytes());
    let sum = Sum::of(&head[20..]).checksum();
    head[22..24].copy_from_slice(&sum.to_be_bytes());
}

/// An answer, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Its number. The first fragment suffices.
    Number(u32),
    /// A later fragment.
    Rest,
}

/// The answer from this address in a packet, if there is one.
#[must_use]
pub fn answer(packet: &[u8], from: Ipv4Addr) -> Option<Answer> {
    let head = packet.first_chunk::<20>()?;
    if head[0] != 0x45 || head[9] != ICMP || head[12..16] != from.octets() {
        return None;
    }
    if [head[6] & 0x1f, head[7]] != [0, 0] {
        return Some(Answer::Rest);
    }
    let [kind, _, _, _, number @ ..] = packet.get(20..)?.first_chunk::<8>()?;
    (*kind == ANSWER).then(|| Answer::Number(u32::from_be_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_wire::ipv4;

    const A: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 2);

    #[test]
    fn answer_repeats_the_number() {
        let mut packet = [7; 1440];
        request(&mut packet, A, B, 0x0102_0304);
        let view = ipv4::Packet::new_checked(&packet[..]).unwrap();
        assert!(view.verify_checksum() && usize::from(view.total_len()) == packet.len());
        assert!(Sum::of(&packet[20..]).is_consistent());
        assert_eq!(answer(&packet, A), None, "a request");
        packet[20] = ANSWER;
        assert_eq!(answer(&packet, A), Some(Answer::Number(0x0102_0304)));
        assert_eq!(answer(&packet, B), None);
        assert_eq!(answer(&packet[..27], A), None);
        packet[7] = 8;
        assert_eq!(answer(&packet, A), Some(Answer::Rest));
        assert_eq!(answer(&packet, B), None);
        packet[9] = 17;
        assert_eq!(answer(&packet, A), None);
    }
}
