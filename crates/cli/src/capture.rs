//! Reads the frames of a capture, of Ethernet or of IEEE 802.15.4: pcap (draft-ietf-opsawg-pcap) and pcapng
//! (draft-ietf-opsawg-pcapng), plain or packed by gzip, block by block. Octets come from anywhere, and
//! memory does not grow with them.

mod input;
pub(crate) mod source;

use std::fmt;
use std::io::Read;
use std::ops::ControlFlow;

use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{PcapBlockOwned, PcapError, create_reader};

use self::input::Input;
pub(crate) use self::source::{Live, Source};

const ETHERNET: u32 = 1;
/// Those of IEEE 802.15.4 (`LinkType` of the wire crate).
const RADIO: [u32; 5] = [113, 195, 215, 230, 283];
/// Octets of the buffer at first.
const BUFFER: usize = 256 << 10;
/// Octets of the longest block that is read.
const BLOCK_MAX: usize = 16 << 20;

/// Interfaces of a section of pcapng. Frames of further ones are left out.
const INTERFACES_MAX: usize = 1 << 16;

/// The octets are no capture of Ethernet frames.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CaptureError {
    Cut,
    Format,
    Link(u32),
    NoEthernet,
    Packing,
    Read(String),
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("is empty or cut"),
            Self::Format => f.write_str("is neither pcap nor pcapng"),
            Self::Link(link) => write!(f, "has frames of link type {link}, not of Ethernet"),
            Self::NoEthernet => f.write_str("has no Ethernet frames"),
            Self::Packing => f.write_str("is packed by gzip, and damaged"),
            Self::Read(error) => write!(f, "cannot be read on: {error}"),
        }
    }
}

/// The remedy of a fault.
pub(crate) const REMEDY: &str =
    "name a capture of Ethernet frames in the format pcap or pcapng, plain or packed by gzip";

/// The end of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Whole,
    /// It ends within a frame, as a recording does that goes on.
    Cut,
    /// A block cannot be read, and is left out; what is behind one of a wrong length, too.
    Damaged,
    /// Reading failed behind the first frame, or its packing is damaged there.
    Failed,
    /// The reader of its frames has enough.
    Stopped,
}

/// A frame of a capture: seconds since the first one, link type, octets.
type Frame<'a> = (f64, u32, &'a [u8]);

/// What follows a block, or its lack.
enum Step {
    End(End),
    /// So many octets are done.
    On(usize),
    More,
    Grow,
    /// The parser refuses the block.
    Refused,
}

