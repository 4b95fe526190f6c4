//! The handshake: Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s (The Noise Protocol Framework, revision 34)
//! in the form of the WireGuard paper, sections 5.4.2 to 5.4.5.
//!
//! It uses primitives (`x25519-dalek`, `blake2`, `hmac`, and the AEAD of this project's engine)
//! instead of a Noise library. Two messages of one pattern are short, a responder needs the
//! decrypted static key to find the preshared one, and the key log of a test needs the ephemeral
//! key, which a library rightly hides.

use antedate_aead::{ChaCha20Poly1305, Key, Nonce};
use blake2::{Blake2s256, Digest};
use hmac::{KeyInit, Mac, SimpleHmac};
use x25519_dalek::{PublicKey, StaticSecret};

use antedate_wire::wireguard::{Initiation, Response};

use crate::secret::Boxed;

const CONSTRUCTION: &[u8] = b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const IDENTIFIER: &[u8] = b"WireGuard v1 zx2c4 Jason@zx2c4.com";

/// A key of 32 octets that is wiped when dropped.
pub(super) type Secret = Boxed<32>;

/// A TAI64N timestamp.
pub type Timestamp = [u8; 12];

/// The message was changed, or is not from its claimed sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ForgedError;

/// A static key pair.
pub(super) struct Identity {
    secret: StaticSecret,
    pub(super) public: [u8; 32],
}

impl Identity {
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        let secret = StaticSecret::from(*secret);
        let public = PublicKey::from(&secret).to_bytes();
        Self { secret, public }
    }

    pub(super) fn agree(&self, public: &[u8; 32]) -> Result<Secret, ForgedError> {
        agree(&self.secret, public)
    }

    pub(super) fn secret(&self) -> Secret {
        Secret::from(self.secret.to_bytes())
    }
}

/// Curve25519. A public key of low order gives a publicly known secret.
fn agree(secret: &StaticSecret, public: &[u8; 32]) -> Result<Secret, ForgedError> {
    let shared = secret.diffie_hellman(&PublicKey::from(*public));
    if shared.was_contributory() { Ok(Secret::from(shared.to_bytes())) } else { Err(ForgedError) }
}

pub(super) fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Blake2s256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

fn hmac(key: &[u8; 32], parts: &[&[u8]]) -> Secret {
    // HMAC accepts a key of any length, so this cannot fail.
    let Ok(mut mac) = <SimpleHmac<Blake2s256> as KeyInit>::new_from_slice(key) else {
        return Secret::default();
    };
    parts.iter().for_each(|part| mac.update(part));
    Secret::from(<[u8; 32]>::from(mac.finalize().into_bytes()))
}

/// HKDF: `N` keys from a chaining key and an input.
fn kdf<const N: usize>(chaining: &[u8; 32], input: &[u8]) -> [Secret; N] {
    let first = hmac(chaining, &[input]);
    let mut out: [Secret; N] = core::array::from_fn(|_| Secret::default());
    for i in 0..N {
        let (done, rest) = out.split_at_mut(i);
        let previous: &[u8] = done.last().map_or(&[], |last| &last[..]);
        rest[0] = hmac(&first, &[previous, &[i as u8 + 1]]);
    }
    out
}

/// A key that seals only once, under nonce 0.
fn single(key: &Secret) -> Result<Key<ChaCha20Poly1305>, ForgedError> {
    Key::new(&key[..]).map_err(|_| ForgedError)
}

/// The symmetric state of both sides.
#[derive(Clone)]
struct Symmetric {
    chaining: Secret,
    hash: [u8; 32],
}

impl Symmetric {
    /// The initial state with the responder's public key.
    fn new(responder: &[u8; 32]) -> Self {
        let chaining = hash(&[CONSTRUCTION]);
        let start = hash(&[&chaining, IDENTIFIER]);
        Self { hash: hash(&[&start, responder]), chaining: Secret::from(chaining) }
    }

    fn mix_hash(&mut self, data: &[u8]) {
        self.hash = hash(&[&self.hash, data]);
    }

    fn mix_key(&mut self, input: &[u8]) {
        let [chaining] = kdf(&self.chaining, input);
        self.chaining = chaining;
    }

