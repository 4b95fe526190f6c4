//! The lines of wpa_supplicant's and hostapd's debug output that tell the keys of EAP-TLS.
//!
//! Neither gives the keys on its control interface. With `-K -d` both print the master session key and
//! the Session-Id when EAP-TLS has derived them, and then the success.

use antedate_channel::mka::MSK_LEN;
use antedate_host::hex::parse_hex;
use antedate_wire::EthernetAddress;
use zeroize::Zeroizing;

/// The most octets of a Session-Id.
const MAX_SESSION_LEN: usize = 255;

/// The keys of an authentication.
#[derive(Debug)]
pub(super) struct EapKeys {
    /// The master session key.
    pub(super) msk: Zeroizing<[u8; MSK_LEN]>,
    /// The Session-Id, which is public.
    pub(super) session: Vec<u8>,
}

/// What a line tells.
#[derive(Debug)]
pub(super) enum Told {
    /// An event for the operator.
    Event(String),
    /// The program prints no keys.
    Hidden,
    /// The peer is authenticated.
    Success { keys: Box<EapKeys>, peer: EthernetAddress },
}

/// The keys told so far.
#[derive(Debug, Default)]
pub(super) struct Listener {
    msk: Option<Zeroizing<[u8; MSK_LEN]>>,
    session: Option<Vec<u8>>,
    /// The sender of the last EAPOL frame.
    from: Option<EthernetAddress>,
}

impl Listener {
    /// Hears a line.
    pub(super) fn hear(&mut self, line: &str) -> Option<Told> {
        if let Some(digits) = behind(line, "EAP-TLS: Derived key - hexdump(len=64):") {
            let mut msk = Zeroizing::new([0; MSK_LEN]);
            if !pairs(digits, &mut msk[..]) {
                return Some(Told::Hidden);
            }
            (self.msk, self.session) = (Some(msk), None);
        } else if let Some(digits) = behind(line, "EAP: Session-Id - hexdump(len=") {
            let (len, digits) = digits.split_once("):")?;
            let len = len.parse().ok().filter(|len| (1..=MAX_SESSION_LEN).contains(len))?;
            let mut session = vec![0; len];
            self.session = pairs(digits, &mut session).then_some(session);
        } else if let Some(address) = behind(line, "RX EAPOL from ") {
            self.from = address.split_whitespace().next().and_then(|address| address.parse().ok());
        } else if let Some(event) = behind(line, "CTRL-EVENT-EAP-SUCCESS ") {
            // hostapd names the peer; a supplicant has heard it last.
            let named = event.split_whitespace().next().and_then(|address| address.parse().ok());
            let peer = named.or(self.from)?;
            let keys = EapKeys { msk: self.msk.take()?, session: self.session.take()? };
            return Some(Told::Success { keys: Box::new(keys), peer });
        } else if behind(line, "CTRL-EVENT-EAP-FAILURE").is_some() {
            (self.msk, self.session) = (None, None);
            return Some(Told::Event(line.to_owned()));
        } else if behind(line, "CTRL-EVENT-EAP-TLS-CERT-ERROR").is_some() {
            return Some(Told::Event(line.to_owned()));
        }
        None
    }
}

/// The rest of a line behind `mark`.
fn behind<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.find(mark).and_then(|at| line.get(at + mark.len()..))
}

/// Reads pairs of hexadecimal digits with spaces between them; exactly as many as `out` has octets.
fn pairs(text: &str, out: &mut [u8]) -> bool {
    let mut pairs = text.split_whitespace();
    out.iter_mut().all(|octet| {
        let mut one = [0];
        let read = pairs.next().is_some_and(|pair| parse_hex(pair, &mut one));
        *octet = one[0];
        read
    }) && pairs.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hexdump(octets: std::ops::Range<u8>) -> String {
        octets.map(|octet| format!("{octet:02x} ")).collect()
    }

    fn authenticated(listener: &mut Listener, success: &str) -> Option<(Vec<u8>, Vec<u8>, String)> {
        let lines = [
            "uplink: RX EAPOL from 02:00:00:00:00:a2".to_owned(),
            format!("EAP-TLS: Derived key - hexdump(len=64): {}", hexdump(0..64)),
            "EAP-TLS: Derived EMSK - hexdump(len=64): 00".to_owned(),
            format!("EAP: Session-Id - hexdump(len=65): {}", hexdump(100..165)),
        ];
        assert!(lines.iter().all(|line| listener.hear(line).is_none()));
        match listener.hear(success)? {
            Told::Success { keys, peer } => Some((keys.msk.to_vec(), keys.session.clone(), peer.to_string())),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_programs_are_understood() {
        for (success, peer) in [
            ("uplink: CTRL-EVENT-EAP-SUCCESS 02:00:00:00:00:b2", "02:00:00:00:00:b2"),
            ("uplink: CTRL-EVENT-EAP-SUCCESS EAP authentication completed successfully", "02:00:00:00:00:a2"),
            ("1700000000.123456: uplink: CTRL-EVENT-EAP-SUCCESS EAP authentication", "02:00:00:00:00:a2"),
        ] {
            let mut listener = Listener::default();
            for _ in 0..2 {
                let found = authenticated(&mut listener, success).unwrap();
                assert_eq!(found, ((0..64).collect(), (100..165).collect(), peer.to_owned()));
                assert!(listener.hear(success).is_none(), "keys serve once");
            }
        }
    }

    #[test]
    fn failure_forgets_the_keys() {
        let mut listener = Listener::default();
        let failure = "uplink: CTRL-EVENT-EAP-FAILURE EAP authentication failed";
        assert!(authenticated(&mut listener, "nothing").is_none());
        assert!(matches!(listener.hear(failure), Some(Told::Event(event)) if event == failure));
        assert!(listener.hear("uplink: CTRL-EVENT-EAP-SUCCESS 02:00:00:00:00:b2").is_none());
    }

    #[test]
    fn hidden_and_damaged_keys_are_none() {
        let mut listener = Listener::default();
        let key = "EAP-TLS: Derived key - hexdump(len=64):";
        for digits in [" [REMOVED]".to_owned(), hexdump(0..63), hexdump(0..65), " xx".repeat(64)] {
            assert!(matches!(listener.hear(&format!("{key}{digits}")), Some(Told::Hidden)), "{digits}");
        }
        for session in ["(len=0): ", "(len=2): 0d", "(len=1): 0d 0e", "(len=300): 0d", "(len=x): 0d", ""] {
            assert!(listener.hear(&format!("{key} {}", hexdump(0..64))).is_none());
            assert!(listener.hear(&format!("EAP: Session-Id - hexdump{session}")).is_none());
            assert!(listener.hear("CTRL-EVENT-EAP-SUCCESS 02:00:00:00:00:b2").is_none(), "{session}");
        }
    }
}
