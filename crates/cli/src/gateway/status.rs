//! `antedate gateway status`.

mod table;
mod watch;

use std::fmt::Write;
use std::path::PathBuf;

use antedate_gateway::run::control::{Reply, Request, ask};
use antedate_gateway::run::status::{
    Agreement, Flows, Forwarding, Macsec, MacsecUplink, Overlay, OverlayPeer, PathMtu, Port, Preparation,
    Standby, Status as Document, Thread, TransmitSa,
};
use antedate_host::fault::Fault;
use clap::Args;

use super::Running;
use super::health::{self, Level};
use crate::failure::{Done, Failure};
use crate::output;

#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    running: Running,
    /// Write the state as JSON to FILE, or to standard output without one.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Print one line for a monitoring system, and exit with 0 (OK), 1 (WARNING) or 2 (CRITICAL).
    #[arg(long, conflicts_with = "json")]
    check: bool,
    /// Show the state live, once a second, until q, Ctrl-C or a closed output.
    #[arg(long, conflicts_with_all = ["json", "check"])]
    watch: bool,
}

impl Status {
    pub(crate) fn run(self) -> Done {
        let socket = &self.running.socket;
        if self.check {
            let reply = ask(socket, Request::Status {});
            let (level, line) = match &reply {
                Ok(Reply { status: Some(status), .. }) => health::of(status),
                Ok(reply) => health::silent(&reply.message),
                Err(fault) => health::silent(&format!("{}: {}", fault.file.display(), fault.what)),
            };
            output::print(&line)?;
            return if level == Level::Ok { Ok(()) } else { Err(Failure::State(level.code())) };
        }
        if self.watch {
            return watch::run(socket);
        }
        let reply = ask(socket, Request::Status {})?;
        let Some(status) = reply.status else {
            return Err(Fault::of_file(socket, reply.message, reply.remedy).into());
        };
        match self.json {
            Some(file) => output::json(&file, &status),
            None => output::print(&Page::of(&status)),
        }
    }
}

/// The page under construction.
struct Page(String);

impl Page {
    fn of(status: &Document) -> String {
        let mut page = Self(String::new());
        page.line(
            "gateway",
            &format!(
                "antedate {}, process {}, up {}",
                status.antedate,
                status.pid,
                duration(status.uptime_seconds)
            ),
        );
        page.line("config", &status.config);
        if !status.forwarding {
            page.line("forwarding", "DOES NOT ANSWER: what its threads alone know is missing here");
        }
        for warning in &status.warnings {
            page.line("WARNING", &format!("{}, for {}", warning.what, duration(warning.seconds)));
            page.line("", &format!("remedy: {}", warning.remedy));
        }
        page.port("field", &status.field);
        page.port("uplink", &status.uplink);
        if let Some(standby) = &status.standby {
            page.standby(standby);
        }
        status.threads.iter().for_each(|thread| page.thread(thread));
        page.direction("out", &status.out);
        page.direction("in", &status.inward);
        if let Some(flows) = &status.flows {
            page.flows(flows);
        }
        match (&status.macsec, &status.overlay) {
            (Some(macsec), _) => page.macsec(macsec),
            (None, Some(overlay)) => page.overlay(overlay),
            (None, None) => page.line("protected", "NO: frames cross the uplink as they are"),
        }
        page.0
    }

    fn line(&mut self, name: &str, value: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{name:<11} {value}");
    }

    /// A number with a line of its own unless it is zero.
    fn count(&mut self, name: &str, count: u64) {
        if count > 0 {
            self.line("", &format!("{name} {count}"));
        }
    }

    fn port(&mut self, name: &str, port: &Port) {
        let link = if port.link { "up" } else { "DOWN" };
        let way = if port.io == "xdp" { ", sent by AF_XDP" } else { "" };
        self.line(
            name,
            &format!("{} {link}, {}, payloads of {} octets{way}", port.interface, port.address, port.mtu),
        );
        self.line("", &format!("received {}, sent {}", port.received_frames, port.sent_frames));
        self.count("dropped by the kernel before they were read:", port.ring_drops);
        self.count("of these with a deadline:", port.urgent_ring_drops);
        self.count("could not be sent:", port.send_errors);
        self.count("link went down:", port.link_downs);
    }