    fn mix_key_and_take(&mut self, input: &[u8]) -> Secret {
        let [chaining, key] = kdf(&self.chaining, input);
        self.chaining = chaining;
        key
    }

    /// Mixes in the preshared key.
    fn mix_preshared(&mut self, preshared: &Secret) -> Secret {
        let [chaining, tau, key] = kdf(&self.chaining, &preshared[..]);
        self.chaining = chaining;
        self.mix_hash(&tau[..]);
        key
    }

    /// Seals `plain` into `out`, which has 16 octets more.
    fn seal(&mut self, key: &Secret, plain: &[u8], out: &mut [u8]) -> Result<(), ForgedError> {
        let (text, tag) = out.split_at_mut(plain.len());
        let sealed = single(key)?.seal(Nonce::assume_unique([0; 12]), &self.hash, plain, text);
        tag.copy_from_slice(sealed.as_bytes());
        self.mix_hash(out);
        Ok(())
    }

    fn open(&mut self, key: &Secret, sealed: &[u8], out: &mut [u8]) -> Result<(), ForgedError> {
        let (text, tag) = sealed.split_last_chunk::<16>().ok_or(ForgedError)?;
        single(key)?.open([0; 12], &self.hash, text, out, tag).map_err(|_| ForgedError)?;
        self.mix_hash(sealed);
        Ok(())
    }

    /// The session keys: the initiator's for sending, and for receiving.
    fn split(self) -> [Secret; 2] {
        kdf(&self.chaining, &[])
    }
}

/// A handshake that was begun and not yet answered.
#[derive(Clone)]
pub(super) struct Begun {
    state: Symmetric,
    ephemeral: Secret,
    pub(super) index: u32,
}

impl Begun {
    /// Section 5.4.2: the initiation to a peer with a known static key and shared secret.
    pub(super) fn new(
        identity: &Identity,
        responder: &[u8; 32],
        shared: &Secret,
        ephemeral: &[u8; 32],
        timestamp: &Timestamp,
        index: u32,
    ) -> Result<(Self, Initiation), ForgedError> {
        let secret = StaticSecret::from(*ephemeral);
        let public = PublicKey::from(&secret).to_bytes();
        let mut state = Symmetric::new(responder);
        state.mix_key(&public);
        state.mix_hash(&public);
        let mut message =
            Initiation { sender: index, ephemeral: public, static_key: [0; 48], timestamp: [0; 28] };
        let key = state.mix_key_and_take(&agree(&secret, responder)?[..]);
        state.seal(&key, &identity.public, &mut message.static_key)?;
        let key = state.mix_key_and_take(&shared[..]);
        state.seal(&key, timestamp, &mut message.timestamp)?;
        Ok((Self { state, ephemeral: Secret::copy(ephemeral), index }, message))
    }

    /// The state behind a recorded initiation of this side, whose ephemeral key is known.
    pub(super) fn again(
        identity: &Identity,
        responder: &[u8; 32],
        shared: &Secret,
        ephemeral: &StaticSecret,
        initiation: &Initiation,
    ) -> Result<Self, ForgedError> {
        let mut state = Symmetric::new(responder);
        state.mix_key(&initiation.ephemeral);
        state.mix_hash(&initiation.ephemeral);
        let key = state.mix_key_and_take(&agree(ephemeral, responder)?[..]);
        let mut public = [0; 32];
        state.open(&key, &initiation.static_key, &mut public)?;
        if public != identity.public {
            return Err(ForgedError);
        }
        let key = state.mix_key_and_take(&shared[..]);
        state.open(&key, &initiation.timestamp, &mut [0; 12])?;
        Ok(Self { state, ephemeral: Secret::from(ephemeral.to_bytes()), index: initiation.sender })
    }

