//! Pre-shared keys (RFC 4279).

use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

/// A pre-shared key.
pub type Psk = Zeroizing<Vec<u8>>;

/// A client's identity and key.
#[derive(Clone)]
pub struct Client {
    /// its identity, at most 128 octets
    pub identity: Vec<u8>,
    /// its key
    pub key: Psk,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({} octets of identity, ..)", self.identity.len())
    }
}