    fn standby(&mut self, standby: &Standby) {
        let role = match (standby.active, &*standby.cause) {
            (true, _) => "forwards".to_owned(),
            (false, "") => "stands by".to_owned(),
            (false, cause) => format!("CANNOT FORWARD: {cause}"),
        };
        let (group, priority) = (standby.group, standby.priority);
        self.line("standby", &format!("{role}; group {group}, priority {priority}"));
        for other in &standby.others {
            let role = match (other.active, other.able) {
                (true, _) => "forwards",
                (false, true) => "stands by",
                (false, false) => "cannot forward",
            };
            self.line("", &format!("{} {role}", other.sci));
        }
        self.count("hellos of the field refused:", standby.refused);
    }

    fn thread(&mut self, thread: &Thread) {
        let cpu = thread.cpu.map_or_else(|| "any CPU".to_owned(), |cpu| format!("CPU {cpu}"));
        let priority = thread
            .priority
            .map_or_else(|| "ordinary priority".to_owned(), |priority| format!("SCHED_FIFO {priority}"));
        let bound = thread.poll_cpu_percent.map(|percent| format!(" within {percent} %")).unwrap_or_default();
        let name = format!("thread {}", thread.direction);
        self.line(
            &name,
            &format!("{cpu}, {priority}, polling {}{bound}, used {:.1} %", thread.poll, thread.cpu_percent),
        );
    }

    fn direction(&mut self, name: &str, direction: &Forwarding) {
        self.line(
            name,
            &format!("passed {} frames, {} octets", direction.forwarded_frames, direction.forwarded_octets),
        );
        self.count("in datagrams, with handshakes and parts of frames:", direction.datagrams);
        for (reason, count) in &direction.refused {
            self.count(&format!("refused, {reason}:"), *count);
        }
        for (index, count) in direction.rules.iter().enumerate() {
            self.count(&format!("decided by rule {}:", index + 1), *count);
        }
        self.count("sent in the express channel:", direction.express_frames);
        self.count("super-frames cut:", direction.segmented);
        self.count("joined to super-frames:", direction.joined);
        self.count("checksums completed:", direction.checksums_completed);
        self.count("came with another priority outside:", direction.outer_priorities_differ);
        self.count("PTP messages corrected:", direction.ptp_corrected);
        self.count("PTP messages signed, not corrected:", direction.ptp_signed);
    }

    fn flows(&mut self, known: &Flows) {
        let Flows { limit, watchdog_cycles, flows, .. } = known;
        self.line("flows", &format!("{} of at most {limit}, watchdog {watchdog_cycles} cycles", flows.len()));
        if !flows.is_empty() {
            self.line("", &table::head());
        }
        flows.iter().for_each(|flow| self.line("", &table::row(flow)));
        self.count("found no place:", known.no_room);
    }

