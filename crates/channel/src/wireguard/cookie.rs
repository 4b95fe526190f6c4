//! MAC1, MAC2 and cookies (WireGuard paper, sections 5.4.4 and 5.4.7), which prevent strangers from
//! making a peer compute.
//!
//! MAC1 proves knowledge of the responder's public key, and costs one hash to check. Under load a
//! peer answers with a cookie, a MAC of the sender's address. Only a sender that receives at that
//! address can use it for MAC2 in the next attempt.

use core::net::{IpAddr, SocketAddr};

use antedate_wire::wireguard::{CookieReply, MAC_LEN};
use blake2::Blake2sMac;
use blake2::digest::consts::U16;
use blake2::digest::{KeyInit, Mac};
use chacha20poly1305::{AeadInOut, XChaCha20Poly1305};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::noise::{Secret, hash};

/// The lifetime of a cookie and of its secret, in nanoseconds.
const COOKIE_LIFETIME: u64 = 120_000_000_000;
/// Nanoseconds before its end when a cookie is no longer sent.
const COOKIE_MARGIN: u64 = 5_000_000_000;

const LABEL_MAC1: &[u8] = b"mac1----";
const LABEL_COOKIE: &[u8] = b"cookie--";

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; MAC_LEN] {
    // BLAKE2s accepts keys of up to 32 octets, and all keys here are at most that long.
    let Ok(mut mac) = <Blake2sMac<U16> as KeyInit>::new_from_slice(key) else { return [0; MAC_LEN] };
    parts.iter().for_each(|part| Mac::update(&mut mac, part));
    mac.finalize().into_bytes().into()
}

