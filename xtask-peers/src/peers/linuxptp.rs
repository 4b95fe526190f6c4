//! Debian's linuxptp keeps time through two loaded gateways.
//!
//! `ptp4l` of the controller is the time server, and that of the device measures without setting its
//! clock (`free_running`). Both have the machine's one clock, so each offset is an error. The errors
//! through a plain bridge in place of each gateway, through gateways, and through gateways as
//! transparent clocks are taken in turns, with the same load, in one run.

use crate::daemon::{Gateway, Options, SUITES, cell_keys};
use crate::net;
use crate::place;
use std::fmt;
use xtask::report::{StepResult, Stop};
use xtask::shell::{Background, Run, tail, until};

/// Seconds of a measurement.
const SECONDS: u32 = 12;
/// Offsets at its begin that do not count: the path's delay is not settled.
const SETTLING: usize = 30;
/// Turns of the three ways.
const TURNS: usize = 2;
/// Bits of datagrams a second in each direction.
const LOAD: &str = "20M";
/// Offsets that a measurement must have at least.
const FEWEST: usize = 50;
/// The error through transparent clocks in those of a bridge, at most.
const AT_MOST: f64 = 2.0;

const CLOCK: &str = "[ptp]\ntransparent_clock = true\n";

/// The ways between the two ends.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Bridges,
    Gateways,
    Clocks,
}

/// Settings of ptp4l for a kind of messages, and whether its messages are those of IEEE 802.1AS.
struct Kind {
    name: &'static str,
    settings: &'static str,
    gptp: bool,
    /// Sections of the gateways.
    sections: &'static str,
}

const ETHERNET: Kind = Kind {
    name: "Ethernet",
    settings: "network_transport L2\ndelay_mechanism E2E\n",
    gptp: false,
    sections: CLOCK,
};
/// The other kinds, which one short measurement each shows to work.
const OTHERS: [Kind; 5] = [
    Kind {
        name: "UDP over IPv4",
        settings: "network_transport UDPv4\ndelay_mechanism E2E\n",
        gptp: false,
        sections: CLOCK,
    },
    Kind {
        name: "UDP over IPv6",
        settings: "network_transport UDPv6\ndelay_mechanism E2E\n",
        gptp: false,
        sections: CLOCK,
    },
    Kind {
        name: "peer delay",
        settings: "network_transport L2\ndelay_mechanism P2P\n",
        gptp: false,
        sections: CLOCK,
    },
    Kind {
        name: "802.1AS",
        settings: "network_transport L2\ndelay_mechanism P2P\ngmCapable 1\ntransportSpecific 1\n\
                   path_trace_enabled 1\nfollow_up_info 1\nptp_dst_mac 01:80:C2:00:00:0E\n\
                   min_neighbor_prop_delay -20000000\n",
        gptp: true,
        sections: CLOCK,
    },
    Kind {
        name: "express channel",
        settings: "network_transport L2\ndelay_mechanism E2E\n",
        gptp: false,
        sections: "[ptp]\ntransparent_clock = true\n[express]\ntraffic = [\"profinet-rt\"]\nrate_mbit = 1000\n",
    },
];

/// Does nothing: packages suffice.
pub(crate) fn prepare() -> Result<(), Stop> {
    Ok(())
}

pub(crate) fn run() -> StepResult {
    let ways = [Way::Bridges, Way::Gateways, Way::Clocks];
    let mut offsets = [const { Vec::new() }; 3];
    for _ in 0..TURNS {
        for (way, offsets) in ways.into_iter().zip(&mut offsets) {
            offsets.extend(measure(way, &ETHERNET)?);
        }
    }
    let [bridges, gateways, clocks] = offsets.map(Errors::of);
    for (what, errors) in [("bridges", &bridges), ("gateways", &gateways), ("transparent clocks", &clocks)] {
        println!("   two {what}: {errors}");
    }
    let ratio = clocks.p95 as f64 / bridges.p95.max(1) as f64;
    for kind in &OTHERS {
        let errors = Errors::of(measure(Way::Clocks, kind)?);
        println!("   two transparent clocks, {}: {errors}", kind.name);
        if errors.median > gateways.p95 {
            return Err(format!("{}: {errors}, as without correction", kind.name).into());
        }
    }
    let note = format!(
        "95 % of the offsets within {:.1} us through transparent clocks, {:.1} us through bridges \
         (ratio {ratio:.2}, at most {AT_MOST}), {:.1} us through gateways without correction",
        micro(clocks.p95),
        micro(bridges.p95),
        micro(gateways.p95)
    );
    if ratio > AT_MOST || clocks.p95 >= gateways.p95 { Err(note.into()) } else { Ok(note) }
}

/// The sizes of offsets in nanoseconds.
struct Errors {
    count: usize,
    median: u64,
    p95: u64,
    worst: u64,
}

impl Errors {
    fn of(offsets: Vec<i64>) -> Self {
        let mut sizes: Vec<u64> = offsets.iter().map(|offset| offset.unsigned_abs()).collect();
        sizes.sort_unstable();
        let at = |percent: usize| sizes.get(sizes.len() * percent / 100).copied().unwrap_or(0);
        let worst = sizes.last().copied().unwrap_or(0);
        Self { count: sizes.len(), median: at(50), p95: at(95), worst }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, median, p95, worst } = *self;
        let [median, p95, worst] = [median, p95, worst].map(micro);
        write!(f, "{count} offsets, median {median:.1} us, p95 {p95:.1} us, worst {worst:.1} us")
    }
}

