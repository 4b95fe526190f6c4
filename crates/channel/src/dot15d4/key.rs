//! Keys: their names in frames, their usage, and the progress of their numbers (the key table,
//! clause 9.5).

use alloc::vec::Vec;
use core::fmt;

use antedate_aead::KeyLengthError;
use antedate_wire::dot15d4::{Address, Asn, ExtendedAddress, Header, KeyIdentifier, PanId};
use zeroize::Zeroize;

use super::cipher::Cipher;
use super::nonce::NonceKind;
use super::policy::Usage;
use super::{Device, Status};

/// Octets of a key.
pub const KEY_LEN: usize = 16;

/// The octets of a key. They cannot be copied or displayed, and are wiped when dropped.
///
/// ```compile_fail
/// let key = antedate_channel::dot15d4::LinkKey::new([1; 16]);
/// let copy = key.clone(); // a key is not copied
/// ```
pub struct LinkKey(pub(super) [u8; KEY_LEN]);

impl LinkKey {
    /// A key from its octets.
    pub const fn new(octets: [u8; KEY_LEN]) -> Self {
        Self(octets)
    }
}

impl Drop for LinkKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkKey(..)")
    }
}

/// How a frame names its key (clause 9.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyLookup {
    /// key identifier mode 0: by the other device
    Peer(PanId, Address),
    /// modes 1 to 3: by an identifier in the frame
    Identified(KeyIdentifier),
}

impl KeyLookup {
    /// The identifier in frames to or from the other device.
    pub const fn identifier(&self) -> KeyIdentifier {
        match self {
            Self::Peer(..) => KeyIdentifier::Implicit,
            Self::Identified(identifier) => *identifier,
        }
    }

    /// The same lookup with another key index. A key without an index stays unchanged.
    #[must_use]
    pub const fn with_index(self, index: u8) -> Self {
        match self {
            Self::Identified(identifier) => Self::Identified(identifier.with_index(index)),
            peer => peer,
        }
    }

    /// Whether a frame with this identifier, to or from this device, uses the key.
    fn fits(
        &self,
        identifier: KeyIdentifier,
        pan: Option<PanId>,
        peer: Address,
        known: Option<&Device>,
    ) -> bool {
        match *self {
            Self::Identified(own) => own == identifier,
            Self::Peer(of, address) => {
                let named = address == peer && pan.is_none_or(|pan| pan == of);
                identifier == KeyIdentifier::Implicit
                    && (named || known.is_some_and(|d| d.is(Some(of), address)))
            }
        }
    }
}

/// A key to install.
#[derive(Debug)]
pub struct KeyConfig {
    /// its name in frames
    pub lookup: KeyLookup,
    /// its octets
    pub key: LinkKey,
    /// the kind of nonces it is used with
    pub nonces: NonceKind,
    /// the kinds of frames it is for
    pub usage: Usage,
    /// the first number (frame counter or slot) for sending, from durable storage
    pub next: u64,
    /// numbers below this one may be used, from durable storage
    pub limit: u64,
    /// for each device, the lowest acceptable number
    pub heard: Vec<(ExtendedAddress, u64)>,
}

impl KeyConfig {
    /// An unused key for all kinds of frames, with all its numbers.
    pub const fn fresh(lookup: KeyLookup, key: LinkKey, nonces: NonceKind) -> Self {
        Self { lookup, key, nonces, usage: Usage::ANY, next: 0, limit: u64::MAX, heard: Vec::new() }
    }
}

/// The reason for not installing a key. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallError {
    /// frames name another key the same way, and mode 0 has no index to distinguish them
    LookupInUse,
    /// the same octets are installed under another name: numbers could repeat
    KeyInUse,
    /// the same octets were installed before: numbers could repeat, and old frames be accepted
    /// again
    KeyUsedBefore,
    /// key index 0 names no key: indexes are 1 to 255 (clause 9.4.3)
    KeyIndex,
    /// the cipher does not accept this key length
    Key(KeyLengthError),
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key(length) => return length.fmt(f),
            Self::LookupInUse => {
                "another key is named the same way: remove it first, or take another key index"
            }
            Self::KeyInUse => "the same key is installed under another name",
            Self::KeyUsedBefore => "the same key was installed before: take a fresh one",
            Self::KeyIndex => "key index 0 names no key: take one from 1 to 255",
        })
    }
}

impl core::error::Error for InstallError {}

/// Numbers for sending, each used once and only below the durable limit.
#[derive(Debug)]
pub(super) struct Numbers {
    next: u64,
    limit: u64,
    end: u64,
}

impl Numbers {
    fn new(kind: NonceKind, next: u64, limit: u64) -> Self {
        // The frame counter 0xffffffff marks the end. The last slot number is used like the others.
        let end = match kind {
            NonceKind::FrameCounter => u64::from(u32::MAX),
            NonceKind::Asn => Asn::MAX.number() + 1,
        };
        Self { next, limit: limit.min(end), end }
    }

    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn reserve_until(&mut self, limit: u64) {
        self.limit = self.limit.max(limit.min(self.end));
    }

    /// Whether `number` may be used. A frame counter must be the next one.
    pub(super) fn check(&self, number: u64) -> Result<(), Status> {
        if number >= self.next && number < self.limit { Ok(()) } else { Err(Status::CounterError) }
    }

    /// Whether nothing can be sent in a slot and after it.
    pub(super) fn is_past(&self, asn: Asn) -> bool {
        asn.number() < self.next || asn.number() >= self.limit
    }

