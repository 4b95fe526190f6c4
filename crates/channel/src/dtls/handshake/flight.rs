//! Flights: messages sent together, and retransmitted until they are answered (RFC 6347 section
//! 4.2.4).

use alloc::vec::Vec;

use antedate_wire::dtls::handshake::{Fragment, HEADER_LEN, HandshakeType};
use antedate_wire::dtls::{self, ContentType, Record, VERSION_1_0, VERSION_1_2};

use super::super::Writer;

/// A part of a flight.
#[derive(Debug)]
pub(super) enum Piece {
    /// a message, protected or not
    Message { kind: HandshakeType, number: u16, body: Vec<u8>, protected: bool },
    /// the sign that protected records follow
    ChangeCipherSpec,
}

/// A flight.
#[derive(Debug, Default)]
pub(super) struct Flight {
    pub(super) pieces: Vec<Piece>,
}

/// Octets of the longest message that is written whole: any but a certificate.
pub(super) const ROOM: usize = 1024;
/// The least octets of a fragment, even for small datagrams.
const MIN_FRAGMENT: usize = 64;

impl Flight {
    /// The datagrams of the flight, its records under unused numbers.
    pub(super) fn datagrams(&self, mtu: usize, plain: &mut u64, writer: &mut Option<Writer>) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        let mut datagram: Vec<u8> = Vec::new();
        let mut put = |record: Vec<u8>| {
            if !datagram.is_empty() && datagram.len() + record.len() > mtu {
                datagrams.push(core::mem::take(&mut datagram));
            }
            datagram.extend(record);
        };
        for piece in &self.pieces {
            let Piece::Message { kind, number, body, protected } = piece else {
                put(record(ContentType::ChangeCipherSpec, VERSION_1_2, plain, &[1]));
                continue;
            };
            let overhead = match writer {
                Some(writer) if *protected => writer.overhead(),
                _ => dtls::HEADER_LEN,
            };
            // A server without state cannot assemble a ClientHello.
            let whole = *kind == HandshakeType::ClientHello;
            let room = mtu.saturating_sub(overhead + HEADER_LEN).max(MIN_FRAGMENT);
            let room = if whole { body.len().max(1) } else { room };
            let mut offset = 0;
            loop {
                let octets = body.get(offset..body.len().min(offset + room)).unwrap_or_default();
                let length = body.len();
                let fragment = Fragment { kind: *kind, length, message: *number, offset, octets };
                let octets = [&fragment.header()[..], octets].concat();
                if *protected {
                    if let Some(writer) = writer {
                        let mut out = alloc::vec![0; octets.len() + writer.overhead()];
                        // Fails when all numbers of the epoch are used. Nothing is sent then.
                        if writer.protect(ContentType::Handshake, &octets, &mut out).is_ok() {
                            put(out);
                        }
                    }
                } else {
                    // Before the version is agreed on, some servers require the oldest.
                    let version = if whole { VERSION_1_0 } else { VERSION_1_2 };
                    put(record(ContentType::Handshake, version, plain, &octets));
                }
                offset += room;
                if offset >= length {
                    break;
                }
            }
        }
        if !datagram.is_empty() {
            datagrams.push(datagram);
        }
        datagrams
    }
}

/// A record of epoch 0 under the next number.
pub(super) fn record(content_type: ContentType, version: u16, plain: &mut u64, fragment: &[u8]) -> Vec<u8> {
    let record = Record { content_type, version, epoch: 0, sequence: *plain, cid: &[], fragment };
    *plain += 1;
    let mut out = alloc::vec![0; record.len()];
    // The fragment is one of ours, which is short.
    let _ = record.emit(&mut out);
    out
}
