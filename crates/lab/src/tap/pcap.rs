//! Writes the classic pcap format with nanosecond stamps (draft-ietf-opsawg-pcap).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINK_TYPE_ETHERNET: u32 = 1;
const SNAP_LEN: u32 = 65_535;

/// A pcap file under construction.
#[derive(Debug)]
pub struct Pcap<W: Write = BufWriter<File>>(W);

impl Pcap {
    /// Creates the file; one that exists is replaced.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::new(BufWriter::new(File::create(path)?))
    }
}

/// The file header: version 2.4, UTC.
const HEADER: [u32; 6] = [MAGIC_NANOSECONDS, 2 | 4 << 16, 0, 0, SNAP_LEN, LINK_TYPE_ETHERNET];

/// Whether a file begins as those written here. Other programs' have other lengths or stamps.
#[must_use]
pub fn is_ours(octets: &[u8]) -> bool {
    octets.starts_with(HEADER.map(u32::to_le_bytes).as_flattened())
}

impl<W: Write> Pcap<W> {
    /// Begins with the file header.
    pub fn new(mut writer: W) -> io::Result<Self> {
        writer.write_all(HEADER.map(u32::to_le_bytes).as_flattened())?;
        Ok(Self(writer))
    }

    /// Adds a frame, given in pieces, with its time in nanoseconds since 1970.
    pub fn frame(&mut self, at_ns: u64, pieces: &[&[u8]]) -> io::Result<()> {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        let (seconds, nanoseconds) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        for word in [seconds as u32, nanoseconds as u32, len as u32, len as u32] {
            self.0.write_all(&word.to_le_bytes())?;
        }
        pieces.iter().try_for_each(|piece| self.0.write_all(piece))
    }

    /// Flushes the buffer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pcap_has_file_and_frame_headers() {
        let mut octets = Vec::new();
        Pcap::new(&mut octets).unwrap().frame(3_000_000_007, &[&[1, 2], &[3]]).unwrap();
        assert_eq!(octets[..8], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
        assert_eq!(octets[24..40], [3, 0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(octets[40..], [1, 2, 3]);
        assert!(is_ours(&octets) && !is_ours(&octets[..23]));
    }
}
