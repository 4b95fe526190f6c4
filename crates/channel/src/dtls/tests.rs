//! Records compared with other implementations of the ciphers, refusals, and two parties on a
//! faulty wire.

mod oracle;
mod rules;
mod vectors;
#[cfg(feature = "dtls")]
mod worlds;

use super::{Aead, ConnectionId, DirectionKeys, Reader, Writer};

fn keys(aead: Aead) -> DirectionKeys {
    let octets: [u8; 44] = core::array::from_fn(|i| i as u8);
    DirectionKeys::new(aead, &octets[..aead.key_len()], &octets[32..32 + aead.iv_len()]).unwrap()
}

fn cid(octets: &[u8]) -> ConnectionId {
    ConnectionId::new(octets).unwrap()
}

fn pair(aead: Aead, cid: ConnectionId) -> (Writer, Reader) {
    (Writer::new(&keys(aead), 1, 0, cid).unwrap(), Reader::new(&keys(aead), 1, cid).unwrap())
}
