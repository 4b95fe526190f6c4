//! The packets that left: each nonce with its key, as an observer reads them, and where they are
//! heard.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use antedate_channel::goose::EXTENSION_LEN;
use antedate_lab::sys::packet::PacketSocket;
use antedate_wire::macsec::{An, Mpdu};
use antedate_wire::mka::{KeyIdentifier, Repr};
use antedate_wire::mqtt::Envelope;
use antedate_wire::{EtherType, Sci};

use crate::mqtt::roundtrip::Station;
use crate::{ExperimentError, failed};

/// The most examples of repeated numbers.
const EXAMPLES: usize = 5;

/// All numbers that were used, by key and sender.
#[derive(Debug, Default)]
pub(super) struct Heard {
    used: HashMap<String, HashSet<u64>>,
    /// Packets with a number.
    pub(super) packets: u64,
    /// Packets whose number was used before with the same key.
    pub(super) twice: u64,
    /// Packets whose key nobody told.
    pub(super) keyless: u64,
    /// The first few repeated numbers.
    pub(super) examples: Vec<String>,
}

impl Heard {
    /// Notes a packet's key, with its sender, and number.
    pub(super) fn packet(&mut self, key: String, number: u64) {
        self.packets += 1;
        if self.examples.len() < EXAMPLES && self.used.get(&key).is_some_and(|used| used.contains(&number)) {
            self.examples.push(format!("{key}, number {number}"));
        }
        self.twice += u64::from(!self.used.entry(key).or_default().insert(number));
    }

    /// Keys that were used.
    pub(super) fn keys(&self) -> usize {
        self.used.len()
    }
}

/// A place where a sender's packets are heard.
pub(super) trait Ear {
    /// Takes all packets that came.
    fn hear(&mut self, heard: &mut Heard) -> Result<(), ExperimentError>;
}

/// A line that carries frames of MACsec and MKPDUs of one gateway.
pub(super) struct Line {
    socket: PacketSocket,
    buffer: Vec<u8>,
    /// The key of an association, as the gateway's own MKPDUs tell. `None`: keys are static.
    agreed: Option<HashMap<(Sci, An), KeyIdentifier>>,
}

impl Line {
    pub(super) fn new(socket: PacketSocket, agreed: bool) -> Self {
        Self { socket, buffer: vec![0; 1 << 14], agreed: agreed.then(HashMap::new) }
    }
}

impl Ear for Line {
    fn hear(&mut self, heard: &mut Heard) -> Result<(), ExperimentError> {
        while let Some(received) = self.socket.receive_with_metadata(&mut self.buffer).map_err(failed)? {
            frame(&self.buffer[..received.len], self.agreed.as_mut(), heard);
        }
        all_heard(&self.socket)
    }
}

fn frame(frame: &[u8], agreed: Option<&mut HashMap<(Sci, An), KeyIdentifier>>, heard: &mut Heard) {
    if let Ok(mpdu) = Mpdu::parse(frame) {
        let (Some(sci), an, number) = (mpdu.sci(), mpdu.tag.an, mpdu.tag.packet_number) else { return };
        match agreed.map(|keys| keys.get(&(sci, an)).copied()) {
            None => heard.packet(format!("{sci} AN {an}"), number.into()),
            Some(Some(key)) => heard.packet(format!("{sci} {} {}", key.server, key.number), number.into()),
            Some(None) => heard.keyless += 1,
        }
    } else if let (Some(keys), Ok(parsed)) = (agreed, Repr::parse(frame)) {
        let basic = parsed.repr.basic;
        for key in parsed.repr.sak_use.and_then(|used| used.keys).into_iter().flatten() {
            if key.is_some() {
                keys.insert((basic.sci, key.an), key.key);
            }
        }
    }
}

fn all_heard(socket: &PacketSocket) -> Result<(), ExperimentError> {
    match socket.take_drops() {
        0 => Ok(()),
        drops => Err(format!("{drops} frames on the wire were not heard: the machine is too busy").into()),
    }
}

/// A line that carries GOOSE.
pub(super) struct GooseLine {
    socket: PacketSocket,
    buffer: Vec<u8>,
}

impl GooseLine {
    pub(super) fn new(socket: PacketSocket) -> Self {
        Self { socket, buffer: vec![0; 1 << 14] }
    }
}

impl Ear for GooseLine {
    fn hear(&mut self, heard: &mut Heard) -> Result<(), ExperimentError> {
        while let Some(received) = self.socket.receive_with_metadata(&mut self.buffer).map_err(failed)? {
            goose(&self.buffer[..received.len], heard);
        }
        all_heard(&self.socket)
    }
}

/// The key's number, the sender and the number, as in the extension behind the PDU.
fn goose(frame: &[u8], heard: &mut Heard) {
    let is_goose = frame.get(12..14) == Some(&EtherType::Goose.number().to_be_bytes());
    let Some(extension) = frame.last_chunk::<EXTENSION_LEN>().filter(|_| is_goose) else { return };
    let (key, sender) = (&extension[6..10], &extension[11..17]);
    let number = extension[17..23].iter().fold(0, |number, octet| number << 8 | u64::from(*octet));
    heard.packet(format!("key {key:?} of {sender:?}"), number);
}

/// A subscription to all topics.
pub(super) struct Subscriber(pub(super) Station);

impl Ear for Subscriber {
    fn hear(&mut self, heard: &mut Heard) -> Result<(), ExperimentError> {
        while let Some(message) = self.0.message(Duration::from_micros(200))? {
            if let Ok(envelope) = Envelope::parse(&message.payload) {
                let who = String::from_utf8_lossy(envelope.publisher);
                heard.packet(format!("epoch {} of {who}", envelope.epoch), envelope.sequence);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_number_is_heard() {
        let mut heard = Heard::default();
        for (key, number) in [("a", 1), ("a", 2), ("b", 1), ("a", 2)] {
            heard.packet(key.to_owned(), number);
        }
        assert_eq!((heard.packets, heard.twice, heard.keys()), (4, 1, 2));
        assert_eq!(heard.examples, ["a, number 2"]);
    }

    #[test]
    fn frames_tell_key_and_number() {
        let mut heard = Heard::default();
        let mut macsec = [&[2; 12][..], &[0x88, 0xe5, 0x2c, 0, 0, 0, 0, 7], &[3; 8], &[0; 80]].concat();
        frame(&macsec, None, &mut heard);
        macsec[19] = 8;
        frame(&macsec, None, &mut heard);
        // With agreed keys, one that no MKPDU named.
        frame(&macsec, Some(&mut HashMap::new()), &mut heard);
        assert_eq!((heard.packets, heard.twice, heard.keyless, heard.keys()), (2, 0, 1, 1));
        let mut goose_frame = [&[1; 12][..], &[0x88, 0xb8], &[0; 90]].concat();
        goose_frame.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 12, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 5, 0x85, 16]);
        goose_frame.extend([9; 16]);
        goose(&goose_frame, &mut heard);
        goose(&macsec, &mut heard);
        assert_eq!((heard.packets, heard.keys()), (3, 2));
        assert!(heard.used["key [0, 0, 0, 1] of [2, 0, 0, 0, 0, 1]"].contains(&5));
    }
}
