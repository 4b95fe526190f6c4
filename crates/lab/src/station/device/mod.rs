//! The IO device that any controller can set up: identity by DCP, ARP, connections over RPC,
//! records, alarms. Without I/O: frames and the time go in, frames and events come out.
//!
//! - `identity`: DCP Identify, Get and Set,
//! - [`connection`]: application relations, made from a connect call,
//! - `calls`: the RPC server and its own call, application ready,
//! - `records`: what reading and writing returns,
//! - [`exchange`]: cyclic data of a foreign controller.

mod calls;
pub mod connection;
pub mod exchange;
mod identity;
mod records;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use antedate_wire::ethernet::{EtherType, Frame};
use antedate_wire::profinet::alarm::{Alarm, AlarmType, Content, Pdu};
use antedate_wire::profinet::cm::Status;
use antedate_wire::profinet::frame_id;
use antedate_wire::{EthernetAddress, arp};
use serde::{Deserialize, Serialize};

use super::alarms::{Due, Endpoint};
use super::discovery;
use super::host::{Host, IpSuite};
pub(super) use calls::call;
use connection::{Ar, Step};

/// The lab's vendor: 0xffff is unassigned, so the device number is free.
pub const VENDOR: u16 = 0xffff;
/// The device of that vendor.
pub const DEVICE: u16 = 0x0001;
/// Module and submodule with process data, in slot 1, subslot 1. Their length is the controller's.
pub const PROCESS_DATA: (u32, u32) = (0x10, 0x11);
/// Module and submodule of the device itself, in slot 0, subslot 1.
pub const ACCESS_POINT: (u32, u32) = (0x01, 0x01);
/// Priority of alarms of low priority (IEC 61158-6-10).
const ALARM_PRIORITY: u8 = 5;
const SECOND_NS: u64 = 1_000_000_000;

/// An event of the device. The names are stable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// DCP Set: name of station.
    Named(String),
    /// DCP Set: IP address.
    Addressed(String),
    /// DCP Set: blink.
    Blinked,
    /// DCP Set: factory settings.
    Reset,
    /// A controller connected.
    Connected,
    /// A record was written.
    Written(u16),
    /// A record was read.
    Read(u16),
    /// The controller ended the parameters.
    ParametersEnded,
    /// The controller knows that the device is ready: data counts from now on.
    Operating,
    /// The controller acknowledged an alarm.
    AlarmAcknowledged(u16),
    /// The controller released the connection.
    Released,
    /// The connection ended by this status.
    Aborted(String),
}

/// The IO device.
#[derive(Debug)]
pub struct Device {
    host: Host,
    /// Name of station; empty in a new device.
    name: String,
    /// The controller's connection, and a supervisor's.
    controller: Option<Ar>,
    supervisor: Option<Ar>,
    records: BTreeMap<u16, Vec<u8>>,
    calls: calls::Calls,
    /// Interval of process alarms; 0 for none.
    alarm_every_ns: u64,
    next_alarm_ns: u64,
    alarms: u16,
    alarms_acknowledged: u16,
    out: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
}

