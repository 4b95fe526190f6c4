//! AF_XDP (`if_xdp.h`, "AF_XDP" in the kernel's networking documentation): sends several frames
//! with one system call.
//!
//! The socket only sends, in copy mode: the kernel copies each frame into a buffer of its own while
//! it is told to send ("kicked"), and passes it to the driver as a packet socket with
//! PACKET_QDISC_BYPASS does. No XDP program is loaded, and what is received does not change.
//!
//! The kernel reads the transmit ring during a kick only. So a frame that it left there, as without
//! a link, is voided afterwards: it would leave with the next kick, however old it is then. Kernels
//! skip voided entries differently: all at once, or one a kick, and some report them as sent. So
//! nothing else enters the ring until they are gone, and a packet socket sends meanwhile.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::age::{self, OVERDUE};
use super::interface::{self, Interface};
use super::{check, set_option};

/// Frames in flight at most. Cards tell of sent frames late, some after a millisecond.
const SLOTS: u32 = 256;
/// Frames that are held for one kick at most.
pub(super) const HELD: u32 = 4;
/// Octets of a frame beyond the MTU: Ethernet header and one VLAN tag.
const BEYOND_MTU: usize = 14 + 4;
/// Octets of a chunk, and of one for long frames: a page.
const CHUNKS: [usize; 2] = [2048, 4096];
/// The pause between two tries to bind.
const PAUSE: Duration = Duration::from_millis(10);
/// An address outside the chunks, at which the kernel skips a descriptor.
const VOID: libc::xdp_desc = libc::xdp_desc { addr: u64::MAX, len: 1, options: 0 };

/// A driver whose host reads frames from the chunks after they were reported as sent, if its option
/// `napi_tx` is off.
const READS_LATER: &str = "virtio_net";

/// The reason for which an interface cannot be sent on in this way.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// The CPU has 32 bits.
    #[error("a CPU of 32 bits has no AF_XDP here")]
    Cpu,
    /// Its frames do not fit a page.
    #[error("payloads of {0} octets do not fit a page")]
    Mtu(usize),
    /// Its driver may read frames after they were reported as sent.
    #[error("the driver {READS_LATER} may read a frame after it was reported as sent")]
    Driver,
    /// Another socket, or one that was just closed, has the queue.
    #[error("another AF_XDP socket has queue 0")]
    Busy,
    /// The process may lock no more memory.
    #[error("the process may not lock enough memory")]
    Memory,
    /// The kernel refuses.
    #[error("the kernel refuses AF_XDP: {0}")]
    Kernel(#[from] io::Error),
}

impl XdpError {
    /// What the operator can do about it.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Cpu | Self::Driver => "write io = \"ring\"",
            Self::Mtu(_) => "write io = \"ring\", or give the interface an MTU of at most 4078",
            Self::Busy => "stop the other program, or write io = \"ring\"",
            Self::Memory => "give CAP_IPC_LOCK, or LimitMEMLOCK=infinity (ulimit -l unlimited)",
            Self::Kernel(_) => {
                "write io = \"ring\"; or run a Linux with CONFIG_XDP_SOCKETS, 5.4 or later, and add AF_XDP to the unit's RestrictAddressFamilies"
            }
        }
    }
}

/// The fate of the frames of some kicks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames that the driver took.
    pub sent: u64,
    /// Their octets.
    pub octets: u64,
    /// Frames that it did not take.
    pub lost: u64,
    /// The last error number.
    pub error: i32,
}

impl Tally {
    fn lose(&mut self, octets: u32, error: i32) {
        self.sent -= 1;
        self.octets -= u64::from(octets);
        self.lost += 1;
        self.error = error;
    }

    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.octets += other.octets;
        self.lost += other.lost;
        if other.lost > 0 {
            self.error = other.error;
        }
    }
}

/// Shared memory.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    /// Memory of this process, which is in no core dump.
    fn anonymous(length: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let mapping = Self::new(length, flags, -1, 0)?;
        // SAFETY: the range is this mapping, whose content does not change by it.
        check(unsafe { libc::madvise(mapping.start.as_ptr().cast(), length, libc::MADV_DONTDUMP) })?;
        Ok(mapping)
    }

    fn new(length: usize, flags: libc::c_int, fd: libc::c_int, offset: libc::off_t) -> io::Result<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, rights, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and its owner, which goes too,
        // hands out no reference into it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// A ring of [`SLOTS`] entries of type `T`, shared with the kernel.
