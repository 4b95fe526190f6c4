//! CCM* of a key at every level (clause 9.3.4): MIC only, encryption only, or both.

use alloc::boxed::Box;

use antedate_aead::{CcmStar128, Key, KeyLengthError, Nonce};
use antedate_wire::dot15d4::{Frame, SecurityLevel};

use super::Status;
use super::key::LinkKey;
use super::nonce::NONCE_LEN;

/// A key at every level. One expanded key serves all lengths of MIC.
pub(super) struct Cipher {
    key: Box<Key<CcmStar128>>,
    mark: [u8; 16],
}

impl Cipher {
    pub(super) fn new(key: &LinkKey) -> Result<Self, KeyLengthError> {
        let key: Box<Key<CcmStar128>> = Box::new(Key::new(&key.0)?);
        // No frame has this nonce: no device has the all-zero extended address. This MIC is never
        // disclosed.
        let mark = *key.seal(Nonce::assume_unique([0; NONCE_LEN]), b"antedate", &[], &mut []).as_bytes();
        Ok(Self { key, mark })
    }

    /// The key in the form for preparations, whatever their level.
    pub(super) const fn prepared_key(&self) -> &Key<CcmStar128> {
        &self.key
    }

    /// Identifies the key.
    pub(super) const fn mark(&self) -> [u8; 16] {
        self.mark
    }

    /// Secures `frame` in place. Its first `open` octets are not encrypted, and its end is reserved
    /// for the MIC.
    pub(super) fn secure(&self, level: SecurityLevel, nonce: [u8; NONCE_LEN], frame: &mut [u8], open: usize) {
        let (before, mic) = frame.split_at_mut(frame.len() - level.mic_len());
        let open = if level.is_encrypted() { open } else { before.len() };
        let (open, private) = before.split_at_mut(open);
        let nonce = Nonce::assume_unique(nonce);
        match level.mic_len() {
            4 => mic.copy_from_slice(self.key.seal_in_place_with::<4>(nonce, open, private).as_bytes()),
            8 => mic.copy_from_slice(self.key.seal_in_place_with::<8>(nonce, open, private).as_bytes()),
            16 => mic.copy_from_slice(self.key.seal_in_place(nonce, open, private).as_bytes()),
            // Encryption is that of CCM*, without its MIC.
            _ if level.is_encrypted() => drop(self.key.seal_in_place(nonce, open, private)),
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
        let encrypted = level.is_encrypted();
        let (open, private) =
            if encrypted { (frame.open(), frame.private()) } else { (frame.before_mic(), &[][..]) };
        let at = out.len() - private.len();
        let (shown, hidden) = out.split_at_mut(at);
        let mic = frame.mic();
        let verdict = match level.mic_len() {
            4 => self.opened::<4>(nonce, open, private, hidden, mic),
            8 => self.opened::<8>(nonce, open, private, hidden, mic),
            16 => self.opened::<16>(nonce, open, private, hidden, mic),
            _ => {
                hidden.copy_from_slice(private);
                // Applying the key stream again removes it. Nothing is sent under this nonce.
                self.key.seal_in_place(Nonce::assume_unique(nonce), open, hidden);
                Ok(())
            }
        };
        if verdict.is_ok() {
            shown.copy_from_slice(frame.payload().get(..at).unwrap_or_default());
        }
        verdict
    }

    fn opened<const MIC: usize>(
        &self,
        nonce: [u8; NONCE_LEN],
        open: &[u8],
        private: &[u8],
        out: &mut [u8],
        mic: &[u8],
    ) -> Result<(), Status> {
        let mic = mic.try_into().map_err(|_| Status::SecurityError)?;
        self.key.open_with::<MIC>(nonce, open, private, out, mic).map_err(|_| Status::SecurityError)
    }
}
