//! `antedate gateway observe FILE`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use antedate_gateway::config::{Config, Protection};
use antedate_gateway::frames::gate::Way;
use antedate_gateway::frames::observed::Observer;
use antedate_gateway::sys::interface::Interface;
use antedate_gateway::sys::packet::{Next, Receiver};
use antedate_host::fault::{Fault, explain};
use antedate_host::signals;
use antedate_wire::EtherType;
use clap::Args;

use crate::capture::Source;
use crate::failure::{Done, Failure};
use crate::output::{self, Kind};

/// The pause between looks at the ports. Their rings hold the frames meanwhile.
const PAUSE: Duration = Duration::from_millis(1);

#[derive(Args)]
pub(crate) struct Observe {
    /// The configuration, for its ports and its policy. Keys are not read.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Stop after so many seconds. [default: at SIGINT or SIGTERM]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Read captures (pcap or pcapng) instead of the ports.
    #[arg(long, value_name = "FILE", conflicts_with = "seconds")]
    pcap: Vec<PathBuf>,
    /// Write the result as JSON to FILE, or to standard output without one.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

impl Observe {
    pub(crate) fn run(self) -> Done {
        let config = Config::load(&self.file)?;
        if let Some(file) = self.json.as_deref().filter(|file| *file != Path::new("-")) {
            output::writable("--json", Kind::Json("lines"), file)?;
        }
        let mut observer = Observer::new(&config.policy);
        if self.pcap.is_empty() {
            observe_ports(&config, self.seconds.map(Duration::from_secs), &mut observer)?;
        }
        for file in &self.pcap {
            Source::of_file(file).read(|at, frame| observer.see(None, at, frame))?;
        }
        match self.json {
            Some(file) => output::json(&file, &observer.report()),
            None => output::print(&observer.to_string()),
        }
    }
}

/// Listens at both ports, beside a running gateway or without one. Sends nothing.
fn observe_ports(config: &Config, length: Option<Duration>, observer: &mut Observer) -> Done {
    let stop = signals::stop_flag()
        .map_err(|error| Failure::usage(format!("cannot watch for signals: {error}"), "see ulimit -n"))?;
    let mut field = open(config, config.field.interface.as_str(), "field.interface")?;
    let mut uplink = open(config, config.uplink.interface.as_str(), "uplink.interface")?;
    let own = uplink.1.address;
    // The protected frames of the gateways are no frames of machines.
    let is_machines = |frame: &[u8]| {
        let ethertype = frame.get(12..).and_then(<[u8]>::first_chunk).copied().map(u16::from_be_bytes);
        let protection = [EtherType::Macsec, EtherType::Eapol].map(|kind| Some(kind.number()));
        let is_own = frame.get(..6) == Some(&own) || frame.get(6..12) == Some(&own);
        config.protection == Protection::Plain || (!is_own && !protection.contains(&ethertype))
    };
    output::tell(format_args!(
        "observing {} and {}; nothing is sent; {}",
        config.field.interface,
        config.uplink.interface,
        length.map_or_else(|| "stop with Ctrl-C".to_owned(), |length| format!("{} s", length.as_secs()))
    ));
    let start = Instant::now();
    while !stop_asked(&stop) && length.is_none_or(|length| start.elapsed() < length) {
        let at = start.elapsed().as_secs_f64();
        drain(&mut field.0, |frame| observer.see(Some(Way::Out), at, frame));
        drain(&mut uplink.0, |frame| {
            if is_machines(frame) {
                observer.see(Some(Way::In), at, frame);
            }
        });
        thread::sleep(PAUSE);
    }
    for (receiver, interface) in [&field, &uplink] {
        let lost = receiver.overruns();
        if lost > 0 {
            output::tell(format_args!("warning: {}: {lost} frames were not seen in time", interface.name));
        }
    }
    Ok(())
}

fn stop_asked(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Acquire)
}

fn open(config: &Config, name: &str, key: &'static str) -> Result<(Receiver, Interface), Failure> {
    let fault = |what: String, remedy: &str| Fault {
        key: key.to_owned(),
        ..Fault::of_file(&config.file, what, remedy)
    };
    let interface = Interface::find(name).map_err(|error| Fault {
        passing: error.kind() == ErrorKind::NotFound,
        ..fault(
            format!("cannot use \"{name}\": {}", explain(&error)),
            "name an Ethernet interface of `ip link`",
        )
    })?;
    let receiver = Receiver::open(&interface, 0).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => fault(
            format!("cannot listen at {name}: {}", explain(&error)),
            "run it with sudo, or give it the capability CAP_NET_RAW",
        ),
        _ => fault(format!("cannot listen at {name}: {}", explain(&error)), "see `ip link show`"),
    })?;
    Ok((receiver, interface))
}

/// Hands over all waiting frames, at most once around the ring.
fn drain(receiver: &mut Receiver, mut see: impl FnMut(&[u8])) {
    for _ in 0..1024 {
        match receiver.peek() {
            Next::Empty => {
                // The link went down: the next look is as good.
                let _ = receiver.take_error();
                return;
            }
            Next::Truncated => {}
            Next::Frame(received) => see(received.frame()),
        }
        receiver.release();
    }
}
