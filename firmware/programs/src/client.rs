//! An MQTT client's protection alone: each option's use of flash and RAM (figure 3 of
//! katsikeas2017).
//!
//! The client builds a PUBLISH of up to 64 octets of payload, the paper's maximum, and parses one
//! that it receives. The program without protection does the same with plain payloads, so the
//! difference of the images is the cost of protection. The maximum stack depth is found by painting
//! the stack first.

use crate::mqtt::{
    Bare, BareKey, FIRST, Protects, Reserved, TOPIC, VALUE, associated, lay_out, open, parse, put, seal,
};
use crate::{Mote, Wrong, expected, report, right};
use antedate_aead::{Aes128, AesCcm, FrameSlot, Key, Nonce, Shape};
use core::hint::black_box;

/// The paper's longest payload.
const PAYLOAD: usize = 64;
/// A PUBLISH (MQTT 3.1.1 section 3.3) at QoS 0: type and flags, remaining length, topic and its
/// length.
const PUBLISH: usize = 2 + 2 + TOPIC.len();
/// Octets around a payload, at most.
const AROUND: usize = 48;

type Packet = [u8; PUBLISH + AROUND + PAYLOAD];

/// Writes the head of a PUBLISH with `payload` octets of payload.
#[inline(never)]
fn publish(payload: usize, packet: &mut Packet) -> Result<(), Wrong> {
    let rest = 2 + TOPIC.len() + payload;
    right(rest < 128)?;
    let (head, topic) = packet.split_at_mut_checked(4).ok_or(Wrong::Fit)?;
    head.copy_from_slice(&[0x30, rest as u8, 0, TOPIC.len() as u8]);
    topic.get_mut(..TOPIC.len()).ok_or(Wrong::Fit)?.copy_from_slice(TOPIC.as_bytes());
    Ok(())
}

/// The payload of a PUBLISH to the topic.
#[inline(never)]
fn payload(packet: &Packet) -> Result<&[u8], Wrong> {
    let [0x30, rest, 0, topic, ..] = *packet else { return Err(Wrong::Answer) };
    right(usize::from(topic) == TOPIC.len())?;
    let packet = packet.get(4..2 + usize::from(rest)).ok_or(Wrong::Answer)?;
    let (topic, payload) = packet.split_at_checked(TOPIC.len()).ok_or(Wrong::Answer)?;
    right(topic == TOPIC.as_bytes())?;
    Ok(payload)
}

/// The sensor's message; the reading is its end.
#[inline(never)]
fn reading() -> [u8; PAYLOAD] {
    let mut data = [0; PAYLOAD];
    data.iter_mut().enumerate().for_each(|(i, byte)| *byte = expected(i));
    black_box(data)
}

fn measured<M: Mote>(client: fn() -> Result<(), Wrong>) -> Result<(), Wrong> {
    M::paint();
    let done = client();
    report::<M>("node-ram-stack", &[], "", M::depth());
    done
}

/// A client without protection.
pub fn plain<M: Mote>() -> Result<(), Wrong> {
    #[inline(never)]
    fn client() -> Result<(), Wrong> {
        let (mut packet, data): (Packet, _) = ([0; _], reading());
        publish(PAYLOAD, &mut packet)?;
        put(&data, &[], PUBLISH, &mut packet)?;
        right(payload(black_box(&packet))? == data)
    }
    measured::<M>(client)
}

/// A client that does all protection once the payload is known.
pub fn protected<M: Mote, S: Protects>() -> Result<(), Wrong> {
    #[inline(never)]
    fn client<S: Protects>() -> Result<(), Wrong> {
        let (mut packet, mut out, data): (Packet, _, _) = ([0; _], [0; PAYLOAD], reading());
        let key = Key::<S>::new(&black_box([7; 32])[..S::KEY_LEN]).map_err(|_| Wrong::Fit)?;
        let len = seal(&key, black_box(FIRST), &data, packet.get_mut(PUBLISH..).ok_or(Wrong::Fit)?)?;
        publish(len, &mut packet)?;
        right(open(&key, payload(black_box(&packet))?, &mut out)? == FIRST && out == data)
    }
    measured::<M>(client::<S>)
}

/// Associated data and payload as one frame, whose start is not encrypted.
const FRAME: usize = 128;
type Preparation = FrameSlot<FRAME, PAYLOAD, 1>;