/// Calls `each` with each frame of these link types.
///
/// # Errors
/// The fault, if the octets are no capture, or have no such frames. A last frame that is cut is left out.
fn read(
    wanted: &[u32],
    input: impl Read + Send,
    each: impl FnMut(Frame<'_>) -> ControlFlow<()>,
) -> Result<End, CaptureError> {
    let fault = input::Fault::default();
    let input = Input::new(input, fault.clone());
    let told = |error| fault.take().map_or(error, Into::into);
    let mut reader = create_reader(BUFFER, input).map_err(|error| {
        told(match error {
            PcapError::Eof | PcapError::Incomplete(_) => CaptureError::Cut,
            _ => CaptureError::Format,
        })
    })?;
    let mut frames =
        Frames { wanted, form: Form::Sections(Vec::new()), first: None, seen: 0, other: 0, each };
    let (mut room, mut is_damaged) = (BUFFER, false);
    let end = loop {
        let step = match reader.next() {
            Ok((_, block)) if frames.block(&block)?.is_break() => Step::End(End::Stopped),
            Ok((length, _)) => Step::On(length),
            Err(PcapError::Eof) => Step::End(End::Whole),
            Err(PcapError::UnexpectedEof) => Step::End(End::Cut),
            Err(PcapError::Incomplete(_)) => Step::More,
            Err(PcapError::BufferTooSmall) if room < BLOCK_MAX => Step::Grow,
            Err(_) => Step::Refused,
        };
        match step {
            Step::End(end) => break end,
            Step::On(length) => reader.consume(length),
            Step::Refused => match whole_block(reader.data()) {
                Some(length) => {
                    is_damaged = true;
                    reader.consume(length);
                }
                None => break End::Damaged,
            },
            Step::Grow | Step::More => {
                if matches!(step, Step::Grow) {
                    room *= 2;
                    reader.grow(room);
                }
                if reader.refill().is_err() {
                    let error = told(CaptureError::Format);
                    if frames.seen == 0 {
                        return Err(error);
                    }
                    // What came before counts.
                    break End::Failed;
                }
            }
        }
    };
    if end != End::Stopped && frames.seen == 0 && frames.other > 0 {
        return Err(CaptureError::NoEthernet);
    }
    Ok(if is_damaged && end == End::Whole { End::Damaged } else { end })
}

/// The length of the first block of pcapng, which stands at its begin and its end.
fn whole_block(octets: &[u8]) -> Option<usize> {
    let length: [u8; 4] = *octets.get(4..)?.first_chunk()?;
    [u32::from_le_bytes(length), u32::from_be_bytes(length)].into_iter().find_map(|len| {
        let len = len as usize;
        let block = octets.get(..len).filter(|block| block.len() >= 12)?;
        (block.last_chunk() == Some(&length)).then_some(len)
    })
}

/// Link type and unit of time, in seconds, of the frames.
#[derive(Clone, Copy)]
struct Interface {
    link: u32,
    unit: f64,
}

enum Form {
    /// Of pcap.
    One(Interface),
    /// Those of the section of pcapng.
    Sections(Vec<Interface>),
}

/// Chooses frames by their link types, and turns times into seconds since the first one.
struct Frames<'a, F> {
    wanted: &'a [u32],
    form: Form,
    first: Option<f64>,
    seen: u64,
    other: u64,
    each: F,
}

impl<F: FnMut(Frame<'_>) -> ControlFlow<()>> Frames<'_, F> {
    fn block(&mut self, block: &PcapBlockOwned<'_>) -> Result<ControlFlow<()>, CaptureError> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let link = header.network.0 as u32 & 0x0fff_ffff;
                if !self.wanted.contains(&link) {
                    return Err(CaptureError::Link(link));
                }
                let unit = if header.is_nanosecond_precision() { 1e-9 } else { 1e-6 };
                self.form = Form::One(Interface { link, unit });
            }
            PcapBlockOwned::Legacy(block) => {
                if let Form::One(Interface { link, unit }) = self.form {
                    let at = f64::from(block.ts_sec) + f64::from(block.ts_usec) * unit;
                    return Ok(self.frame(at, link, block.data));
                }
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => self.form = Form::Sections(Vec::new()),
            PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
                if let Form::Sections(interfaces) = &mut self.form {
                    let link = block.linktype.0 as u32;
                    if interfaces.len() < INTERFACES_MAX {
                        interfaces.push(Interface { link, unit: unit(block.if_tsresol) });
                    }
                }
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
                let ticks = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
                if let Some(Interface { link, unit }) = self.interface(block.if_id as usize) {
                    return Ok(self.frame(ticks as f64 * unit, link, block.packet_data()));
                }
                self.other += 1;
            }
            PcapBlockOwned::NG(Block::SimplePacket(block)) => {
                if let Some(Interface { link, .. }) = self.interface(0) {
                    return Ok(self.frame(self.first.unwrap_or(0.0), link, block.packet_data()));
                }
                self.other += 1;
            }
            PcapBlockOwned::NG(_) => {}
        }
        Ok(ControlFlow::Continue(()))
    }

    fn interface(&self, at: usize) -> Option<Interface> {
        let Form::Sections(interfaces) = &self.form else { return None };
        interfaces.get(at).copied().filter(|interface| self.wanted.contains(&interface.link))
    }

    fn frame(&mut self, at: f64, link: u32, frame: &[u8]) -> ControlFlow<()> {
        self.seen += 1;
        let first = *self.first.get_or_insert(at);
        (self.each)(((at - first).max(0.0), link, frame))
    }
}

