//! The places that frames come from: a file, standard input, or an interface of this machine.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use antedate_host::fault::{Fault, explain};
use antedate_host::signals;
use antedate_lab::sys::packet::{Options, PacketSocket};
use antedate_wire::dot15d4::capture::LinkType;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{CaptureError, ETHERNET, End, Frame, RADIO, REMEDY, read};
use crate::failure::{Done, Failure};
use crate::output;

/// Octets of kernel buffer of a live interface: a second of a gigabit.
const QUEUE: usize = 128 << 20;
/// Octets of the longest frame: a joined segment of 64 KiB, and its headers.
const FRAME_MAX: usize = 1 << 17;
/// Frames that are looked at for those of IEEE 802.15.4.
const FIRST: u32 = 1_000;
/// The longest wait for a frame, after which Ctrl-C is seen.
const PATIENCE_NS: u64 = 100_000_000;

/// The lines and frames that come out of a capture cannot be written.
static IN_VAIN: AtomicBool = AtomicBool::new(false);

/// An interface that is listened at.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) interface: String,
    pub(crate) length: Option<Duration>,
}

/// The place of the frames.
#[derive(Debug)]
pub(crate) enum Source {
    File(PathBuf),
    /// Standard input, named `-`.
    Input,
    Live(Live),
}

impl Source {
    pub(crate) fn of_file(file: &Path) -> Self {
        if file == Path::new("-") { Self::Input } else { Self::File(file.to_owned()) }
    }

    /// Whether it can be read twice.
    pub(crate) fn lasts(&self) -> bool {
        matches!(self, Self::File(file) if file.metadata().is_ok_and(|metadata| metadata.is_file()))
    }

    /// Whether frames come while they are printed.
    pub(crate) fn is_live(&self) -> bool {
        !self.lasts()
    }