    fn macsec(&mut self, macsec: &Macsec) {
        let sending = macsec
            .encoding_sa
            .map_or_else(|| "NO KEY: nothing passes".to_owned(), |an| format!("sending under AN {an}"));
        self.line("protected", &format!("MACsec, {}, SCI {}, {sending}", macsec.suite, macsec.sci));
        for sa in &macsec.transmit {
            // A worker behind the first has a channel of its own.
            let channel = if sa.sci == macsec.sci { String::new() } else { format!(" {}", sa.sci) };
            self.line(
                "",
                &format!(
                    "send{channel} AN {}: next packet number {}, {}",
                    sa.an,
                    sa.next_pn,
                    reserved(sa, macsec)
                ),
            );
        }
        for sa in &macsec.receive {
            // With key agreement a member has no name.
            let name = if sa.member.is_empty() { String::new() } else { format!(" ({})", sa.member) };
            self.line(
                "",
                &format!("receive {}{name} AN {}: from packet number {}", sa.sci, sa.an, sa.lowest_pn),
            );
        }
        if let Some(PathMtu { mtu, source, seconds }) = &macsec.path {
            let age = duration(*seconds);
            self.line("path", &format!("payloads of {mtu} octets, protected, found by {source} {age} ago"));
        }
        if let Some(MacsecUplink { interface, link, carries, switches, cause, .. }) = &macsec.second_uplink {
            let link = if *link { "up" } else { "DOWN" };
            let carries = match (&**carries, *switches) {
                ("", _) => "both uplinks carry".to_owned(),
                (name, 0) => format!("{name} carries, and the other uplink waits"),
                (name, times) => format!("{name} carries since the last of {times} changes: {cause}"),
            };
            self.line("second", &format!("{interface} {link}; {carries}"));
        }
        if let Some(agreement) = &macsec.agreement {
            self.agreement(agreement);
        }
        self.preparation("sealing", &macsec.sealing);
        self.preparation("opening", &macsec.opening);
        for (name, count) in &macsec.counters {
            self.count(name, *count);
        }
    }

    fn overlay(&mut self, overlay: &Overlay) {
        let how = if overlay.protection == "wireguard" {
            format!("VXLAN in WireGuard, our key {}", overlay.public_key)
        } else {
            "NO: VXLAN alone, frames cross the uplink as they are".to_owned()
        };
        self.line("protected", &how);
        let Overlay { vni, address, listen, .. } = overlay;
        self.line("", &format!("network {vni}, {address} in the tunnel, listening on {listen}"));
        let (by, direct) = (&overlay.datagrams_by, overlay.direct_addresses);
        self.line(
            "",
            &format!("datagrams come by the {by}, and leave by the interface to {direct} addresses"),
        );
        for peer in &overlay.peers {
            self.peer(peer, overlay.protection == "wireguard");
        }
        if let Some(second) = &overlay.second_uplink {
            let link = if second.link { "up" } else { "DOWN" };
            let came = format!("{} {link}, {} datagrams came", second.interface, second.received);
            let what =
                format!("{came}, {} of them first; {} copies eliminated", second.first, second.eliminated);
            self.line("second", &what);
            self.count("link went down:", second.link_downs);
        }
        if let Some(clock) = &overlay.release_clock {
            let flows = format!("{} flows, at most {} µs", clock.flows, clock.limit_us);
            self.line(
                "release",
                &format!(
                    "{flows}; {:.0} µs now, {:.1} µs added to {} frames",
                    clock.delay_us, clock.added_mean_us, clock.held
                ),
            );
            let (before, after) = (clock.jitter_in_p999_us, clock.jitter_out_p999_us);
            self.line("", &format!("jitter of one in a thousand: {before} µs came, {after} µs are left"));
            self.count("too late for the release clock:", clock.late);
        }
        self.line("machines", &format!("{} on the field, {} places", overlay.field_macs, overlay.mac_limit));
        self.count("moved:", overlay.macs_moved);
        self.count("loops:", overlay.loops);
        self.count("frames from machines that there was no room to remember:", overlay.macs_not_learned);
        self.count("handshakes answered by a cookie:", overlay.cookies_sent);
        self.count("passed from one worker to another:", overlay.passed_frames);
    }