fn micro(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// The offsets of the device's clock in nanoseconds.
fn measure(way: Way, kind: &Kind) -> Result<Vec<i64>, String> {
    net::cell()?;
    net::address("plc", "eth0", "10.7.0.1/24", Some("fd07::1/64"))?;
    net::address("dev", "eth0", "10.7.0.2/24", Some("fd07::2/64"))?;
    let gateways = match way {
        Way::Bridges => {
            for space in ["gwa", "gwb"] {
                net::bridge(space, &["field", "uplink"])?;
            }
            Vec::new()
        }
        Way::Gateways | Way::Clocks => {
            let options = Options {
                keys: Some(cell_keys(SUITES[0])),
                allow: vec!["all"],
                uplink: "carry_link_local = true",
                sections: if way == Way::Clocks { kind.sections } else { "" },
                ..Options::default()
            };
            vec![Gateway::start("gwa", &options)?, Gateway::start("gwb", &options)?]
        }
    };
    let load = load()?;
    let offsets = offsets(kind).map_err(|e| format!("{}: {e}", kind.name))?;
    drop(load);
    for gateway in gateways {
        let status = gateway.status()?;
        for direction in ["out", "in"] {
            let corrected = status[direction]["ptp_corrected"].as_u64().unwrap_or(0);
            if (corrected > 0) != (way == Way::Clocks) {
                return Err(format!("{}: {corrected} messages corrected: {status:#}", kind.name));
            }
        }
        gateway.stop()?;
    }
    net::remove_cell();
    Ok(offsets)
}

/// Datagrams in both directions, until the value is dropped.
fn load() -> Result<[Background; 2], String> {
    let dir = place::run()?;
    let mut server =
        net::inside("dev", "iperf3").args(["-s", "--forceflush"]).background(&dir.join("iperf3"))?;
    until("the iperf3 server", 10.0, || match server.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => server.output().contains("listening").then_some(Ok(())),
    })??;
    let mut client = net::inside("plc", "iperf3");
    client.args(["-c", "10.7.0.2", "-u", "-b", LOAD, "-l", "1400", "-t", "60", "--bidir"]);
    Ok([server, client.background(&dir.join("load"))?])
}

/// Starts both ends, and takes the offsets once they are measured.
fn offsets(kind: &Kind) -> Result<Vec<i64>, String> {
    let mut server = ptp4l("plc", kind, "priority1 100\n")?;
    let mut client = ptp4l("dev", kind, "priority1 250\n")?;
    let measured = until("a time server", 30.0, || match server.alive().and(client.alive()) {
        Err(e) => Some(Err(e)),
        Ok(()) => client.output().contains("to UNCALIBRATED").then_some(Ok(())),
    });
    measured.and_then(|m| m).map_err(|e| format!("{e}\n{}", tail(&client.output(), 15)))?;
    // pmc asks on the client's own socket, and answers each line of its input.
    let dir = place::run()?;
    let gptp = if kind.gptp { "-t 1" } else { "" };
    let ask = format!(
        "for i in $(seq {}); do echo GET TIME_STATUS_NP; sleep 0.05; done | pmc -u -b 0 {gptp} -s {} -i {}",
        SECONDS * 20,
        dir.join("dev.socket").display(),
        dir.join("pmc.socket").display()
    );
    let mut pmc = net::inside("dev", "sh");
    let said = pmc.args(["-c", &ask]).background(&dir.join("pmc"))?.finish(u64::from(SECONDS) * 3)?;
    client.alive()?;
    let offsets: Vec<i64> = read(&said).into_iter().skip(SETTLING).collect();
    if offsets.len() < FEWEST {
        return Err(format!("{} offsets only\n{}", offsets.len(), tail(&client.output(), 15)));
    }
    Ok(offsets)
}

/// The offsets of messages that arrived at different times.
fn read(said: &str) -> Vec<i64> {
    let mut last = "0";
    let mut offset: Option<i64> = None;
    let mut offsets = Vec::new();
    for line in said.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("master_offset"), Some(value)) => offset = value.parse().ok(),
            (Some("ingress_time"), Some(time)) if time != last => {
                last = time;
                offsets.extend(offset.take());
            }
            _ => {}
        }
    }
    offsets
}

/// Starts one end.
fn ptp4l(space: &str, kind: &Kind, more: &str) -> Result<Background, String> {
    let dir = place::run()?;
    let socket = dir.join(format!("{space}.socket"));
    let file = dir.join(format!("{space}.cfg"));
    let settings = format!(
        "[global]\ntime_stamping software\nfree_running 1\nfreq_est_interval 0\nlogSyncInterval -4\n\
         logMinDelayReqInterval -4\nlogMinPdelayReqInterval -3\nlogAnnounceInterval 0\ntx_timestamp_timeout 50\n\
         neighborPropDelayThresh 20000000\nuds_address {}\n{}{more}",
        socket.display(),
        kind.settings
    );
    std::fs::write(&file, settings).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut command = net::inside(space, "ptp4l");
    command.args(["-m", "-q", "-i", "eth0", "-f"]).arg(&file);
    command.background(&dir.join(format!("{space}.ptp4l")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_new_messages_are_read() {
        let one = |offset: i64, time: u64| {
            format!("\tTIME_STATUS_NP\n\t\tmaster_offset  {offset}\n\t\tingress_time  {time}\n")
        };
        let said = [one(0, 0), one(-7, 5), one(-7, 5), one(9, 6)].concat();
        assert_eq!(read(&said), [-7, 9]);
    }

    #[test]
    fn errors_are_sizes() {
        let errors = Errors::of((-50..50).collect());
        assert_eq!((errors.count, errors.median, errors.p95, errors.worst), (100, 25, 48, 50));
        assert_eq!(Errors::of(Vec::new()).p95, 0);
    }
}
