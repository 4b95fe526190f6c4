//! An overlay: a hub and its spokes. Each end has a private key of WireGuard, and each spoke a preshared
//! key with the hub.
//!
//! A device is in it by the value `overlay`. The hub has `hub=yes` and `endpoint=HOST:PORT`. In templates
//! `${tunnel}` stands for the address in the tunnel, and `${peers}` for the `[[overlay.peer]]` sections.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use antedate_channel::sealed::device_public;

use super::{Given, GroupError, Side};
use crate::random;

/// The file of the private key, which the configuration names as `private_key_file`.
pub const PRIVATE: &str = "wg.key";
/// The first letters of the files of preshared keys. The other end's identifier follows.
pub const PRESHARED: &str = "psk-";

/// Whether a file is a key that both ends of a pair must have at one time.
#[must_use]
pub fn is_key(file: &str) -> bool {
    file == PRIVATE || file.starts_with(PRESHARED)
}
/// The most peers of a gateway.
const PEERS: usize = 256;
/// Seconds between two signs of life of a spoke, which keep its way through NAT open.
const KEEPALIVE: u16 = 25;
/// The network of the tunnel: 10.66.0.0/16.
const NETWORK: u32 = 0x0a42_0000;

/// An end.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    private: String,
    address: Ipv4Addr,
    /// Of a spoke with the hub.
    preshared: String,
    /// The one before, during a change.
    #[serde(default)]
    before: String,
    /// When the preshared key was made, in seconds since 1970.
    made: u64,
}

/// The keys of an overlay.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    ends: BTreeMap<String, End>,
    /// The hub's identifier, or empty.
    hub: String,
    /// A public key whose private one is forgotten. A gateway wants a peer, and a hub may have none.
    nobody: String,
}

impl std::fmt::Debug for Overlay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Overlay({} ends)", self.ends.len())
    }
}

/// A new key of 32 octets in base64, and its octets.
fn key() -> Result<(String, Zeroizing<[u8; 32]>), GroupError> {
    let mut key = Zeroizing::new([0; 32]);
    random(&mut *key)?;
    // Clamped, as `wg genkey` does. For a preshared key it does not matter.
    key[0] &= 0xf8;
    key[31] = key[31] & 0x7f | 0x40;
    Ok((STANDARD.encode(*key), key))
}

/// The public key of a private one, as `wg pubkey` prints it.
fn public(private: &str) -> String {
    let mut secret = Zeroizing::new([0; 32]);
    if let Ok(octets) = STANDARD.decode(private).map(Zeroizing::new)
        && octets.len() == secret.len()
    {
        secret.copy_from_slice(&octets);
    }
    STANDARD.encode(device_public(&secret))
}

