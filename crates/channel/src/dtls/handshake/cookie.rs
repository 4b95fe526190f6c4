//! The stateless cookie exchange of a server (RFC 6347 section 4.2.1). A client proves that it
//! receives datagrams at its address. Forged addresses can therefore neither fill the server's
//! memory nor make it send to third parties.
//!
//! A ClientHello may come in fragments, each in a datagram of its own. The cookie depends on the
//! fields that the first one has: the RFC recommends the suites too, but the handshake hash protects
//! them. Fragments are kept ([`PartialHello`]) from the first one with a cookie on.

use alloc::vec::Vec;
use core::fmt;

use antedate_wire::dtls::handshake::{ClientHello, ClientHelloFront, Fragment, HandshakeType, Writer};
use antedate_wire::dtls::{ContentType, Record, VERSION_1_0};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::super::Dropped;
use super::prf::hmac;

/// Milliseconds after which the cookie changes. The previous one stays valid.
const PERIOD_MS: u64 = 60_000;
/// Octets of a cookie.
const COOKIE_LEN: usize = 16;
/// The most messages and records before a ClientHello. Our numbers follow the client's, and must
/// not run out.
const MOST_BEFORE: u64 = 1 << 12;

/// A server's answer to a datagram from an address without a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeting {
    /// send this back, and keep no state
    Reply(Vec<u8>),
    /// the client's address is verified: pass the datagram to
    /// [`Connection::accept`](super::Connection::accept)
    Accept,
    /// the client's address is verified by the first fragment of its hello: begin a
    /// [`PartialHello`](super::PartialHello) with the datagram
    Begin,
    /// another fragment of a hello, which proves nothing: pass it to the partial hello of this
    /// address, if there is one
    Continue,
    /// no answer
    Refused(Dropped),
}

/// Makes cookies from a secret, the time and the ClientHello.
pub struct Cookies {
    secret: Zeroizing<[u8; 32]>,
}

/// Parses the first fragment of a datagram, which is of a ClientHello.
pub(super) fn hello_fragment(datagram: &[u8]) -> Result<(Record<'_>, Fragment<'_>), Dropped> {
    let (record, _) = Record::parse(datagram, 0).map_err(|_| Dropped::Malformed)?;
    if record.epoch != 0 || record.content_type != ContentType::Handshake {
        return Err(Dropped::UnknownConnection);
    }
    let (fragment, _) = Fragment::parse(record.fragment).map_err(|_| Dropped::Handshake)?;
    let early = u64::from(fragment.message).max(record.sequence) <= MOST_BEFORE;
    if fragment.kind != HandshakeType::ClientHello || !early {
        return Err(Dropped::Handshake);
    }
    Ok((record, fragment))
}

const fn is_whole(fragment: &Fragment<'_>) -> bool {
    fragment.offset == 0 && fragment.octets.len() == fragment.length
}

/// Parses a ClientHello in one piece at the start of a datagram.
pub(super) fn client_hello(datagram: &[u8]) -> Result<(Record<'_>, Fragment<'_>, ClientHello<'_>), Dropped> {
    let (record, fragment) = hello_fragment(datagram)?;
    let hello = ClientHello::parse(fragment.octets).map_err(|_| Dropped::Handshake)?;
    if is_whole(&fragment) { Ok((record, fragment, hello)) } else { Err(Dropped::Handshake) }
}

impl Cookies {
    /// Cookies of a secret of 32 random octets.
    pub fn new(secret: [u8; 32]) -> Self {
        Self { secret: Zeroizing::new(secret) }
    }

    fn cookie(&self, hello: &ClientHelloFront<'_>, peer: &[u8], period: u64) -> [u8; COOKIE_LEN] {
        let len = |octets: &[u8]| (octets.len() as u32).to_be_bytes();
        let lengths = [len(peer), len(hello.session)].concat();
        let version = hello.version.to_be_bytes();
        let parts = [&period.to_be_bytes()[..], &lengths, peer, &version, &hello.random, hello.session];
        let mut out = [0; COOKIE_LEN];
        out.copy_from_slice(&hmac(&self.secret[..], &parts)[..COOKIE_LEN]);
        out
    }

    /// Answers a datagram. `peer` is its sender's address, in any form. `now` is in milliseconds.
    /// `counted` is called for a wrong cookie, although the hello is answered as if it had none.
    pub fn greet(&self, datagram: &[u8], peer: &[u8], now: u64, counted: impl FnOnce(Dropped)) -> Greeting {
        let (record, fragment) = match hello_fragment(datagram) {
            Ok(parts) => parts,
            Err(refusal) => return Greeting::Refused(refusal),
        };
        if fragment.offset > 0 {
            return Greeting::Continue;
        }
        let whole = is_whole(&fragment);
        // A whole hello must be readable to its end before it is answered.
        let unreadable = whole && ClientHello::parse(fragment.octets).is_err();
        let (false, Ok(hello)) = (unreadable, ClientHelloFront::parse(fragment.octets)) else {
            return Greeting::Refused(Dropped::Handshake);
        };
        let period = now / PERIOD_MS;
        if !hello.cookie.is_empty() {
            let good = [period, period.saturating_sub(1)]
                .map(|period| self.cookie(&hello, peer, period)[..].ct_eq(hello.cookie));
            if bool::from(good[0] | good[1]) {
                return if whole { Greeting::Accept } else { Greeting::Begin };
            }
            counted(Dropped::Cookie);
        }
        let mut body = [0; 3 + COOKIE_LEN];
        let mut writer = Writer::new(&mut body);
        writer.integer16(VERSION_1_0).vector8(&self.cookie(&hello, peer, period));
        let Ok(body) = writer.finish() else { return Greeting::Refused(Dropped::Handshake) };
        let answer = Fragment {
            kind: HandshakeType::HelloVerifyRequest,
            length: body.len(),
            message: fragment.message,
            offset: 0,
            octets: body,
        };
        let octets = [&answer.header()[..], body].concat();
        // The record reuses the number of the one it answers, so that later records never repeat a
        // number.
        let reply = Record { version: VERSION_1_0, fragment: &octets, ..record };
        let mut out = alloc::vec![0; reply.len()];
        match reply.emit(&mut out) {
            Ok(_) => Greeting::Reply(out),
            Err(_) => Greeting::Refused(Dropped::Handshake),
        }
    }
}

impl fmt::Debug for Cookies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookies(..)")
    }
}