/// The octets of an address and port, for a MAC.
fn octets(from: SocketAddr) -> [u8; 18] {
    let mut out = [0; 18];
    match from.ip() {
        IpAddr::V4(ip) => out[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => out[..16].copy_from_slice(&ip.octets()),
    }
    out[16..].copy_from_slice(&from.port().to_be_bytes());
    out
}

/// The parts of a handshake message: the body before the MACs, MAC1, MAC2.
fn parts(message: &[u8]) -> Option<(&[u8], &[u8; MAC_LEN], &[u8; MAC_LEN])> {
    let (rest, mac2) = message.split_last_chunk()?;
    let (rest, mac1) = rest.split_last_chunk()?;
    Some((rest, mac1, mac2))
}

/// The cipher key of cookies for messages to this public key.
fn cookie_key(public: &[u8; 32]) -> [u8; 32] {
    hash(&[LABEL_COOKIE, public])
}

/// Writes the MACs of messages to one peer.
pub(super) struct Marker {
    mac1_key: [u8; 32],
    cookie_key: [u8; 32],
    /// The peer's cookie, and its time of arrival.
    cookie: Option<(Zeroizing<[u8; 16]>, u64)>,
    /// MAC1 of the last message sent, which binds a cookie reply.
    last_mac1: Option<[u8; MAC_LEN]>,
}

impl Marker {
    pub(super) fn new(peer: &[u8; 32]) -> Self {
        Self {
            mac1_key: hash(&[LABEL_MAC1, peer]),
            cookie_key: cookie_key(peer),
            cookie: None,
            last_mac1: None,
        }
    }

    /// Writes both MACs of a handshake message.
    pub(super) fn mark(&mut self, message: &mut [u8], now: u64) {
        let Some((rest, mac2)) = message.split_last_chunk_mut::<MAC_LEN>() else { return };
        let Some((rest, mac1)) = rest.split_last_chunk_mut::<MAC_LEN>() else { return };
        *mac1 = mac(&self.mac1_key, &[rest]);
        self.last_mac1 = Some(*mac1);
        let fresh = |at: u64| now.saturating_sub(at) < COOKIE_LIFETIME - COOKIE_MARGIN;
        *mac2 = match &self.cookie {
            Some((cookie, at)) if fresh(*at) => mac(&cookie[..], &[rest, mac1]),
            _ => [0; MAC_LEN],
        };
    }

    /// Accepts a cookie, if it answers the last message. Returns false if it does not.
    pub(super) fn take(&mut self, reply: &CookieReply, now: u64) -> bool {
        let Some(mac1) = self.last_mac1 else { return false };
        let Ok(cipher) = XChaCha20Poly1305::new_from_slice(&self.cookie_key) else { return false };
        let Some((text, tag)) = reply.cookie.split_first_chunk::<16>() else { return false };
        let Ok(tag) = <[u8; 16]>::try_from(tag) else { return false };
        let mut cookie = Zeroizing::new(*text);
        let opened =
            cipher.decrypt_inout_detached(&reply.nonce.into(), &mac1, (&mut cookie[..]).into(), &tag.into());
        if opened.is_err() {
            return false;
        }
        // One message, one cookie.
        self.last_mac1 = None;
        self.cookie = Some((cookie, now));
        true
    }
}

/// Checks the MACs of messages to ourselves.
pub(super) struct Checker {
    mac1_key: [u8; 32],
    cookie_key: [u8; 32],
    /// The secret of cookies, and its start. It changes every two minutes.
    secret: Option<(Secret, u64)>,
}

impl Checker {
    pub(super) fn new(own: &[u8; 32]) -> Self {
        Self { mac1_key: hash(&[LABEL_MAC1, own]), cookie_key: cookie_key(own), secret: None }
    }

    /// Whether the sender of a handshake message knows our public key.
    pub(super) fn knows_us(&self, message: &[u8]) -> bool {
        let Some((rest, mac1, _)) = parts(message) else { return false };
        mac(&self.mac1_key, &[rest]).ct_eq(mac1).into()
    }

    /// Whether the sender of a handshake message receives at its address.
    pub(super) fn shows_cookie(&self, message: &[u8], from: SocketAddr, now: u64) -> bool {
        let Some((secret, since)) = &self.secret else { return false };
        let Some((rest, mac1, mac2)) = parts(message) else { return false };
        if now.saturating_sub(*since) >= COOKIE_LIFETIME {
            return false;
        }
        let cookie = mac(&secret[..], &[&octets(from)]);
        mac(&cookie, &[rest, mac1]).ct_eq(mac2).into()
    }

    /// The cookie reply to the sender of a handshake message, which named itself `receiver`.
    pub(super) fn reply(
        &mut self,
        message: &[u8],
        receiver: u32,
        from: SocketAddr,
        now: u64,
        mut random: impl FnMut(&mut [u8]),
    ) -> Option<CookieReply> {
        let (_, mac1, _) = parts(message)?;
        if self.secret.as_ref().is_none_or(|(_, since)| now.saturating_sub(*since) >= COOKIE_LIFETIME) {
            let mut secret = Secret::default();
            random(&mut secret[..]);
            self.secret = Some((secret, now));
        }
        let (secret, _) = self.secret.as_ref()?;
        let mut reply = CookieReply { receiver, nonce: [0; 24], cookie: [0; 32] };
        random(&mut reply.nonce);
        let cipher = XChaCha20Poly1305::new_from_slice(&self.cookie_key).ok()?;
        let (text, tag) = reply.cookie.split_at_mut(16);
        text.copy_from_slice(&mac(&secret[..], &[&octets(from)]));
        let sealed = cipher.encrypt_inout_detached(&reply.nonce.into(), mac1, text.into()).ok()?;
        tag.copy_from_slice(&sealed);
        Some(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn cookie_proves_its_address() {
        let own = [5; 32];
        let (mut marker, mut checker) = (Marker::new(&own), Checker::new(&own));
        let mut message = [7; 148];
        marker.mark(&mut message, 0);
        assert!(checker.knows_us(&message));
        assert!(!checker.shows_cookie(&message, from(1), 0));
        let mut seed = 0;
        let random = |out: &mut [u8]| {
            seed += 1;
            out.fill(seed);
        };
        let reply = checker.reply(&message, 1, from(1), 0, random).unwrap();
        assert!(marker.take(&reply, 1));
        assert!(!marker.take(&reply, 1), "a cookie reply is taken once");
        marker.mark(&mut message, 2);
        assert!(checker.shows_cookie(&message, from(1), 2));
        assert!(!checker.shows_cookie(&message, from(2), 2), "another port");
        assert!(!checker.shows_cookie(&message, from(1), COOKIE_LIFETIME), "the secret has changed");
        // It came at 1. An old one is not shown.
        for (age, shown) in
            [(COOKIE_LIFETIME - COOKIE_MARGIN - 1, true), (COOKIE_LIFETIME - COOKIE_MARGIN, false)]
        {
            marker.mark(&mut message, 1 + age);
            assert_eq!(message[132..] != [0; 16], shown, "{age}");
        }
    }

    #[test]
    fn cookie_of_another_key_is_not_taken() {
        let (mut marker, mut other) = (Marker::new(&[5; 32]), Checker::new(&[6; 32]));
        let mut message = [7; 148];
        marker.mark(&mut message, 0);
        assert!(!other.knows_us(&message));
        let reply = other.reply(&message, 1, from(1), 0, |out| out.fill(3)).unwrap();
        assert!(!marker.take(&reply, 0));
    }

    #[test]
    fn changed_messages_are_detected() {
        let own = [5; 32];
        let (mut marker, mut checker) = (Marker::new(&own), Checker::new(&own));
        let mut message = [7; 92];
        marker.mark(&mut message, 0);
        let mut reply = checker.reply(&message, 1, from(1), 0, |out| out.fill(3)).unwrap();
        reply.cookie[0] ^= 1;
        assert!(!marker.take(&reply, 0));
        message[0] ^= 1;
        assert!(!checker.knows_us(&message));
        assert!(!checker.knows_us(&message[..20]));
    }
}
