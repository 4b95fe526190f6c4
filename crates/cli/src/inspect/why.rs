//! Why a frame is refused: tries the known deviations of senders, and names the one that fits.
//!
//! A deviation fits if the frame's ICV is right under it. The tag of a candidate is computed by
//! encryption alone: in counter mode the ciphertext encrypted again is the plaintext, and that
//! encrypted gives the tag, of which a sender may have sent a part. The suites without counter mode
//! are opened, which takes the whole ICV.

use antedate_aead::research::Morus1280;
use antedate_aead::{
    Aegis128L, Aes128Gcm, Aes128Ocb3, Aes256Gcm, AsconAead128, ChaCha20Poly1305, Key, Nonce, Suite,
};
use antedate_channel::macsec::{CipherSuite, ReadyReceive, Receive, ReceiveConfig, Sak};
use antedate_gateway::config::express::express_sci;
use antedate_gateway::config::keys::channels;
use antedate_gateway::config::keys::{KeyFile, SecretKey};
use antedate_wire::macsec::{An, Sci};
use zeroize::Zeroizing;

/// Octets of the addresses.
const ADDRESSES: usize = 12;
/// Octets of a whole ICV.
const ICV: usize = 16;
/// Lengths of an ICV that was cut, in octets.
const CUT_ICVS: [usize; 2] = [12, 8];
/// The most members of an association, whose short SCIs are tried.
const SSCIS: u32 = 16;

/// A static key.
struct Candidate {
    an: An,
    suite: CipherSuite,
    key: SecretKey,
    salt: Option<[u8; 12]>,
}

/// The static keys and members that may explain a frame.
#[derive(Default)]
pub(super) struct Suspects {
    keys: Vec<Candidate>,
    members: Vec<Sci>,
}

/// The parts of a frame with a SecTAG, whatever its lengths say.
struct Parts<'a> {
    an: An,
    encrypted: bool,
    number: u32,
    sci: Sci,
    /// The addresses, then the SecTAG from its EtherType on.
    head: [&'a [u8]; 2],
    /// The user data and the ICV.
    rest: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(frame: &'a [u8]) -> Option<Self> {
        let (tci, number) = (*frame.get(14)?, u32::from_be_bytes(*frame.get(16..)?.first_chunk()?));
        let explicit = tci & 0x20 != 0;
        let end = if explicit { 28 } else { 20 };
        let source = frame.get(6..12)?.try_into().ok()?;
        let sci = if explicit {
            Sci(*frame.get(20..)?.first_chunk()?)
        } else {
            Sci::new(antedate_wire::EthernetAddress(source), Sci::PORT_END_STATION)
        };
        Some(Self {
            an: An::new(tci & 3)?,
            encrypted: tci & 0x08 != 0,
            number,
            sci,
            head: [frame.get(..ADDRESSES)?, frame.get(ADDRESSES..end)?],
            rest: frame.get(end..)?,
        })
    }
}

/// How a candidate deviates. The default is the standard's way.
#[derive(Clone, Copy)]
struct Way {
    suite: CipherSuite,
    nonce: [u8; 12],
    encrypted: bool,
    with_addresses: bool,
    icv: usize,
}

impl Suspects {
    pub(super) fn add(&mut self, keys: &KeyFile) {
        for association in &keys.associations {
            self.keys.push(Candidate {
                an: association.an,
                suite: keys.suite,
                key: SecretKey::new(association.key.as_bytes()),
                salt: association.salt,
            });
        }
        let members =
            keys.members.iter().flat_map(channels::all).flat_map(|(sci, _)| [sci, express_sci(sci)]);
        self.members.extend(members);
    }

    /// The deviation that fits a refused frame of these static keys.
    pub(super) fn explain(&self, frame: &[u8]) -> Option<String> {
        let parts = Parts::of(frame)?;
        self.keys.iter().find_map(|candidate| {
            let what = self.deviation(candidate, &parts)?;
            Some(if candidate.an == parts.an {
                what
            } else {
                format!("{what}, and the key is that of AN {}", candidate.an.number())
            })
        })
    }

