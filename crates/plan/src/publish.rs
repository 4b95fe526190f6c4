//! A mote's publish on a radio: frames, air time, round trip, CPU share and power (katsikeas2017
//! section IV). Modelled, not measured.
//!
//! The network is the paper's: 6LoWPAN over IEEE 802.15.4 with ContikiMAC, a border router, TCP,
//! and MQTT 3.1.1 at QoS 0.
//!
//! - A frame has 127 octets with a header of 21 (two extended addresses in one PAN) and an FCS of
//!   2; link-layer security adds 5 and a MIC of 4 (ENC-MIC-32, implicit key). IP is compressed (RFC
//!   6282: 2 octets of dispatch, next header, the broker's whole address), TCP's 20 octets are not.
//!   A longer packet is fragmented (RFC 4944 section 5.3).
//! - An octet takes 32 us. 6 octets of synchronisation and length precede a frame; the
//!   acknowledgment follows after 192 us and has 11 octets.
//! - Each of the four passages over the radio (publish and acknowledgment, each up and down) waits
//!   for its receiver to wake. The wait is the paper's 568.44 ms in plaintext with 32 bytes, less
//!   the time on the air: a fit ([`WAKE_MS`] checks it). Fragments follow one another without
//!   another wait, as in ContikiMAC's bursts.
//! - Currents: CPU 4.3 mA at 8 MHz as in the paper; asleep 0.5 uA (TI SLAS541, LPM3) and the
//!   radio's 0.02 mA; CC2420 receiving 18.8 mA, sending at 0 dBm 17.4 mA (TI SWRS041); 3 V. The
//!   radio wakes 8 times a second for 0.884 ms (Dunkels, "The ContikiMAC Radio Duty Cycling
//!   Protocol", 2011: two checks of 0.192 ms, 0.5 ms apart).
//! - The paper prints no message rate; one message per plaintext round trip is the highest rate of
//!   its closed loop.

use serde::Serialize;

/// Octets of a frame's payload, without and with link-layer security.
const FRAME: [usize; 2] = [127 - 2 - 21, 127 - 2 - 21 - 5 - 4];
/// Octets around a frame's payload.
const AROUND: [usize; 2] = [127 - FRAME[0], 127 - FRAME[1]];
/// Octets of the compressed IP header.
const IP: usize = 2 + 1 + 16;
/// Octets of a TCP header without options.
pub(crate) const TCP: usize = 20;
/// Milliseconds of an octet on the air.
const OCTET_MS: f64 = 0.032;
/// Octets of synchronisation and length before a frame.
const SYNC: usize = 6;
/// Milliseconds of the turnaround and an acknowledgment.
const ACK_MS: f64 = 0.192 + 11.0 * OCTET_MS;
/// The paper's round trip in plaintext with 32 bytes, in ms (section IV-B).
pub const PAPER_RTT_MS: f64 = 568.44;
/// Messages a second at which CPU share and power are reported.
pub const RATE: f64 = 1000.0 / PAPER_RTT_MS;
/// Bytes of the acknowledgment's payload: the acknowledged number.
const ACK_PAYLOAD: usize = 2;
/// Passages over the radio in a round trip.
const PASSAGES: f64 = 4.0;

const VOLTS: f64 = 3.0;
const CPU_MA: f64 = 4.3;
const ASLEEP_MA: f64 = 0.0005 + 0.02;
const TX_MA: f64 = 17.4;
const RX_MA: f64 = 18.8;
/// Milliseconds of listening a second on an idle radio.
const LISTENING_MS: f64 = 8.0 * 0.884;

/// The frames of a PUBLISH.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Frames {
    /// number of frames
    pub count: usize,
    /// octets of payload of each full frame
    pub full: usize,
    /// octets of payload of the last frame
    pub last: usize,
    /// ms on the air, acknowledgments not included
    pub air_ms: f64,
    /// ms of the acknowledgments, turnaround included
    pub ack_ms: f64,
}

/// The frames of a PUBLISH with `payload` bytes, with or without link-layer security.
#[must_use]
pub fn frames(topic: usize, payload: usize, link_security: bool) -> Frames {
    let rest = 2 + topic + payload;
    packet(TCP + 1 + if rest < 128 { 1 } else { 2 } + rest, link_security)
}

/// The frames of an IP packet with `octets` behind its header.
#[must_use]
pub fn packet(octets: usize, link_security: bool) -> Frames {
    let [room, around] = [FRAME, AROUND].map(|of| of[usize::from(link_security)]);
    let packet = IP + octets;
    // A first fragment's header has 4 octets, the next ones' 5; all but the last are multiples of
    // 8.
    let (count, full, last) = if packet <= room {
        (1, 0, packet)
    } else {
        let full = (room - 5) / 8 * 8;
        let count = packet.div_ceil(full);
        (count, full + 5, packet - (count - 1) * full + 5)
    };
    let octets = (count - 1) * (full + around + SYNC) + last + around + SYNC;
    Frames { count, full, last, air_ms: octets as f64 * OCTET_MS, ack_ms: count as f64 * ACK_MS }
}

