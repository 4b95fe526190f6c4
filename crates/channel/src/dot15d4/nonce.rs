//! The kinds of CCM* nonces (clause 9.3.3). Their octets are a format of `antedate-wire`.

pub(super) use antedate_wire::dot15d4::nonce::{NONCE_LEN, Source, counted, slotted};

/// The number in a nonce after the source address. The two kinds must not be mixed under one key: a
/// slot number can equal a frame counter followed by a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NonceKind {
    /// frame counter and security level
    FrameCounter,
    /// absolute slot number (TSCH)
    Asn,
}
