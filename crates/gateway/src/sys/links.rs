//! Interfaces, their masters and their addresses as the kernel knows them, and notices of changes
//! (`rtnetlink(7)`).

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use super::route::find;
use super::{check, set_option};

const REQUEST: u16 = 1;
const REQUEST_DUMP: u16 = 0x301;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
/// Octets of a message's header, of `struct ifinfomsg`, and of `struct ifaddrmsg`.
const HEADER: usize = 16;
const LINK_HEAD: usize = 16;
const ADDRESS_HEAD: usize = 8;
/// The flags of an interface that is up, and has a carrier.
const UP: u32 = libc::IFF_UP as u32;
const LOWER_UP: u32 = 1 << 16;
/// Attributes of a link.
const NAME: u16 = 3;
const LOWER: u16 = 5;
const MASTER: u16 = 10;
const INFO: u16 = 18;
const LOWER_NAMESPACE: u16 = 37;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const MACVLAN_MODE: u16 = 1;
/// Attributes of an address.
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
/// Octets of the longest part of an answer.
const PART: usize = 64 * 1024;
/// Groups of notices: links, IPv4 and IPv6 addresses.
const GROUPS: u32 = 1 | 0x10 | 0x100;

/// An interface among the others of its network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// Its index.
    pub index: i32,
    /// Its name.
    pub name: String,
    /// The index of its master, such as a bridge.
    pub master: Option<i32>,
    /// The index of the interface below it, as of a VLAN, unless in another namespace.
    pub lower: Option<i32>,
    /// Its kind: `bridge`, `bond`, `vlan`, `macvlan` and so on. Empty for hardware.
    pub kind: String,
    /// Whether it is a macvlan that passes all frames through.
    pub passes_through: bool,
}

/// The mode of a macvlan that receives the frames of all addresses.
const PASSTHRU: u32 = 8;

/// All interfaces.
///
/// # Errors
/// When the kernel has no rtnetlink, or a file descriptor is missing.
pub fn links() -> io::Result<Vec<Link>> {
    let mut links = Vec::new();
    dump(GET_LINK, &[0; LINK_HEAD], |kind, body| {
        if let (NEW_LINK, Some(link)) = (kind, link(body)) {
            links.push(link);
        }
    })?;
    Ok(links)
}

/// Whether the interface with this index is up and has a carrier at this moment. The flag that
/// `netdevice(7)` shows may follow a second later.
///
/// # Errors
/// As for [`links`], and when there is no such interface.
pub fn carrier(index: i32) -> io::Result<bool> {
    let mut body = [0; LINK_HEAD];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    let mut flags = None;
    ask(REQUEST, GET_LINK, &body, |kind, body| {
        if let (NEW_LINK, Some(octets)) = (kind, body.get(8..).and_then(<[u8]>::first_chunk)) {
            flags = Some(u32::from_ne_bytes(*octets));
        }
    })?;
    let flags = flags.ok_or(io::ErrorKind::NotFound)?;
    Ok(flags & (UP | LOWER_UP) == UP | LOWER_UP)
}

/// All addresses, with the indices of their interfaces.
///
/// # Errors
/// As for [`links`].
pub fn addresses() -> io::Result<Vec<(i32, IpAddr)>> {
    let mut addresses = Vec::new();
    dump(GET_ADDRESS, &[0; ADDRESS_HEAD], |kind, body| {
        if let (NEW_ADDRESS, Some(address)) = (kind, address(body)) {
            addresses.push(address);
        }
    })?;
    Ok(addresses)
}

fn number(octets: Option<&[u8]>) -> Option<i32> {
    octets?.first_chunk().copied().map(i32::from_ne_bytes)
}

fn link(body: &[u8]) -> Option<Link> {
    let (head, attributes) = body.split_at_checked(LINK_HEAD)?;
    let text =
        |octets: &[u8]| String::from_utf8_lossy(octets.split(|o| *o == 0).next().unwrap_or(&[])).into();
    let info = find(attributes, INFO).unwrap_or_default();
    let data = find(info, INFO_DATA).unwrap_or_default();
    let kind: String = find(info, INFO_KIND).map_or_else(String::new, text);
    let mode = number(find(data, MACVLAN_MODE)).unwrap_or(0) as u32;
    Some(Link {
        index: number(head.get(4..))?,
        name: find(attributes, NAME).map_or_else(String::new, text),
        master: number(find(attributes, MASTER)),
        lower: number(find(attributes, LOWER)).filter(|_| find(attributes, LOWER_NAMESPACE).is_none()),
        passes_through: matches!(kind.as_str(), "macvlan" | "macvtap") && mode == PASSTHRU,
        kind,
    })
}