    fn peer(&mut self, peer: &OverlayPeer, secured: bool) {
        let place = if peer.endpoint.is_empty() { "not heard yet" } else { &peer.endpoint };
        self.line("peer", &format!("{} at {place}, {} in the tunnel", peer.name, peer.address));
        if secured {
            let kind = if peer.antedate { ", an Antedate" } else { "" };
            let session = match (peer.session, peer.handshake_age_seconds) {
                (true, Some(age)) => format!("session {} old{kind}", duration(age)),
                _ => "NO SESSION".to_owned(),
            };
            let (ready, of) = (peer.prepared.prepared, peer.prepared.target);
            self.line(
                "",
                &format!("{session}, {} handshakes, {ready} of {of} packets prepared", peer.handshakes),
            );
        }
        self.line(
            "",
            &format!(
                "sent {} frames, received {}, {} machines",
                peer.sent_frames, peer.received_frames, peer.macs
            ),
        );
        if peer.path_mtu > 0 {
            let age =
                peer.path_mtu_age_seconds.map_or_else(String::new, |age| format!(", for {}", duration(age)));
            let (mtu, source) = (peer.path_mtu, &peer.path_mtu_source);
            self.line("", &format!("path MTU {mtu}, by {source}{age}"));
        }
        self.line("", &format!("long frames: {}", peer.long_frames));
        self.count("sent in pieces:", peer.frames_in_pieces);
        self.count("sent in IP fragments:", peer.frames_in_fragments);
        self.count("received in parts:", peer.frames_reassembled);
        self.count("dropped for want of a session:", peer.frames_without_session);
        self.count("moved to another address:", peer.roamed);
    }

    fn agreement(&mut self, agreement: &Agreement) {
        let server = match (agreement.is_key_server, agreement.key_server.as_str()) {
            (true, _) => "this gateway",
            (false, "") => "nobody",
            (false, other) => other,
        };
        self.line("agreement", &format!("key server {server}, own priority {}", agreement.priority));
        if !agreement.fault.is_empty() {
            self.line("", &format!("FAULT: {}", agreement.fault));
        }
        for key in &agreement.keys {
            let usage = match (key.receives, key.transmits) {
                (_, true) => "in use",
                (true, false) => "received with",
                (false, false) => "being installed",
            };
            self.line(
                "",
                &format!("key {} AN {}: {usage}, {} old", key.key, key.an, duration(key.age_seconds)),
            );
        }
        if agreement.channels > 1 {
            let (used, all) = (agreement.channels_in_use, agreement.channels);
            self.line("", &format!("frames are sent in {used} of {all} channels"));
        }
        for member in &agreement.members {
            let state = match (member.live, member.transmits, member.receives) {
                (false, ..) => "heard",
                (true, true, _) => "live, transmits",
                (true, false, true) => "live, receives",
                (true, false, false) => "live, has no key yet",
            };
            let server = if member.key_server { ", key server" } else { "" };
            let by = if member.hears_by.is_empty() {
                ", does not hear this gateway".to_owned()
            } else {
                format!(", hears {}", member.hears_by)
            };
            // An earlier gateway says nothing of channels.
            let channels = if agreement.channels > 1 || member.channels > 1 {
                let taken = member.takes_channels.max(1);
                format!(", {} channels and takes {taken}", member.channels.max(1))
            } else {
                String::new()
            };
            self.line(
                "",
                &format!(
                    "member {} at {}: {state}{server}{by}{channels}, priority {}, heard {:.1} s ago",
                    member.sci, member.address, member.priority, member.silent_seconds
                ),
            );
        }
        self.line("", &format!("MKPDUs: {} sent, {} received", agreement.sent, agreement.received));
        for (reason, count) in &agreement.refused {
            self.count(&format!("MKPDUs refused, {reason}:"), *count);
        }
    }

    fn preparation(&mut self, name: &str, work: &Preparation) {
        self.line(name, &format!("{} of {} packet numbers are prepared", work.prepared, work.target));
    }
}

/// Limit of packet numbers: the reservation on disk, or the end of an agreed key.
fn reserved(sa: &TransmitSa, macsec: &Macsec) -> String {
    let what = if macsec.agreement.is_some() { "ends at" } else { "reserved below" };
    format!("{what} {}", sa.reserved_until)
}

/// `3 d 04:05:06`.
fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let clock = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if days > 0 { format!("{days} d {clock}") } else { clock }
}