    /// Sections 5.4.3 and 5.4.5: derives the keys for sending and receiving from the peer's
    /// response. A forged response leaves the handshake unchanged.
    pub(super) fn finish(
        &self,
        identity: &Identity,
        preshared: &Secret,
        response: &Response,
    ) -> Result<[Secret; 2], ForgedError> {
        let mut state = self.state.clone();
        state.mix_key(&response.ephemeral);
        state.mix_hash(&response.ephemeral);
        state.mix_key(&agree(&StaticSecret::from(*self.ephemeral), &response.ephemeral)?[..]);
        state.mix_key(&identity.agree(&response.ephemeral)?[..]);
        let key = state.mix_preshared(preshared);
        state.open(&key, &response.empty, &mut [])?;
        Ok(state.split())
    }

    pub(super) fn ephemeral(&self) -> &Secret {
        &self.ephemeral
    }
}

/// An initiation, decrypted up to the sender's static key.
pub(super) struct Heard {
    state: Symmetric,
    initiation: Initiation,
    /// The claimed sender, proven only by [`Heard::timestamp`].
    pub(super) initiator: [u8; 32],
}

impl Heard {
    pub(super) fn new(identity: &Identity, initiation: &Initiation) -> Result<Self, ForgedError> {
        let mut state = Symmetric::new(&identity.public);
        state.mix_key(&initiation.ephemeral);
        state.mix_hash(&initiation.ephemeral);
        let key = state.mix_key_and_take(&identity.agree(&initiation.ephemeral)?[..]);
        let mut initiator = [0; 32];
        state.open(&key, &initiation.static_key, &mut initiator)?;
        Ok(Self { state, initiation: *initiation, initiator })
    }

    /// The timestamp, which only the owner of the static key can have sealed.
    pub(super) fn timestamp(mut self, shared: &Secret) -> Result<(Proven, Timestamp), ForgedError> {
        let key = self.state.mix_key_and_take(&shared[..]);
        let mut timestamp = [0; 12];
        self.state.open(&key, &self.initiation.timestamp, &mut timestamp)?;
        let Self { state, initiation, initiator } = self;
        Ok((Proven { state, initiation, initiator }, timestamp))
    }
}

/// An initiation with a proven sender.
pub(super) struct Proven {
    state: Symmetric,
    initiation: Initiation,
    initiator: [u8; 32],
}

impl Proven {
    /// Sections 5.4.3 and 5.4.5: the response, and the keys for sending and receiving.
    pub(super) fn respond(
        self,
        preshared: &Secret,
        ephemeral: &[u8; 32],
        index: u32,
    ) -> Result<(Response, [Secret; 2]), ForgedError> {
        let Self { mut state, initiation, initiator } = self;
        let ephemeral = StaticSecret::from(*ephemeral);
        let public = PublicKey::from(&ephemeral).to_bytes();
        state.mix_key(&public);
        state.mix_hash(&public);
        state.mix_key(&agree(&ephemeral, &initiation.ephemeral)?[..]);
        state.mix_key(&agree(&ephemeral, &initiator)?[..]);
        let key = state.mix_preshared(preshared);
        let mut empty = [0; 16];
        state.seal(&key, &[], &mut empty)?;
        let [receive, send] = state.split();
        let response = Response { sender: index, receiver: initiation.sender, ephemeral: public, empty };
        Ok((response, [send, receive]))
    }

    /// The keys of the initiator for sending, and for receiving, of a recorded response of this
    /// side, whose ephemeral key is known.
    pub(super) fn keys(
        self,
        preshared: &Secret,
        ephemeral: &StaticSecret,
        response: &Response,
    ) -> Result<[Secret; 2], ForgedError> {
        let Self { mut state, initiation, initiator } = self;
        state.mix_key(&response.ephemeral);
        state.mix_hash(&response.ephemeral);
        state.mix_key(&agree(ephemeral, &initiation.ephemeral)?[..]);
        state.mix_key(&agree(ephemeral, &initiator)?[..]);
        let key = state.mix_preshared(preshared);
        state.open(&key, &response.empty, &mut [])?;
        Ok(state.split())
    }

    /// The initiator's index.
    pub(super) fn index(&self) -> u32 {
        self.initiation.sender
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Identity, Identity, Secret) {
        let (a, b) = (Identity::new(&[1; 32]), Identity::new(&[2; 32]));
        let shared = a.agree(&b.public).unwrap();
        assert_eq!(shared, b.agree(&a.public).unwrap());
        (a, b, shared)
    }

