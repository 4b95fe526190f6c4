//! Another content in a frame with a datagram of UDP.

use antedate_wire::{ipv4, ipv6};

use super::ip::datagram;

/// A frame with another content of its datagram, as if that had been sent: lengths are set, and
/// the checksum of UDP is left out.
pub(super) fn with_content(frame: &[u8], content: &[u8]) -> Option<Vec<u8>> {
    let (_, before) = datagram(frame)?;
    let at = before.as_ptr().addr() - frame.as_ptr().addr();
    let mut new = [frame.get(..at)?, content].concat();
    let length = u16::try_from(new.len() - at + 8).ok()?.to_be_bytes();
    new.get_mut(at - 4..at - 2)?.copy_from_slice(&length);
    new.get_mut(at - 2..at)?.fill(0);
    let total = u16::try_from(new.len() - 14).ok()?;
    let packet = new.get_mut(14..)?;
    if packet.first()? >> 4 == 4 {
        packet.get_mut(2..4)?.copy_from_slice(&total.to_be_bytes());
        ipv4::Packet::new_checked(packet).ok()?.fill_checksum();
    } else {
        let payload = total.checked_sub(ipv6::HEADER_LEN as u16)?;
        packet.get_mut(4..6)?.copy_from_slice(&payload.to_be_bytes());
    }
    Some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_has_another_length() {
        let mut frame = vec![0; 14];
        frame.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        frame.extend([0x1f, 0x90, 0xca, 0x6c, 0, 12, 0, 0, 1, 2, 3, 4]);
        let (ends, _) = datagram(&frame).unwrap();
        let longer = with_content(&frame, b"longer than before").unwrap();
        assert_eq!(datagram(&longer), Some((ends, &b"longer than before"[..])));
        assert!(ipv4::Packet::new_checked(&longer[14..]).unwrap().verify_checksum());
        for (at, value) in [(14, 0x15), (14, 0x4f), (20, 0x20), (23, 6), (38, 0xff)] {
            let mut changed = frame.clone();
            changed[at] = value;
            assert!(with_content(&changed, b"x").is_none(), "{at}");
        }
    }
}
