//! Clamps the maximum segment size of TCP connections (RFC 9293, section 3.7.1), so that full
//! segments fit one datagram of the tunnel and need no fragmentation.

use antedate_wire::checksum::Sum;
use antedate_wire::ip::Protocol;
use antedate_wire::{EtherType, VlanTagStack, ipv4, ipv6, tcp};

/// The kind of the option, and its length.
const KIND: u8 = 2;
const LEN: usize = 4;
const END: u8 = 0;
const NOTHING: u8 = 1;

/// Lowers the segment size announced in a SYN to the capacity of an IP packet of `mtu` octets.
/// Returns whether it did.
pub fn clamp_mss(frame: &mut [u8], mtu: usize) -> bool {
    clamp(frame, mtu).is_some()
}

fn clamp(frame: &mut [u8], mtu: usize) -> Option<()> {
    let stack = VlanTagStack::parse(frame).ok()?;
    let ip = stack.payload;
    let packet = frame.get(ip..)?;
    let (start, headers) = match stack.ethertype {
        EtherType::Ipv4 => {
            let view = ipv4::Packet::new_checked(packet).ok()?;
            // Only the first fragment has a TCP header, and SYNs are not fragmented.
            if view.protocol() != Protocol::Tcp || view.is_fragment() {
                return None;
            }
            (ip + view.header_len(), 40)
        }
        EtherType::Ipv6 => {
            let view = ipv6::Packet::new_checked(packet).ok()?;
            match view.upper_layer().ok()? {
                (Protocol::Tcp, at) => (ip + at, 60),
                _ => return None,
            }
        }
        _ => return None,
    };
    let segment = frame.get_mut(start..)?;
    let view = tcp::Segment::new_checked(&*segment).ok()?;
    if !view.flags().has(tcp::Flags::SYN) {
        return None;
    }
    let (end, checksum) = (view.header_len(), view.checksum());
    let limit = u16::try_from(mtu.checked_sub(headers)?).ok()?;
    let mut at = 20;
    while at < end {
        let len = match *segment.get(at)? {
            END => return None,
            NOTHING => 1,
            _ => usize::from(*segment.get(at + 1)?),
        };
        if segment[at] == KIND && len == LEN && at + LEN <= end {
            let value = segment.get_mut(at + 2..at + 4)?;
            let old = u16::from_be_bytes([value[0], value[1]]);
            if old <= limit {
                return None;
            }
            value.copy_from_slice(&limit.to_be_bytes());
            // RFC 1624: subtract the old value and add the new one, in their octet order.
            let (old, new) = if at % 2 == 0 { (old, limit) } else { (old.swap_bytes(), limit.swap_bytes()) };
            let sum = Sum::of_u16(!checksum).and(Sum::of_u16(!old)).and(Sum::of_u16(new));
            segment[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
            return Some(());
        }
        if len == 0 {
            return None;
        }
        at += len;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// A SYN over IPv4 or IPv6 with these options and a correct checksum.
    fn syn(v6: bool, options: &[u8]) -> Vec<u8> {
        let mut frame = std::vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 5];
        let len = 20 + options.len();
        if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, len as u8, 6, 64]);
            frame.extend(0..32);
        } else {
            frame.extend([
                8,
                0,
                0x45,
                0,
                0,
                20 + len as u8,
                0,
                0,
                0,
                0,
                64,
                6,
                0,
                0,
                10,
                0,
                0,
                1,
                10,
                0,
                0,
                2,
            ]);
        }
        let start = frame.len();
        frame.extend([0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 0, ((len / 4) << 4) as u8, 2, 255, 255, 0, 0, 0, 0]);
        frame.extend(options);
        let sum = sum(&frame, v6, start);
        tcp::Segment::new_checked(&mut frame[start..]).unwrap().fill_checksum(sum);
        frame
    }

    fn sum(frame: &[u8], v6: bool, start: usize) -> Sum {
        let len = frame.len() - start;
        if v6 {
            ipv6::Packet::new_checked(&frame[18..]).unwrap().pseudo_header_sum(Protocol::Tcp, len as u32)
        } else {
            ipv4::Packet::new_checked(&frame[18..]).unwrap().pseudo_header_sum(len as u16)
        }
    }

    #[test]
    fn segment_size_is_lowered_with_checksum() {
        for v6 in [false, true] {
            for options in
                [&[2, 4, 0x05, 0xb4][..], &[1, 2, 4, 0x05, 0xb4, 1, 1, 1], &[4, 2, 2, 4, 0x23, 0, 0, 0]]
            {
                let mut frame = syn(v6, options);
                let start = if v6 { 58 } else { 38 };
                assert!(clamp_mss(&mut frame, 1390));
                let view = tcp::Segment::new_checked(&frame[start..]).unwrap();
                assert!(view.verify_checksum(sum(&frame, v6, start)), "{v6} {options:?}");
                let at = options.iter().position(|o| *o == 2 || *o == 4).unwrap();
                let at = if options[at] == 4 { 2 } else { at };
                let mss = u16::from_be_bytes([frame[start + 22 + at], frame[start + 23 + at]]);
                assert_eq!(mss, if v6 { 1330 } else { 1350 });
                assert!(!clamp_mss(&mut frame, 1390), "it is low enough now");
            }
        }
    }

    #[test]
    fn other_frames_are_not_clamped() {
        let full = syn(false, &[2, 4, 0x05, 0xb4]);
        let mut ack = full.clone();
        ack[38 + 13] = 0x10;
        let mut udp = full.clone();
        udp[18 + 9] = 17;
        let mut fragment = full.clone();
        fragment[18 + 6] = 0x20;
        for frame in [ack, udp, fragment, syn(false, &[3, 0, 2, 4]), full[..40].to_vec(), full[..17].to_vec()]
        {
            let mut after = frame.clone();
            assert!(!clamp_mss(&mut after, 1000));
            assert_eq!(after, frame);
        }
    }
}
