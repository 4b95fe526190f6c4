//! From secrets to keys (RFC 5246 sections 5, 6.3 and 8.1, RFC 7627 section 4, RFC 4279 section 2,
//! RFC 5489 section 2, RFC 5289 section 3).

use alloc::vec;
use alloc::vec::Vec;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha384};
use zeroize::Zeroizing;

use super::super::{Aead, DirectionKeys, Hash};
use crate::secret::Boxed;

/// The master secret of a connection.
pub(super) type Master = Boxed<48>;

/// HMAC-SHA256 over concatenated parts.
pub(super) fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC accepts a key of any length, so this cannot fail.
    let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(key) else { return [0; 32] };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// HMAC-SHA384 over concatenated parts.
fn hmac384(key: &[u8], parts: &[&[u8]]) -> [u8; 48] {
    let Ok(mut mac) = <Hmac<Sha384> as KeyInit>::new_from_slice(key) else { return [0; 48] };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// P_hash with label and seed.
pub(super) fn prf(hash: Hash, secret: &[u8], label: &[u8], seed: &[&[u8]], out: &mut [u8]) {
    let mut labelled = vec![label];
    labelled.extend(seed);
    match hash {
        Hash::Sha256 => expand(hmac, secret, &labelled, out),
        Hash::Sha384 => expand(hmac384, secret, &labelled, out),
    }
}

fn expand<const N: usize>(
    hmac: fn(&[u8], &[&[u8]]) -> [u8; N],
    secret: &[u8],
    labelled: &[&[u8]],
    out: &mut [u8],
) {
    let mut a = Zeroizing::new(hmac(secret, labelled));
    for place in out.chunks_mut(N) {
        let mut parts: Vec<&[u8]> = vec![&a[..]];
        parts.extend(labelled);
        let block = Zeroizing::new(hmac(secret, &parts));
        place.copy_from_slice(block.get(..place.len()).unwrap_or_default());
        a = Zeroizing::new(hmac(secret, &[&a[..]]));
    }
}

/// The premaster secret of a pre-shared key, with the ephemeral secret or as many zeros as the key
/// has octets.
pub(super) fn premaster(psk: &[u8], ephemeral: Option<&[u8; 32]>) -> Zeroizing<Vec<u8>> {
    let zeros = Zeroizing::new(vec![0; psk.len()]);
    let other = ephemeral.map_or(&zeros[..], |secret| &secret[..]);
    // Allocated in full length, so that no reallocation leaves a copy behind.
    let mut out = Zeroizing::new(Vec::with_capacity(4 + other.len() + psk.len()));
    for part in [other, psk] {
        out.extend((part.len() as u16).to_be_bytes());
        out.extend(part);
    }
    out
}

/// The input to the master secret besides the premaster secret.
pub(super) enum Binding<'a> {
    /// both randoms
    Randoms(&'a [u8; 32], &'a [u8; 32]),
    /// the hash of the handshake up to the ClientKeyExchange (RFC 7627)
    Session(&'a [u8]),
}

pub(super) fn master(hash: Hash, premaster: &[u8], binding: &Binding<'_>) -> Master {
    let mut out = Master::default();
    match binding {
        Binding::Randoms(client, server) => {
            prf(hash, premaster, b"master secret", &[&client[..], &server[..]], &mut out[..]);
        }
        Binding::Session(session) => {
            prf(hash, premaster, b"extended master secret", &[session], &mut out[..]);
        }
    }
    out
}

/// The write keys of client and server.
pub(super) fn keys(
    (aead, hash): (Aead, Hash),
    master: &Master,
    client: &[u8; 32],
    server: &[u8; 32],
) -> Option<[DirectionKeys; 2]> {
    let (key, iv) = (aead.key_len(), aead.iv_len());
    let mut block = Zeroizing::new([0; 2 * (32 + 12)]);
    let block = &mut block[..2 * (key + iv)];
    prf(hash, &master[..], b"key expansion", &[&server[..], &client[..]], block);
    let (keys, ivs) = block.split_at(2 * key);
    let ((client_key, server_key), (client_iv, server_iv)) = (keys.split_at(key), ivs.split_at(iv));
    let both =
        [DirectionKeys::new(aead, client_key, client_iv)?, DirectionKeys::new(aead, server_key, server_iv)?];
    Some(both)
}

/// The contents of a Finished.
pub(super) fn verify_data(hash: Hash, master: &Master, by_client: bool, session: &[u8]) -> [u8; 12] {
    let label: &[u8] = if by_client { b"client finished" } else { b"server finished" };
    let mut out = [0; 12];
    prf(hash, &master[..], label, &[session], &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector for the PRF with SHA-256 that P. Gutmann posted to the TLS working group (mailing
    /// list, 2009).
    #[test]
    fn prf_gives_the_known_answer() {
        let secret = hex("9bbe436ba940f017b17652849a71db35");
        let seed = hex("a0ba9f936cda311827a6f796ffd5198c");
        let mut out = [0; 100];
        prf(Hash::Sha256, &secret, b"test label", &[&seed], &mut out);
        let expected = "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9c9a46b4e14baf9af\
            0fa022f7077def17abfd3797c0564bab4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff70187347b66";
        assert_eq!(out[..], hex(expected));
    }

    /// The vector for the PRF with SHA-384 of the same series.
    #[test]
    fn prf_with_sha384_gives_the_known_answer() {
        let secret = hex("b80b733d6ceefcdc71566ea48e5567df");
        let seed = hex("cd665cf6a8447dd6ff8b27555edb7465");
        let mut out = [0; 148];
        prf(Hash::Sha384, &secret, b"test label", &[&seed], &mut out);
        let expected = "7b0c18e9ced410ed1804f2cfa34a336a1c14dffb4900bb5fd7942107e81c83cde9ca0faa60be9fe34f82b1233c9146a0\
            e534cb400fed2700884f9dc236f80edd8bfa961144c9e8d792eca722a7b32fc3d416d473ebc2c5fd4abfdad05d9184259b5bf8cd\
            4d90fa0d31e2dec479e4f1a26066f2eea9a69236a3e52655c9e9aee691c8f3a26854308d5eaa3be85e0990703d73e56f";
        assert_eq!(out[..], hex(expected));
    }

    #[test]
    fn premaster_secret_has_standard_layout() {
        assert_eq!(premaster(b"key", None)[..], *b"\0\x03\0\0\0\0\x03key");
        let joined = premaster(b"key", Some(&[7; 32]));
        assert_eq!(joined[..2], [0, 32]);
        assert_eq!(joined[2..34], [7; 32]);
        assert_eq!(joined[34..], *b"\0\x03key");
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }
}
