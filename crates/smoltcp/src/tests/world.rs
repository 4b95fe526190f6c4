//! A wire in memory, and stations with a stack on it.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::convert::Infallible;

use antedate_channel::mka::Cak;
use antedate_wire::EthernetAddress;
use rand_core::{TryCryptoRng, TryRng};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::udp;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{self, HardwareAddress, IpAddress, IpCidr, IpEndpoint};

use crate::{MacsecDevice, Settings};

pub(super) const MTU: usize = 1546;
pub(super) const PORT: u16 = 4711;
const STEP: Duration = Duration::from_millis(5);

/// Numbers of a seed.
pub(super) struct Numbers(pub(super) u64);

impl TryRng for Numbers {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.try_next_u64()? >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Ok(mixed ^ mixed >> 27)
    }

    fn try_fill_bytes(&mut self, octets: &mut [u8]) -> Result<(), Infallible> {
        for octet in octets {
            *octet = self.try_next_u64()? as u8;
        }
        Ok(())
    }
}

impl TryCryptoRng for Numbers {}

/// The wire between two ends.
pub(super) struct Wire {
    pub(super) to: [VecDeque<Vec<u8>>; 2],
    /// All frames, with the end that sent them.
    pub(super) seen: Vec<(usize, Vec<u8>)>,
    /// The drivers take no frame.
    pub(super) full: bool,
    /// Nothing arrives.
    pub(super) cut: bool,
}

/// A driver at one end.
#[derive(Clone)]
pub(super) struct Port {
    pub(super) wire: Rc<RefCell<Wire>>,
    pub(super) end: usize,
    pub(super) mtu: usize,
    pub(super) medium: Medium,
}

pub(super) struct Came(Vec<u8>);
pub(super) struct Leaves(Port);

impl phy::RxToken for Came {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl phy::TxToken for Leaves {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        assert!(len <= self.0.mtu, "{len} octets");
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        let mut wire = self.0.wire.borrow_mut();
        wire.seen.push((self.0.end, frame.clone()));
        if !wire.cut {
            wire.to[1 - self.0.end].push_back(frame);
        }
        result
    }
}

impl Device for Port {
    type RxToken<'a> = Came;
    type TxToken<'a> = Leaves;

    fn receive(&mut self, _: Instant) -> Option<(Came, Leaves)> {
        let frame = self.wire.borrow_mut().to[self.end].pop_front()?;
        Some((Came(frame), Leaves(self.clone())))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaves> {
        (!self.wire.borrow().full).then(|| Leaves(self.clone()))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = self.medium;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// A station: a device, a stack, a socket.
pub(super) struct Station {
    pub(super) device: MacsecDevice<Port, Numbers>,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    end: usize,
}

/// Two stations.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) wire: Rc<RefCell<Wire>>,
    pub(super) stations: Vec<Station>,
    pub(super) settings: [Settings; 2],
    seed: u64,
}

pub(super) fn cak(name: &[u8]) -> Cak {
    Cak::new(&[0x17; 16], name).expect("a CAK")
}

pub(super) fn address(end: usize) -> EthernetAddress {
    EthernetAddress([2, 0, 0x5e, 0, 9, end as u8])
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(|_, _| {})
    }

    /// Stations with changed settings, both running.
    pub(super) fn with(change: impl Fn(usize, &mut Settings)) -> Self {
        let wire = Wire { to: Default::default(), seen: Vec::new(), full: false, cut: false };
        let settings = [0, 1].map(|end| {
            let mut settings = Settings::new(address(end));
            settings.priority += end as u8;
            change(end, &mut settings);
            settings
        });
        let mut world = Self {
            now: Instant::from_secs(100),
            wire: Rc::new(RefCell::new(wire)),
            stations: Vec::new(),
            settings,
            seed: 1,
        };
        world.stations = (0..2).map(|end| world.station(end, b"first")).collect();
        world
    }

    pub(super) fn port(&self, end: usize) -> Port {
        Port { wire: Rc::clone(&self.wire), end, mtu: MTU, medium: Medium::Ethernet }
    }

    /// A station at its start.
    pub(super) fn station(&mut self, end: usize, name: &[u8]) -> Station {
        self.seed += 1;
        let settings = self.settings[end].clone();
        let mut device =
            MacsecDevice::new(self.port(end), cak(name), settings, Numbers(self.seed)).expect("a device");
        let hardware = HardwareAddress::Ethernet(wire::EthernetAddress(address(end).0));
        let mut interface = Interface::new(Config::new(hardware), &mut device, self.now);
        interface.update_ip_addrs(|all| {
            all.push(IpCidr::new(ip(end), 24)).expect("an address");
        });
        let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 64], vec![0; 1 << 16]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(PORT).expect("a port");
        let mut sockets = SocketSet::new(vec![]);
        let socket = sockets.add(socket);
        Station { device, interface, sockets, socket, end }
    }

    pub(super) fn step(&mut self) {
        self.now += STEP;
        for station in &mut self.stations {
            station.device.poll(self.now);
            station.pass(self.now);
            while station.device.prepare(64) > 0 {}
        }
    }

    pub(super) fn run(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            self.step();
        }
    }

    /// Runs until both stations are secured.
    pub(super) fn until_agreed(&mut self) {
        let end = self.now + Duration::from_secs(10);
        while !self.stations.iter().all(|station| station.device.is_secured()) {
            assert!(self.now < end, "no agreement: {:?}", self.stations[0].device.status(self.now));
            self.step();
        }
    }

    /// Sends a datagram from one station, and runs until it comes to the other.
    pub(super) fn crosses(&mut self, from: usize, payload: &[u8]) {
        self.stations[from].send(payload);
        for _ in 0..200 {
            self.step();
            if self.stations[1 - from].next().as_deref() == Some(payload) {
                return;
            }
        }
        panic!("no datagram crosses: {:?}", self.stations[1 - from].device.counters());
    }

    /// Puts a frame of an outsider on the wire.
    pub(super) fn inject(&self, to: usize, frame: &[u8]) {
        self.wire.borrow_mut().to[to].push_back(frame.to_vec());
    }

    /// The last frame of one end with an EtherType.
    pub(super) fn last(&self, from: usize, ethertype: u16) -> Vec<u8> {
        let wire = self.wire.borrow();
        let mut frames = wire.seen.iter().rev();
        let found = frames.find(|(end, frame)| *end == from && frame[12..14] == ethertype.to_be_bytes());
        found.expect("such a frame").1.clone()
    }
}

fn ip(end: usize) -> IpAddress {
    IpAddress::v4(10, 9, 0, 1 + end as u8)
}

impl Station {
    /// The stack receives and sends.
    pub(super) fn pass(&mut self, now: Instant) {
        self.interface.poll(now, &mut self.device, &mut self.sockets);
    }

    pub(super) fn send(&mut self, payload: &[u8]) {
        let to = IpEndpoint::new(ip(1 - self.end), PORT);
        self.sockets.get_mut::<udp::Socket<'_>>(self.socket).send_slice(payload, to).expect("space");
    }

    /// The next datagram.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.socket);
        socket.recv().ok().map(|(payload, _)| payload.to_vec())
    }
}
