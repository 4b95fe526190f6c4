//! Index, address, MTU and link state of a network interface (`netdevice(7)`).
//!
//! Asked by `ioctl`, not read from `/sys`: the file system shows the network namespace in which it was mounted, which
//! need not be the one that this process runs in.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use super::check;
use super::packet::{bind, bound_to, raw_socket};

/// What is known of an interface when its port is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, as `ip link` shows it.
    pub name: String,
    /// Its index in this network namespace.
    pub index: i32,
    /// Its hardware address.
    pub address: [u8; 6],
    /// The longest payload of a frame in bytes, Ethernet header and VLAN tag not counted.
    pub mtu: usize,
    /// What notices that it goes.
    pub(crate) witness: Witness,
}

impl Interface {
    /// Looks the interface up.
    ///
    /// # Errors
    /// `NotFound` when there is none of that name in this network namespace; `Unsupported` when it is no Ethernet
    /// interface.
    pub fn find(name: &str) -> io::Result<Self> {
        let request = Request::new(name)?;
        // SAFETY: after a successful call of this request the kernel has filled this member of the union.
        let index = unsafe { request.ask(libc::SIOCGIFINDEX)?.ifr_ifru.ifru_ifindex };
        // SAFETY: as above.
        let hardware = unsafe { request.ask(libc::SIOCGIFHWADDR)?.ifr_ifru.ifru_hwaddr };
        if hardware.sa_family != libc::ARPHRD_ETHER {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "it is no Ethernet interface"));
        }
        let mut address = [0; 6];
        for (to, from) in address.iter_mut().zip(hardware.sa_data) {
            *to = from as u8;
        }
        Ok(Self { name: name.to_owned(), index, address, mtu: request.mtu()?, witness: Witness::of(index) })
    }

    /// Whether the name still means the same interface, and always did: one that was gone and is back, from another network
    /// namespace for one, may have its old index, but no socket is bound to it any more.
    #[must_use]
    pub fn still_there(&self) -> bool {
        let index = || {
            // SAFETY: after a successful call of this request the kernel has filled this member of the union.
            io::Result::Ok(unsafe {
                Request::new(&self.name)?.ask(libc::SIOCGIFINDEX)?.ifr_ifru.ifru_ifindex
            })
        };
        index().is_ok_and(|now| now == self.index) && self.witness.saw_it_stay(self.index)
    }
}

/// A socket on an interface, which the kernel unbinds for good when that goes, even if it is back at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Witness(Option<Arc<OwnedFd>>);

impl Witness {
    /// There is none without the right to packet sockets, which a gateway has.
    fn of(index: i32) -> Self {
        let socket = raw_socket().and_then(|socket| bind(&socket, index, 0).map(|()| socket));
        Self(socket.ok().map(Arc::new))
    }

    fn saw_it_stay(&self, index: i32) -> bool {
        self.0.as_ref().is_none_or(|socket| bound_to(socket).is_ok_and(|now| now == index))
    }
}

/// It says nothing of an interface itself.
impl PartialEq for Witness {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Witness {}

/// Whether an interface is up and its link carries frames. `None` when there is no such interface.
#[must_use]
pub fn link_up(name: &str) -> Option<bool> {
    // SAFETY: after a successful call of this request the kernel has filled this member of the union.
    let flags = unsafe { Request::new(name).ok()?.ask(libc::SIOCGIFFLAGS).ok()?.ifr_ifru.ifru_flags };
    let wanted = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    Some(flags & wanted == wanted)
}

/// The MTU of an interface now. `None` when there is no such interface.
#[must_use]
pub fn mtu(name: &str) -> Option<usize> {
    Request::new(name).ok()?.mtu().ok()
}

/// The rate in Mbit/s that an interface runs at (`ETHTOOL_GSET`). `None` when it does not say, as many virtual ones do not.
#[must_use]
pub fn speed(name: &str) -> Option<u64> {
    /// `struct ethtool_cmd` as far as it is read, at its full size of 44 bytes.
    #[repr(C)]
    struct Settings {
        command: u32,
        supported: u32,
        advertising: u32,
        speed: u16,
        between: [u8; 14],
        speed_high: u16,
        rest: [u8; 14],
    }
    const ETHTOOL_GSET: u32 = 1;
    let request = Request::new(name).ok()?;
    let mut settings = Settings {
        command: ETHTOOL_GSET,
        supported: 0,
        advertising: 0,
        speed: 0,
        between: [0; 14],
        speed_high: 0,
        rest: [0; 14],
    };
    // SAFETY: ifreq is plain data for which all zeroes is valid.
    let mut ifreq: libc::ifreq = unsafe { mem::zeroed() };
    ifreq.ifr_name = request.name;
    ifreq.ifr_ifru.ifru_data = std::ptr::from_mut(&mut settings).cast();
    // SAFETY: this request reads and writes one ethtool_cmd, to which `ifru_data` leads and whose size `Settings` has.
    check(unsafe { libc::ioctl(request.socket.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &mut ifreq) })
        .ok()?;
    let mbit = u64::from(settings.speed_high) << 16 | u64::from(settings.speed);
    // Both all ones: unknown.
    (mbit != 0 && mbit != u64::from(u16::MAX) && mbit != u64::from(u32::MAX)).then_some(mbit)
}

/// A question about one interface.
struct Request {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Request {
    fn new(name: &str) -> io::Result<Self> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such interface"));
        }
        let mut field = [0; libc::IFNAMSIZ];
        for (to, from) in field.iter_mut().zip(bytes) {
            *to = *from as libc::c_char;
        }
        // SAFETY: no pointers; a successful call gives a descriptor that nobody else owns.
        let socket = unsafe {
            let fd = check(libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Self { socket, name: field })
    }

    fn ask(&self, request: libc::Ioctl) -> io::Result<libc::ifreq> {
        // SAFETY: ifreq is plain data for which all zeroes is valid.
        let mut ifreq: libc::ifreq = unsafe { mem::zeroed() };
        ifreq.ifr_name = self.name;
        // SAFETY: all requests of this file read and write one ifreq, to which the pointer leads.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), request, &mut ifreq) };
        match check(result) {
            Ok(_) => Ok(ifreq),
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => {
                Err(io::Error::new(io::ErrorKind::NotFound, "no such interface"))
            }
            Err(e) => Err(e),
        }
    }

    fn mtu(&self) -> io::Result<usize> {
        // SAFETY: after a successful call of this request the kernel has filled this member of the union.
        let mtu = unsafe { self.ask(libc::SIOCGIFMTU)?.ifr_ifru.ifru_mtu };
        usize::try_from(mtu).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a negative MTU"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_no_ethernet_interface_but_has_a_link_and_an_mtu() {
        assert_eq!(Interface::find("lo").unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert!(link_up("lo").is_some());
        assert!(mtu("lo").unwrap() >= 1500);
    }

    #[test]
    fn a_missing_interface_is_not_found() {
        for name in ["antedate-none", "", "../lo", "a\0b", "a-name-that-is-longer-than-any-name"] {
            assert_eq!(Interface::find(name).unwrap_err().kind(), io::ErrorKind::NotFound, "{name:?}");
            assert_eq!(link_up(name), None);
        }
    }
}
