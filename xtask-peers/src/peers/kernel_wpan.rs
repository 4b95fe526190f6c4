//! The Linux kernel's IEEE 802.15.4 link-layer security (mac802154), in a QEMU guest with two
//! simulated radios.
//!
//! One radio is the kernel's own device; the other is a monitor, which sends the frames that our
//! side secures and receives the kernel's. For levels 1 to 7 and all four key identifier modes, our
//! side opens the kernel's frames and the kernel delivers ours to a socket. Each side refuses
//! replays, damaged frames and wrong keys. Ours also refuses other levels and unsecured frames,
//! which Linux accepts. The kernel has no TSCH, so nonces contain frame counters.

use super::dot15d4::{End, KEY, MODES, Own, header, hex, key, octets};
use crate::guest::{self, Guest};
use antedate_channel::dot15d4::{Header, KeyIdentifier, NonceKind, SecurityLevel, Status};
use antedate_wire::dot15d4::{Frame, FrameVersion, check_fcs};
use xtask::report::{StepResult, Stop};

/// The kernel's device, and ours.
const KERNEL: End = End::new(1);
const OURS: End = End::new(2);
const ADDRESS: &str = "02:00:00:00:00:00:00:0a";
/// Our device as given to the kernel: extended address, short address, PAN.
const PEER: &str = "020000000000000b 0002 abcd";

pub(crate) fn prepare() -> Result<(), Stop> {
    guest::build()?;
    Ok(())
}

/// Boots the guest and tests all levels and modes.
pub(crate) fn run() -> StepResult {
    let mut guest = Guest::boot_alone(&guest::build()?)?;
    guest.load_radios()?;
    for command in [
        "ip link set wpan0 down",
        &format!("ip link set wpan0 address {ADDRESS}"),
        "iwpan dev wpan0 set pan_id 0xabcd",
        "iwpan dev wpan0 set short_addr 0x0001",
        "iwpan dev wpan1 del",
        "iwpan phy phy1 interface add mon0 type monitor",
        "ip link set mon0 up",
        "ip link set wpan0 up",
    ] {
        guest.run(command)?;
    }
    let mut cases = 0;
    for level in &SecurityLevel::ALL[1..] {
        for mode in MODES {
            // Each case has its own frame counters, because all cases share the key.
            let case = Case { level: *level, mode, from: 100 * (1 + cases) };
            case.run(&mut guest).map_err(|e| format!("{level}, key identifier mode {}: {e}", mode.mode()))?;
            cases += 1;
        }
        println!("   {level}: key identifier modes 0 to 3, both ways, replays and forgeries refused by both");
    }
    unsecured(&mut guest)?;
    Ok(format!(
        "{cases} combinations of level and key identifier mode both ways; replays, forgeries and foreign keys refused by both, unsecured frames by ours"
    ))
}

struct Case {
    level: SecurityLevel,
    mode: KeyIdentifier,
    /// The first frame counter.
    from: u64,
}

impl Case {
    fn run(&self, guest: &mut Guest) -> Result<(), String> {
        let (level, mode) = (self.level.number(), self.mode.mode());
        guest.run(&format!("wpan setup wpan0 {level} {} {KEY} {mode} {PEER}", self.from))?;
        let outcome = self.opens_the_kernels(guest).and_then(|()| self.is_delivered(guest));
        guest.run(&format!("wpan clear wpan0 {mode} {PEER}"))?;
        outcome
    }

    fn own(&self, level: SecurityLevel, key: [u8; 16]) -> Result<Own, String> {
        Own::new([OURS, KERNEL], level, self.mode, key, (NonceKind::FrameCounter, self.from))
    }

    /// Checks the frames that the kernel secures.
    fn opens_the_kernels(&self, guest: &mut Guest) -> Result<(), String> {
        let payloads = [format!("kernel at {}", self.level), "and once more".into()];
        let frames = heard(guest, "secured", &payloads)?;
        let [first, second] = &frames[..] else {
            return Err(format!("{} frames heard of two", frames.len()));
        };
        let mut own = self.own(self.level, key())?;
        for (frame, payload) in frames.iter().zip(&payloads) {
            let parsed = Frame::parse(frame).map_err(|e| format!("the kernel's {}: {e}", hex(frame)))?;
            let security = parsed.header.security.ok_or("the kernel did not secure")?;
            if (security.level, security.key) != (self.level, self.mode) {
                return Err(format!("the kernel secured otherwise: {security:?}"));
            }
            let shows = frame.windows(payload.len()).any(|part| part == payload.as_bytes());
            if shows == self.level.is_encrypted() {
                return Err(format!("the payload shows: {shows}"));
            }
        }
        expect("the kernel's first frame", own.unsecure(first, None), Ok(payloads[0].as_bytes()))?;
        expect("the same again", own.unsecure(first, None), Err(Status::CounterError))?;
        if self.level.mic_len() > 0 {
            let mut damaged = second.clone();
            damaged.iter_mut().last().into_iter().for_each(|octet| *octet ^= 1);
            expect("a damaged MIC", own.unsecure(&damaged, None), Err(Status::SecurityError))?;
            let mut foreign = self.own(self.level, [9; 16])?;
            expect("with another key", foreign.unsecure(second, None), Err(Status::SecurityError))?;
        }
        let mut strict = self.own(self.other(), key())?;
        let refused = if self.level == SecurityLevel::Enc {
            Status::UnsupportedSecurity
        } else {
            Status::ImproperSecurityLevel
        };
        expect("at a level not allowed", strict.unsecure(first, None), Err(refused))?;
        expect("the kernel's second frame", own.unsecure(second, None), Ok(payloads[1].as_bytes()))
    }

