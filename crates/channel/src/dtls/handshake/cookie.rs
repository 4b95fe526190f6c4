//! What a server answers before it has any state (RFC 6347 section 4.2.1): a client must show that it receives what is sent to
//! the address it gives. So nobody can fill the server's memory, or have it send to others, from addresses that are not theirs.

use alloc::vec::Vec;
use core::fmt;

use antedate_wire::dtls::handshake::{ClientHello, Fragment, HandshakeType, Writer};
use antedate_wire::dtls::{ContentType, Record, VERSION_1_0};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::super::Refusal;
use super::prf::hmac;

/// Milliseconds after which another cookie is given. The one before is still good.
const PERIOD_MS: u64 = 60_000;
/// Octets of a cookie.
const COOKIE_LEN: usize = 16;
/// Messages and records that a ClientHello may have had before it. Our numbers follow its own, and shall not come to an end.
const MOST_BEFORE: u64 = 1 << 12;

/// What a server says to a datagram of an address that it has no connection with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeting {
    /// this is to be sent back; nothing else
    Reply(Vec<u8>),
    /// the client is where it says: [`Connection::accept`](super::Connection::accept) takes it
    Accept,
    /// nothing
    Refused(Refusal),
}

/// Cookies, made of a secret, the time and what is in the ClientHello.
pub struct Cookies {
    secret: Zeroizing<[u8; 32]>,
}

/// A ClientHello in one piece, at the beginning of a datagram.
pub(super) fn client_hello(datagram: &[u8]) -> Result<(Record<'_>, Fragment<'_>, ClientHello<'_>), Refusal> {
    let (record, _) = Record::parse(datagram, 0).map_err(|_| Refusal::Malformed)?;
    if record.epoch != 0 || record.content_type != ContentType::Handshake {
        return Err(Refusal::UnknownConnection);
    }
    let (fragment, _) = Fragment::parse(record.fragment).map_err(|_| Refusal::Handshake)?;
    let whole = fragment.offset == 0 && fragment.octets.len() == fragment.length;
    let early = u64::from(fragment.message).max(record.sequence) <= MOST_BEFORE;
    if fragment.kind != HandshakeType::ClientHello || !whole || !early {
        return Err(Refusal::Handshake);
    }
    let hello = ClientHello::parse(fragment.octets).map_err(|_| Refusal::Handshake)?;
    Ok((record, fragment, hello))
}

impl Cookies {
    /// Cookies of a secret, 32 octets that nobody else knows.
    pub fn new(secret: [u8; 32]) -> Self {
        Self { secret: Zeroizing::new(secret) }
    }

    fn cookie(&self, hello: &ClientHello<'_>, peer: &[u8], period: u64) -> [u8; COOKIE_LEN] {
        let len = |octets: &[u8]| (octets.len() as u32).to_be_bytes();
        let (suites, extensions) = (hello.suite_octets(), hello.extensions.octets());
        let lengths = [len(peer), len(hello.session), len(suites), len(extensions)].concat();
        let parts =
            [&period.to_be_bytes()[..], &lengths, peer, &hello.random, hello.session, suites, extensions];
        let mut out = [0; COOKIE_LEN];
        out.copy_from_slice(&hmac(&self.secret[..], &parts)[..COOKIE_LEN]);
        out
    }

    /// What is to be said to a datagram. `peer` is its sender's address, in whatever form; `now` is in milliseconds. `counted` is
    /// told of a cookie that was wrong, though it is answered as if there were none.
    pub fn greet(&self, datagram: &[u8], peer: &[u8], now: u64, counted: impl FnOnce(Refusal)) -> Greeting {
        let (record, fragment, hello) = match client_hello(datagram) {
            Ok(parts) => parts,
            Err(refusal) => return Greeting::Refused(refusal),
        };
        let period = now / PERIOD_MS;
        if !hello.cookie.is_empty() {
            let good = [period, period.saturating_sub(1)]
                .map(|period| self.cookie(&hello, peer, period)[..].ct_eq(hello.cookie));
            if bool::from(good[0] | good[1]) {
                return Greeting::Accept;
            }
            counted(Refusal::Cookie);
        }
        let mut body = [0; 3 + COOKIE_LEN];
        let mut writer = Writer::new(&mut body);
        writer.integer16(VERSION_1_0).vector8(&self.cookie(&hello, peer, period));
        let Ok(body) = writer.finish() else { return Greeting::Refused(Refusal::Handshake) };
        let answer = Fragment {
            kind: HandshakeType::HelloVerifyRequest,
            length: body.len(),
            message: fragment.message,
            offset: 0,
            octets: body,
        };
        let octets = [&answer.header()[..], body].concat();
        // The record has the number of the one that it answers, so that none is used twice later.
        let reply = Record { version: VERSION_1_0, fragment: &octets, ..record };
        let mut out = alloc::vec![0; reply.len()];
        match reply.emit(&mut out) {
            Ok(_) => Greeting::Reply(out),
            Err(_) => Greeting::Refused(Refusal::Handshake),
        }
    }
}

impl fmt::Debug for Cookies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookies(..)")
    }
}
