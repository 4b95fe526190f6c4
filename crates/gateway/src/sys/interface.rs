//! Index, address, MTU and link state of a network interface (`netdevice(7)`).
//!
//! Uses `ioctl`, not `/sys`: that file system shows the network namespace in which it was mounted,
//! which may be another one than this process's.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use super::check;
use super::packet::{bind, bound_to, raw_socket};

/// The properties of an interface when its port was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, as `ip link` shows it.
    pub name: String,
    /// Its index in this network namespace.
    pub index: i32,
    /// Its hardware address.
    pub address: [u8; 6],
    /// Its MTU: octets of the longest payload, without Ethernet header and VLAN tag.
    pub mtu: usize,
    /// Detects its removal.
    pub(crate) witness: Witness,
}

impl Interface {
    /// Finds an interface.
    ///
    /// # Errors
    /// `NotFound` when there is none of that name in this network namespace; `Unsupported` when it
    /// is not an Ethernet interface.
    pub fn find(name: &str) -> io::Result<Self> {
        let request = Request::new(name)?;
        // SAFETY: a successful call of this request fills this member of the union.
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
        Ok(Self {
            name: name.to_owned(),
            index,
            address,
            mtu: request.mtu()?,
            witness: Witness::of(index, name),
        })
    }

    /// Whether the interface is still there, without interruption. Follows it to a new name. An
    /// interface that returned, say from another network namespace, may have its old index, but
    /// sockets are no longer bound to it.
    pub fn still_there(&mut self) -> bool {
        let index = || {
            // SAFETY: a successful call of this request fills this member of the union.
            io::Result::Ok(unsafe {
                Request::new(&self.name)?.ask(libc::SIOCGIFINDEX)?.ifr_ifru.ifru_ifindex
            })
        };
        if !self.witness.saw_it_stay(self.index) {
            return false;
        }
        if index().is_ok_and(|now| now == self.index) {
            return true;
        }
        match name_of(self.index).filter(|_| self.witness.socket.is_some()) {
            Some(name) => {
                tracing::info!(from = %self.name, to = %name, "an interface has a new name, and is followed");
                self.name = name;
                true
            }
            None => false,
        }
    }

    /// Finds the interface that has its name now, or the name under which it was found first.
    ///
    /// # Errors
    /// As for [`Self::find`].
    pub fn find_again(&self) -> io::Result<Self> {
        let first = &self.witness.name;
        let mut found = Self::find(&self.name).or_else(|_| Self::find(first))?;
        found.witness.name.clone_from(first);
        Ok(found)
    }
}

/// The name of the interface with this index, if any.
fn name_of(index: i32) -> Option<String> {
    let mut name = [0 as libc::c_char; libc::IFNAMSIZ];
    // SAFETY: the pointer is to IF_NAMESIZE octets, which the call fills with a name and a zero.
    let found = unsafe { libc::if_indextoname(u32::try_from(index).ok()?, name.as_mut_ptr()) };
    let octets = name.iter().take_while(|octet| **octet != 0).map(|octet| *octet as u8);
    (!found.is_null()).then(|| String::from_utf8(octets.collect()).ok()).flatten()
}

/// A socket on an interface. The kernel unbinds it for good when the interface goes, even if it
/// returns at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Witness {
    socket: Option<Arc<OwnedFd>>,
    /// The first name of the interface.
    name: String,
}

impl Witness {
    /// `None` without the capability for packet sockets, which a gateway has.
    fn of(index: i32, name: &str) -> Self {
        let socket = raw_socket().and_then(|socket| bind(&socket, index, 0).map(|()| socket));
        Self { socket: socket.ok().map(Arc::new), name: name.to_owned() }
    }

    fn saw_it_stay(&self, index: i32) -> bool {
        self.socket.as_ref().is_none_or(|socket| bound_to(socket).is_ok_and(|now| now == index))
    }
}