impl Frames {
    /// Sums `each`, a function of a frame's payload, over the frames.
    #[must_use]
    pub fn sum(&self, each: impl Fn(usize) -> f64) -> f64 {
        (self.count - 1) as f64 * each(self.full) + each(self.last)
    }

    /// Frames and acknowledgments together, in ms.
    #[must_use]
    pub fn all_ms(&self) -> f64 {
        self.air_ms + self.ack_ms
    }
}

/// CPU time of a message at sender and receiver, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Work {
    /// in idle time, at the sender
    pub before: f64,
    /// at the sender, after the reading
    pub seal: f64,
    /// at the receiver
    pub open: f64,
}

/// The round trip in ms: publish, broker, subscriber, and an acknowledgment with link-layer
/// protection alone. `link` is the time of a frame's security at both of its ends, in ms.
#[must_use]
pub fn round_trip(topic: usize, payload: usize, work: Work, link: Option<&dyn Fn(usize) -> f64>) -> f64 {
    let there = frames(topic, payload, link.is_some());
    let back = frames(topic, ACK_PAYLOAD, link.is_some());
    // Each frame is secured and opened on both legs.
    let secured = link.map_or(0.0, |link| 2.0 * (there.sum(link) + back.sum(link)));
    PASSAGES * wait_ms(topic) + on_the_air(&there, &back) + work.seal + work.open + secured
}

fn on_the_air(there: &Frames, back: &Frames) -> f64 {
    2.0 * (there.all_ms() + back.all_ms())
}

/// The wait of a passage for its receiver on the paper's network, in ms: the remainder of the
/// plaintext round trip.
#[must_use]
pub fn wait_ms(topic: usize) -> f64 {
    let plain = on_the_air(&frames(topic, 32, false), &frames(topic, ACK_PAYLOAD, false));
    (PAPER_RTT_MS - plain) / PASSAGES
}

/// The time between two looks of a sleeping receiver, in ms: ContikiMAC's default of 8 a second
/// (Dunkels, 2011). A sender that does not know when its receiver looks waits up to so long. It
/// checks the fitted [`wait_ms`] independently.
pub const WAKE_MS: f64 = 1000.0 / 8.0;

/// Percent of a CPU at a message rate.
#[must_use]
pub fn cpu_percent(work_ms: f64, rate: f64) -> f64 {
    work_ms * rate / 10.0
}

/// Average power of the publishing mote in mW, by equation 1 of the paper: CPU, sleep, radio
/// sending and receiving. Only work for protection counts.
#[must_use]
pub fn sender_mw(frames: &Frames, work_ms: f64, rate: f64) -> f64 {
    let seconds = |ms: f64| ms * rate / 1000.0;
    let (cpu, tx, rx) = (seconds(work_ms), seconds(frames.air_ms), seconds(frames.ack_ms));
    let rx = rx + LISTENING_MS / 1000.0;
    VOLTS * (CPU_MA * cpu + ASLEEP_MA * (1.0 - cpu).max(0.0) + TX_MA * tx + RX_MA * rx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_eight_bytes_fill_a_frame() {
        assert_eq!(frames(13, 48, false), Frames { count: 1, full: 0, last: 104, ..frames(13, 48, false) });
        let two = frames(13, 49, false);
        assert_eq!((two.count, two.full, two.last), (2, 101, 105 - 96 + 5));
        assert_eq!(frames(13, 40, true).count, 2, "security takes nine octets of each frame");
    }

    #[test]
    fn fitted_wait_is_about_a_wake_interval() {
        let intervals = wait_ms(13) / WAKE_MS;
        assert!((0.5..1.5).contains(&intervals), "{intervals}");
    }

    #[test]
    fn full_frame_takes_4_256_ms() {
        assert!((frames(13, 48, false).air_ms - 133.0 * 0.032).abs() < 1e-9);
    }

    #[test]
    fn round_trip_matches_paper_and_grows() {
        let plain = round_trip(13, 32, Work::default(), None);
        assert!((plain - PAPER_RTT_MS).abs() < 1e-9);
        let work = Work { before: 100.0, seal: 2.0, open: 3.0 };
        assert!((round_trip(13, 32, work, None) - plain - 5.0).abs() < 1e-9, "idle time is nobody's wait");
        assert!(round_trip(13, 64, Work::default(), None) > plain + 2.0);
        assert!(round_trip(13, 32, Work::default(), Some(&|_| 0.5)) > plain + 2.0);
    }

    #[test]
    fn idle_power_is_sleep_and_listening() {
        let idle = sender_mw(&frames(13, 32, false), 0.0, 0.0);
        assert!((idle - 3.0 * (0.0205 + 18.8 * 0.007072)).abs() < 1e-9);
        assert!(sender_mw(&frames(13, 32, false), 2.0, RATE) > idle);
        assert!((cpu_percent(10.0, 2.0) - 2.0).abs() < 1e-9);
    }
}
