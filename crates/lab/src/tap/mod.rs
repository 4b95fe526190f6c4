//! The tap: an observer of every frame that a gateway puts on the untrusted wire.
//!
//! It captures on the wire's interfaces, inbound only. So it sees the gateways' frames and not the
//! changes by the wire (a Linux bridge or the emulator): a duplicate made by the wire is no nonce
//! reuse. It reads its sockets in batches at low priority to disturb little, and reports dropped
//! frames.
//!
//! - [`view`]: visible content of a frame,
//! - [`nonces`]: packet numbers used twice,
//! - [`plaintext`]: readable process data,
//! - [`pcap`]: the recording.

pub mod nonces;
pub mod pcap;
pub mod plaintext;
pub mod view;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::output::Output;
use crate::station::StationError;
use crate::sys::clock::monotonic_ns;
use crate::sys::packet::{self, PacketSocket, Received};
use crate::sys::{sched, signal};
use pcap::Pcap;
use view::{Seen, View};

/// Options of the tap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The interfaces, one per gateway.
    pub interfaces: Vec<String>,
    /// Captures only frames that this machine sends: for a gateway's own uplink.
    pub outgoing_only: bool,
    /// File for a recording of all frames.
    pub pcap: Option<PathBuf>,
    /// Milliseconds between two reads of the sockets.
    pub drain_ms: u32,
    /// Interval of live lines in milliseconds; 0 for none.
    pub live_ms: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interfaces: vec!["a".into(), "b".into()],
            outgoing_only: false,
            pcap: None,
            drain_ms: 5,
            live_ms: 0,
        }
    }
}

/// A line of the tap's output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line {
    /// The sockets are open.
    Ready,
    /// The state so far.
    Live(Box<Seen>),
    /// The end.
    Result(Box<Seen>),
}

/// Octets of kernel buffer for each interface: seconds of traffic.
const BUFFER: usize = 32 << 20;

/// Listens until SIGTERM.
pub fn run(options: Options, output: &mut Output) -> Result<Line, StationError> {
    sched::be_nice();
    let open = |interface: &String| {
        let socket_options = packet::Options {
            promiscuous: true,
            metadata: true,
            outgoing: options.outgoing_only,
            receive_buffer: BUFFER,
            ..Default::default()
        };
        PacketSocket::open(interface, socket_options)
            .map_err(|error| StationError::Socket { interface: interface.clone(), error })
    };
    let sockets = options.interfaces.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let recording = |error| {
        StationError::Option(format!("{}: {error}", options.pcap.clone().unwrap_or_default().display()))
    };
    let mut pcap = options.pcap.as_deref().map(Pcap::create).transpose().map_err(recording)?;
    output.line(&Line::Ready);

    let mut view = View::default();
    let mut buffer = vec![0; 1 << 17];
    let live_ns = u64::from(options.live_ms) * 1_000_000;
    let mut next_live = monotonic_ns() + live_ns;
    loop {
        // One more read after the signal: earlier frames count.
        let last = signal::stopping();
        for (side, socket) in sockets.iter().enumerate() {
            while let Some(received) = receive(socket, &mut buffer) {
                if received.outgoing != options.outgoing_only {
                    continue;
                }
                let frame = &buffer[..received.len];
                view.frame(side as u8, frame);
                if let Some(pcap) = &mut pcap {
                    record(pcap, frame, &received).map_err(recording)?;
                }
            }
            view.dropped(socket.take_drops());
        }
        if last {
            break;
        }
        if live_ns > 0 && monotonic_ns() >= next_live {
            next_live = monotonic_ns() + live_ns;
            output.line(&Line::Live(Box::new(view.seen())));
        }
        std::thread::sleep(Duration::from_millis(options.drain_ms.max(1).into()));
    }
    if let Some(mut pcap) = pcap {
        pcap.flush().map_err(recording)?;
    }
    Ok(Line::Result(Box::new(view.seen())))
}

/// The next frame. A socket whose interface went away has none.
fn receive(socket: &PacketSocket, buffer: &mut [u8]) -> Option<Received> {
    socket.receive_with_metadata(buffer).ok().flatten()
}

/// Records a frame with the tag that the kernel removed.
fn record(pcap: &mut Pcap, frame: &[u8], received: &Received) -> std::io::Result<()> {
    match (received.vlan, frame.split_at_checked(12)) {
        (Some((tpid, tci)), Some((addresses, rest))) => {
            pcap.frame(received.realtime_ns, &[addresses, &tpid.to_be_bytes(), &tci.to_be_bytes(), rest])
        }
        _ => pcap.frame(received.realtime_ns, &[frame]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tap_says_is_read_back() {
        let mut view = View::default();
        view.frame(0, &[7; 80]);
        let text = serde_json::to_string(&Line::Result(Box::new(view.seen()))).unwrap();
        let Line::Result(seen) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
        assert_eq!(*seen, view.seen());
    }
}
