//! An IO device that protects itself: smoltcp over MACsec with key agreement, on a Cortex-M3 with a
//! LAN9118, as QEMU's mps2-an385 has them.
//!
//! It answers pings, echoes UDP and TCP on port 7, and answers datagrams to port 8 with its counters.
//! The CAK is a test's and stands in the program; a product keeps its own in protected memory.
#![no_std]
#![no_main]

extern crate alloc;

mod lan9118;
mod random;

use alloc::format;
use core::cell::RefCell;
use core::mem::MaybeUninit;

use antedate_smoltcp::{Cak, EthernetAddress, MacsecDevice, Settings};
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::{entry, exception};
use embedded_alloc::LlffHeap;
use lan9118::Lan9118;
use random::HostRandom;
use semihosting::{println, process};
use smoltcp::iface::{Config, Interface, SocketSet, SocketStorage};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

const ADDRESS: [u8; 6] = [2, 0, 0, 0, 0, 0x0d];
const CAK: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const CKN: &[u8] = b"abcdefghijklmnopqrstuvwxyz012345";
/// The CPU's clock.
const HZ: u32 = 25_000_000;
const ECHO: u16 = 7;
const COUNTERS: u16 = 8;
/// Octets of the heap.
const HEAP_LEN: usize = 128 << 10;

#[global_allocator]
static HEAP: LlffHeap = LlffHeap::empty();

/// The board's counter of hundredths of a second (Arm AN385, FPGA system control, CLK100HZ).
const HUNDREDTHS: *const u32 = core::ptr::without_provenance(0x4002_8014);

/// Only wakes the CPU. A count of its interrupts would lose time whenever two fall together, and a
/// member of MKA whose clock is late falls silent for the others.
#[exception]
fn SysTick() {}

fn now() -> Instant {
    // SAFETY: the register is mapped here, and reading it changes nothing.
    let hundredths = unsafe { HUNDREDTHS.read_volatile() };
    Instant::from_millis(i64::from(hundredths) * 10)
}

/// Buffers of the sockets.
struct Buffers {
    udp: [[u8; 2048]; 4],
    udp_info: [[udp::PacketMetadata; 4]; 4],
    tcp: [[u8; 4096]; 2],
    sockets: [SocketStorage<'static>; 3],
}

#[entry]
fn main() -> ! {
    static mut MEMORY: [MaybeUninit<u8>; HEAP_LEN] = [const { MaybeUninit::uninit() }; HEAP_LEN];
    static mut BUFFERS: Buffers = Buffers {
        udp: [[0; 2048]; 4],
        udp_info: [[udp::PacketMetadata::EMPTY; 4]; 4],
        tcp: [[0; 4096]; 2],
        sockets: [SocketStorage::EMPTY; 3],
    };
    // SAFETY: called once, with memory that nothing else uses.
    unsafe { HEAP.init((&raw mut *MEMORY).addr(), HEAP_LEN) };
    if let Some(mut peripherals) = cortex_m::Peripherals::take() {
        peripherals.SYST.set_clock_source(SystClkSource::Core);
        peripherals.SYST.set_reload(HZ / 1000 - 1);
        peripherals.SYST.clear_current();
        peripherals.SYST.enable_interrupt();
        peripherals.SYST.enable_counter();
    }
    match run(BUFFERS) {
        Some(never) => match never {},
        None => {
            println!("no network card, or no random numbers");
            process::exit(1)
        }
    }
}

/// The device's life. Ends if the board lacks something.
fn run(buffers: &'static mut Buffers) -> Option<core::convert::Infallible> {
    let card = Lan9118::new(ADDRESS)?;
    let cak = Cak::new(&CAK, CKN).ok()?;
    let settings = Settings::new(EthernetAddress(ADDRESS));
    let mut device = MacsecDevice::new(card, cak, settings, HostRandom::open()?).ok()?;
    let hardware = HardwareAddress::Ethernet(smoltcp::wire::EthernetAddress(ADDRESS));
    let mut interface = Interface::new(Config::new(hardware), &mut device, now());
    interface.update_ip_addrs(|all| _ = all.push(IpCidr::new(IpAddress::v4(10, 9, 0, 9), 24)));

    let Buffers { udp: [a, b, c, d], udp_info: [e, f, g, h], tcp: [i, j], sockets } = buffers;
    let mut sockets = SocketSet::new(&mut sockets[..]);
    let mut echo = udp::Socket::new(
        udp::PacketBuffer::new(&mut e[..], &mut a[..]),
        udp::PacketBuffer::new(&mut f[..], &mut b[..]),
    );
    let mut told = udp::Socket::new(
        udp::PacketBuffer::new(&mut g[..], &mut c[..]),
        udp::PacketBuffer::new(&mut h[..], &mut d[..]),
    );
    echo.bind(ECHO).ok()?;
    told.bind(COUNTERS).ok()?;
    let stream = tcp::Socket::new(tcp::SocketBuffer::new(&mut i[..]), tcp::SocketBuffer::new(&mut j[..]));
    let (echo, told, stream) = (sockets.add(echo), sockets.add(told), sockets.add(stream));
    let last = RefCell::new(0);
    loop {
        device.poll(now());
        interface.poll(now(), &mut device, &mut sockets);
        let socket = sockets.get_mut::<udp::Socket<'_>>(echo);
        let mut copy = [0; 1500];
        while let Ok((octets, from)) = socket.recv() {
            let len = octets.len().min(copy.len());
            copy[..len].copy_from_slice(&octets[..len]);
            let _ = socket.send_slice(&copy[..len], from);
        }
        let socket = sockets.get_mut::<udp::Socket<'_>>(told);
        while let Ok((_, from)) = socket.recv() {
            let text = counters(&device);
            let _ = socket.send_slice(text.as_bytes(), from);
        }
        answer(sockets.get_mut(stream));
        let keys = device.status(now()).fresh_keys;
        if last.replace(keys) != keys {
            println!("key {}: {}", keys, counters(&device));
        }
        // Idle: the next packet numbers first, then sleep until the next millisecond or frame.
        if device.prepare(16) == 0 {
            cortex_m::asm::wfi();
        }
    }
}

/// Echoes what came by TCP.
fn answer(socket: &mut tcp::Socket<'_>) {
    if !socket.is_open() {
        let _ = socket.listen(ECHO);
    }
    if socket.can_recv() && socket.can_send() {
        let mut copy = [0; 1024];
        let space = socket.send_capacity() - socket.send_queue();
        let space = space.min(copy.len());
        if let Ok(len) = socket.recv_slice(&mut copy[..space]) {
            let _ = socket.send_slice(&copy[..len]);
        }
    } else if socket.may_send() && !socket.may_recv() {
        socket.close();
    }
}

/// The counters as text: name and number in each line.
fn counters(device: &MacsecDevice<Lan9118, HostRandom>) -> alloc::string::String {
    let all = device.counters();
    let refused = device.driver().refused;
    let mut text = format!(
        "Heap {}\nKeysRefused {}\nMkpdusUnsent {}\nCardRefused {refused}\n",
        HEAP.used(),
        all.keys_refused,
        all.mkpdus_unsent
    );
    for (name, count) in all.transmit.named().chain(all.receive.named()).filter(|(_, count)| *count > 0) {
        text.push_str(&format!("{name} {count}\n"));
    }
    text
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    process::exit(3)
}
