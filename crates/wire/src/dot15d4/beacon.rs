//! The length of the open fields of a beacon of versions 0 and 1 (clause 7.3.1): superframe, GTS,
//! pending addresses. The beacon payload follows; a secured beacon encrypts nothing else.

use super::FormatError;

/// Octets of the superframe specification.
const SUPERFRAME: usize = 2;

/// Octets of the open fields at the front of a beacon's MAC payload.
pub(super) fn open_len(payload: &[u8]) -> Result<usize, FormatError> {
    let gts = payload.get(SUPERFRAME).ok_or(FormatError::Beacon)?;
    // A descriptor has three octets. If there are any, one octet of directions precedes them.
    let descriptors = usize::from(gts & 7);
    let after_gts = SUPERFRAME + 1 + if descriptors > 0 { 1 + 3 * descriptors } else { 0 };
    let pending = payload.get(after_gts).ok_or(FormatError::Beacon)?;
    let (short, extended) = (usize::from(pending & 7), usize::from(pending >> 4 & 7));
    let len = after_gts + 1 + 2 * short + 8 * extended;
    if len <= payload.len() { Ok(len) } else { Err(FormatError::Beacon) }
}
