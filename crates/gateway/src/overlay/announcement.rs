//! Announcements of a machine's place: gratuitous ARP (RFC 5227, section 3) and unsolicited
//! neighbour advertisements (RFC 4861, section 7.2.6). A machine that has moved sends them.

use antedate_wire::{EtherType, VlanTagStack};

use crate::config::policy::{Class, Traffic};

/// Octets of the header of IPv6.
const V6: usize = 40;
const ICMPV6: u8 = 58;
const ADVERTISEMENT: u8 = 136;
const SOLICITED: u8 = 0x40;

/// Whether a frame of this kind announces the place of its sender.
#[inline]
pub(super) fn announces(kind: Class, frame: &[u8]) -> bool {
    matches!(kind, Class::Named(Traffic::Arp | Traffic::Ipv6)) && is_announcement(frame)
}

#[inline(never)]
fn is_announcement(frame: &[u8]) -> bool {
    let Ok(stack) = VlanTagStack::parse(frame) else { return false };
    let (Some(packet), Some(source)) = (frame.get(stack.payload..), frame.get(6..12)) else { return false };
    match (stack.ethertype, packet) {
        (EtherType::Arp, [0, 1, 8, 0, 6, 4, _, _, rest @ ..]) if rest.len() >= 20 => {
            // Sender and target have one IP address, and the sender is the sender of the frame.
            rest[..6] == *source && rest[6..10] == rest[16..20] && rest[6..10] != [0; 4]
        }
        (EtherType::Ipv6, packet) => {
            packet.get(6) == Some(&ICMPV6)
                && packet.get(V6) == Some(&ADVERTISEMENT)
                && packet.get(V6 + 4).is_some_and(|flags| flags & SOLICITED == 0)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn arp(sender: [u8; 6], from: u8, to: u8, tagged: bool) -> Vec<u8> {
        let mut frame = vec![0xff; 6];
        frame.extend(SENDER);
        if tagged {
            frame.extend([0x81, 0, 0, 5]);
        }
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend(sender);
        frame.extend([10, 0, 0, from, 0, 0, 0, 0, 0, 0, 10, 0, 0, to]);
        frame.resize(60, 0);
        frame
    }

    fn advertisement(kind: u8, flags: u8) -> Vec<u8> {
        let mut frame = vec![0x33, 0x33, 0, 0, 0, 1];
        frame.extend(SENDER);
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, ICMPV6, 255]);
        frame.extend([0xfe; 32]);
        frame.extend([kind, 0, 0, 0, flags, 0, 0, 0]);
        frame.extend([0xfe; 16]);
        frame
    }

    #[test]
    fn gratuitous_arp_announces() {
        let arp_kind = Class::Named(Traffic::Arp);
        for tagged in [false, true] {
            assert!(announces(arp_kind, &arp(SENDER, 1, 1, tagged)));
            assert!(!announces(arp_kind, &arp(SENDER, 1, 2, tagged)), "a request");
            assert!(!announces(arp_kind, &arp([2; 6], 1, 1, tagged)), "of another machine");
        }
        let whole = arp(SENDER, 1, 1, false);
        assert!((0..42).all(|len| !announces(arp_kind, &whole[..len])));
        assert!(!announces(Class::Other, &whole));
    }

    #[test]
    fn unsolicited_advertisement_announces() {
        let kind = Class::Named(Traffic::Ipv6);
        assert!(announces(kind, &advertisement(ADVERTISEMENT, 0x20)));
        assert!(!announces(kind, &advertisement(ADVERTISEMENT, 0x60)), "solicited");
        assert!(!announces(kind, &advertisement(135, 0)), "a solicitation");
    }
}