    /// Whether one of the first frames of a file is of IEEE 802.15.4.
    pub(crate) fn is_radio(&self) -> bool {
        let (mut found, mut left) = (false, FIRST);
        self.look(&[&[ETHERNET], &RADIO[..]].concat(), |(_, link, _)| {
            found |= RADIO.contains(&link);
            left -= 1;
            if found || left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        found
    }

    /// Calls `each` with the frames of Ethernet of a file, before they are read. Faults are told then.
    pub(crate) fn look_ahead(&self, mut each: impl FnMut(&[u8])) {
        self.look(&[ETHERNET], |(_, _, frame)| {
            each(frame);
            ControlFlow::Continue(())
        });
    }

    fn look(&self, wanted: &[u32], each: impl FnMut(Frame<'_>) -> ControlFlow<()>) {
        if let Self::File(file) = self
            && self.lasts()
            && let Ok(input) = File::open(file)
        {
            let _ = read(wanted, input, each);
        }
    }

    /// Calls `each` with the seconds since the first frame of Ethernet, and the frame.
    ///
    /// # Errors
    /// The fault, if there is no capture, or one of something else. The end of a cut one is told.
    pub(crate) fn read(&self, mut each: impl FnMut(f64, &[u8])) -> Done {
        self.read_of(&[ETHERNET], REMEDY, |(seconds, _, frame)| each(seconds, frame))
    }

    /// As [`read`](Self::read), of IEEE 802.15.4.
    pub(crate) fn read_radio(&self, mut each: impl FnMut(f64, LinkType, &[u8])) -> Done {
        let remedy = "name a capture of IEEE 802.15.4 frames: link type 113, 195, 215, 230 or 283";
        self.read_of(&RADIO, remedy, |(seconds, link, frame)| {
            if let Some(link) = LinkType::from_number(link) {
                each(seconds, link, frame);
            }
        })
    }

    fn read_of(&self, wanted: &[u32], remedy: &str, mut each: impl FnMut(Frame<'_>)) -> Done {
        let stop = signals::stop_flag()
            .map_err(|error| Failure::usage(format!("cannot watch for signals: {error}"), "see ulimit -n"))?;
        let (name, end) = match self {
            Self::File(file) => {
                let input = File::open(file).map_err(|error| {
                    Fault::of_io(file, "read the capture", &error, "name a file of pcap or pcapng")
                })?;
                let each = |frame: Frame<'_>| go_on(&mut each, frame, stop.load(Ordering::Relaxed));
                (file.as_path(), read(wanted, input, each))
            }
            Self::Input => {
                let each = |frame: Frame<'_>| go_on(&mut each, frame, false);
                (Path::new("standard input"), read(wanted, Piped { stop: &stop }, each))
            }
            Self::Live(live) => return live.read(&stop, |seconds, frame| each((seconds, ETHERNET, frame))),
        };
        let end = end.map_err(|error| {
            let remedy = match &error {
                CaptureError::Link(link) if RADIO.contains(link) => {
                    "give --radio-keys FILE for IEEE 802.15.4"
                }
                _ => remedy,
            };
            Fault::of_file(name, error.to_string(), remedy)
        })?;
        let name = name.display();
        match end {
            End::Whole => {}
            End::Cut => output::tell(format_args!("antedate: {name} ends within a frame, which is left out")),
            End::Damaged => output::tell(format_args!(
                "antedate: {name} is damaged; frames of damaged blocks are left out, and those behind a wrong length"
            )),
            End::Failed => output::tell(format_args!(
                "antedate: {name} cannot be read to its end: reading fails, or gzip's data are damaged there"
            )),
            End::Stopped => output::tell(format_args!("antedate: stopped; {name} was not read to its end")),
        }
        Ok(())
    }
}

/// Ends the reading of a capture: nothing can be written any longer.
pub(crate) fn end() {
    IN_VAIN.store(true, Ordering::Relaxed);
}

fn go_on(each: &mut impl FnMut(Frame<'_>), frame: Frame<'_>, is_stopped: bool) -> ControlFlow<()> {
    each(frame);
    match is_stopped || IN_VAIN.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// Standard input. A recorder in front of it hears Ctrl-C too, so what it has written is read first.
struct Piped<'a> {
    stop: &'a AtomicBool,
}

impl Read for Piped<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let input = io::stdin();
        let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE_NS as i64 };
        loop {
            let mut polled = [PollFd::new(&input, PollFlags::IN)];
            match poll(&mut polled, Some(&patience)) {
                Ok(0) if self.stop.load(Ordering::Relaxed) => return Ok(0),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(rustix::io::read(&input, &mut *out)?),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Live {
    /// Listens, and sends nothing.
    fn read(&self, stop: &AtomicBool, mut each: impl FnMut(f64, &[u8])) -> Done {
        let name = &self.interface;
        let options = Options {
            promiscuous: true,
            outgoing: true,
            metadata: true,
            receive_buffer: QUEUE,
            ..Options::default()
        };
        let cannot = |error: &io::Error| {
            let remedy = match error.kind() {
                ErrorKind::PermissionDenied => "run it with sudo, or give it the capability CAP_NET_RAW",
                _ => "name an Ethernet interface of `ip link`",
            };
            Failure::usage(format!("cannot listen at {name}: {}", explain(error)), remedy)
        };
        let socket = PacketSocket::open(name, options).map_err(|error| cannot(&error))?;
        output::tell(format_args!(
            "antedate: listening at {name}; nothing is sent; {}",
            self.length
                .map_or_else(|| "stop with Ctrl-C".to_owned(), |length| format!("{} s", length.as_secs()))
        ));
        let mut buffer = vec![0; FRAME_MAX];
        let (start, mut first) = (Instant::now(), None);
        let is_over = || self.length.is_some_and(|length| start.elapsed() >= length);
        while !stop.load(Ordering::Relaxed) && !IN_VAIN.load(Ordering::Relaxed) && !is_over() {
            let received = match socket.receive_with_metadata(&mut buffer) {
                Ok(received) => received,
                Err(error) => return Err(cannot(&error)),
            };
            let Some(received) = received else {
                socket.wait(PATIENCE_NS).map_err(|error| cannot(&error))?;
                continue;
            };
            let at = *first.get_or_insert(received.realtime_ns);
            let seconds = received.realtime_ns.saturating_sub(at) as f64 / 1e9;
            let frame = buffer.get(..received.len).unwrap_or_default();
            match received.vlan {
                // The kernel took the tag out of the frame.
                Some((tpid, tci)) if frame.len() >= 12 => {
                    let tag = [tpid.to_be_bytes(), tci.to_be_bytes()].concat();
                    each(seconds, &[&frame[..12], &tag, &frame[12..]].concat());
                }
                _ => each(seconds, frame),
            }
        }
        let lost = socket.take_drops();
        if lost > 0 {
            output::tell(format_args!("antedate: {lost} frames were not seen in time"));
        }
        Ok(())
    }
}
