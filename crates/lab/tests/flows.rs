//! Cyclic flows, watched by two gateways between a Profinet controller and a device.
//!
//! The stations are this executable with a role as argument, so the test has its own `main`.

mod daemon;
mod harness;
#[allow(dead_code, reason = "this program uses a part of the plant")]
mod plant;

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use antedate_gateway::run::control::Request;
use antedate_gateway::run::status::{Flow, Status};
use antedate_lab::ns::Namespace;
use antedate_lab::process::{self, Place, Process};
use antedate_lab::station::{Options, Role};
use harness::Test;
use plant::{Plant, Settings, cyclic};

const TESTS: &[Test] = &[
    ("flows_of_stations_are_found", flows_of_stations_are_found),
    ("junk_of_the_field_is_no_flow", junk_of_the_field_is_no_flow),
    ("watch_ends_by_a_reload", watch_ends_by_a_reload),
];
const PATIENCE: Duration = Duration::from_secs(20);
const POLICY: &str = "allow = [\"profinet\"]";

fn main() -> ExitCode {
    process::dispatch(std::env::args_os()).unwrap_or_else(|| harness::run("watched flows", TESTS))
}

fn station(role: Role, namespace: &Namespace) -> Process {
    let options = Options { role, cycle_us: 4_000, acyclic_ms: 0, ..Options::default() };
    let place = Place { namespace: Some(namespace.file()), ..Place::default() };
    Process::role("station", "lab-station", &options, &place).expect("the station starts")
}

/// The status, once it is as wanted.
fn until(status: impl Fn() -> Status, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
    let end = Instant::now() + PATIENCE;
    loop {
        let now = status();
        if wanted(&now) {
            return now;
        }
        assert!(Instant::now() < end, "{what}: {:?} {:?}", now.flows, now.warnings);
        thread::sleep(Duration::from_millis(50));
    }
}

fn flows(status: &Status) -> &[Flow] {
    status.flows.as_ref().map_or(&[], |known| &known.flows)
}

fn find<'a>(status: &'a Status, direction: &str, id: &str) -> Option<&'a Flow> {
    flows(status).iter().find(|flow| flow.direction == direction && flow.id == id)
}

fn flows_of_stations_are_found() {
    let plant = Plant::build(&Settings { policy: POLICY, ..Settings::default() });
    let mut device = station(Role::Device, &plant.chain.device);
    let _controller = station(Role::Plc, &plant.chain.plc);
    // From the controller, then from the device. The other gateway sees them the other way round.
    let runs = |flow: &Flow| flow.frames > 100 && flow.data_status.as_ref().is_some_and(|data| data.run);
    for (gateway, [output, input]) in [(&plant.a, ["out", "in"]), (&plant.b, ["in", "out"])] {
        let status = until(
            || gateway.status(),
            "both flows are known",
            |now| {
                [(output, "8001"), (input, "8002")]
                    .iter()
                    .all(|(way, id)| find(now, way, id).is_some_and(runs))
            },
        );
        assert_eq!(flows(&status).len(), 2, "{:?}", status.flows);
        for flow in flows(&status) {
            assert_eq!(flow.protocol, "profinet-rt");
            assert!((2_500.0..6_000.0).contains(&flow.cycle_us), "{flow:?}");
            let data = flow.data_status.as_ref().expect("a data status");
            assert!(data.valid && data.primary && !data.problem, "{flow:?}");
            assert!(flow.intervals.iter().map(|bucket| bucket.count).sum::<u64>() > 100, "{flow:?}");
        }
    }
    // A device that stands still: its flow stops, and the links stay up.
    device.hold(true).expect("the device is held");
    let warns = |now: &Status, about: &str| {
        now.warnings.iter().any(|warning| warning.name == "flow-stopped" && warning.about == about)
    };
    let status = until(|| plant.a.status(), "the uplink's flow stopped", |now| warns(now, "uplink"));
    let input = find(&status, "in", "8002").expect("a stopped flow stays");
    assert!(input.stopped && input.has_bus_error() && input.margin_percent == 0.0, "{input:?}");
    assert_eq!(flows(&status)[0].id, "8002", "stopped flows are first");
    assert!(status.uplink.link && status.field.link);
    let what = &status.warnings.iter().find(|warning| warning.about == "uplink").expect("a warning").what;
    assert!(what.contains(&input.name()), "{what}");
    until(|| plant.b.status(), "the field's flow stopped", |now| warns(now, "field"));
    device.hold(false).expect("it goes on");
    let status = until(
        || plant.a.status(),
        "the flow goes on",
        |now| !warns(now, "uplink") && find(now, "in", "8002").is_some_and(|flow| !flow.stopped),
    );
    let input = find(&status, "in", "8002").expect("the flow");
    assert!(input.watchdog_expired >= 1 && input.missed_cycles > 10, "{input:?}");
}

fn junk_of_the_field_is_no_flow() {
    let plant = Plant::build(&Settings { policy: POLICY, ..Settings::default() });
    for number in 0..2_000u16 {
        let mut frame = cyclic(1, 64);
        frame[8..10].copy_from_slice(&number.to_be_bytes());
        frame[14..16].copy_from_slice(&(0x8000 + number).to_be_bytes());
        plant.plc.send(&frame);
        if number % 64 == 0 {
            // The ring holds that many at once.
            thread::sleep(Duration::from_millis(1));
        }
    }
    let status = until(|| plant.a.status(), "all came", |now| now.out.forwarded_frames == 2_000);
    assert_eq!(flows(&status), []);
    // Frames on the wire without a key are none at all.
    let recorder = plant.record_wire();
    for _ in 0..20 {
        recorder.send(&cyclic(1, 64));
        thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(flows(&plant.b.status()), []);
}

fn watch_ends_by_a_reload() {
    let plant = Plant::build(&Settings { policy: POLICY, ..Settings::default() });
    let cycle = || {
        for _ in 0..10 {
            plant.plc.send(&cyclic(1, 64));
            thread::sleep(Duration::from_millis(20));
        }
        plant.a.status()
    };
    until(cycle, "a flow", |now| flows(now).len() == 1);
    for (before, after, shown) in [
        ("[control]", "[flows]\nwatchdog_cycles = 200\n[control]", Some(200)),
        ("watchdog_cycles = 200", "watch = false", None),
    ] {
        plant.a.edit(before, after);
        let reply = plant.a.ask(Request::Reload {});
        assert!(reply.ok && reply.message.contains("flows"), "{}", reply.message);
        assert_eq!(plant.a.status().flows.map(|known| known.watchdog_cycles), shown);
    }
}