#[derive(Debug)]
struct Ring<T> {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    entries: usize,
    kind: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn map(socket: &OwnedFd, at: &libc::xdp_ring_offset, page: u64) -> io::Result<Self> {
        let [producer, consumer, entries] = [at.producer, at.consumer, at.desc].map(|at| at as usize);
        let length = entries + SLOTS as usize * mem::size_of::<T>();
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // The offsets of 64 bits are for CPUs that have them, see `open`.
        let memory = Mapping::new(length, flags, socket.as_raw_fd(), page as libc::off_t)?;
        let fits = producer.max(consumer) + mem::size_of::<AtomicU32>() <= length;
        let aligned = (producer | consumer).is_multiple_of(mem::align_of::<AtomicU32>())
            && entries.is_multiple_of(mem::align_of::<T>());
        if !fits || !aligned {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self { memory, producer, consumer, entries, kind: std::marker::PhantomData })
    }

    fn index(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `map` has checked that the index lies in the mapping and is aligned. Both sides
        // access it as an atomic.
        unsafe { self.memory.start.add(at).cast().as_ref() }
    }

    fn producer(&self) -> &AtomicU32 {
        self.index(self.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.index(self.consumer)
    }

    fn entry(&self, index: u32) -> *mut T {
        let at = self.entries + (index & (SLOTS - 1)) as usize * mem::size_of::<T>();
        // SAFETY: the mapping has [`SLOTS`] entries from `entries` on.
        unsafe { self.memory.start.add(at).cast().as_ptr() }
    }
}

/// A socket that sends on an interface.
#[derive(Debug)]
pub struct Xdp {
    socket: OwnedFd,
    chunks: Mapping,
    chunk_len: usize,
    longest: usize,
    transmit: Ring<libc::xdp_desc>,
    completed: Ring<u64>,
    /// The chunks that are free. The last one is the warmest.
    free: Vec<u32>,
    /// Whether a chunk is in flight.
    busy: [bool; SLOTS as usize],
    /// The next index of the transmit ring, and those before it that wait for a kick.
    next: u32,
    held: u32,
    /// The deadline of the oldest held frame.
    deadline: u64,
    /// Whether there are voided entries in the ring.
    voided: bool,
    tally: Tally,
}

// SAFETY: this value is the only owner of its mappings; all access goes through `&mut self`, or
// reads atomics.
unsafe impl Send for Xdp {}

/// The longest frame on an interface with this MTU, and the chunk for it.
fn lengths(mtu: usize) -> Result<(usize, usize), XdpError> {
    let longest = mtu + BEYOND_MTU;
    let chunk = CHUNKS.into_iter().find(|chunk| longest <= *chunk);
    chunk.map(|chunk| (longest, chunk)).ok_or(XdpError::Mtu(mtu))
}

impl Xdp {
    /// Opens a socket on queue 0 of the interface. The kernel frees the queue of a closed socket
    /// some time later: until then it is tried again, for at most `patience`.
    ///
    /// # Errors
    /// The obstacle.
    pub fn open(interface: &Interface, patience: Duration) -> Result<Self, XdpError> {
        let xdp = Self::prepare(interface)?;
        let end = Instant::now() + patience;
        while let Err(error) = xdp.bind(interface.index) {
            if error.raw_os_error() != Some(libc::EBUSY) {
                return Err(XdpError::Kernel(error));
            }
            if Instant::now() >= end {
                return Err(XdpError::Busy);
            }
            thread::sleep(PAUSE);
        }
        Ok(xdp)
    }

    /// Opens and closes a socket, without the queue.
    ///
    /// # Errors
    /// The obstacle.
    pub fn probe(interface: &Interface) -> Result<(), XdpError> {
        Self::prepare(interface).map(drop)
    }

