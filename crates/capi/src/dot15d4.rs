//! Frames of IEEE 802.15.4: the structs of `antedate_dot15d4.h`, and the contexts of keys and slots.
//!
//! One key serves all levels and any number of slots. A slot has one prepared frame, to send or to
//! receive, and knows its key by address and stamp.

mod calls;
mod parts;

pub use calls::*;
pub use parts::{Parts, Protection};

use crate::Code;
use crate::context::{Context, Side};
use crate::engine::CcmStar128;
use antedate_aead::{FrameSlot, Key};
use antedate_wire::dot15d4::nonce::{NONCE_LEN, Source, counted, slotted};
use antedate_wire::dot15d4::{Asn, ExtendedAddress, Frame, SecurityLevel};
use core::sync::atomic::{AtomicU32, Ordering};

/// Octets of the longest frame of the 2.4 GHz PHY, without its FCS.
const FRAME: usize = 125;
/// The most encrypted octets of such a frame, in whole blocks.
const STREAM: usize = 112;
/// Lengths that an expected frame may have.
const LENGTHS: usize = 2;

/// A key of CCM* at all levels, for nonces of one kind.
pub(crate) struct Radio {
    key: Key<CcmStar128>,
    /// The lowest number for sending.
    next: u64,
    slotted: bool,
    stamp: u32,
}

/// A prepared frame.
pub(crate) struct Place {
    slot: FrameSlot<FRAME, STREAM, LENGTHS>,
    /// Address and stamp of the key.
    key: (usize, u32),
    /// The number in its nonce.
    number: u64,
    /// Whether it is a frame to send.
    sends: bool,
}

impl Side for Radio {
    const MARK: u64 = u64::from_be_bytes(*b"15.4 key");
}

impl Side for Place {
    const MARK: u64 = u64::from_be_bytes(*b"15.4slot");
}

type KeyContext = Context<Radio>;
type SlotContext = Context<Place>;

/// Bytes of a key's memory.
pub const DOT15D4_KEY_BYTES: usize = KeyContext::BYTES;
/// Bytes of a slot's memory.
pub const DOT15D4_SLOT_BYTES: usize = SlotContext::BYTES;

/// Tells two keys at one address apart.
static STAMP: AtomicU32 = AtomicU32::new(1);

fn stamp() -> u32 {
    let stamp = STAMP.load(Ordering::Relaxed);
    // Not one operation, which some CPUs lack. A stamp that two threads share only hides misuse.
    STAMP.store(stamp.wrapping_add(1), Ordering::Relaxed);
    stamp
}

/// The protection of a frame, read from it.
struct Secured {
    number: u64,
    nonce: [u8; NONCE_LEN],
    mic: usize,
    /// Octets that are authenticated only.
    open: usize,
    /// Whether all are.
    all_open: bool,
}

impl Radio {
    /// Number and nonce of a frame. Level 4 is refused: its frames can be changed in transit, and
    /// the standard removed it in 2015.
    fn secured(&self, frame: &Frame<'_>, source: [u8; 8], asn: u64) -> Result<Secured, Code> {
        let security = frame.header.security.ok_or(Code::Frame)?;
        let level = security.level;
        if matches!(level, SecurityLevel::None | SecurityLevel::Enc) {
            return Err(Code::Frame);
        }
        let source = ExtendedAddress(source);
        let (number, nonce) = match (self.slotted, security.asn_in_nonce, security.frame_counter) {
            // The last counter marks the end (clause 9.4.2).
            (false, false, Some(u32::MAX)) => return Err(Code::Spent),
            (false, false, Some(counter)) => (u64::from(counter), counted(source, counter, level)),
            (true, true, _) => {
                let asn = Asn::new(asn).ok_or(Code::Argument)?;
                (asn.number(), slotted(Source::Extended(source), asn))
            }
            _ => return Err(Code::Frame),
        };
        let (open, before) = (frame.open().len(), frame.before_mic().len());
        let all_open = !level.is_encrypted() || open == before;
        let open = if all_open { before } else { open };
        Ok(Secured { number, nonce, mic: level.mic_len(), open, all_open })
    }

    /// Whether a number may be used for sending.
    fn check(&self, number: u64) -> Result<(), Code> {
        if number >= self.next { Ok(()) } else { Err(Code::Spent) }
    }

    /// Spends a number, which was checked, and all below.
    fn take(&mut self, number: u64) {
        self.next = number + 1;
    }
}

impl Secured {
    /// The open part in the form of a slot.
    fn open(&self) -> Option<usize> {
        (!self.all_open).then_some(self.open)
    }
}