/// Not a property of the interface itself.
impl PartialEq for Witness {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Witness {}

/// Whether an interface is up and has a link. `None` when there is no such interface.
#[must_use]
pub fn link_up(name: &str) -> Option<bool> {
    // SAFETY: a successful call of this request fills this member of the union.
    let flags = unsafe { Request::new(name).ok()?.ask(libc::SIOCGIFFLAGS).ok()?.ifr_ifru.ifru_flags };
    let wanted = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    Some(flags & wanted == wanted)
}

/// Sets an interface up or down, as `ip link set` does. Needs `CAP_NET_ADMIN`.
///
/// # Errors
/// When there is no such interface, or the capability is missing.
pub fn set_up(name: &str, up: bool) -> io::Result<()> {
    let request = Request::new(name)?;
    let mut ifreq = request.ask(libc::SIOCGIFFLAGS)?;
    // SAFETY: a successful call of this request fills this member of the union.
    let flags = unsafe { ifreq.ifr_ifru.ifru_flags };
    let mask = libc::IFF_UP as i16;
    ifreq.ifr_ifru.ifru_flags = if up { flags | mask } else { flags & !mask };
    // SAFETY: the request reads the one ifreq at the pointer.
    check(unsafe { libc::ioctl(request.socket.as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &mut ifreq) })
        .map(drop)
}

/// The current MTU of an interface. `None` when there is no such interface.
#[must_use]
pub fn mtu(name: &str) -> Option<usize> {
    Request::new(name).ok()?.mtu().ok()
}

/// The current hardware address of an interface. `None` when there is no such interface.
#[must_use]
pub fn address(name: &str) -> Option<[u8; 6]> {
    // SAFETY: a successful call of this request fills this member of the union.
    let hardware = unsafe { Request::new(name).ok()?.ask(libc::SIOCGIFHWADDR).ok()?.ifr_ifru.ifru_hwaddr };
    let mut address = [0; 6];
    address.iter_mut().zip(hardware.sa_data).for_each(|(to, from)| *to = from as u8);
    Some(address)
}

/// The rate of an interface in Mbit/s (`ETHTOOL_GSET`). `None` when it reports none, as many
/// virtual ones.
#[must_use]
pub fn speed(name: &str) -> Option<u64> {
    /// The fields of `struct ethtool_cmd` in use, at its full size of 44 bytes.
    #[repr(C)]
    #[derive(Default)]
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
    let mut settings = Settings { command: ETHTOOL_GSET, ..Settings::default() };
    // SAFETY: this request reads and writes one ethtool_cmd, and `Settings` has its size.
    unsafe { ethtool(name, &mut settings) }?;
    let mbit = u64::from(settings.speed_high) << 16 | u64::from(settings.speed);
    // All ones in either field: unknown.
    (mbit != 0 && mbit != u64::from(u16::MAX) && mbit != u64::from(u32::MAX)).then_some(mbit)
}

/// The name of an interface's driver (`ETHTOOL_GDRVINFO`), if it has one.
#[must_use]
pub fn driver(name: &str) -> Option<String> {
    /// `struct ethtool_drvinfo`.
    #[repr(C)]
    struct Info {
        command: u32,
        driver: [u8; 32],
        rest: [u8; 160],
    }
    const ETHTOOL_GDRVINFO: u32 = 3;
    let mut info = Info { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
    // SAFETY: this request reads and writes one ethtool_drvinfo, and `Info` has its size.
    unsafe { ethtool(name, &mut info) }?;
    let text = info.driver.split(|octet| *octet == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(text).into_owned())
}

/// The number of an interface's transmit queues in use (`ETHTOOL_GCHANNELS`). One that does not
/// tell has one.
#[must_use]
pub fn transmit_queues(name: &str) -> u32 {
    /// `struct ethtool_channels`.
    #[repr(C)]
    #[derive(Default)]
    struct Channels {
        command: u32,
        most: [u32; 4],
        receive: u32,
        transmit: u32,
        other: u32,
        combined: u32,
    }
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    // SAFETY: this request reads and writes one ethtool_channels, and `Channels` has its size.
    match unsafe { ethtool(name, &mut channels) } {
        Some(()) => (channels.transmit + channels.combined).max(1),
        None => 1,
    }
}

/// Asks the driver of an interface (`SIOCETHTOOL`). `None` when it does not answer.
///
/// # Safety
/// `value` is of the type that its first field, the command, reads and writes.
unsafe fn ethtool<T>(name: &str, value: &mut T) -> Option<()> {
    let request = Request::new(name).ok()?;
    // SAFETY: ifreq is plain data, valid as all zeroes.
    let mut ifreq: libc::ifreq = unsafe { mem::zeroed() };
    ifreq.ifr_name = request.name;
    ifreq.ifr_ifru.ifru_data = std::ptr::from_mut(value).cast();
    // SAFETY: the request reads and writes one value at `ifru_data`, by this function's condition.
    check(unsafe { libc::ioctl(request.socket.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &mut ifreq) })
        .ok()
        .map(drop)
}

/// A query of one interface.
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
        // SAFETY: no pointers; a successful call returns a descriptor without another owner.
        let socket = unsafe {
            let fd = check(libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Self { socket, name: field })
    }

    fn ask(&self, request: libc::Ioctl) -> io::Result<libc::ifreq> {
        // SAFETY: ifreq is plain data, valid as all zeroes.
        let mut ifreq: libc::ifreq = unsafe { mem::zeroed() };
        ifreq.ifr_name = self.name;
        // SAFETY: all requests of this file read and write the one ifreq at the pointer.
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
        // SAFETY: a successful call of this request fills this member of the union.
        let mtu = unsafe { self.ask(libc::SIOCGIFMTU)?.ifr_ifru.ifru_mtu };
        usize::try_from(mtu).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a negative MTU"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_not_ethernet() {
        assert_eq!(Interface::find("lo").unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert!(link_up("lo").is_some());
        assert!(mtu("lo").unwrap() >= 1500);
    }

    #[test]
    fn missing_interface_is_not_found() {
        for name in ["antedate-none", "", "../lo", "a\0b", "a-name-that-is-longer-than-any-name"] {
            assert_eq!(Interface::find(name).unwrap_err().kind(), io::ErrorKind::NotFound, "{name:?}");
            assert_eq!(link_up(name), None);
            assert!(set_up(name, true).is_err());
            assert_eq!((driver(name), transmit_queues(name)), (None, 1));
        }
    }
}