    fn deviation(&self, candidate: &Candidate, parts: &Parts<'_>) -> Option<String> {
        let usual = Way {
            suite: candidate.suite,
            nonce: *nonces(candidate, parts.sci, parts.number).first()?,
            encrypted: parts.encrypted,
            with_addresses: true,
            icv: ICV,
        };
        let fits = |way: Way| fits(candidate, parts, way);
        if nonces(candidate, parts.sci, parts.number).into_iter().any(|nonce| fits(Way { nonce, ..usual })) {
            // The receiver refused it for its labels.
            return Some(if candidate.an != parts.an {
                "the association number of the SecTAG is another one".into()
            } else if self.members.contains(&parts.sci) {
                "the SecTAG's lengths or marks are wrong; the ICV is right".into()
            } else {
                format!("the SCI {} is no member's; the key is right", parts.sci)
            });
        }
        for icv in CUT_ICVS {
            if fits(Way { icv, ..usual }) {
                return Some(format!("the ICV was cut to {icv} octets"));
            }
        }
        for suite in CipherSuite::ALL {
            let other = Candidate {
                an: candidate.an,
                suite,
                key: SecretKey::new(candidate.key.as_bytes()),
                salt: candidate.salt,
            };
            let mut ways = nonces(&other, parts.sci, parts.number).into_iter();
            if suite != candidate.suite && ways.any(|nonce| fits(Way { suite, nonce, ..usual })) {
                return Some(format!("the sender's suite is {suite}, the key file's {}", candidate.suite));
            }
        }
        if !candidate.suite.is_xpn() {
            for (what, nonce) in other_nonces(parts.sci, parts.number) {
                if fits(Way { nonce, ..usual }) {
                    return Some(what.into());
                }
            }
        }
        for sci in &self.members {
            let mut ways = nonces(candidate, *sci, parts.number).into_iter();
            if *sci != parts.sci && ways.any(|nonce| fits(Way { nonce, ..usual })) {
                return Some(format!("the nonce has the SCI {sci}, not that of the SecTAG"));
            }
        }
        if fits(Way { with_addresses: false, ..usual }) {
            return Some("the ICV leaves out the addresses".into());
        }
        let turned = Way { encrypted: !parts.encrypted, ..usual };
        fits(turned).then(|| "the bit E is wrong: encrypted and not encrypted are exchanged".into())
    }
}

/// The nonces of the standard: one, or with XPN one for each short SCI, as long as the upper half of
/// the packet number is 0.
fn nonces(candidate: &Candidate, sci: Sci, number: u32) -> Vec<[u8; 12]> {
    if !candidate.suite.is_xpn() {
        return vec![joined(sci.0, number.to_be_bytes())];
    }
    let Some(salt) = candidate.salt else { return Vec::new() };
    let with = |ssci: u32| {
        let mut nonce = salt;
        let number = u64::from(number).to_be_bytes();
        nonce.iter_mut().zip(ssci.to_be_bytes().into_iter().chain(number)).for_each(|(octet, x)| *octet ^= x);
        nonce
    };
    (1..=SSCIS).map(with).collect()
}

fn joined(sci: [u8; 8], number: [u8; 4]) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&sci);
    nonce[8..].copy_from_slice(&number);
    nonce
}

