//! Recorded sessions for a holder of their logged keys, such as a reader of captures.
//!
//! The log has the private keys of one side. With both messages of a handshake they give the keys
//! of its session (WireGuard paper, sections 5.4.2 to 5.4.5).

use alloc::vec;
use alloc::vec::Vec;

use antedate_aead::{ChaCha20Poly1305, Key};
use antedate_wire::wireguard::{Initiation, Response, Transport};
use x25519_dalek::{PublicKey, StaticSecret};

use super::KeyLogEntry;
use super::noise::{Begun, Heard, Identity, Secret};
use super::session::nonce;

/// A recorded session.
pub struct Overheard {
    /// the index of the session at the initiator
    pub initiator: u32,
    /// the index of the session at the responder
    pub responder: u32,
    /// the keys of messages from the initiator, and to it
    keys: [Key<ChaCha20Poly1305>; 2],
}

impl Overheard {
    /// Derives the keys of a session from both messages of its handshake. `None` if this entry of
    /// the log is of another one.
    #[must_use]
    pub fn read(entry: &KeyLogEntry, initiation: &Initiation, response: &Response) -> Option<Self> {
        if initiation.sender != response.receiver {
            return None;
        }
        let ephemeral = StaticSecret::from(*entry.local_ephemeral);
        let public = PublicKey::from(&ephemeral).to_bytes();
        if public != initiation.ephemeral && public != response.ephemeral {
            return None;
        }
        let identity = Identity::new(&entry.local_static);
        let shared = identity.agree(&entry.remote_static).ok()?;
        let preshared = Secret::copy(&entry.preshared);
        let keys = if public == initiation.ephemeral {
            let begun =
                Begun::again(&identity, &entry.remote_static, &shared, &ephemeral, initiation).ok()?;
            begun.finish(&identity, &preshared, response).ok()?
        } else {
            let heard = Heard::new(&identity, initiation).ok()?;
            let (proven, _) = heard.timestamp(&shared).ok()?;
            proven.keys(&preshared, &ephemeral, response).ok()?
        };
        let [from, to] = keys;
        let key = |secret: &Secret| Key::new(&secret[..]).ok();
        let (initiator, responder) = (initiation.sender, response.sender);
        Some(Self { initiator, responder, keys: [key(&from)?, key(&to)?] })
    }

    /// Whether a message is of this session, by its index at the receiver.
    #[must_use]
    pub const fn is_of(&self, message: &Transport<'_>) -> bool {
        message.receiver == self.responder || message.receiver == self.initiator
    }

    /// The packet of a message, with its padding, and whether the initiator sent it. `None` if the
    /// message is not authentic.
    #[must_use]
    pub fn open(&self, message: &Transport<'_>) -> Option<(Vec<u8>, bool)> {
        // Both ends may have chosen the same index.
        let ways = [(message.receiver == self.responder, true), (message.receiver == self.initiator, false)];
        ways.into_iter().zip(&self.keys).filter(|((fits, _), _)| *fits).find_map(|((_, from), key)| {
            let mut packet = vec![0; message.packet.len()];
            let nonce = nonce(message.counter);
            key.open(nonce, &[], message.packet, &mut packet, message.tag).ok()?;
            Some((packet, from))
        })
    }
}

impl core::fmt::Debug for Overheard {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { initiator, responder, keys: _ } = self;
        f.debug_struct("Overheard").field("initiator", initiator).field("responder", responder).finish()
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use antedate_wire::wireguard::transport_header;

    /// Both messages of a handshake, the log's entry of either side, and the keys.
    fn handshake() -> (Initiation, Response, [KeyLogEntry; 2], [Secret; 2]) {
        let (a, b) = (Identity::new(&[1; 32]), Identity::new(&[2; 32]));
        let shared = a.agree(&b.public).unwrap();
        let preshared = Secret::from([9; 32]);
        let (begun, initiation) = Begun::new(&a, &b.public, &shared, &[3; 32], &[7; 12], 11).unwrap();
        let (proven, _) = Heard::new(&b, &initiation).unwrap().timestamp(&shared).unwrap();
        let (response, _) = proven.respond(&preshared, &[4; 32], 12).unwrap();
        let keys = begun.finish(&a, &preshared, &response).unwrap();
        let entry = |local: u8, ephemeral: u8, remote: [u8; 32]| KeyLogEntry {
            local_static: Zeroizing::new([local; 32]),
            local_ephemeral: Zeroizing::new([ephemeral; 32]),
            remote_static: remote,
            preshared: Zeroizing::new([9; 32]),
        };
        (initiation, response, [entry(1, 3, b.public), entry(2, 4, a.public)], keys)
    }

    fn sealed(secret: &Secret, receiver: u32, counter: u64, packet: &[u8]) -> Vec<u8> {
        let key = Key::<ChaCha20Poly1305>::new(&secret[..]).unwrap();
        let mut message = transport_header(receiver, counter).to_vec();
        let mut out = vec![0; packet.len()];
        let nonce = antedate_aead::Nonce::assume_unique(nonce(counter));
        let tag = key.seal(nonce, &[], packet, &mut out);
        message.extend(out);
        message.extend(tag.as_bytes());
        message
    }

    #[test]
    fn logs_of_both_sides_open_both_ways() {
        let (initiation, response, entries, [from, to]) = handshake();
        let there = sealed(&from, 12, 5, b"to the responder");
        let back = sealed(&to, 11, 6, b"to the initiator");
        for entry in &entries {
            let session = Overheard::read(entry, &initiation, &response).unwrap();
            for (octets, text, initiated) in
                [(&there, &b"to the responder"[..], true), (&back, b"to the initiator", false)]
            {
                let antedate_wire::wireguard::Message::Transport(message) =
                    antedate_wire::wireguard::Message::parse(octets).unwrap()
                else {
                    panic!("transport data");
                };
                assert!(session.is_of(&message));
                assert_eq!(session.open(&message), Some((text.to_vec(), initiated)));
                let forged = Transport { counter: message.counter + 1, ..message };
                assert_eq!(session.open(&forged), None);
            }
        }
    }

    #[test]
    fn other_entries_open_nothing() {
        let (initiation, response, [entry, _], _) = handshake();
        let other = |change: fn(&mut KeyLogEntry)| {
            let mut changed = KeyLogEntry {
                local_static: entry.local_static.clone(),
                local_ephemeral: entry.local_ephemeral.clone(),
                remote_static: entry.remote_static,
                preshared: entry.preshared.clone(),
            };
            change(&mut changed);
            Overheard::read(&changed, &initiation, &response).is_none()
        };
        // The lowest bits of a private key are cleared.
        assert!(other(|entry| entry.local_static[1] ^= 1));
        assert!(other(|entry| entry.local_ephemeral[1] ^= 1));
        assert!(other(|entry| entry.remote_static[0] ^= 1));
        assert!(other(|entry| *entry.preshared = [8; 32]));
        assert!(other(|entry| entry.remote_static = [0; 32]), "a key of low order");
        let foreign = Response { receiver: 99, ..response };
        assert!(Overheard::read(&entry, &initiation, &foreign).is_none());
    }
}