    #[test]
    fn both_sides_derive_the_same_keys() {
        let (a, b, shared) = pair();
        let psk = Secret::from([9; 32]);
        let (begun, initiation) = Begun::new(&a, &b.public, &shared, &[3; 32], &[7; 12], 11).unwrap();
        let heard = Heard::new(&b, &initiation).unwrap();
        assert_eq!(heard.initiator, a.public);
        let (proven, timestamp) = heard.timestamp(&shared).unwrap();
        assert_eq!((proven.index(), timestamp), (11, [7; 12]));
        let (response, [send, receive]) = proven.respond(&psk, &[4; 32], 12).unwrap();
        let [a_send, a_receive] = begun.finish(&a, &psk, &response).unwrap();
        assert_eq!((a_send, a_receive), (receive, send));
    }

    /// Computed apart, by Python's `hashlib` and `hmac` with RFC 7748's and RFC 8439's formulas.
    #[test]
    fn messages_and_keys_match_another_program() {
        let (a, b, shared) = pair();
        let psk = Secret::from([9; 32]);
        let (begun, initiation) = Begun::new(&a, &b.public, &shared, &[3; 32], &[7; 12], 11).unwrap();
        assert_eq!(**begun.ephemeral(), [3; 32]);
        let hex = |octets: &[u8]| std::format!("{}", antedate_wire::Hex(octets));
        assert_eq!(
            hex(&initiation.ephemeral),
            "5dfedd3b6bd47f6fa28ee15d969d5bb0ea53774d488bdaf9df1c6e0124b3ef22"
        );
        assert_eq!(
            hex(&initiation.static_key),
            "0a26599fb2188bb723276fc173af67616c817fc32fd04d686d87ec152fac10eed2bda3bb3b6f1eded6977684082284d8"
        );
        assert_eq!(hex(&initiation.timestamp), "50fc41b4cbcf9deeba2039d1c21710e7081f158a3f5bb6ceb5c344e3");
        let (proven, _) = Heard::new(&b, &initiation).unwrap().timestamp(&shared).unwrap();
        let (response, [send, receive]) = proven.respond(&psk, &[4; 32], 12).unwrap();
        assert_eq!(
            hex(&response.ephemeral),
            "ac01b2209e86354fb853237b5de0f4fab13c7fcbf433a61c019369617fecf10b"
        );
        assert_eq!(hex(&response.empty), "4f454c97e3cfc715139994a80263cbca");
        assert_eq!(hex(&receive[..]), "5e7f286e4df55cd3305b4cb49aff8dec8dc65c2f298dd52440d1266a2e545762");
        assert_eq!(hex(&send[..]), "82c7d54a910cf61d06fe36d96c38872a195d8f34b7a447956f04f7b961e8d5b4");
    }

    #[test]
    fn changed_message_or_key_is_detected() {
        let (a, b, shared) = pair();
        let psk = Secret::from([9; 32]);
        let (begun, initiation) = Begun::new(&a, &b.public, &shared, &[3; 32], &[7; 12], 11).unwrap();
        let mut changed = initiation;
        changed.static_key[0] ^= 1;
        assert!(Heard::new(&b, &changed).is_err());
        let mut changed = initiation;
        changed.timestamp[5] ^= 1;
        assert!(Heard::new(&b, &changed).unwrap().timestamp(&shared).is_err());
        let (proven, _) = Heard::new(&b, &initiation).unwrap().timestamp(&shared).unwrap();
        let (response, _) = proven.respond(&psk, &[4; 32], 12).unwrap();
        assert!(begun.finish(&a, &Secret::from([8; 32]), &response).is_err());
        let mut changed = response;
        changed.empty[0] ^= 1;
        assert!(begun.finish(&a, &psk, &changed).is_err());
        assert!(begun.finish(&a, &psk, &response).is_ok(), "a forged response changes nothing");
    }

    #[test]
    fn public_keys_of_low_order_are_refused() {
        assert!(Identity::new(&[1; 32]).agree(&[0; 32]).is_err());
    }
}
