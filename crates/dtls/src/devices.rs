//! The file of devices behind one `connect`: which identity each has, by its address or port. Lines
//! of `ADDRESS IDENTITY`, where ADDRESS is `10.0.0.5`, `10.0.0.5:5000` or `*:5000`. A line that
//! begins with `#` is a comment.

use std::collections::HashMap;
use std::fs;
use std::hash::Hash;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use antedate_host::fault::Fault;

/// The largest file in octets.
const MAX_LEN: u64 = 32 << 20;
/// The remedy of a line.
const FORM: &str = "write ADDRESS IDENTITY, as in: 10.0.0.5 turbine-3; or 10.0.0.5:5000, or *:5000";

/// Identities of devices.
#[derive(Debug, Clone, Default)]
pub struct Devices {
    exact: HashMap<SocketAddr, String>,
    hosts: HashMap<IpAddr, String>,
    ports: HashMap<u16, String>,
    /// The identity of all others.
    other: Option<String>,
}

impl Devices {
    /// One identity for all devices.
    #[must_use]
    pub fn all(identity: String) -> Self {
        Self { other: Some(identity), ..Self::default() }
    }

    /// Reads the file. `other` is the identity of devices that it does not name.
    ///
    /// # Errors
    /// The first fault, with line and remedy.
    pub fn load(file: &Path, other: Option<String>) -> Result<Self, Fault> {
        let cannot = |error| Fault::of_io(file, "read the devices", &error, "give the path of a text file");
        let mut text = String::new();
        fs::File::open(file).map_err(cannot)?.take(MAX_LEN).read_to_string(&mut text).map_err(cannot)?;
        let parsed = Self::parse(&text, other);
        parsed.map_err(|(line, what)| Fault { line: Some(line), ..Fault::of_file(file, what, FORM) })
    }

    /// Parses the text of a file. An error has line and fault.
    ///
    /// # Errors
    /// Lines without an address or an identity, and addresses that come twice.
    pub fn parse(text: &str, other: Option<String>) -> Result<Self, (usize, String)> {
        let mut this = Self { other, ..Self::default() };
        for (index, line) in text.lines().enumerate() {
            let (at, line) = (index + 1, line.trim());
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let parts = line.split_once(char::is_whitespace).map(|(place, name)| (place, name.trim()));
            let (place, identity) = parts.ok_or((at, "no identity behind the address".to_owned()))?;
            let fresh = if let Some(port) = place.strip_prefix("*:").and_then(|port| port.parse().ok()) {
                insert(&mut this.ports, port, identity)
            } else if let Ok(address) = place.parse::<SocketAddr>() {
                insert(&mut this.exact, canonical(address), identity)
            } else if let Ok(host) = place.trim_matches(['[', ']']).parse::<IpAddr>() {
                insert(&mut this.hosts, host.to_canonical(), identity)
            } else {
                return Err((at, format!("{place} is no address")));
            };
            if !fresh {
                return Err((at, format!("{place} comes twice")));
            }
        }
        Ok(this)
    }

    /// The identity of a device: by address and port, by address, by port, or that of all others.
    #[must_use]
    pub fn identity(&self, device: SocketAddr) -> Option<&str> {
        let device = canonical(device);
        let named = self.exact.get(&device).or_else(|| self.hosts.get(&device.ip()));
        named.or_else(|| self.ports.get(&device.port())).or(self.other.as_ref()).map(String::as_str)
    }

    /// All identities.
    pub fn identities(&self) -> impl Iterator<Item = &str> {
        let named = self.exact.values().chain(self.hosts.values()).chain(self.ports.values());
        named.chain(&self.other).map(String::as_str)
    }
}

/// A socket for both families has IPv4 addresses in the form of IPv6.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn insert<K: Hash + Eq>(places: &mut HashMap<K, String>, place: K, identity: &str) -> bool {
    places.insert(place, identity.to_owned()).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_line_gives_the_identity() {
        let text = "# the park\n10.0.0.5 five\n10.0.0.5:7 seven of five\n*:7\tseven\n\n2001:db8::1 six\n\
                    [2001:db8::1]:9 nine\n";
        let devices = Devices::parse(text, Some("other".to_owned())).unwrap();
        for (device, identity) in [
            ("10.0.0.5:1", "five"),
            ("[::ffff:10.0.0.5]:1", "five"),
            ("10.0.0.5:7", "seven of five"),
            ("10.0.0.6:7", "seven"),
            ("10.0.0.6:8", "other"),
            ("[2001:db8::1]:8", "six"),
            ("[2001:db8::1]:9", "nine"),
        ] {
            assert_eq!(devices.identity(device.parse().unwrap()), Some(identity), "{device}");
        }
        assert_eq!(devices.identities().count(), 6);
        let strict = Devices::parse("*:7 seven", None).unwrap();
        assert_eq!(strict.identity("10.0.0.6:8".parse().unwrap()), None);
    }

    #[test]
    fn faulty_line_is_named() {
        for (text, line) in [
            ("10.0.0.5", 1),
            ("\nturbine five", 2),
            ("*:70000 x", 1),
            ("10.0.0.5 a\n10.0.0.5 b", 2),
            ("10.0.0.5:1 a\n[::ffff:10.0.0.5]:1 b", 2),
        ] {
            assert_eq!(Devices::parse(text, None).unwrap_err().0, line, "{text}");
        }
    }
}
