//! A ClientHello that comes in fragments, of a client whose address is verified.

use alloc::vec::Vec;

use antedate_wire::dtls::handshake::{Fragment, HandshakeType};
use antedate_wire::dtls::{ContentType, Record, records};

use super::assembly::{Assembly, MAX_MESSAGE};
use super::cookie::hello_fragment;

/// The fragments of a ClientHello so far: at most 2 KiB.
pub struct PartialHello {
    assembly: Assembly,
    /// The highest record number. Our records have higher ones.
    sequence: u64,
}

impl PartialHello {
    /// Begins with the datagram for which [`Cookies::greet`](super::Cookies::greet) returned
    /// [`Begin`](super::Greeting::Begin). `None` if it is another one.
    pub fn new(datagram: &[u8]) -> Option<Self> {
        let (_, fragment) = hello_fragment(datagram).ok()?;
        let mut assembly = Assembly::default();
        assembly.expect(fragment.message);
        Some(Self { assembly, sequence: 0 })
    }

    /// Takes the fragments of a datagram. Returns a datagram with the whole hello, for
    /// [`Connection::accept`](super::Connection::accept), once it is complete.
    pub fn take(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        for record in records(datagram, 0).map_while(Result::ok) {
            if record.epoch != 0 || record.content_type != ContentType::Handshake {
                continue;
            }
            self.sequence = self.sequence.max(record.sequence);
            let mut rest = record.fragment;
            while let Ok((fragment, behind)) = Fragment::parse(rest) {
                rest = behind;
                let of_this = fragment.message == self.assembly.next();
                if fragment.kind == HandshakeType::ClientHello && of_this {
                    // One that does not fit is ignored; the client repeats its hello.
                    let _ = self.assembly.take(&fragment, false, MAX_MESSAGE);
                }
            }
            if let Some(message) = self.assembly.whole() {
                let octets = [&message.header()[..], &message.body].concat();
                let whole = Record { sequence: self.sequence, fragment: &octets, ..record };
                let mut out = alloc::vec![0; whole.len()];
                return whole.emit(&mut out).is_ok().then_some(out);
            }
        }
        None
    }
}

impl core::fmt::Debug for PartialHello {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("PartialHello(..)")
    }
}
