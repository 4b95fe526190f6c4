//! The acyclic half of a station: the controller's or the device's end of the connection.

use antedate_wire::EthernetAddress;

use super::controller::{Controller, Counts};
use super::device::{Device, Event};

/// Either end.
#[derive(Debug)]
pub(super) enum Acyclic {
    Controller(Box<Controller>),
    /// With the counters of its events.
    Device(Box<Device>, Counts),
}

impl Acyclic {
    /// Takes a frame that is not cyclic. False if it is of a kind that concerns no station.
    pub(super) fn hear(&mut self, now_ns: u64, frame: &[u8]) -> bool {
        match self {
            Self::Controller(controller) => controller.hear(now_ns, frame),
            Self::Device(device, _) => device.hear(now_ns, frame),
        }
    }

    /// Does what is due.
    pub(super) fn poll(&mut self, now_ns: u64) {
        match self {
            Self::Controller(controller) => controller.poll(now_ns),
            Self::Device(device, _) => device.poll(now_ns),
        }
    }

    /// The next frame to send.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Controller(controller) => controller.take(),
            Self::Device(device, _) => device.take(),
        }
    }

    /// The controller's device, once its connection is set up.
    pub(super) fn found(&self) -> Option<EthernetAddress> {
        match self {
            Self::Controller(controller) => controller.device(),
            Self::Device(..) => None,
        }
    }

    /// Whether cyclic data from this address belongs to the device's connection.
    pub(super) fn accepts(&self, address: EthernetAddress) -> bool {
        match self {
            Self::Controller(_) => false,
            Self::Device(device, _) => device.connection().is_some_and(|ar| ar.address() == address),
        }
    }

    /// The controller ends the connection.
    pub(super) fn release(&mut self) {
        if let Self::Controller(controller) = self {
            controller.release();
        }
    }

    /// The counters.
    pub(super) fn counts(&mut self) -> Counts {
        match self {
            Self::Controller(controller) => controller.counts(),
            Self::Device(device, counts) => {
                while let Some(event) = device.event() {
                    match event {
                        Event::Operating => counts.connections += 1,
                        Event::Read(_) => counts.records_read += 1,
                        _ => {}
                    }
                }
                let (alarms, acknowledged) = device.alarms();
                (counts.alarms, counts.alarms_acknowledged) = (alarms.into(), acknowledged.into());
                *counts
            }
        }
    }
}
