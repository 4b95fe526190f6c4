//! What goes wrong between the ends of an overlay, for the watch.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::run::status::Overlay;
use crate::run::trouble::Trouble;
use crate::run::watch::Watch;

/// Refused datagrams by their counters, with the number between two looks that is normal.
const KINDS: [(Trouble, &[&str], u64); 5] = [
    (Trouble::UnknownPublicKey, &["wireguard:unknown_peer"], 0),
    (Trouble::OtherPublicKey, &["wireguard:wrong_mac1"], 0),
    (Trouble::OtherPresharedKey, &["wireguard:forged_handshake"], 0),
    (Trouble::ForgedDatagrams, &["wireguard:forged_data"], 0),
    // A restarted gateway hears frames of its earlier sessions.
    (Trouble::StrangeDatagrams, &["wireguard:unknown_index", "stranger"], 20),
];
/// The time without a session after which a peer counts as missing.
const LIFE_TIME: Duration = Duration::from_secs(6);
/// A handshake is repeated after five seconds. After this time without one nobody wants a session.
const TRYING: Duration = Duration::from_secs(12);

/// The counts and times of the last look.
#[derive(Debug, Default)]
pub(super) struct Symptoms {
    known: [u64; KINDS.len()],
    suspicious: [u64; KINDS.len()],
    peers: BTreeMap<String, Peer>,
}

#[derive(Debug, Default)]
struct Peer {
    tries: u64,
    tried: Option<Duration>,
    missing: Option<Duration>,
}

impl Symptoms {
    /// Compares with the state at the last look.
    pub(super) fn report(&mut self, document: &Overlay, now: Duration, watch: &Watch) {
        for ((trouble, names, normal), (known, suspicious)) in
            KINDS.iter().zip(self.known.iter_mut().zip(&mut self.suspicious))
        {
            let total = names.iter().filter_map(|name| document.refused.get(*name)).sum();
            let more = u64::saturating_sub(total, std::mem::replace(known, total));
            if more > *normal {
                *suspicious += more;
            }
            watch.count(*trouble, "", *suspicious, "");
        }
        for peer in &document.peers {
            let seen = self.peers.entry(peer.name.clone()).or_default();
            // Without frames there may be no session, and none is missed.
            let tries = peer.initiations + peer.frames_without_session;
            if tries > std::mem::replace(&mut seen.tries, tries) {
                seen.tried = Some(now);
            }
            let wanted = seen.tried.is_some_and(|tried| now < tried + TRYING);
            let since = if wanted && !peer.session { seen.missing.or(Some(now)) } else { None };
            seen.missing = since;
            let missing = since.is_some_and(|since| now >= since + LIFE_TIME);
            watch.holds(Trouble::NoSession, &peer.name, missing.then_some(&*peer.endpoint));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::status::OverlayPeer;

    fn names(watch: &Watch) -> Vec<String> {
        watch.active().into_iter().map(|warning| warning.name).collect()
    }

    #[test]
    fn refused_handshakes_speak() {
        let (mut symptoms, watch) = (Symptoms::default(), Watch::default());
        let mut document = Overlay::default();
        symptoms.report(&document, Duration::ZERO, &watch);
        for name in ["wrong_mac1", "unknown_peer", "forged_handshake", "forged_data"] {
            document.refused.insert(format!("wireguard:{name}"), 1);
        }
        document.refused.insert("wireguard:unknown_index".into(), 20);
        symptoms.report(&document, Duration::from_secs(1), &watch);
        let expected = ["unknown-public-key", "other-public-key", "other-preshared-key", "forged-datagrams"];
        assert_eq!(names(&watch), expected);
        document.refused.insert("wireguard:unknown_index".into(), 60);
        symptoms.report(&document, Duration::from_secs(2), &watch);
        assert!(names(&watch).contains(&"strange-datagrams".into()));
    }

    #[test]
    fn missing_session_speaks_while_it_is_wanted() {
        let (mut symptoms, watch) = (Symptoms::default(), Watch::default());
        let mut peer = OverlayPeer { name: "hall".into(), ..OverlayPeer::default() };
        let mut at = |second: u64, tries: u64, session: bool| {
            (peer.initiations, peer.session) = (tries, session);
            let document = Overlay { peers: vec![peer.clone()], ..Overlay::default() };
            symptoms.report(&document, Duration::from_secs(second), &watch);
            names(&watch)
        };
        assert_eq!(at(0, 0, false), [""; 0]);
        assert_eq!(at(100, 0, false), [""; 0], "no frame wants it");
        assert_eq!(at(101, 1, false), [""; 0]);
        assert_eq!(at(106, 2, false), [""; 0]);
        assert_eq!(at(107, 2, false), ["no-session"]);
        assert_eq!(at(111, 3, false), ["no-session"]);
        assert_eq!(at(112, 3, true), [""; 0]);
        assert_eq!(at(113, 4, false), [""; 0]);
        assert_eq!(at(119, 5, false), ["no-session"]);
        assert_eq!(at(140, 5, false), [""; 0], "it was given up");
    }
}
