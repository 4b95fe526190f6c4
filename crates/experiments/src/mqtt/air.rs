//! The check of the frames' model ([`antedate_plan::publish::frames`]): smoltcp sends the same publishes
//! over TCP, IPv6, 6LoWPAN (RFC 6282, RFC 4944) and IEEE 802.15.4, and their frames are counted.
//!
//! The mote has a link-local address from its extended one, the broker an address of another network,
//! as in the model. What the mote sends for a publish counts; the broker's acknowledgments of TCP do
//! not, which pass while the mote waits.

use std::collections::VecDeque;

use antedate_plan::publish::{Frames, frames};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, Ieee802154Address, Ieee802154Pan, IpAddress, IpCidr, Ipv6Address};

use super::SIZES;
use super::link_layer::LinkLayer;
use super::motes::{CHOICES, TOPIC, sealed_len};
use crate::{ExperimentError, Report, Row};

/// The names of its row, which `papers/katsikeas2017.toml` uses.
const CASE: &str = "check of the frames' model: the same publishes by smoltcp's TCP and 6LoWPAN";
const SECURED: &str = "check of the frames' model: the same in CCM* of our link layer";
const METRIC: &str = "furthest off";
/// Octets behind a frame (FCS), and of synchronisation and length before it.
const FCS: usize = 2;
const SYNC: usize = 6;
/// Milliseconds of an octet on the air.
const OCTET_MS: f64 = 0.032;
const MQTT: u16 = 1883;
const PAN: u16 = 0xbeef;
const EXTENDED: [[u8; 8]; 2] = [[0x02, 0, 0, 0, 0, 0, 0, 1], [0x02, 0, 0, 0, 0, 0, 0, 2]];
const BROKER: Ipv6Address = Ipv6Address::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x1883);
/// Steps of a millisecond after which an exchange has failed.
const PATIENCE: u64 = 10_000;

/// Adds the deviation of the model over all options and sizes: in the clear, and for the paper's fourth
/// option in frames of our link layer.
pub(super) fn report(report: &mut Report) -> Result<(), ExperimentError> {
    let sizes: Vec<usize> = SIZES.into_iter().filter(|size| *size <= 64).collect();
    let envelopes = sizes.iter().flat_map(|size| CHOICES.iter().map(|choice| sealed_len(choice, *size)));
    let clear: Vec<usize> = envelopes.chain(sizes.iter().copied()).collect();
    deviation(report, CASE, None, &clear)?;
    deviation(report, SECURED, Some(LinkLayer::new(PAN, EXTENDED)?), &sizes)
}

/// Adds the deviation over payloads of these lengths.
fn deviation(
    report: &mut Report,
    case: &str,
    layer: Option<LinkLayer>,
    lengths: &[usize],
) -> Result<(), ExperimentError> {
    let secured = layer.is_some();
    let mut link = Link::connected(layer)?;
    let mut worst = 0.0f64;
    let mut at = 0;
    for &len in lengths {
        let (count, ms) = link.publish(len)?;
        let Frames { count: expected, air_ms, .. } = frames(TOPIC, len, secured);
        if count != expected {
            return Err(format!("a publish of {len} B has {count} frames, the model {expected}").into());
        }
        let percent = 100.0 * (air_ms / ms - 1.0);
        if percent.abs() >= worst.abs() {
            (worst, at) = (percent, len);
        }
    }
    let note = format!("time on the air of a publish, modelled against the frames sent; furthest at {at} B");
    report.row(Row::new(case, METRIC, "%").antedated(worst).note(note));
    Ok(())
}

/// One end's radio: what it hears, and what it has sent.
struct Radio {
    heard: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

struct Heard(Vec<u8>);
struct Send<'a>(&'a mut Vec<Vec<u8>>);

impl phy::RxToken for Heard {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl phy::TxToken for Send<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut frame = vec![0; len];
        let result = write(&mut frame);
        self.0.push(frame);
        result
    }
}

impl Device for Radio {
    type RxToken<'a> = Heard;
    type TxToken<'a> = Send<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Heard, Send<'_>)> {
        Some((Heard(self.heard.pop_front()?), Send(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Send<'_>> {
        Some(Send(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ieee802154;
        // The MTU of IPv6 (RFC 8200 section 5): 6LoWPAN fragments what exceeds a frame.
        capabilities.max_transmission_unit = 1280;
        capabilities
    }
}

/// A stack with one TCP socket.
struct End {
    radio: Radio,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
}

impl End {
    fn new(own: usize, address: Ipv6Address) -> Self {
        let mut radio = Radio { heard: VecDeque::new(), sent: Vec::new() };
        let mut config = Config::new(HardwareAddress::Ieee802154(Ieee802154Address::Extended(EXTENDED[own])));
        config.pan_id = Some(Ieee802154Pan(PAN));
        config.random_seed = 1;
        let mut interface = Interface::new(config, &mut radio, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // The list has space for two.
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv6(link_local(own)), 64));
            if address != link_local(own) {
                let _ = addresses.push(IpCidr::new(IpAddress::Ipv6(address), 64));
            }
        });
        let _ = interface.routes_mut().add_default_ipv6_route(link_local(1 - own));
        let buffer = || tcp::SocketBuffer::new(vec![0; 2048]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_ack_delay(None);
        socket.set_nagle_enabled(false);
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(socket);
        Self { radio, interface, sockets, socket }
    }

    fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.socket)
    }

    fn poll(&mut self, now: Instant) {
        self.interface.poll(now, &mut self.radio, &mut self.sockets);
    }
}

