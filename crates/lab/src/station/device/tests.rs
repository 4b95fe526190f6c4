//! Controller and device without a wire.

use antedate_wire::EthernetAddress;
use antedate_wire::ethernet::Frame;

use super::*;
use crate::station::controller::{Controller, Wanted};

const PLC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);
const IO: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);
const STEP_NS: u64 = 1_000_000;
const WANTED: Wanted = Wanted { cycle_us: 4_000, frame_bytes: 64, data_hold: 3, read_every_ns: SECOND_NS };

struct World {
    controller: Controller,
    device: Device,
    now_ns: u64,
    /// Drops a frame to the device or the controller.
    lose: fn(&[u8], u64) -> bool,
    frames: u64,
}

impl World {
    fn new(lose: fn(&[u8], u64) -> bool) -> Self {
        Self {
            controller: Controller::new(PLC, "io".into(), 7, WANTED),
            device: Device::new(IO, "io".into(), SECOND_NS / 2),
            now_ns: 0,
            lose,
            frames: 0,
        }
    }

    /// Runs for this many milliseconds.
    fn run(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.now_ns += STEP_NS;
            self.controller.poll(self.now_ns);
            self.device.poll(self.now_ns);
            // All answers of a step.
            while let Some(frame) = self.controller.take().or_else(|| self.device.take()) {
                self.frames += 1;
                let frame = untagged(frame);
                let view = Frame::new_checked(&frame).unwrap();
                if (self.lose)(&frame, self.frames) {
                    continue;
                }
                if view.src_addr() == PLC {
                    self.device.hear(self.now_ns, &frame);
                } else {
                    self.controller.hear(self.now_ns, &frame);
                }
            }
        }
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.device.event()).collect()
    }
}

/// The kernel removes the tag of a received frame.
fn untagged(mut frame: Vec<u8>) -> Vec<u8> {
    if frame[12..14] == [0x81, 0] {
        frame.drain(12..16);
    }
    frame
}

#[test]
fn controller_sets_up_the_device() {
    let mut world = World::new(|_, _| false);
    world.run(3_000);
    assert_eq!(world.controller.device(), Some(IO));
    let events = world.events();
    let expected = [
        Event::Addressed("10.83.0.2".into()),
        Event::Connected,
        Event::Written(1),
        Event::ParametersEnded,
        Event::Operating,
    ];
    assert_eq!(events[..5], expected);
    let io = world.device.connection().unwrap().io().unwrap();
    assert_eq!((io.input.frame_id.0, io.output.frame_id.0), (0x8002, 0x8001));
    let counts = world.controller.counts();
    assert_eq!((counts.connections, counts.records_read), (1, 3));
    assert_eq!((counts.alarms, world.device.alarms()), (6, (6, 6)));
    world.controller.release();
    world.run(1);
    assert_eq!(world.events().last(), Some(&Event::Released));
    assert!(world.device.connection().is_none());
}

#[test]
fn every_lost_frame_is_repeated() {
    // A third of the frames is lost, answers and acknowledgements included, in no regular order.
    let mut world = World::new(|_, number| (number.wrapping_mul(2_654_435_761) >> 16) % 3 == 0);
    world.run(10_000);
    let counts = world.controller.counts();
    assert_eq!(counts.connections, 1, "{world:?}", world = world.events());
    assert!(counts.records_read >= 5 && counts.alarms >= 5, "{counts:?}");
    let written = world.events().iter().filter(|event| **event == Event::Written(1)).count();
    assert!(written <= 1, "a repeated call is not run again");
}

#[test]
fn silent_controller_ends_the_connection() {
    // The device never hears that its call application ready came.
    let mut world =
        World::new(|frame, _| frame.len() > 100 && frame[6..12] == PLC.0 && frame[34..36] == [0x88, 0x94]);
    world.run(500);
    let events = world.events();
    assert!(events.contains(&Event::ParametersEnded) && !events.contains(&Event::Operating), "{events:?}");
    let mut device = world.device;
    device.poll(u64::MAX / 2);
    assert_eq!(device.event(), Some(Event::Aborted("cf81fd06".into())));
    assert!(device.connection().is_none());
}

#[test]
fn second_controller_is_refused() {
    let mut world = World::new(|_, _| false);
    world.run(100);
    let first = world.device.connection().unwrap().id;
    world.controller = Controller::new(PLC, "io".into(), 8, WANTED);
    world.run(500);
    assert_eq!(world.controller.device(), None);
    assert_eq!(world.device.connection().unwrap().id, first);
    world.device.abort(Status::CONSUMER_TIMED_OUT);
    world.run(500);
    assert_eq!(world.controller.device(), Some(IO), "it tries until the first has timed out");
}

#[test]
fn any_octets_leave_the_device_standing() {
    let mut world = World::new(|_, _| false);
    world.run(300);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let mut controller =
        Controller::new(PLC, "io".into(), 9, Wanted { cycle_us: 1_000, frame_bytes: 300, ..WANTED });
    world.device.abort(Status::CONSUMER_TIMED_OUT);
    for now in 0..1_500 {
        controller.poll(now * STEP_NS);
        world.device.poll(now * STEP_NS);
        while let Some(frame) = controller.take().or_else(|| world.device.take()) {
            let frame = untagged(frame);
            if frame[6..12] == PLC.0 {
                world.device.hear(now * STEP_NS, &frame);
                seen.push(frame);
            } else {
                controller.hear(now * STEP_NS, &frame);
            }
        }
    }
    assert!(seen.len() > 8);
    for frame in seen {
        for at in 14..frame.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = frame.clone();
                changed[at] = value;
                world.device.hear(0, &changed);
                world.device.poll(0);
                while world.device.take().is_some() || world.device.event().is_some() {}
            }
            world.device.hear(0, &frame[..at]);
        }
    }
}
