//! A publish of a mote on a radio: frames, time on the air, round trip, CPU share and power (katsikeas2017 section IV). Modelled, not measured.
//!
//! The network is the paper's: 6LoWPAN over IEEE 802.15.4 with ContikiMAC, a border router, TCP, and MQTT 3.1.1 at QoS 0.
//!
//! - A frame has 127 octets with a header of 21 (two extended addresses in one PAN) and an FCS of 2; link-layer security adds 5 and a MIC of 4
//!   (ENC-MIC-32, implicit key). IP is compressed (RFC 6282: 2 octets of dispatch, next header, the broker's whole address), TCP's 20
//!   octets are not. What does not fit one frame is fragmented (RFC 4944 section 5.3).
//! - An octet takes 32 us, a frame 6 octets of synchronisation and length before; the acknowledgment comes 192 us later and has 11.
//! - Each of the four passages over the radio (publish and acknowledgment, each up and down) waits for its receiver to wake. The wait is
//!   what remains of the paper's 568.44 ms in plaintext with 32 bytes when the time on the air is taken away; fragments follow one
//!   another without another wait, as in ContikiMAC's bursts.
//! - Currents are the datasheets': CPU 4.3 mA at 8 MHz as the paper has it; asleep 0.5 uA (TI SLAS541, LPM3) and the radio's 0.02 mA;
//!   CC2420 receiving 18.8 mA, sending at 0 dBm 17.4 mA (TI SWRS041); 3 V. The radio wakes 8 times a second for 0.884 ms
//!   (Dunkels, "The ContikiMAC Radio Duty Cycling Protocol", 2011: two checks of 0.192 ms, 0.5 ms apart).
//! - The paper prints no rate of messages; one in each plaintext round trip is the highest that its closed loop can have.

use serde::Serialize;

/// Octets of a frame's payload, as it is and with link-layer security.
const FRAME: [usize; 2] = [127 - 2 - 21, 127 - 2 - 21 - 5 - 4];
/// Octets around a frame's payload.
const AROUND: [usize; 2] = [127 - FRAME[0], 127 - FRAME[1]];
/// Compressed IP.
const IP: usize = 2 + 1 + 16;
/// TCP without options.
pub(crate) const TCP: usize = 20;
/// Milliseconds of an octet on the air.
const OCTET_MS: f64 = 0.032;
/// Synchronisation and length before a frame.
const SYNC: usize = 6;
/// Turning round, and an acknowledgment.
const ACK_MS: f64 = 0.192 + 11.0 * OCTET_MS;
/// The paper's round trip in plaintext with 32 bytes, in ms (section IV-B).
pub const PAPER_RTT_MS: f64 = 568.44;
/// Messages in a second of which CPU share and power are told.
pub const RATE: f64 = 1000.0 / PAPER_RTT_MS;
/// Bytes of the acknowledgment's payload: the number of what is acknowledged.
const ACK_PAYLOAD: usize = 2;
/// Passages over the radio.
const PASSAGES: f64 = 4.0;

const VOLTS: f64 = 3.0;
const CPU_MA: f64 = 4.3;
const ASLEEP_MA: f64 = 0.0005 + 0.02;
const TX_MA: f64 = 17.4;
const RX_MA: f64 = 18.8;
/// Milliseconds in a second that the radio listens when nothing comes.
const LISTENING_MS: f64 = 8.0 * 0.884;

/// The frames of a PUBLISH.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Frames {
    /// how many
    pub count: usize,
    /// octets of payload of the full ones
    pub full: usize,
    /// octets of payload of the last one
    pub last: usize,
    /// ms on the air, acknowledgments not included
    pub air_ms: f64,
    /// ms of the acknowledgments, turning round included
    pub ack_ms: f64,
}

/// The frames of a PUBLISH with a payload of so many bytes, link-layer security or not.
#[must_use]
pub fn frames(topic: usize, payload: usize, link_security: bool) -> Frames {
    let rest = 2 + topic + payload;
    packet(TCP + 1 + if rest < 128 { 1 } else { 2 } + rest, link_security)
}