/// The link-local address of an extended one (RFC 4944 section 6).
fn link_local(of: usize) -> Ipv6Address {
    let [mut first, rest @ ..] = EXTENDED[of];
    first ^= 2;
    let mut octets = [0; 16];
    octets[..2].copy_from_slice(&[0xfe, 0x80]);
    octets[8] = first;
    octets[9..].copy_from_slice(&rest);
    octets.into()
}

/// Frames on the air, and as they are heard.
type Carriage = (Vec<Vec<u8>>, Vec<Vec<u8>>);

/// A mote and a broker that hear each other.
struct Link {
    mote: End,
    broker: End,
    /// What secures their frames, if they are secured.
    layer: Option<LinkLayer>,
    now: Instant,
}

impl Link {
    /// A connection from the mote to the broker.
    fn connected(layer: Option<LinkLayer>) -> Result<Self, ExperimentError> {
        let (mote, broker) = (End::new(0, link_local(0)), End::new(1, BROKER));
        let mut link = Self { mote, broker, layer, now: Instant::ZERO };
        link.broker.socket().listen(MQTT).map_err(|error| format!("smoltcp: {error}"))?;
        let End { interface, sockets, socket, .. } = &mut link.mote;
        let socket = sockets.get_mut::<tcp::Socket<'_>>(*socket);
        socket
            .connect(interface.context(), (IpAddress::Ipv6(BROKER), MQTT), 49_152)
            .map_err(|error| format!("smoltcp: {error}"))?;
        for _ in 0..PATIENCE {
            link.step()?;
            if link.mote.socket().may_send() && link.broker.socket().may_recv() {
                return Ok(link);
            }
        }
        Err("smoltcp does not connect over 6LoWPAN".into())
    }

    /// A millisecond: both poll, and hear what the other sent. Returns the mote's frames on the air.
    fn step(&mut self) -> Result<Vec<Vec<u8>>, ExperimentError> {
        self.now += Duration::from_millis(1);
        self.mote.poll(self.now);
        let sent = std::mem::take(&mut self.mote.radio.sent);
        let (air, heard) = self.carry(0, sent)?;
        self.broker.radio.heard.extend(heard);
        self.broker.poll(self.now);
        let sent = std::mem::take(&mut self.broker.radio.sent);
        let (_, heard) = self.carry(1, sent)?;
        self.mote.radio.heard.extend(heard);
        Ok(air)
    }

    /// The frames of an end on the air, and as the other end's stack hears them.
    fn carry(&mut self, from: usize, sent: Vec<Vec<u8>>) -> Result<Carriage, ExperimentError> {
        let Some(layer) = &mut self.layer else { return Ok((sent.clone(), sent)) };
        let (mut air, mut heard) = (Vec::new(), Vec::new());
        for frame in sent {
            for one in layer.carry(from, &frame)? {
                // The payload of a publish, in which all octets are alike.
                if one.air.windows(8).any(|octets| octets == [7; 8]) {
                    return Err("a secured frame shows its payload".into());
                }
                air.push(one.air);
                heard.push(one.heard);
            }
        }
        Ok((air, heard))
    }

    /// Sends a PUBLISH with a payload of this length. Returns its frames, and their time on the air.
    fn publish(&mut self, payload: usize) -> Result<(usize, f64), ExperimentError> {
        // Nothing of an earlier one is under way.
        for _ in 0..100 {
            self.step()?;
        }
        let packet = packet(payload);
        let taken = self.mote.socket().send_slice(&packet).map_err(|error| format!("smoltcp: {error}"))?;
        let (mut frames, mut received) = (Vec::new(), Vec::new());
        for _ in 0..PATIENCE {
            frames.extend(self.step()?);
            let read = self.broker.socket().recv(|octets| (octets.len(), octets.to_vec()));
            received.extend(read.map_err(|error| format!("smoltcp: {error}"))?);
            if received.len() >= packet.len() {
                break;
            }
        }
        if taken != packet.len() || received != packet {
            return Err(format!("a publish of {payload} B did not arrive over 6LoWPAN").into());
        }
        let octets: usize = frames.iter().map(|frame| frame.len() + FCS + SYNC).sum();
        Ok((frames.len(), octets as f64 * OCTET_MS))
    }
}

/// A PUBLISH of MQTT 3.1.1 at QoS 0 (section 3.3).
fn packet(payload: usize) -> Vec<u8> {
    let rest = 2 + TOPIC + payload;
    let mut packet = vec![0x30];
    if rest < 128 {
        packet.push(rest as u8);
    } else {
        packet.extend([(rest % 128) as u8 | 0x80, (rest / 128) as u8]);
    }
    packet.extend([0, TOPIC as u8]);
    packet.extend([b't'; TOPIC]);
    packet.resize(packet.len() + payload, 7);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_has_the_frames_of_a_stack() {
        let mut checked = Report::new("mqtt-motes", "katsikeas2017");
        report(&mut checked).expect("a check");
        assert_eq!(checked.rows.len(), 2, "in the clear, and in frames of the link layer");
        for row in &checked.rows {
            let off = row.antedated.expect("a number");
            assert!(off.abs() <= 10.0, "{}: {off}", row.case);
        }
    }
}