    /// Spends `number`, which was checked, and all below.
    pub(super) fn take(&mut self, number: u64) {
        self.next = self.next.max(number.saturating_add(1));
    }
}

/// The lowest acceptable numbers of a device.
struct Heard {
    device: ExtendedAddress,
    /// of any frame but an acknowledgment
    frame: u64,
    /// of an acknowledgment, at least `frame`
    ack: u64,
}

/// An installed key.
pub(super) struct KeyEntry {
    pub(super) lookup: KeyLookup,
    pub(super) cipher: Cipher,
    pub(super) nonces: NonceKind,
    pub(super) usage: Usage,
    pub(super) numbers: Numbers,
    heard: Vec<Heard>,
}

impl KeyEntry {
    /// The lowest acceptable number of a device, for an acknowledgment or for any other frame.
    pub(super) fn lowest(&self, device: ExtendedAddress, ack: bool) -> u64 {
        let heard = self.heard.iter().find(|heard| heard.device == device);
        heard.map_or(0, |heard| if ack { heard.ack } else { heard.frame })
    }

    /// Records an accepted frame with `number`.
    ///
    /// A frame is retransmitted with its frame counter, also after an acknowledgment with a greater
    /// one. So an acknowledgment does not outdate other frames (as in Thread 1.2). Slots are not
    /// retransmitted, and a slot has one frame.
    pub(super) fn mark(&mut self, device: ExtendedAddress, number: u64, ack: bool) {
        let lowest = number.saturating_add(1);
        let at = self.heard.iter().position(|heard| heard.device == device).unwrap_or(self.heard.len());
        if at == self.heard.len() {
            self.heard.reserve_exact(1);
            self.heard.push(Heard { device, frame: 0, ack: 0 });
        }
        let Some(heard) = self.heard.get_mut(at) else { return };
        heard.ack = heard.ack.max(lowest);
        if !ack || self.nonces == NonceKind::Asn {
            heard.frame = heard.frame.max(lowest);
        }
    }

    /// For each device, a number above all accepted ones.
    pub(super) fn heard(&self) -> impl Iterator<Item = (ExtendedAddress, u64)> + '_ {
        self.heard.iter().map(|heard| (heard.device, heard.ack))
    }
}

/// The number of removed keys to remember.
const REMEMBERED: usize = 16;

/// The keys.
#[derive(Default)]
pub(super) struct Keys {
    entries: Vec<KeyEntry>,
    /// Cipher marks of removed keys.
    removed: Vec<[u8; 16]>,
    /// Counts changes, to detect preparations made under other keys.
    generation: u32,
}

impl Keys {
    pub(super) fn install(&mut self, config: KeyConfig) -> Result<(), InstallError> {
        let KeyConfig { lookup, key, nonces, usage, next, limit, heard } = config;
        if lookup.identifier().index() == Some(0) {
            return Err(InstallError::KeyIndex);
        }
        let heard = heard.into_iter().map(|(device, lowest)| Heard { device, frame: lowest, ack: lowest });
        let cipher = Cipher::new(&key).map_err(InstallError::Key)?;
        let mark = cipher.mark();
        if self.entries.iter().any(|entry| entry.cipher.mark() == mark) {
            return Err(InstallError::KeyInUse);
        }
        if self.removed.contains(&mark) {
            return Err(InstallError::KeyUsedBefore);
        }
        if self.entries.iter().any(|entry| entry.lookup == lookup) {
            return Err(InstallError::LookupInUse);
        }
        let numbers = Numbers::new(nonces, next, limit);
        self.generation = self.generation.wrapping_add(1);
        self.entries.reserve_exact(1);
        self.entries.push(KeyEntry { lookup, cipher, nonces, usage, numbers, heard: heard.collect() });
        Ok(())
    }

    pub(super) fn remove(&mut self, lookup: &KeyLookup) -> bool {
        let Some(at) = self.entries.iter().position(|entry| entry.lookup == *lookup) else { return false };
        let entry = self.entries.remove(at);
        self.generation = self.generation.wrapping_add(1);
        if self.removed.len() == REMEMBERED {
            self.removed.remove(0);
        }
        self.removed.push(entry.cipher.mark());
        true
    }

    pub(super) const fn generation(&self) -> u32 {
        self.generation
    }

    pub(super) fn get(&self, lookup: &KeyLookup) -> Option<&KeyEntry> {
        self.entries.iter().find(|entry| entry.lookup == *lookup)
    }

    pub(super) fn get_mut(&mut self, lookup: &KeyLookup) -> Option<&mut KeyEntry> {
        self.entries.iter_mut().find(|entry| entry.lookup == *lookup)
    }

    /// The key of a frame to another device.
    pub(super) fn outgoing(
        &self,
        identifier: KeyIdentifier,
        header: &Header,
        peer: Option<&Device>,
    ) -> Option<usize> {
        let addressing = &header.addressing;
        self.entries.iter().position(|entry| {
            entry.lookup.fits(identifier, addressing.destination_pan(), addressing.dst, peer)
        })
    }

    /// The key of a frame from another device.
    pub(super) fn incoming(
        &self,
        identifier: KeyIdentifier,
        pan: Option<PanId>,
        source: Address,
        device: Option<&Device>,
    ) -> Option<usize> {
        self.entries.iter().position(|entry| entry.lookup.fits(identifier, pan, source, device))
    }

    pub(super) fn at(&mut self, index: usize) -> Option<&mut KeyEntry> {
        self.entries.get_mut(index)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &KeyEntry> {
        self.entries.iter()
    }
}
