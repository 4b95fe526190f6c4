//! The extension after the PDU, and the CRC in Reserved2.

use antedate_wire::EtherType;
use antedate_wire::goose::HEADER_LEN;

/// Octets of the extension.
pub const EXTENSION_LEN: usize = KEY_LEN + 1 + IV_LEN + 2 + MAC_LEN;

/// Octets of the MAC.
pub(super) const MAC_LEN: usize = 16;
const IV_LEN: usize = 12;
/// Octets before the IV's length.
pub(super) const KEY_LEN: usize = 10;
/// The tag of the signature (IEC TR 61850-90-5).
const SIGNATURE: u8 = 0x85;

/// The key's number and period of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPeriod {
    /// the key's number
    pub key: u32,
    /// start of use, in seconds since 1970
    pub since: u32,
    /// minutes until the next key
    pub minutes_left: u16,
}

impl KeyPeriod {
    pub(super) fn emit(&self) -> [u8; KEY_LEN] {
        let mut out = [0; KEY_LEN];
        out[..4].copy_from_slice(&self.since.to_be_bytes());
        out[4..6].copy_from_slice(&self.minutes_left.to_be_bytes());
        out[6..].copy_from_slice(&self.key.to_be_bytes());
        out
    }
}

/// A parsed extension.
pub(super) struct Extension<'a> {
    /// The key's times and number, as authenticated.
    pub(super) period: &'a [u8],
    pub(super) key: u32,
    pub(super) sender: [u8; 6],
    pub(super) number: u64,
    pub(super) mac: &'a [u8; MAC_LEN],
}

impl<'a> Extension<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (period, rest) = bytes.split_at_checked(KEY_LEN)?;
        let (&[iv_len], rest) = rest.split_first_chunk::<1>()?;
        let (iv, rest) = rest.split_first_chunk::<IV_LEN>()?;
        let (&[tag, mac_len], mac) = rest.split_first_chunk::<2>()?;
        let known = usize::from(iv_len) == IV_LEN && tag == SIGNATURE && usize::from(mac_len) == MAC_LEN;
        let (sender, number) = (iv.first_chunk()?, iv.last_chunk::<6>()?);
        Some(Self {
            period,
            key: u32::from_be_bytes(*period.last_chunk()?),
            sender: *sender,
            number: number.iter().fold(0, |number, octet| number << 8 | u64::from(*octet)),
            mac: mac.try_into().ok().filter(|_| known)?,
        })
    }
}

/// Writes an extension.
pub(super) fn emit(period: &[u8; KEY_LEN], nonce: &[u8; IV_LEN], mac: &[u8; MAC_LEN]) -> [u8; EXTENSION_LEN] {
    let mut out = [0; EXTENSION_LEN];
    let (head, rest) = out.split_at_mut(KEY_LEN + 1);
    head[..KEY_LEN].copy_from_slice(period);
    head[KEY_LEN] = IV_LEN as u8;
    rest[..IV_LEN].copy_from_slice(nonce);
    rest[IV_LEN..IV_LEN + 2].copy_from_slice(&[SIGNATURE, MAC_LEN as u8]);
    rest[IV_LEN + 2..].copy_from_slice(mac);
    out
}

/// The CRC of ISO/IEC 13239 over the EtherType and the header up to Reserved2.
pub(super) fn crc(ethertype: EtherType, header: &[u8; HEADER_LEN]) -> u16 {
    let covered =
        ethertype.number().to_be_bytes().into_iter().chain(header[..HEADER_LEN - 2].iter().copied());
    !covered.fold(0xffff, |crc, octet| {
        (0..8).fold(crc ^ u16::from(octet), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x8408 } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_extensions_are_read() {
        let period = KeyPeriod { key: 7, since: 1_790_000_000, minutes_left: 60 };
        let bytes = emit(&period.emit(), b"sender\0\0\0\0\0\x09", &[3; 16]);
        let read = Extension::parse(&bytes).unwrap();
        assert_eq!((read.key, &read.sender, read.number, read.mac), (7, b"sender", 9, &[3; 16]));
        assert!((0..bytes.len()).all(|len| Extension::parse(&bytes[..len]).is_none()));
        for at in [10, 23, 24] {
            let mut odd = bytes;
            odd[at] ^= 1;
            assert!(Extension::parse(&odd).is_none(), "{at}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(Extension::parse(&longer).is_none());
    }

    #[test]
    fn crc_matches_hdlc() {
        // The check value of CRC-16/X-25 is 0x906e over "123456789". Ours starts with the
        // EtherType, so it is compared bit by bit.
        let slow = |bytes: &[u8]| {
            let mut crc = 0xffffu16;
            for octet in bytes {
                for bit in 0..8 {
                    let one = (crc ^ u16::from(octet >> bit)) & 1 == 1;
                    crc = if one { crc >> 1 ^ 0x8408 } else { crc >> 1 };
                }
            }
            crc ^ 0xffff
        };
        assert_eq!(slow(b"123456789"), 0x906e);
        let header = [0x10, 0x00, 0x00, 0x98, 0x00, 0x29, 0xaa, 0xbb];
        assert_eq!(crc(EtherType::Goose, &header), slow(&[0x88, 0xb8, 0x10, 0x00, 0x00, 0x98, 0x00, 0x29]));
    }
}