/// Seconds of the unit of time of an interface: the option `if_tsresol`.
fn unit(resolution: u8) -> f64 {
    if resolution & 0x80 != 0 {
        0.5f64.powi(i32::from(resolution & 0x7f))
    } else {
        0.1f64.powi(i32::from(resolution))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times and octets of the frames, and the end.
    type Found = Result<(Vec<(f64, Vec<u8>)>, End), CaptureError>;

    /// An input that comes in pieces of so many octets.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let len = self.1.min(out.len()).min(self.0.len());
            let (now, later) = self.0.split_at(len);
            out[..len].copy_from_slice(now);
            self.0 = later;
            Ok(len)
        }
    }

    fn found_in(octets: &[u8], piece: usize) -> Found {
        let mut all = Vec::new();
        let end = read(&[ETHERNET], Pieces(octets, piece), |(at, _, frame)| {
            all.push(((at * 1e9).round() / 1e9, frame.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok((all, end))
    }

    fn found(octets: &[u8]) -> Found {
        let all = found_in(octets, usize::MAX);
        assert_eq!(all, found_in(octets, 1), "octet by octet");
        all
    }

    fn words(order: fn(u32) -> [u8; 4], words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| order(*word)).collect()
    }

    #[test]
    fn pcap_is_read_in_both_orders() {
        for order in [u32::to_le_bytes as fn(u32) -> [u8; 4], u32::to_be_bytes] {
            for (magic, parts) in [(0xa1b2_c3d4, 500_000), (0xa1b2_3c4d, 500_000_000)] {
                let mut file = words(order, &[magic, 0, 0, 0, 65_535, 1]);
                file.extend(words(order, &[7, 0, 3, 3]));
                file.extend([1, 2, 3]);
                file.extend(words(order, &[8, parts, 2, 9]));
                file.extend([4, 5]);
                let expected = vec![(0.0, vec![1, 2, 3]), (1.5, vec![4, 5])];
                assert_eq!(found(&file), Ok((expected.clone(), End::Whole)));
                // The last frame is cut.
                assert_eq!(found(&file[..file.len() - 1]), Ok((expected[..1].to_vec(), End::Cut)));
                file[if order(1)[0] == 1 { 20 } else { 23 }] = 105;
                assert_eq!(found(&file), Err(CaptureError::Link(105)));
            }
        }
    }

    #[test]
    fn pcapng_is_read() {
        let folder = tempfile::tempdir().expect("a directory");
        let block = |kind: u32, body: &[u8]| {
            let len = 12 + body.len() as u32;
            [&words(u32::to_le_bytes, &[kind, len])[..], body, &len.to_le_bytes()].concat()
        };
        let section = block(0x0a0d_0d0a, &words(u32::to_le_bytes, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
        let nanoseconds =
            [&words(u32::to_le_bytes, &[1, 0])[..], &[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]].concat();
        let other = words(u32::to_le_bytes, &[105, 0]);
        let packet = |interface: u32, at: u32| {
            block(6, &[&words(u32::to_le_bytes, &[interface, 0, at, 3, 3])[..], &[1, 2, 3, 0]].concat())
        };
        let file = [
            section.clone(),
            block(1, &nanoseconds),
            block(1, &other),
            packet(0, 10),
            block(5, &[0; 8]),
            packet(1, 20),
            packet(0, 110),
        ]
        .concat();
        // The statistics of an interface are too short, and left out.
        let expected = vec![(0.0, vec![1, 2, 3]), (1e-7, vec![1, 2, 3])];
        assert_eq!(found(&file), Ok((expected.clone(), End::Damaged)));
        let broken = [&file[..], &block(6, &words(u32::to_le_bytes, &[0, 0, 130, 900, 900]))].concat();
        assert_eq!(found(&broken).map(|(frames, _)| frames), Ok(expected));
        let wireless = [section.clone(), block(1, &other), packet(0, 1)].concat();
        assert_eq!(found(&wireless), Err(CaptureError::NoEthernet));
        let radio = block(1, &words(u32::to_le_bytes, &[283, 0]));
        let mixed = [section, block(1, &nanoseconds), radio, packet(0, 1), packet(1, 2)].concat();
        let mut of_radio = Vec::new();
        let each = |(_, link, frame): Frame<'_>| {
            of_radio.push((link, frame.to_vec()));
            ControlFlow::Continue(())
        };
        assert_eq!(read(&RADIO, &mixed[..], each), Ok(End::Whole));
        assert_eq!(of_radio, [(283, vec![1, 2, 3])]);
        let source = |name: &str, octets: &[u8]| {
            let file = folder.path().join(name);
            std::fs::write(&file, octets).expect("written");
            Source::of_file(&file)
        };
        assert!(source("mixed", &mixed).is_radio());
        assert!(!source("wireless", &wireless).is_radio() && !source("wired", &file).is_radio());
        for len in 0..file.len() {
            let _ = found(&file[..len]);
        }
    }

    #[test]
    fn packed_capture_is_unpacked() {
        use std::io::Write;
        let mut file = words(u32::to_le_bytes, &[0xa1b2_c3d4, 0, 0, 0, 65_535, 1]);
        for second in 0..500 {
            file.extend(words(
                u32::to_le_bytes,
                &[second, second.wrapping_mul(2_654_435_761) % 1_000_000, 3, 3],
            ));
            file.extend([1, 2, second as u8]);
        }
        let pack = |octets: &[u8]| {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            packer.write_all(octets).and_then(|()| packer.finish()).expect("packed")
        };
        let (packed, plain) = (pack(&file), found(&file));
        assert_eq!(found(&packed), plain);
        let both = [pack(&file[..100]), pack(&file[100..])].concat();
        assert_eq!(found(&both), plain, "two in a row");
        let (frames, end) = found(&packed[..packed.len() / 2]).expect("the first half");
        assert!(!frames.is_empty() && end == End::Cut && plain.expect("frames").0.starts_with(&frames));
        let mut damaged = packed.clone();
        damaged[packed.len() / 2] ^= 0xff;
        let (frames, end) = found_in(&damaged, 1).expect("what was before the damage");
        assert!(!frames.is_empty() && end == End::Failed, "{end:?}");
        damaged.splice(2.., [0xff; 9]);
        assert_eq!(found(&damaged), Err(CaptureError::Packing));
    }

    #[test]
    fn blocks_are_bounded() {
        let mut file = words(u32::to_le_bytes, &[0xa1b2_c3d4, 0, 0, 0, 65_535, 1]);
        file.extend(words(u32::to_le_bytes, &[7, 0, 3, 3]));
        file.extend([1, 2, 3]);
        // Longer than the first buffer, and longer than any.
        let long = [&words(u32::to_le_bytes, &[7, 0, 1 << 20, 1 << 20])[..], &vec![5; 1 << 20]].concat();
        let octets = |file: &[u8]| found_in(file, 100_000).map(|(f, end)| (f.last().map(|f| f.1.len()), end));
        assert_eq!(octets(&[&file[..], &long].concat()), Ok((Some(1 << 20), End::Whole)));
        let endless = [&file[..], &words(u32::to_le_bytes, &[7, 0, 1 << 30, 1 << 30]), &vec![5; 20 << 20]];
        assert_eq!(octets(&endless.concat()), Ok((Some(3), End::Damaged)));
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(found(b"hello"), Err(CaptureError::Format));
        assert_eq!(found(b""), Err(CaptureError::Cut));
    }
}