/// Nonces of other makes.
fn other_nonces(sci: Sci, number: u32) -> [(&'static str, [u8; 12]); 5] {
    let mut turned = sci.0;
    turned.reverse();
    let mut swapped = joined(sci.0, number.to_be_bytes());
    swapped.rotate_right(4);
    [
        ("the nonce has the packet number in the other order of octets", joined(sci.0, number.to_le_bytes())),
        ("the nonce has the SCI in the other order of octets", joined(turned, number.to_be_bytes())),
        ("the nonce has the packet number before the SCI", swapped),
        (
            "the nonce counts from 0: its packet number is one less than the SecTAG's",
            joined(sci.0, number.wrapping_sub(1).to_be_bytes()),
        ),
        (
            "the nonce counts ahead: its packet number is one more than the SecTAG's",
            joined(sci.0, number.wrapping_add(1).to_be_bytes()),
        ),
    ]
}

/// Whether the frame's ICV is right in this way.
fn fits(candidate: &Candidate, parts: &Parts<'_>, way: Way) -> bool {
    let Some(at) = parts.rest.len().checked_sub(way.icv) else { return false };
    let (data, icv) = parts.rest.split_at(at);
    let mut aad = Vec::with_capacity(64);
    if way.with_addresses {
        aad.extend(parts.head[0]);
    }
    aad.extend(parts.head[1]);
    let text = if way.encrypted {
        data
    } else {
        aad.extend(data);
        &[]
    };
    let key = candidate.key.as_bytes();
    let tag = match way.suite {
        CipherSuite::GcmAes128 | CipherSuite::GcmAesXpn128 => tag::<Aes128Gcm>(key, way.nonce, &aad, text),
        CipherSuite::GcmAes256 | CipherSuite::GcmAesXpn256 => tag::<Aes256Gcm>(key, way.nonce, &aad, text),
        CipherSuite::ChaCha20Poly1305 => tag::<ChaCha20Poly1305>(key, way.nonce, &aad, text),
        CipherSuite::Aes128Ocb3 => return opened::<Aes128Ocb3>(key, way.nonce, &aad, text, icv),
        CipherSuite::Aegis128L => return opened::<Aegis128L>(key, widened(way.nonce), &aad, text, icv),
        CipherSuite::AsconAead128 => return opened::<AsconAead128>(key, widened(way.nonce), &aad, text, icv),
        CipherSuite::Morus1280 => return opened::<Morus1280>(key, widened(way.nonce), &aad, text, icv),
    };
    tag.is_some_and(|tag| tag.starts_with(icv))
}

/// The nonce of the private suites with 16 octets: four zeros first.
fn widened(nonce: [u8; 12]) -> [u8; 16] {
    let mut wide = [0; 16];
    wide[4..].copy_from_slice(&nonce);
    wide
}

/// Whether a ciphertext is authentic under a suite, with a whole ICV.
fn opened<S>(key: &[u8], nonce: S::NonceBytes, aad: &[u8], text: &[u8], icv: &[u8]) -> bool
where
    S: Suite<TagBytes = [u8; ICV]>,
{
    let (Ok(key), Ok(icv)) = (Key::<S>::new(key), icv.try_into()) else { return false };
    let mut plain = Zeroizing::new(vec![0; text.len()]);
    key.open(nonce, aad, text, &mut plain, icv).is_ok()
}

/// The tag of a ciphertext.
fn tag<S>(key: &[u8], nonce: [u8; 12], aad: &[u8], text: &[u8]) -> Option<[u8; ICV]>
where
    S: Suite<NonceBytes = [u8; 12], TagBytes = [u8; ICV]>,
{
    let key = Key::<S>::new(key).ok()?;
    let mut plain = Zeroizing::new(text.to_vec());
    key.seal_in_place(Nonce::assume_unique(nonce), aad, &mut plain);
    Some(*key.seal_in_place(Nonce::assume_unique(nonce), aad, &mut plain).as_bytes())
}

/// The distributed key under which a frame is authentic, whatever its SecTAG says. XPN: with any
/// short SCI.
pub(super) fn opens<'a, T>(frame: &[u8], keys: impl Iterator<Item = (T, &'a Sak)>) -> Option<T> {
    let parts = Parts::of(frame)?;
    let mut out = Zeroizing::new(vec![0; frame.len()]);
    let mut opens = |sak: &Sak, ssci| {
        let mut receive = Receive::new(ReceiveConfig::new(sak.suite()));
        let ready = ReadyReceive::new(parts.sci, ssci, parts.an, sak, 1);
        ready.is_ok_and(|ready| receive.adopt(ready).is_ok() && receive.validate(frame, &mut out).is_ok())
    };
    let sscis = |sak: &Sak| if sak.suite().is_xpn() { (1..=SSCIS).map(Some).collect() } else { vec![None] };
    keys.into_iter()
        .find_map(|(name, sak)| sscis(sak).into_iter().any(|ssci| opens(sak, ssci)).then_some(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_channel::macsec::{Transmit, TransmitConfig};

    const SCI: &str = "02:00:5e:00:00:01/1";

    fn suspects(suite: &str, more: &str) -> Suspects {
        let len = if suite.contains("128") { 16 } else { 32 };
        let text = format!(
            "suite = \"{suite}\"\n[[sa]]\nan = 0\nkey_id = \"{}\"\nkey = \"{}\"\n{more}\n[[sa]]\nan = 1\nkey_id = \"{}\"\nkey = \"{}\"\n{more}\n\
             [[member]]\nname = \"a\"\nsci = \"{SCI}\"\n{}[[member]]\nname = \"b\"\nsci = \"02:00:5e:00:00:02/1\"\n{}",
            "01".repeat(16),
            "07".repeat(len),
            "02".repeat(16),
            "08".repeat(len),
            if more.is_empty() { "" } else { "ssci = 1\n" },
            if more.is_empty() { "" } else { "ssci = 2\n" },
        );
        let mut suspects = Suspects::default();
        suspects.add(&KeyFile::parse("keys".as_ref(), &text).expect("keys"));
        suspects
    }

    /// A sender of one deviation.
    struct Sender {
        an: u8,
        key: u8,
        nonce: fn([u8; 8], u32) -> [u8; 12],
        sci: [u8; 8],
        aad_from: usize,
        icv: usize,
        encrypted: bool,
        says_encrypted: bool,
    }

    const USUAL: Sender = Sender {
        an: 0,
        key: 7,
        nonce: |sci, number| joined(sci, number.to_be_bytes()),
        sci: [2, 0, 0x5e, 0, 0, 1, 0, 1],
        aad_from: 0,
        icv: 16,
        encrypted: true,
        says_encrypted: true,
    };

    impl Sender {
        fn frame<S>(&self, key_len: usize) -> Vec<u8>
        where
            S: Suite<NonceBytes = [u8; 12], TagBytes = [u8; ICV]>,
        {
            let mut frame = vec![2, 0, 0x5e, 0, 0, 9, 2, 0, 0x5e, 0, 0, 8, 0x88, 0xe5];
            frame.push(0x20 | if self.says_encrypted { 0x0c } else { 0 } | self.an);
            frame.extend([0, 0, 0, 3, 5]);
            frame.extend(self.sci);
            let key = Key::<S>::new(&vec![self.key; key_len]).expect("a key");
            let nonce = Nonce::assume_unique((self.nonce)(self.sci, 0x305));
            let mut data = [&[0x88, 0x92][..], &[5; 60]].concat();
            let mut aad = frame[self.aad_from..].to_vec();
            let tag = if self.encrypted {
                key.seal_in_place(nonce, &aad, &mut data)
            } else {
                aad.extend(&data);
                key.seal_in_place(nonce, &aad, &mut [])
            };
            frame.extend(data);
            frame.extend(&tag.as_bytes()[..self.icv]);
            frame
        }
    }

    /// A frame of a gateway with this suite, under the key and the SCI of the usual sender.
    fn protected(suite: CipherSuite) -> Vec<u8> {
        let sak = Sak::new(suite, &[7; 16], None).expect("a key");
        let config = TransmitConfig::new(suite, Sci(USUAL.sci));
        let mut transmit = Transmit::new(config).expect("a channel");
        transmit.install(An::ALL[0], &sak, 0x305, u64::MAX).expect("installed");
        let frame = [&[2, 0, 0x5e, 0, 0, 9, 2, 0, 0x5e, 0, 0, 8, 0x88, 0x92][..], &[5; 60]].concat();
        let mut out = vec![0; transmit.protected_len(frame.len())];
        let len = transmit.protect(&frame, &mut out).expect("protected");
        out.truncate(len);
        out
    }

    fn explained(sender: &Sender) -> String {
        suspects("gcm-aes-128", "").explain(&sender.frame::<Aes128Gcm>(16)).unwrap_or_default()
    }

    #[test]
    fn each_deviation_is_named() {
        let stranger = [2, 0, 0x5e, 0, 0, 0x77, 0, 1];
        let cases: [(Sender, &str); 11] = [
            (Sender { an: 1, ..USUAL }, "association number"),
            (Sender { sci: stranger, ..USUAL }, "is no member's"),
            (Sender { icv: 12, ..USUAL }, "cut to 12"),
            (Sender { icv: 8, ..USUAL }, "cut to 8"),
            (
                Sender { nonce: |sci, n| joined(sci, n.to_le_bytes()), ..USUAL },
                "packet number in the other order",
            ),
            (
                Sender {
                    nonce: |mut sci, n| {
                        sci.reverse();
                        joined(sci, n.to_be_bytes())
                    },
                    ..USUAL
                },
                "SCI in the other order",
            ),
            (
                Sender {
                    nonce: |sci, n| {
                        let mut nonce = joined(sci, n.to_be_bytes());
                        nonce.rotate_right(4);
                        nonce
                    },
                    ..USUAL
                },
                "before the SCI",
            ),
            (Sender { nonce: |sci, n| joined(sci, (n - 1).to_be_bytes()), ..USUAL }, "counts from 0"),
            (
                Sender { nonce: |_, n| joined([2, 0, 0x5e, 0, 0, 2, 0, 1], n.to_be_bytes()), ..USUAL },
                "has the SCI 02005e",
            ),
            (Sender { aad_from: 12, ..USUAL }, "leaves out the addresses"),
            (Sender { encrypted: false, ..USUAL }, "the bit E"),
        ];
        for (sender, expected) in cases {
            let what = explained(&sender);
            assert!(what.contains(expected), "{expected}: {what}");
        }
        assert_eq!(explained(&Sender { key: 9, ..USUAL }), "", "another key");
        let mut forged = USUAL.frame::<Aes128Gcm>(16);
        forged[40] ^= 1;
        assert_eq!(suspects("gcm-aes-128", "").explain(&forged), None);
    }

    #[test]
    fn other_suites_of_a_key_are_tried() {
        let frame = USUAL.frame::<ChaCha20Poly1305>(32);
        let what = suspects("gcm-aes-256", "").explain(&frame).expect("a deviation");
        assert_eq!(what, "the sender's suite is chacha20-poly1305, the key file's gcm-aes-256");
        let salt = format!("salt = \"{}\"", "00".repeat(12));
        let frame = USUAL.frame::<Aes128Gcm>(16);
        let what = suspects("gcm-aes-xpn-128", &salt).explain(&frame).expect("a deviation");
        assert_eq!(what, "the sender's suite is gcm-aes-128, the key file's gcm-aes-xpn-128");
        let frame = USUAL.frame::<Aes128Ocb3>(16);
        let what = suspects("gcm-aes-128", "").explain(&frame).expect("a deviation");
        assert_eq!(what, "the sender's suite is aes-128-ocb3, the key file's gcm-aes-128");
        let cut = Sender { icv: 12, ..USUAL }.frame::<Aes128Ocb3>(16);
        assert_eq!(suspects("aes-128-ocb3", "").explain(&cut), None, "a cut ICV cannot be opened");
        for suite in ["aegis-128l", "ascon-aead128", "aes-128-ocb3"] {
            let sealed = protected(suite.parse().expect("a suite"));
            let what = suspects("gcm-aes-128", "").explain(&sealed).expect("a deviation");
            assert_eq!(what, format!("the sender's suite is {suite}, the key file's gcm-aes-128"));
            let mut forged = sealed;
            forged[50] ^= 1;
            assert_eq!(suspects("gcm-aes-128", "").explain(&forged), None, "{suite}");
        }
    }

    #[test]
    fn any_length_is_explained_without_panic() {
        let (frame, suspects) = (USUAL.frame::<Aes128Gcm>(16), suspects("gcm-aes-128", ""));
        for length in 0..frame.len() {
            let is_cut = CUT_ICVS.contains(&(ICV + length).saturating_sub(frame.len()));
            assert_eq!(suspects.explain(&frame[..length]).is_some(), is_cut, "{length}");
        }
    }

    #[test]
    fn earlier_key_is_found() {
        let saks = [7, 8].map(|key| Sak::new(CipherSuite::GcmAes128, &[key; 16], None).expect("a key"));
        let all = || ["early", "late"].into_iter().zip(&saks);
        assert_eq!(opens(&Sender { key: 8, an: 3, ..USUAL }.frame::<Aes128Gcm>(16), all()), Some("late"));
        assert_eq!(opens(&Sender { key: 9, ..USUAL }.frame::<Aes128Gcm>(16), all()), None);
    }
}