impl Overlay {
    /// One without ends.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn new() -> Result<Self, GroupError> {
        let nobody = public(&key()?.0);
        Ok(Self { ends: BTreeMap::new(), hub: String::new(), nobody })
    }

    /// Follows the members: a new one gets keys and an address, and one that is gone loses them. With
    /// another hub all preshared keys are new, since the former one knew them. True if something changed.
    ///
    /// # Errors
    /// [`GroupError`], when the members make no overlay.
    pub fn follow(&mut self, name: &str, sides: &[Side<'_>], now: u64) -> Result<bool, GroupError> {
        let before = self.clone();
        let hub = self.hub_of(name, sides)?.map_or("", |hub| hub.id);
        if sides.len() > PEERS + 1 {
            return Err(GroupError::TooMany(name.to_owned()));
        }
        self.ends.retain(|id, _| sides.iter().any(|side| side.id == id));
        if self.hub != hub {
            self.rekey(now)?;
            hub.clone_into(&mut self.hub);
        }
        // Addresses that somebody chose come first.
        for side in sides {
            let Some(text) = side.value("tunnel") else { continue };
            let wrong = || GroupError::Address { device: side.member.name.clone(), address: text.to_owned() };
            let address: Ipv4Addr = text.parse().map_err(|_| wrong())?;
            if address.is_unspecified() || address.is_multicast() || address.is_broadcast() {
                return Err(wrong());
            }
            let chose =
                |id: &str| sides.iter().any(|other| other.id == id && other.value("tunnel").is_some());
            if self.ends.iter().any(|(id, end)| end.address == address && id != side.id && chose(id)) {
                return Err(wrong());
            }
            self.ends.retain(|id, end| end.address != address || id == side.id);
            match self.ends.get_mut(side.id) {
                Some(end) => end.address = address,
                None => drop(self.ends.insert(side.id.to_owned(), Self::end(address, now)?)),
            }
        }
        for side in sides {
            if !self.ends.contains_key(side.id) {
                let taken: BTreeSet<u32> = self.ends.values().map(|end| end.address.to_bits()).collect();
                let free = (NETWORK + 1..NETWORK + 0xffff).find(|bits| !taken.contains(bits));
                let free = Ipv4Addr::from_bits(free.unwrap_or(NETWORK));
                self.ends.insert(side.id.to_owned(), Self::end(free, now)?);
            }
        }
        Ok(*self != before)
    }

    /// Is without a hub, since that is lost: its spokes have no peer and other preshared keys, until
    /// there is another hub.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn lose_hub(&mut self, now: u64) -> Result<(), GroupError> {
        self.hub.clear();
        self.rekey(now)
    }

    fn rekey(&mut self, now: u64) -> Result<(), GroupError> {
        for end in self.ends.values_mut() {
            (end.preshared, end.made) = (key()?.0, now);
            end.before.clear();
        }
        Ok(())
    }

    /// The hub of these members. `None` if it is lost and there is no other.
    fn hub_of<'a>(&self, name: &str, sides: &[Side<'a>]) -> Result<Option<Side<'a>>, GroupError> {
        match hub(name, sides) {
            Err(GroupError::NoHub(_)) if self.hub.is_empty() && !self.ends.is_empty() => Ok(None),
            found => found.map(Some),
        }
    }

    fn end(address: Ipv4Addr, now: u64) -> Result<End, GroupError> {
        let (private, preshared) = (key()?.0, key()?.0);
        Ok(End { private, address, preshared, before: String::new(), made: now })
    }

    /// The identifier of the hub.
    #[must_use]
    pub fn hub(&self) -> &str {
        &self.hub
    }

    /// The time at which the oldest preshared key was made.
    #[must_use]
    pub fn made(&self) -> Option<u64> {
        self.ends.iter().filter(|(id, _)| **id != self.hub).map(|(_, end)| end.made).min()
    }

    /// What a member gets.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn given(&self, of: &str, name: &str, sides: &[Side<'_>]) -> Result<Given, GroupError> {
        let mut given = Given::default();
        let Some(own) = self.ends.get(of) else { return Ok(given) };
        given.files.insert(PRIVATE.to_owned(), format!("{}\n", own.private));
        given.values.insert("tunnel".to_owned(), own.address.to_string());
        let is_hub = of == self.hub;
        let hub = self.hub_of(name, sides)?.map_or("", |hub| hub.id);
        let mut peers = String::new();
        for side in sides.iter().filter(|side| side.id != of && (is_hub || side.id == hub)) {
            let Some(end) = self.ends.get(side.id) else { continue };
            let preshared = if is_hub { &end.preshared } else { &own.preshared };
            let file = format!("{PRESHARED}{}", side.id);
            // Writing to a string cannot fail.
            let _ = write!(
                peers,
                "[[overlay.peer]]\nname = \"{}\"\npublic_key = \"{}\"\npreshared_key_file = \"{file}\"\naddress = \"{}\"\n",
                side.member.name,
                public(&end.private),
                end.address
            );
            if let Some(at) = endpoint(side)? {
                let _ = writeln!(peers, "endpoint = \"{at}\"");
            }
            if !is_hub {
                let _ = writeln!(peers, "keepalive_seconds = {KEEPALIVE}");
            }
            given.files.insert(file, format!("{preshared}\n"));
        }
        if peers.is_empty() {
            let nobody = Ipv4Addr::from_bits(NETWORK + 0xfffe);
            peers = format!(
                "[[overlay.peer]]\nname = \"nobody\"\npublic_key = \"{}\"\naddress = \"{nobody}\"\n",
                self.nobody
            );
        }
        given.values.insert("peers".to_owned(), peers);
        Ok(given)
    }

    /// Begins a change of the preshared keys of these spokes. A change that has begun goes on: its ends
    /// may have the key of before or the new one, and no third.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn begin(&mut self, spokes: &BTreeSet<String>, now: u64) -> Result<(), GroupError> {
        for (id, end) in &mut self.ends {
            if spokes.contains(id) && *id != self.hub && end.before.is_empty() {
                end.before = std::mem::replace(&mut end.preshared, key()?.0);
                end.made = now;
            }
        }
        Ok(())
    }

    /// Ends a change: these spokes go back to the key of before, and the others keep the new one.
    pub fn complete(&mut self, back: &BTreeSet<String>) {
        for (id, end) in &mut self.ends {
            let before = std::mem::take(&mut end.before);
            if back.contains(id) && !before.is_empty() {
                end.preshared = before;
            }
        }
    }
}

