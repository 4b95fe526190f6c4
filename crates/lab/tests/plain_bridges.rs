//! A PLC and an IO device over plain bridges: the lab itself, without any gateway.
//!
//! The test is its own child: the lab's processes are this executable with a role as argument. So it brings its
//! own `main`. Where the machine forbids namespaces it says so and passes.

use std::process::ExitCode;
use std::time::Duration;

use antedate_lab::ns::{self, Chain, ChainOptions};
use antedate_lab::process::{self, Place, Process};
use antedate_lab::station::{Line, Options, Report, Role};

fn main() -> ExitCode {
    if let Some(code) = process::dispatch(std::env::args_os()) {
        return code;
    }
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    match ns::acquire() {
        Ok(privilege) => println!("namespaces as {privilege:?}"),
        Err(error) => {
            println!("SKIPPED: stations over plain bridges: {error}");
            return ExitCode::SUCCESS;
        }
    }
    for (name, test) in [("stations_over_plain_bridges_exchange_data_and_stop_cleanly", stations as fn())] {
        println!("test {name} ...");
        test();
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

fn station(chain: &Chain, role: Role, options: &Options) -> Process {
    let (name, namespace) = match role {
        Role::Plc => ("plc", &chain.plc),
        Role::Device => ("device", &chain.device),
    };
    let place = Place { namespace: Some(namespace.file()), ..Place::default() };
    let options = Options { role, ..options.clone() };
    Process::role(name, "lab-station", &options, &place).expect("the station starts")
}

fn report(process: &mut Process) -> Report {
    let mut lines = Vec::new();
    while let Some(line) = process.next_line(Duration::from_secs(10)) {
        match serde_json::from_str(&line).expect("a line of the station") {
            Line::Result(report) => return *report,
            _ => lines.push(line),
        }
    }
    panic!("no result; {lines:?} {:?}", process.errors());
}

fn stations() {
    let chain = Chain::build(ChainOptions::default()).expect("the chain is built");
    chain.bridge_gateways().expect("bridges instead of gateways");
    chain.bridge_wire().expect("a bridge as wire");
    let options = Options { cycle_us: 2_000, live_ms: 500, ..Options::default() };
    let mut device = station(&chain, Role::Device, &options);
    let mut plc = station(&chain, Role::Plc, &Options { seconds: Some(2.0), ..options });
    let plc_report = report(&mut plc);
    let device_report = report(&mut device);
    for report in [&plc_report, &device_report] {
        println!("{}", serde_json::to_string(report).expect("JSON"));
        let counts = &report.measured.counts;
        assert!(counts.received > 900, "{counts:?}");
        assert_eq!(counts.lost + counts.duplicated + counts.reordered, 0, "{counts:?}");
        assert_eq!(counts.damaged + counts.foreign + counts.unexpected, 0, "{counts:?}");
        assert!(report.measured.edges.agree, "{:?}", report.measured.edges);
        assert!(report.measured.edges.seen >= 6, "{:?}", report.measured.edges);
        assert!(report.announcements >= 1 || report.role == Role::Plc);
        assert!(report.measured.round_trip_us.count > 900);
    }
    assert!(plc.finish(Duration::from_secs(2)) && device.finish(Duration::from_secs(2)));
    let name = chain.plc.name().to_owned();
    drop(chain);
    assert!(!std::path::Path::new("/run/netns").join(name).exists(), "the chain is removed");
}