/// The frames of an IP packet with so many octets behind its header.
#[must_use]
pub fn packet(octets: usize, link_security: bool) -> Frames {
    let [room, around] = [FRAME, AROUND].map(|of| of[usize::from(link_security)]);
    let packet = IP + octets;
    // A first fragment's header has 4 octets, the next ones' 5; all but the last are multiples of 8.
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
    /// The sum of what each frame takes, from what a frame with so much payload takes.
    #[must_use]
    pub fn sum(&self, each: impl Fn(usize) -> f64) -> f64 {
        (self.count - 1) as f64 * each(self.full) + each(self.last)
    }

    /// All of it, in ms.
    #[must_use]
    pub fn all_ms(&self) -> f64 {
        self.air_ms + self.ack_ms
    }
}

/// What a message takes of its sender's and receiver's CPU, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Work {
    /// in idle time, at the sender
    pub before: f64,
    /// at the sender when the reading is there
    pub seal: f64,
    /// at the receiver
    pub open: f64,
}

/// A round trip in ms: publish, broker, subscriber, and an acknowledgment that is protected on the link alone. `link` is what a
/// frame's security takes at both of its ends, in ms.
#[must_use]
pub fn round_trip(topic: usize, payload: usize, work: Work, link: Option<&dyn Fn(usize) -> f64>) -> f64 {
    let there = frames(topic, payload, link.is_some());
    let back = frames(topic, ACK_PAYLOAD, link.is_some());
    // Each frame is secured and opened on both of its ways.
    let secured = link.map_or(0.0, |link| 2.0 * (there.sum(link) + back.sum(link)));
    PASSAGES * wait_ms(topic) + on_the_air(&there, &back) + work.seal + work.open + secured
}

fn on_the_air(there: &Frames, back: &Frames) -> f64 {
    2.0 * (there.all_ms() + back.all_ms())
}

/// How long a passage waits for its receiver on the paper's network, in ms: what its plaintext round trip leaves.
#[must_use]
pub fn wait_ms(topic: usize) -> f64 {
    let plain = on_the_air(&frames(topic, 32, false), &frames(topic, ACK_PAYLOAD, false));
    (PAPER_RTT_MS - plain) / PASSAGES
}

/// Percent of a CPU at a message rate.
#[must_use]
pub fn cpu_percent(work_ms: f64, rate: f64) -> f64 {
    work_ms * rate / 10.0
}

/// What the publishing mote takes on average, in mW, by equation 1 of the paper: CPU, sleep, radio sending and receiving. Work that has nothing to
/// do with protection is not counted.
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
    fn a_payload_of_48_bytes_fills_a_frame_and_one_more_needs_a_second() {
        assert_eq!(frames(13, 48, false), Frames { count: 1, full: 0, last: 104, ..frames(13, 48, false) });
        let two = frames(13, 49, false);
        assert_eq!((two.count, two.full, two.last), (2, 101, 105 - 96 + 5));
        assert_eq!(frames(13, 40, true).count, 2, "security takes nine octets of each frame");
    }

    #[test]
    fn a_full_frame_is_4_256_ms_on_the_air() {
        assert!((frames(13, 48, false).air_ms - 133.0 * 0.032).abs() < 1e-9);
    }

    #[test]
    fn the_papers_round_trip_is_met_where_it_was_calibrated_and_grows_with_work_and_frames() {
        let plain = round_trip(13, 32, Work::default(), None);
        assert!((plain - PAPER_RTT_MS).abs() < 1e-9);
        let work = Work { before: 100.0, seal: 2.0, open: 3.0 };
        assert!((round_trip(13, 32, work, None) - plain - 5.0).abs() < 1e-9, "idle time is nobody's wait");
        assert!(round_trip(13, 64, Work::default(), None) > plain + 2.0);
        assert!(round_trip(13, 32, Work::default(), Some(&|_| 0.5)) > plain + 2.0);
    }

    #[test]
    fn power_is_that_of_sleep_and_listening_when_nothing_is_sent() {
        let idle = sender_mw(&frames(13, 32, false), 0.0, 0.0);
        assert!((idle - 3.0 * (0.0205 + 18.8 * 0.007072)).abs() < 1e-9);
        assert!(sender_mw(&frames(13, 32, false), 2.0, RATE) > idle);
        assert!((cpu_percent(10.0, 2.0) - 2.0).abs() < 1e-9);
    }
}