/// The only hub.
fn hub<'a>(name: &str, sides: &[Side<'a>]) -> Result<Side<'a>, GroupError> {
    let mut hubs = sides.iter().filter(|side| side.is("hub"));
    let hub = *hubs.next().ok_or_else(|| GroupError::NoHub(name.to_owned()))?;
    if let Some(other) = hubs.next() {
        let (one, other) = (hub.member.name.clone(), other.member.name.clone());
        return Err(GroupError::TwoHubs { overlay: name.to_owned(), one, other });
    }
    if endpoint(&hub)?.is_none() {
        return Err(GroupError::NoEndpoint(hub.member.name.clone()));
    }
    Ok(hub)
}

fn endpoint<'a>(side: &Side<'a>) -> Result<Option<&'a str>, GroupError> {
    let Some(at) = side.value("endpoint") else { return Ok(None) };
    let is_legal = |octet: u8| octet.is_ascii_alphanumeric() || b"-._:[]%".contains(&octet);
    let port = at.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none() || !at.bytes().all(is_legal) {
        return Err(GroupError::Endpoint { device: side.member.name.clone(), endpoint: at.to_owned() });
    }
    Ok(Some(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Member;
    use crate::identity::{Identity, Seed};

    fn member(name: &str, octet: u8, values: &[(&str, &str)]) -> (String, Member) {
        let keys = Identity::of(Seed::of([octet; 32])).public();
        let mut member = Member::new(name, "gateway", "", keys);
        member.overlay = "wan".into();
        member.values = values.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        (keys.id(), member)
    }

    fn sides(members: &[(String, Member)]) -> Vec<Side<'_>> {
        members.iter().map(|(id, member)| Side { id, member }).collect()
    }

    const HUB: [(&str, &str); 2] = [("hub", "yes"), ("endpoint", "192.0.2.1:51820")];

    fn three() -> Vec<(String, Member)> {
        vec![member("hall", 1, &HUB), member("press", 2, &[]), member("pump", 3, &[("tunnel", "10.66.9.9")])]
    }

    #[test]
    fn both_ends_have_one_preshared_key() {
        let members = three();
        let all = sides(&members);
        let mut overlay = Overlay::new().unwrap();
        assert!(overlay.follow("wan", &all, 5).unwrap() && !overlay.follow("wan", &all, 6).unwrap());
        let [hub, press, pump] = [0, 1, 2].map(|of| overlay.given(&members[of].0, "wan", &all).unwrap());
        let (psk_of, hub_id) = (|id: &str| format!("{PRESHARED}{id}"), &members[0].0);
        assert_eq!(hub.files[&psk_of(&members[1].0)], press.files[&psk_of(hub_id)]);
        assert_eq!(hub.files[&psk_of(&members[2].0)], pump.files[&psk_of(hub_id)]);
        assert_ne!(press.files[&psk_of(hub_id)], pump.files[&psk_of(hub_id)]);
        // A spoke knows its hub alone, and nobody's private key but its own.
        assert_eq!((press.files.len(), hub.files.len()), (2, 3));
        let own = public(hub.files[PRIVATE].trim());
        assert!(press.values["peers"].contains(&own) && press.values["peers"].contains("192.0.2.1:51820"));
        assert!(hub.values["peers"].contains("address = \"10.66.9.9\""), "{}", hub.values["peers"]);
        assert_eq!(pump.values["tunnel"], "10.66.9.9");
        assert!(!format!("{overlay:?}").contains(hub.files[PRIVATE].trim()));
        assert_eq!((overlay.hub(), overlay.made()), (hub_id.as_str(), Some(5)));
    }

    #[test]
    fn change_returns_where_nobody_answered() {
        let members = three();
        let all = sides(&members);
        let mut overlay = Overlay::new().unwrap();
        overlay.follow("wan", &all, 5).unwrap();
        let old = overlay.clone();
        let spokes: BTreeSet<String> = members.iter().skip(1).map(|(id, _)| id.clone()).collect();
        overlay.begin(&spokes, 7).unwrap();
        // A change that was interrupted goes on with the same keys.
        let begun = overlay.clone();
        overlay.begin(&spokes, 8).unwrap();
        assert!(overlay == begun);
        overlay.complete(&BTreeSet::from([members[2].0.clone()]));
        assert_ne!(overlay.ends[&members[1].0].preshared, old.ends[&members[1].0].preshared);
        assert_eq!(overlay.ends[&members[2].0].preshared, old.ends[&members[2].0].preshared);
    }

    #[test]
    fn lost_member_leaves_no_key() {
        let mut members = three();
        let mut overlay = Overlay::new().unwrap();
        overlay.follow("wan", &sides(&members), 5).unwrap();
        let before = overlay.clone();
        let pump = members.pop().unwrap();
        assert!(overlay.follow("wan", &sides(&members), 6).unwrap());
        let hub = overlay.given(&members[0].0, "wan", &sides(&members)).unwrap();
        assert!(!hub.values["peers"].contains("pump") && hub.files.len() == 2);
        // It comes back with other keys.
        members.push(pump);
        overlay.follow("wan", &sides(&members), 7).unwrap();
        assert_ne!(overlay.ends[&members[2].0].private, before.ends[&members[2].0].private);
        // The hub is lost: it knew all preshared keys.
        members.remove(0);
        members[1].1.values.extend(HUB.map(|(key, value)| (key.to_owned(), value.to_owned())));
        overlay.follow("wan", &sides(&members), 8).unwrap();
        assert_ne!(overlay.ends[&members[0].0].preshared, before.ends[&members[0].0].preshared);
        // The last spoke is lost: a gateway wants a peer.
        members.remove(0);
        overlay.follow("wan", &sides(&members), 9).unwrap();
        let alone = overlay.given(&members[0].0, "wan", &sides(&members)).unwrap();
        assert!(alone.values["peers"].contains("nobody"), "{}", alone.values["peers"]);
    }

    #[test]
    fn lost_hub_is_nobodys_peer() {
        let mut members = three();
        let mut overlay = Overlay::new().unwrap();
        overlay.follow("wan", &sides(&members), 5).unwrap();
        let before = overlay.clone();
        members.remove(0);
        assert_eq!(overlay.follow("wan", &sides(&members), 6), Err(GroupError::NoHub("wan".into())));
        overlay.lose_hub(6).unwrap();
        assert!(overlay.follow("wan", &sides(&members), 6).unwrap());
        for (id, _) in &members {
            let given = overlay.given(id, "wan", &sides(&members)).unwrap();
            assert!(given.values["peers"].contains("nobody") && given.files.len() == 1);
            assert_ne!(overlay.ends[id].preshared, before.ends[id].preshared);
        }
        assert!(!overlay.follow("wan", &sides(&members), 7).unwrap(), "and it stays so");
    }

    #[test]
    fn faults_name_the_device() {
        let mut overlay = Overlay::new().unwrap();
        let mut fault = |members: &[(String, Member)]| overlay.follow("wan", &sides(members), 5).unwrap_err();
        assert_eq!(fault(&[member("a", 1, &[])]), GroupError::NoHub("wan".into()));
        let two = [member("a", 1, &HUB), member("b", 2, &HUB)];
        assert!(matches!(fault(&two), GroupError::TwoHubs { .. }));
        assert_eq!(fault(&[member("a", 1, &[("hub", "yes")])]), GroupError::NoEndpoint("a".into()));
        let quoted = [("hub", "yes"), ("endpoint", "a\"b:1")];
        assert!(matches!(fault(&[member("a", 1, &quoted)]), GroupError::Endpoint { .. }));
        let doubled = [
            member("a", 1, &HUB),
            member("b", 2, &[("tunnel", "10.66.0.9")]),
            member("c", 3, &[("tunnel", "10.66.0.9")]),
        ];
        assert!(matches!(fault(&doubled), GroupError::Address { .. }));
        assert!(matches!(
            fault(&[member("a", 1, &HUB), member("b", 2, &[("tunnel", "x")])]),
            GroupError::Address { .. }
        ));
        let many: Vec<_> = (0..=u8::MAX).map(|at| (format!("id{at}"), member("x", at, &[]).1)).collect();
        let many: Vec<_> = many.into_iter().chain([member("h", 1, &HUB), member("y", 2, &[])]).collect();
        assert_eq!(fault(&many), GroupError::TooMany("wan".into()));
    }
}