/// Writes the known part of a publish as a frame, and starts its preparation; returns the octets of
/// associated data.
#[inline(never)]
fn prepare(
    number: u64,
    known: &[u8],
    len: usize,
    frame: &mut [u8; FRAME],
    slot: &mut Preparation,
) -> Result<usize, Wrong> {
    let open = associated(CCM, number, frame)?;
    let end = put(known, &[], open, frame)?;
    let known = frame.get(..end).ok_or(Wrong::Fit)?;
    let shape = Shape { mic: 8, open: Some(open), known, lengths: &[open + len] };
    slot.begin(Nonce::assume_unique(Ccm::nonce(number)), &shape).map_err(|_| Wrong::Fit)?;
    Ok(open)
}

const CCM: i64 = Ccm::NUMBER;
type Ccm = AesCcm<Aes128, 13, 8>;

/// A sensor's client with AES-CCM, which prepares its publish and receives nothing. For an early
/// reading, it does the remaining steps at once.
pub fn sensor<M: Mote>() -> Result<(), Wrong> {
    measured::<M>(prepares::<false>)
}

/// Like `sensor`, and also receives; opening uses the same code.
pub fn antedated<M: Mote>() -> Result<(), Wrong> {
    measured::<M>(prepares::<true>)
}

#[inline(never)]
fn prepares<const RECEIVES: bool>() -> Result<(), Wrong> {
    let (mut packet, mut frame, data): (Packet, _, _) = ([0; _], [0; FRAME], reading());
    let key = Key::<Ccm>::new(&black_box([7; 16])).map_err(|_| Wrong::Fit)?;
    let mut numbers = Reserved { next: FIRST, limit: black_box(FIRST + 100) };
    let mut slot = Preparation::new();
    // Idle time.
    let number = numbers.take()?;
    let at = PUBLISH + lay_out(CCM, number, PAYLOAD + 8, packet.get_mut(PUBLISH..).ok_or(Wrong::Fit)?)?;
    publish(at - PUBLISH + PAYLOAD + 8, &mut packet)?;
    let (known, value) = data.split_last_chunk::<VALUE>().ok_or(Wrong::Fit)?;
    let open = prepare(number, known, PAYLOAD, &mut frame, &mut slot)?;
    while slot.step(&key, 1) > 0 {}
    // The deadline.
    let len = slot.seal(&key, value, &mut frame).map_err(|_| Wrong::Fit)?;
    put(frame.get(open..len).ok_or(Wrong::Fit)?, &[], at, &mut packet)?;
    if !RECEIVES {
        return right(black_box(&packet)[PUBLISH] == 0x83);
    }

    // Receiving. One key serves both directions here; in use it is another publisher's.
    let (number, ciphertext) = parse(CCM, payload(black_box(&packet))?)?;
    let (body, tag) = ciphertext.split_last_chunk::<8>().ok_or(Wrong::Answer)?;
    let open = prepare(number, &[], body.len(), &mut frame, &mut slot)?;
    let end = put(body, &[], open, &mut frame)?;
    let mut out = [0; FRAME];
    let (received, out) = (frame.get(..end), out.get_mut(..end));
    let (received, out) = (received.ok_or(Wrong::Fit)?, out.ok_or(Wrong::Fit)?);
    slot.open(&key, received, tag, out).map_err(|_| Wrong::Answer)?;
    right(number == FIRST && out.ends_with(&data))
}

/// A client with the paper's consecutive blocks.
pub fn blocks<M: Mote>() -> Result<(), Wrong> {
    measured::<M>(|| bare(Bare::Blocks))
}

/// A client with the paper's CBC.
pub fn cbc<M: Mote>() -> Result<(), Wrong> {
    measured::<M>(|| bare(Bare::Cbc))
}

#[inline(always)]
fn bare(of: Bare) -> Result<(), Wrong> {
    let (mut packet, mut out, data): (Packet, _, _) = ([0; _], [0; PAYLOAD + 16], reading());
    let key = BareKey::new(of);
    let len = key.seal(black_box(FIRST), &data, packet.get_mut(PUBLISH..).ok_or(Wrong::Fit)?)?;
    publish(len, &mut packet)?;
    right(key.open(payload(black_box(&packet))?, &mut out)? == FIRST && out.starts_with(&data))
}
