//! CCM* of a key at every level (clause 9.3.4): MIC only, encryption only, or both.

use alloc::boxed::Box;

use antedate_aead::{CcmStar32, CcmStar64, CcmStar128, Key, KeyLengthError, Nonce, Suite, Tag};
use antedate_wire::dot15d4::{Frame, SecurityLevel};

use super::Status;
use super::key::LinkKey;
use super::nonce::NONCE_LEN;

/// A key, expanded for each length of MIC, because the MIC authenticates its length.
struct Expanded {
    mic32: Key<CcmStar32>,
    mic64: Key<CcmStar64>,
    mic128: Key<CcmStar128>,
}

/// A key at every level.
pub(super) struct Cipher {
    keys: Box<Expanded>,
    mark: [u8; 16],
}

/// The common bounds of the CCM* variants.
pub(super) trait Star: Suite<NonceBytes = [u8; NONCE_LEN]> {}

impl<S: Suite<NonceBytes = [u8; NONCE_LEN]>> Star for S {}

impl Cipher {
    pub(super) fn new(key: &LinkKey) -> Result<Self, KeyLengthError> {
        let keys = Box::new(Expanded {
            mic32: Key::new(&key.0)?,
            mic64: Key::new(&key.0)?,
            mic128: Key::new(&key.0)?,
        });
        // No frame has this nonce: no device has the all-zero extended address. This MIC is never
        // disclosed.
        let mark =
            *keys.mic128.seal(Nonce::assume_unique([0; NONCE_LEN]), b"antedate", &[], &mut []).as_bytes();
        Ok(Self { keys, mark })
    }

    /// The key in the form for preparations, whatever their level.
    pub(super) const fn prepared_key(&self) -> &Key<CcmStar128> {
        &self.keys.mic128
    }

    /// Identifies the key.
    pub(super) const fn mark(&self) -> [u8; 16] {
        self.mark
    }

    /// Secures `frame` in place. Its first `open` octets are not encrypted, and its end is reserved
    /// for the MIC.
    pub(super) fn secure(&self, level: SecurityLevel, nonce: [u8; NONCE_LEN], frame: &mut [u8], open: usize) {
        let mic_at = frame.len() - level.mic_len();
        match level.mic_len() {
            4 => secure(&self.keys.mic32, level, nonce, frame, open, mic_at),
            8 => secure(&self.keys.mic64, level, nonce, frame, open, mic_at),
            16 => secure(&self.keys.mic128, level, nonce, frame, open, mic_at),
            _ if level.is_encrypted() => {
                let (open, private) = frame.split_at_mut(open);
                // Encryption is that of CCM*, without its MIC.
                self.keys.mic128.seal_in_place(Nonce::assume_unique(nonce), open, private);
            }
            _ => {}
        }
    }

    /// Unsecures `frame` into `out`, which has the length of its MAC payload.
    pub(super) fn unsecure(
        &self,
        level: SecurityLevel,
        nonce: [u8; NONCE_LEN],
        frame: &Frame<'_>,
        out: &mut [u8],
    ) -> Result<(), Status> {
        match level.mic_len() {
            4 => unsecure(&self.keys.mic32, level, nonce, frame, out),
            8 => unsecure(&self.keys.mic64, level, nonce, frame, out),
            16 => unsecure(&self.keys.mic128, level, nonce, frame, out),
            _ => {
                out.copy_from_slice(frame.payload());
                let (_, private) = out.split_at_mut(out.len() - frame.private().len());
                // Applying the key stream again removes it. Nothing is sent under this nonce.
                self.keys.mic128.seal_in_place(Nonce::assume_unique(nonce), frame.open(), private);
                Ok(())
            }
        }
    }
}

fn secure<S: Star>(
    key: &Key<S>,
    level: SecurityLevel,
    nonce: [u8; NONCE_LEN],
    frame: &mut [u8],
    open: usize,
    mic_at: usize,
) where
    S::TagBytes: AsRef<[u8]>,
{
    let (before, mic) = frame.split_at_mut(mic_at);
    let nonce = Nonce::assume_unique(nonce);
    let tag: Tag<S::TagBytes> = if level.is_encrypted() {
        let (open, private) = before.split_at_mut(open);
        key.seal_in_place(nonce, open, private)
    } else {
        key.seal_in_place(nonce, before, &mut [])
    };
    mic.copy_from_slice(tag.as_bytes().as_ref());
}

fn unsecure<S: Star>(
    key: &Key<S>,
    level: SecurityLevel,
    nonce: [u8; NONCE_LEN],
    frame: &Frame<'_>,
    out: &mut [u8],
) -> Result<(), Status>
where
    S::TagBytes: for<'a> TryFrom<&'a [u8]>,
{
    let mic = S::TagBytes::try_from(frame.mic()).map_err(|_| Status::SecurityError)?;
    let verdict = if level.is_encrypted() {
        let (open, private) = out.split_at_mut(out.len() - frame.private().len());
        let verdict = key.open(nonce, frame.open(), frame.private(), private, &mic);
        if verdict.is_ok() {
            let payload = frame.payload();
            open.copy_from_slice(payload.get(..open.len()).unwrap_or_default());
        }
        verdict
    } else {
        let verdict = key.open(nonce, frame.before_mic(), &[], &mut [], &mic);
        if verdict.is_ok() {
            out.copy_from_slice(frame.payload());
        }
        verdict
    };
    verdict.map_err(|_| Status::SecurityError)
}
