//! The keys and certificates that both sides of a handshake show.

use antedate_wire::dtls::handshake::certificates::CertificateType;

use super::super::credentials::PublicKey;
use super::{Credentials, Distrust, Shown};

/// What both sides show and sign.
#[derive(Default)]
pub(super) struct Proof {
    /// What we show, if both sides know its type.
    pub(super) own: Option<Credentials>,
    /// The type of what the peer shows.
    pub(super) theirs: Option<CertificateType>,
    /// What the peer has shown, with the key that signs.
    pub(super) shown: Option<Shown>,
    pub(super) key: Option<PublicKey>,
    /// The server has asked for the client's.
    pub(super) asked: bool,
    pub(super) judged: u8,
    /// Why the last one was refused.
    pub(super) refused: Option<Distrust>,
    pub(super) wrong_signatures: u8,
}

impl Proof {
    /// Frees what this side has shown.
    pub(super) fn forget_own(&mut self) {
        self.own = None;
    }
}