impl Device {
    /// A device with this address and name, without an IP address.
    #[must_use]
    pub fn new(mac: EthernetAddress, name: String, alarm_every_ns: u64) -> Self {
        Self {
            host: Host { mac, ip: IpSuite::NONE },
            name,
            controller: None,
            supervisor: None,
            records: BTreeMap::new(),
            calls: calls::Calls::default(),
            alarm_every_ns,
            next_alarm_ns: 0,
            alarms: 0,
            alarms_acknowledged: 0,
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Gives it an IP address.
    pub fn set_address(&mut self, ip: IpSuite) {
        self.host.ip = ip;
    }

    /// Its addresses.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Announces it by LLDP.
    pub fn announce(&mut self) {
        self.out.extend(discovery::announcement(self.host.mac, &self.name));
    }

    /// Takes a frame that is not cyclic. False if it is of a kind that concerns no station.
    pub fn hear(&mut self, now_ns: u64, frame: &[u8]) -> bool {
        let Ok(view) = Frame::new_checked(frame) else { return false };
        let payload = view.payload();
        match view.ethertype() {
            EtherType::Arp => {
                let Ok(packet) = arp::Repr::parse(payload) else { return false };
                self.out.extend(self.host.answer(&packet));
                true
            }
            EtherType::Ipv4 => match self.host.receive(frame) {
                Some(datagram) => {
                    self.datagram(now_ns, &datagram);
                    true
                }
                None => false,
            },
            EtherType::Profinet if frame_id(payload).is_ok_and(|id| id.is_dcp()) => {
                self.dcp(view.src_addr(), payload);
                true
            }
            EtherType::Profinet => {
                let Ok(pdu) = Pdu::parse(payload) else { return false };
                self.alarm(view.src_addr(), &pdu);
                true
            }
            _ => false,
        }
    }

    fn alarm(&mut self, from: EthernetAddress, pdu: &Pdu<'_>) {
        let Some(ar) = self.controller.as_mut().filter(|ar| ar.address() == from) else { return };
        let Some(endpoint) = &mut ar.alarms else { return };
        let heard = endpoint.hear(pdu);
        if let Some(reply) = heard.reply {
            self.out.push_back(self.host.tagged(from, ALARM_PRIORITY, EtherType::Profinet, &reply));
        }
        if let Some(content) = heard.content
            && let Ok(Content::Acknowledgement { alarm, .. }) = Content::parse(&content)
        {
            self.alarms_acknowledged += 1;
            self.events.push_back(Event::AlarmAcknowledged(alarm.specifier));
        }
        if let Some(status) = heard.ended {
            self.controller = None;
            self.events.push_back(Event::Aborted(format!("by the controller, {:08x}", status.0)));
        }
    }

    /// Does what is due.
    pub fn poll(&mut self, now_ns: u64) {
        self.poll_calls(now_ns);
        let Some(ar) = &mut self.controller else { return };
        let address = ar.address();
        let Some(endpoint) = &mut ar.alarms else { return };
        match endpoint.poll(now_ns) {
            Due::Nothing => {}
            Due::Repeat(pdu) => {
                self.out.push_back(self.host.tagged(address, ALARM_PRIORITY, EtherType::Profinet, &pdu));
            }
            Due::GaveUp => return self.abort(Status::ALARM_TIMED_OUT),
        }
        if ar.step == Step::Operating && self.alarm_every_ns > 0 && self.next_alarm_ns <= now_ns {
            // The first comes at once.
            self.next_alarm_ns = now_ns + self.alarm_every_ns;
            if let Some(pdu) = process_alarm(endpoint, now_ns, self.alarms) {
                self.alarms += 1;
                self.out.push_back(self.host.tagged(address, ALARM_PRIORITY, EtherType::Profinet, &pdu));
            }
        }
    }

    /// Ends the controller's connection and says so.
    pub fn abort(&mut self, status: Status) {
        let Some(ar) = self.controller.take() else { return };
        if let Some(endpoint) = &ar.alarms {
            let pdu = endpoint.end(status);
            self.out.push_back(self.host.tagged(ar.address(), ALARM_PRIORITY, EtherType::Profinet, &pdu));
        }
        self.events.push_back(Event::Aborted(format!("{:08x}", status.0)));
    }

    /// The next frame to send.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    /// The next event.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The controller's connection.
    #[must_use]
    pub fn connection(&self) -> Option<&Ar> {
        self.controller.as_ref()
    }

    /// Alarms sent, and those acknowledged by the controller's application.
    #[must_use]
    pub fn alarms(&self) -> (u16, u16) {
        (self.alarms, self.alarms_acknowledged)
    }
}

/// The frame of a process alarm of slot 1, subslot 1.
fn process_alarm(endpoint: &mut Endpoint, now_ns: u64, number: u16) -> Option<Vec<u8>> {
    /// Bits of the specifier with the number.
    const NUMBER: u16 = 0x07ff;
    let alarm = Alarm { kind: AlarmType::Process, api: 0, slot: 1, subslot: 1, specifier: number & NUMBER };
    let (module, submodule) = PROCESS_DATA;
    // The manufacturer's structure 1, with the number as its data.
    let [high, low] = number.to_be_bytes();
    let data = [0, 1, high, low];
    endpoint.send(now_ns, &Content::Notification { alarm, module, submodule, data: &data })
}