    fn prepare(interface: &Interface) -> Result<Self, XdpError> {
        if cfg!(target_pointer_width = "32") {
            return Err(XdpError::Cpu);
        }
        let (longest, chunk_len) = lengths(interface.mtu)?;
        if interface::driver(&interface.name).is_some_and(|driver| driver == READS_LATER) {
            return Err(XdpError::Driver);
        }
        // SAFETY: no pointers; a successful call returns a descriptor without another owner.
        let socket = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            OwnedFd::from_raw_fd(check(libc::socket(libc::AF_XDP, kind, 0))?)
        };
        let chunks = Mapping::anonymous(SLOTS as usize * chunk_len)?;
        // SAFETY: plain data, valid as all zeroes.
        let mut memory: libc::xdp_umem_reg = unsafe { mem::zeroed() };
        (memory.addr, memory.len) = (chunks.start.as_ptr() as u64, chunks.length as u64);
        memory.chunk_size = chunk_len as u32;
        set_option(&socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &memory).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::ENOBUFS | libc::ENOMEM) => XdpError::Memory,
                _ => XdpError::Kernel(error),
            }
        })?;
        // Nothing is received, but the kernel wants a fill ring.
        set_option(&socket, libc::SOL_XDP, libc::XDP_UMEM_FILL_RING, &2u32)?;
        set_option(&socket, libc::SOL_XDP, libc::XDP_UMEM_COMPLETION_RING, &SLOTS)?;
        set_option(&socket, libc::SOL_XDP, libc::XDP_TX_RING, &SLOTS)?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &(4 << 20))?;
        let places = offsets(&socket)?;
        let transmit = Ring::map(&socket, &places.tx, libc::XDP_PGOFF_TX_RING as u64)?;
        let completed = Ring::map(&socket, &places.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING)?;
        Ok(Self {
            socket,
            chunks,
            chunk_len,
            longest,
            transmit,
            completed,
            free: (0..SLOTS).collect(),
            busy: [false; SLOTS as usize],
            next: 0,
            held: 0,
            deadline: u64::MAX,
            voided: false,
            tally: Tally::default(),
        })
    }

    fn bind(&self, index: i32) -> io::Result<()> {
        // SAFETY: sockaddr_xdp is plain data, valid as all zeroes.
        let mut address: libc::sockaddr_xdp = unsafe { mem::zeroed() };
        address.sxdp_family = libc::AF_XDP as u16;
        address.sxdp_flags = libc::XDP_COPY | libc::XDP_USE_NEED_WAKEUP;
        address.sxdp_ifindex = index as u32;
        let length = mem::size_of_val(&address) as libc::socklen_t;
        // SAFETY: pointer and length describe `address`, which the kernel only reads.
        check(unsafe { libc::bind(self.socket.as_raw_fd(), ptr::from_ref(&address).cast(), length) })
            .map(drop)
    }

    /// Whether a frame of this length can be sent. Shorter and longer ones are the packet socket's,
    /// with the kernel's word on them.
    #[inline]
    #[must_use]
    pub const fn takes(&self, len: usize) -> bool {
        len >= 14 && len <= self.longest
    }

    /// Frames that wait for a kick.
    #[inline]
    #[must_use]
    pub const fn held(&self) -> u32 {
        self.held
    }

    /// Puts a frame of these parts into the ring. Returns whether there was room, and it
    /// [can be sent](Self::takes).
    #[inline]
    #[must_use]
    pub fn put(&mut self, parts: [&[u8]; 3]) -> bool {
        let len = parts.iter().map(|part| part.len()).sum();
        if !self.takes(len) || self.voided && !self.skipped() || !self.has_room() {
            return false;
        }
        let Some(chunk) = self.free.pop() else { return false };
        let address = chunk as usize * self.chunk_len;
        // SAFETY: `chunk < SLOTS`, so the chunk lies in the mapping; it is free, so the kernel does
        // not read it. The frame fits: `len <= longest <= chunk_len`. The parts lie elsewhere, for
        // no reference into the mapping is ever handed out.
        unsafe {
            let mut to = self.chunks.start.add(address).as_ptr();
            for part in parts {
                ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
                to = to.add(part.len());
            }
        }
        let frame = libc::xdp_desc { addr: address as u64, len: len as u32, options: 0 };
        // SAFETY: the entry lies in the mapping and is aligned. The kernel reads it in a kick only,
        // on this thread.
        unsafe { self.transmit.entry(self.next).write(frame) };
        if let Some(busy) = self.busy.get_mut(chunk as usize) {
            *busy = true;
        }
        self.next = self.next.wrapping_add(1);
        if self.held == 0 {
            self.deadline = age::deadline();
        }
        self.held += 1;
        true
    }

    /// Whether the ring has an entry, and there is a chunk.
    #[inline]
    fn has_room(&mut self) -> bool {
        let has = |xdp: &Self| {
            let waiting = xdp.next.wrapping_sub(xdp.transmit.consumer().load(Ordering::Acquire));
            waiting < SLOTS && !xdp.free.is_empty()
        };
        has(self) || {
            // Full of frames that the card has not reported yet.
            self.kick();
            has(self)
        }
    }

    /// Has the kernel send the frames in the ring. Returns the fate of the last one; that of the
    /// others is added to the [tally](Self::take_tally). Nothing waits afterwards.
    ///
    /// # Errors
    /// `ENETDOWN` without a link, `ENOBUFS` or `EAGAIN` when the driver's queue is full.
    #[inline]
    pub fn send(&mut self) -> io::Result<()> {
        let last = self.next.wrapping_sub(1);
        // SAFETY: as in `put`.
        let len = unsafe { self.transmit.entry(last).read() }.len;
        let (mut tally, error) = self.kicked();
        if error.is_none() {
            // It is counted by the caller.
            (tally.sent, tally.octets) = (tally.sent - 1, tally.octets - u64::from(len));
        } else {
            tally.lost -= 1;
        }
        self.tally.add(tally);
        error.map_or(Ok(()), |error| Err(io::Error::from_raw_os_error(error)))
    }

    /// Has the kernel send the frames in the ring. Their fate is added to the tally.
    pub fn kick(&mut self) {
        let (tally, _) = self.kicked();
        self.tally.add(tally);
    }

    /// The fate of the frames since the last call.
    #[inline]
    #[must_use]
    pub const fn take_tally(&mut self) -> Tally {
        mem::replace(&mut self.tally, Tally { sent: 0, octets: 0, lost: 0, error: 0 })
    }

    /// Runs the kernel's code without a frame, so that the next one finds it in the cache.
    #[inline]
    pub fn rehearse(&mut self) {
        if self.held == 0 {
            let _ = self.call();
        }
    }

    /// The fate of the held frames, and the error of the last one, if it was not sent.
    #[inline]
    fn kicked(&mut self) -> (Tally, Option<i32>) {
        let held = mem::take(&mut self.held);
        let first = self.next.wrapping_sub(held);
        if age::is_over(self.deadline) {
            return self.recalled(first, held);
        }
        let mut tally = Tally { sent: held.into(), ..Tally::default() };
        for index in 0..held {
            // SAFETY: as in `put`.
            tally.octets += u64::from(unsafe { self.transmit.entry(first.wrapping_add(index)).read() }.len);
        }
        self.transmit.producer().store(self.next, Ordering::Release);
        let result = self.call();
        self.complete();
        let done = self.transmit.consumer().load(Ordering::Acquire);
        if result.is_ok() && done == self.next {
            return (tally, None);
        }
        let error = self.remedied(result, first, &mut tally);
        (tally, error)
    }

    /// Takes back the held frames, which the kernel was not shown: the process stood still with them.
    #[cold]
    #[inline(never)]
    fn recalled(&mut self, first: u32, held: u32) -> (Tally, Option<i32>) {
        for index in 0..held {
            // SAFETY: as in `put`.
            let frame = unsafe { self.transmit.entry(first.wrapping_add(index)).read() };
            self.release(frame.addr);
        }
        self.next = first;
        self.deadline = u64::MAX;
        (Tally { lost: held.into(), error: OVERDUE, ..Tally::default() }, Some(OVERDUE))
    }

    /// After a kick that did not take all frames: kicks again where that helps, and voids the rest.
    #[cold]
    #[inline(never)]
    fn remedied(&mut self, mut result: io::Result<()>, first: u32, tally: &mut Tally) -> Option<i32> {
        // The first frame whose fate is not known, and the fate of the last one.
        let (mut at, mut last) = (first, None);
        let mut patient = true;
        for _ in 0..2 * HELD {
            let code = result.err().map(|error| error.raw_os_error().unwrap_or(libc::EIO));
            // Frames of which the kernel shows that it has read them. It may show fewer.
            let read = self.transmit.consumer().load(Ordering::Acquire).wrapping_sub(at);
            if read as i32 > 0 {
                at = at.wrapping_add(read);
            } else if code == Some(libc::EBUSY) && at != self.next {
                at = at.wrapping_add(1);
            }
            match code {
                // The driver dropped the last frame that was read, and the call ended. A packet
                // socket tells it so.
                Some(libc::EBUSY) if at != first => {
                    let dropped = self.transmit.entry(at.wrapping_sub(1));
                    // SAFETY: as in `put`.
                    tally.lose(unsafe { dropped.read() }.len, libc::ENOBUFS);
                    last = (at == self.next).then_some(libc::ENOBUFS);
                }
                // No room for completions, or in the card's queue. There may be some now.
                Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) if patient => patient = false,
                Some(code) => return self.void(at, code, tally).or(last),
                // The queue was taken away (`ethtool -L`): the kernel reads nothing, and tells
                // nothing.
                None => return self.void(at, libc::ENXIO, tally).or(last),
            }
            if at == self.next {
                return last;
            }
            result = self.call();
            self.complete();
        }
        self.void(at, libc::ENOBUFS, tally).or(last)
    }

    /// Takes back the frames from this index on, which the kernel has not read. Their entries stay,
    /// and are skipped by it.
    fn void(&mut self, from: u32, error: i32, tally: &mut Tally) -> Option<i32> {
        let mut index = from;
        let mut last = None;
        while index != self.next {
            let entry = self.transmit.entry(index);
            // SAFETY: as in `put`.
            let frame = unsafe { entry.replace(VOID) };
            if frame.addr != VOID.addr {
                self.release(frame.addr);
                tally.lose(frame.len, error);
                (last, self.voided) = (Some(error), true);
            }
            index = index.wrapping_add(1);
        }
        last
    }

    /// Has the kernel skip the voided entries. Returns whether they are gone.
    #[cold]
    #[inline(never)]
    fn skipped(&mut self) -> bool {
        for _ in 0..2 * HELD {
            if self.transmit.consumer().load(Ordering::Acquire) == self.next {
                self.voided = false;
                return true;
            }
            let told = self.call();
            self.complete();
            if told.is_err() {
                return false;
            }
        }
        false
    }

    fn call(&self) -> io::Result<()> {
        // SAFETY: an empty message without an address: no pointers.
        let sent = unsafe {
            libc::sendto(self.socket.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Takes back the chunks of sent frames.
    #[inline]
    fn complete(&mut self) {
        let end = self.completed.producer().load(Ordering::Acquire);
        // Only this value writes it.
        let mut index = self.completed.consumer().load(Ordering::Relaxed);
        while index != end {
            // SAFETY: the entry lies in the mapping and is aligned; the kernel has written it
            // before it moved the producer, which was read with Acquire, and leaves it until the
            // consumer moves.
            let address = unsafe { self.completed.entry(index).read() };
            self.release(address);
            index = index.wrapping_add(1);
        }
        self.completed.consumer().store(index, Ordering::Release);
    }

    /// Takes back the chunk at this address, once.
    #[inline]
    fn release(&mut self, address: u64) {
        let chunk = address / self.chunk_len as u64;
        let in_flight = usize::try_from(chunk).ok().and_then(|chunk| self.busy.get_mut(chunk));
        if let Some(busy) = in_flight
            && mem::take(busy)
        {
            self.free.push(chunk as u32);
        }
    }
}

/// The places of indices and entries in the rings.
fn offsets(socket: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: plain data, valid as all zeroes.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { mem::zeroed() };
    let whole = mem::size_of_val(&offsets) as libc::socklen_t;
    let mut length = whole;
    // SAFETY: both pointers are to live values of the given lengths.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            libc::XDP_MMAP_OFFSETS,
            ptr::from_mut(&mut offsets).cast(),
            &mut length,
        )
    })?;
    // Kernels before 5.4 have a shorter form, without the flag that is bound with.
    if length == whole { Ok(offsets) } else { Err(io::ErrorKind::Unsupported.into()) }
}