    /// A level other than this one.
    fn other(&self) -> SecurityLevel {
        if self.level == SecurityLevel::EncMic32 { SecurityLevel::Mic32 } else { SecurityLevel::EncMic32 }
    }

    /// Checks the kernel's delivery of our frames. Frames at another level are not tested: Linux
    /// accepts them although its table of levels lacks them (6.1, `mac802154_llsec_decrypt`
    /// compares the table for level 0 alone).
    fn is_delivered(&self, guest: &mut Guest) -> Result<(), String> {
        let header = |sequence| Header { version: FrameVersion::V2006, ..header([OURS, KERNEL], sequence) };
        let mut own = self.own(self.level, key())?;
        let good = [b"ours at first".as_slice(), b"ours at last"];
        let first = own.secure(&header(1), good[0], None)?;
        let mut frames = vec![first.clone(), first];
        if self.level.mic_len() > 0 {
            let mut damaged = own.secure(&header(2), b"damaged", None)?;
            damaged.iter_mut().last().into_iter().for_each(|octet| *octet ^= 1);
            frames.push(damaged);
            let mut foreign = self.own(self.level, [9; 16])?;
            foreign.secure(&header(3), b"skipped", None)?;
            foreign.secure(&header(3), b"skipped", None)?;
            frames.push(foreign.secure(&header(3), b"of a foreign key", None)?);
        }
        // The kernel also counts frames that it then refuses, so our counter skips the foreign
        // one's.
        own.secure(&header(4), b"skipped", None)?;
        own.secure(&header(4), b"skipped", None)?;
        frames.push(own.secure(&header(4), good[1], None)?);
        let frames: Vec<String> = frames.iter().map(|frame| hex(frame)).collect();
        let said = guest.run(&format!("wpan inject mon0 abcd 0001 {}", frames.join(" ")))?;
        let delivered = lines(&said, "delivered ")?;
        if delivered == good {
            Ok(())
        } else {
            let shown: Vec<_> = delivered.iter().map(|d| String::from_utf8_lossy(d)).collect();
            Err(format!("of {} frames the kernel delivered {shown:?}", frames.len()))
        }
    }
}

/// Checks that our policy refuses unsecured frames of the kernel.
fn unsecured(guest: &mut Guest) -> Result<(), String> {
    let frames = heard(guest, "plain", &["in the clear".into()])?;
    let [frame] = &frames[..] else { return Err(format!("{} frames heard of one", frames.len())) };
    let own =
        Own::new([OURS, KERNEL], SecurityLevel::EncMic32, MODES[1], key(), (NonceKind::FrameCounter, 1));
    expect("unsecured", own?.unsecure(frame, None), Err(Status::ImproperSecurityLevel))
}

/// The frames that the kernel sends; checks and removes their FCS.
fn heard(guest: &mut Guest, how: &str, payloads: &[String]) -> Result<Vec<Vec<u8>>, String> {
    let payloads: Vec<String> = payloads.iter().map(|payload| hex(payload.as_bytes())).collect();
    let said = guest.run(&format!("wpan send mon0 abcd 0001 0002 {how} {}", payloads.join(" ")))?;
    let frames = lines(&said, "heard ")?;
    let without = |frame: &Vec<u8>| {
        check_fcs(frame).map(<[u8]>::to_vec).map_err(|e| format!("the kernel's {}: {e}", hex(frame)))
    };
    frames.iter().map(without).collect()
}

fn lines(said: &str, begin: &str) -> Result<Vec<Vec<u8>>, String> {
    said.lines().filter_map(|line| line.trim().strip_prefix(begin)).map(octets).collect()
}

fn expect(what: &str, found: Result<Vec<u8>, Status>, wanted: Result<&[u8], Status>) -> Result<(), String> {
    let shown = |result: &Result<Vec<u8>, Status>| match result {
        Ok(payload) => format!("`{}`", String::from_utf8_lossy(payload)),
        Err(status) => status.to_string(),
    };
    let wanted = wanted.map(<[u8]>::to_vec);
    if found == wanted { Ok(()) } else { Err(format!("{what}: {}, not {}", shown(&found), shown(&wanted))) }
}