fn address(body: &[u8]) -> Option<(i32, IpAddr)> {
    let (head, attributes) = body.split_at_checked(ADDRESS_HEAD)?;
    // IFA_ADDRESS is the far end of a point-to-point link.
    let octets = find(attributes, LOCAL).or_else(|| find(attributes, ADDRESS))?;
    let address = match octets.len() {
        4 => IpAddr::from(*octets.first_chunk::<4>()?),
        _ => IpAddr::from(*octets.first_chunk::<16>()?),
    };
    Some((number(head.get(4..))?, address))
}

/// As [`ask`], for all of a kind.
fn dump(question: u16, body: &[u8], each: impl FnMut(u16, &[u8])) -> io::Result<()> {
    ask(REQUEST_DUMP, question, body, each)
}

/// Passes each message of an answer to `each`, without its header.
fn ask(flags: u16, question: u16, body: &[u8], mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
    let socket = socket(0)?;
    let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(question.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    // SAFETY: pointer and length describe `message`, which the kernel only reads.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut part = vec![0u8; PART];
    loop {
        // SAFETY: pointer and length describe `part`, which the kernel fills. It answers each read
        // of a dump with the next part.
        let length = unsafe {
            libc::recv(socket.as_raw_fd(), part.as_mut_ptr().cast(), part.len(), libc::MSG_DONTWAIT)
        };
        let Ok(length) = usize::try_from(length) else { return Err(io::Error::last_os_error()) };
        let mut rest = part.get(..length).unwrap_or_default();
        while let Some(head) = rest.first_chunk::<HEADER>() {
            let end = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let Some(body) = rest.get(HEADER..end) else { return Ok(()) };
            match u16::from_ne_bytes([head[4], head[5]]) {
                DONE => return Ok(()),
                ERROR => {
                    let code = number(Some(body)).unwrap_or(0);
                    return Err(io::Error::from_raw_os_error(-code));
                }
                kind => each(kind, body),
            }
            rest = rest.get(end.next_multiple_of(4)..).unwrap_or_default();
        }
        if length == 0 || flags == REQUEST {
            return Ok(());
        }
    }
}

/// Tells that links or addresses of this network namespace changed.
#[derive(Debug)]
pub struct Changes(OwnedFd);

impl Changes {
    /// Opens the socket.
    ///
    /// # Errors
    /// As for [`links`].
    pub fn open() -> io::Result<Self> {
        socket(GROUPS).map(Self)
    }

    /// Whether something changed since the last call.
    #[must_use]
    pub fn any(&self) -> bool {
        let mut octets = [0u8; 64];
        let mut any = false;
        loop {
            // SAFETY: pointer and length describe `octets`; the rest of a message is dropped.
            let length = unsafe {
                libc::recv(self.0.as_raw_fd(), octets.as_mut_ptr().cast(), octets.len(), libc::MSG_DONTWAIT)
            };
            // Notices that were lost are changes too.
            let lost = length < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOBUFS);
            if length < 0 && !lost {
                return any;
            }
            any = true;
        }
    }
}

fn socket(groups: u32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; a successful call returns a descriptor without another owner.
    let socket = unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        OwnedFd::from_raw_fd(check(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE))?)
    };
    if groups != 0 {
        // SAFETY: sockaddr_nl is plain data, valid as all zeroes.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as u16;
        address.nl_groups = groups;
        let length = std::mem::size_of_val(&address) as libc::socklen_t;
        // SAFETY: pointer and length describe `address`, which the kernel only reads.
        check(unsafe { libc::bind(socket.as_raw_fd(), ptr::from_ref(&address).cast(), length) })?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &(1i32 << 16))?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_its_address_are_listed() {
        let links = links().unwrap();
        let lo = links.iter().find(|link| link.name == "lo").unwrap();
        assert_eq!((lo.master, lo.kind.as_str(), lo.passes_through), (None, "", false));
        // A new network namespace has a loopback that is down, without an address.
        assert!(addresses().unwrap().iter().all(|(index, _)| links.iter().any(|link| link.index == *index)));
        assert!(!Changes::open().unwrap().any());
        assert!(carrier(lo.index).is_ok());
        assert!(carrier(i32::MAX).is_err());
    }
}
