//! The octets of a capture, unpacked.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::read::MultiGzDecoder;

use super::CaptureError;

/// Octets of a file header of pcap.
const HEADER: usize = 24;
/// Octets of the longest section header of pcapng that a stream begins with.
const SECTION_MAX: usize = 64 << 10;
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// The fault of a read: the parser tells only that there was one.
#[derive(Clone, Default)]
pub(super) struct Fault(Arc<Mutex<Option<io::Error>>>);

impl Fault {
    fn set(&self, error: io::Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    pub(super) fn take(&self) -> Option<io::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Of the unpacker.
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => Self::Packing,
            _ => Self::Read(error.to_string()),
        }
    }
}

/// A capture as it comes: packed or not, in pieces of any length.
pub(super) struct Input<'a> {
    octets: Box<dyn Read + Send + 'a>,
    reads: u64,
    fault: Fault,
}

impl<'a> Input<'a> {
    pub(super) fn new(input: impl Read + Send + 'a, fault: Fault) -> Self {
        let mut input = BufReader::with_capacity(super::BUFFER, input);
        let octets: Box<dyn Read + Send + 'a> = match begin(&mut input) {
            Ok(begin) if begin == [0x1f, 0x8b] => Box::new(MultiGzDecoder::new(behind(begin, input))),
            Ok(begin) => Box::new(behind(begin, input)),
            Err(error) => {
                fault.set(error);
                Box::new(io::empty())
            }
        };
        Self { octets, reads: 0, fault }
    }

    /// The parser wants the header in its first read, and a pipe brings it in any pieces.
    fn header(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let (mut len, mut wanted) = (0, HEADER);
        while len < wanted.min(out.len()) {
            match self.some(&mut out[len..])? {
                0 => break,
                more => len += more,
            }
            if let Some([kind @ .., a, b, c, d, w, x, y, z]) = out.first_chunk::<12>()
                && *kind == SECTION
                && len >= 12
            {
                let length = [*a, *b, *c, *d];
                let is_big = [*w, *x, *y, *z] == [0x1a, 0x2b, 0x3c, 0x4d];
                let length = if is_big { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) };
                wanted = (length as usize).clamp(HEADER, SECTION_MAX);
            }
        }
        Ok(len)
    }

    /// As `read`; a packed stream that is cut ends there.
    fn some(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.octets.read(out) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
        }
    }
}

/// The first two octets.
fn begin(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    input.take(2).read_to_end(&mut begin)?;
    Ok(begin)
}

fn behind<R: Read>(begin: Vec<u8>, rest: R) -> Chain<Cursor<Vec<u8>>, R> {
    Cursor::new(begin).chain(rest)
}

impl Read for Input<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = match self.reads {
            0 => self.header(out),
            // The parser's construction reads twice, and would keep the first frame of a pipe until the
            // second came. It takes nothing for an answer, which is the end only later.
            1 => Ok(0),
            _ => self.some(out),
        };
        self.reads = self.reads.saturating_add(1);
        read.map_err(|error| {
            let kind = error.kind();
            self.fault.set(error);
            kind.into()
        })
    }
}