#[cfg(test)]
mod tests {
    use antedate_gateway::run::status::{ReceiveSa, StandbyOther, Warning};

    use super::*;

    #[test]
    fn status_page_names_faults() {
        let mut status =
            Document { uptime_seconds: 93_784.9, antedate: "0.1.0".into(), pid: 7, ..Document::default() };
        status.field = Port { interface: "eth1".into(), mtu: 1500, ring_drops: 3, ..Port::default() };
        status.inward.refused.extend([("policy:ipv4".into(), 5), ("too-long".into(), 0)]);
        status.out.rules = vec![0, 9];
        status.out.express_frames = 6;
        let warning =
            Warning { what: "it rains".into(), remedy: "a roof".into(), seconds: 61.0, ..Warning::default() };
        status.warnings.push(warning);
        let page = Page::of(&status);
        for expected in [
            "gateway     antedate 0.1.0, process 7, up 1 d 02:03:04",
            "WARNING     it rains, for 00:01:01\n            remedy: a roof",
            "field       eth1 DOWN",
            "dropped by the kernel before they were read: 3",
            "refused, policy:ipv4: 5",
            "sent in the express channel: 6",
            "protected   NO",
        ] {
            assert!(page.contains(expected), "{expected} in\n{page}");
        }
        assert!(!page.contains("too-long"), "{page}");
        let rules: Vec<_> = page.lines().filter(|line| line.contains("decided by rule")).collect();
        assert_eq!(rules, ["            decided by rule 2: 9"], "each rule once");
    }

    #[test]
    fn status_page_names_the_standby() {
        let other = StandbyOther { sci: "7".into(), active: true, able: true };
        let standby =
            Standby { group: 3, priority: 100, others: vec![other], refused: 2, ..Standby::default() };
        let cause = "the uplink has no link".to_owned();
        for (standby, role) in [
            (Standby { active: true, ..standby.clone() }, "forwards"),
            (standby.clone(), "stands by"),
            (Standby { cause, ..standby }, "CANNOT FORWARD: the uplink has no link"),
        ] {
            let page = Page::of(&Document { standby: Some(standby), ..Document::default() });
            let expected = format!(
                "standby     {role}; group 3, priority 100\n            7 forwards\n            hellos of the field refused: 2\n"
            );
            assert!(page.contains(&expected), "{page}");
        }
    }

    #[test]
    fn status_page_uses_standard_names() {
        let mut macsec = Macsec {
            suite: "gcm-aes-128".into(),
            sci: "8".into(),
            encoding_sa: Some(1),
            ..Macsec::default()
        };
        macsec.transmit.push(TransmitSa { sci: "8".into(), an: 1, next_pn: 17, reserved_until: 1_048_577 });
        for member in ["hall", ""] {
            macsec.receive.push(ReceiveSa { sci: "7".into(), member: member.into(), an: 1, lowest_pn: 3 });
        }
        macsec.sealing = Preparation { target: 32, prepared: 31 };
        macsec.counters.extend([("OutPktsEncrypted".into(), 4), ("InPktsLate".into(), 0)]);
        let page = Page::of(&Document { macsec: Some(macsec), ..Document::default() });
        for expected in [
            "sending under AN 1",
            "send AN 1: next packet number 17, reserved below 1048577",
            "31 of 32 packet numbers are prepared",
            "receive 7 (hall) AN 1: from packet number 3",
            "receive 7 AN 1: from packet number 3",
            "OutPktsEncrypted 4",
        ] {
            assert!(page.contains(expected), "{expected} in\n{page}");
        }
    }

    #[test]
    fn the_page_says_that_there_is_no_key() {
        let macsec = Macsec { agreement: Some(Agreement::default()), ..Macsec::default() };
        let page = Page::of(&Document { macsec: Some(macsec), ..Document::default() });
        assert!(page.contains("NO KEY: nothing passes") && !page.contains("sending under"), "{page}");
    }
}
