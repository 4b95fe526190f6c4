//! The keys of a capture, and the reading of its frames with them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use antedate_channel::fragment::{Limits, MAX_FRAME, Marks};
use antedate_channel::macsec::{
    CipherSuite, Discard, ReadyReceive, Receive, ReceiveConfig, Sak, channel_scis, channel_ssci,
};
use antedate_channel::mka::{Cak, KeyIdentifier, Listed, MemberIdentifier, Overheard, short_scis};
use antedate_gateway::config::express::{express_sci, express_ssci};
use antedate_gateway::config::keys::KeyFile;
use antedate_gateway::config::keys::channels;
use antedate_host::hex::hex;
use antedate_wire::macsec::{An, Mpdu, Sci};
use antedate_wire::mka::{DistributedSak, Repr};
use antedate_wire::{EtherType, VlanTagStack};

use super::audit::{Audit, Number, extended};
use super::why::{self, Suspects};

/// The most senders of a capture.
const PEERS_MAX: usize = 64;

/// A protected frame.
#[derive(Debug)]
pub(super) struct Protected {
    pub(super) sci: Option<Sci>,
    pub(super) an: An,
    pub(super) number: u64,
    pub(super) order: Number,
    pub(super) is_encrypted: bool,
    /// What it protects, or the reason why there is nothing; nothing without keys.
    pub(super) opened: Option<Result<Opened, Discard>>,
    /// The deviation that explains a refusal, if it was looked for and found.
    pub(super) why: Option<String>,
}

/// The content of an authentic frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// A frame.
    Whole(Vec<u8>),
    /// A frame of which this was the last fragment.
    Completed(Vec<u8>),
    /// A fragment that others follow.
    Piece,
}

impl Opened {
    /// The frame, if it is there.
    pub(super) fn frame(&self) -> Option<&[u8]> {
        match self {
            Self::Whole(frame) | Self::Completed(frame) => Some(frame),
            Self::Piece => None,
        }
    }
}

/// A frame of a capture.
#[derive(Debug)]
pub(super) enum Seen {
    Protected(Protected),
    /// MACsec's EtherType, and no right SecTAG; the deviation that explains it.
    Malformed(String, Option<String>),
    /// An MKPDU: sender, message number, the distributed key, whether a CAK proves it.
    Mkpdu {
        sci: Sci,
        message: u32,
        key: Option<(KeyIdentifier, An)>,
        proven: Option<bool>,
    },
    Other(Option<u16>),
}

/// A secure channel, its association number, and the identifier of its key, if an MKPDU named it.
pub(super) type Sender = (Sci, An, Option<[u8; 16]>);

/// A distributed key, its association number, and its users.
type Distributed = (KeyIdentifier, An, Sak, Vec<MemberIdentifier>);

/// Keys, and the state of the senders.
pub(super) struct Reader {
    receive: Receive,
    has_keys: bool,
    /// The place for a frame of fragments.
    whole: Box<[u8]>,
    /// The marks of the fragments of each sender that sends some.
    marks: BTreeMap<Sci, Marks>,
    /// What may explain a refused frame, if that is wanted.
    suspects: Option<Suspects>,
    caks: Vec<Arc<Cak>>,
    /// The SCIs of members, and the numbers of their channels.
    members: BTreeMap<MemberIdentifier, (Sci, u8)>,
    /// The keys that came, the latest last, and who has which.
    distributed: Vec<Distributed>,
    installed: Vec<(KeyIdentifier, Sci)>,
    /// The key of each association number, as MKPDUs name it.
    named: [Option<KeyIdentifier>; An::COUNT],
    pub(super) audit: Audit<Sender>,
}

impl Reader {
    /// Without keys.
    pub(super) fn new() -> Self {
        let config = ReceiveConfig {
            // A capture has what it has: copies and late frames are told, and opened.
            replay_protect: false,
            max_peers: PEERS_MAX,
            ..ReceiveConfig::new(CipherSuite::GcmAes128)
        };
        Self {
            receive: Receive::new(config),
            has_keys: false,
            whole: vec![0; MAX_FRAME].into(),
            marks: BTreeMap::new(),
            suspects: None,
            caks: Vec::new(),
            members: BTreeMap::new(),
            distributed: Vec::new(),
            installed: Vec::new(),
            named: [None; An::COUNT],
            audit: Audit::default(),
        }
    }

    /// Looks for the reasons of refusals, with keys that are added later.
    pub(super) fn explain(&mut self) {
        self.suspects = Some(Suspects::default());
    }

    /// Looks ahead at a frame of the capture: senders of fragments are known before their frames.
    pub(super) fn expect(&mut self, frame: &[u8]) {
        let (frame, _) = bare(frame);
        if let Ok(Mpdu { tag, .. }) = Mpdu::parse(&frame)
            && let Some(sci) = tag.sci
            && (tag.more_fragments || tag.continued)
        {
            let marks = self.marks.entry(sci).or_default();
            if tag.continued {
                *marks = Marks::Both;
            }
            // Of a capture that is read only once; nothing changes when it is known already.
            self.receive.set_fragments(sci, Some(*marks), Limits::default());
        }
    }

    /// Adds static keys, for all members and their express channels.
    pub(super) fn add_keys(&mut self, keys: &KeyFile) {
        self.has_keys = true;
        if let Some(suspects) = &mut self.suspects {
            suspects.add(keys);
        }
        for association in &keys.associations {
            let Ok(sak) = Sak::new(keys.suite, association.key.as_bytes(), association.salt) else {
                continue;
            };
            for (sci, ssci) in keys.members.iter().flat_map(channels::all) {
                self.install(sci, ssci, association.an, &sak);
            }
        }
    }

    /// Adds the CAKs of a file.
    pub(super) fn add_caks(&mut self, listed: Vec<Listed>) {
        self.has_keys = true;
        self.caks.extend(listed.into_iter().map(|listed| listed.cak));
    }

    fn install(&mut self, sci: Sci, ssci: Option<u32>, an: An, sak: &Sak) {
        for (sci, ssci) in [(sci, ssci), (express_sci(sci), ssci.map(express_ssci))] {
            if let Ok(ready) = ReadyReceive::new(sci, ssci, an, sak, 1) {
                // A capture of more senders leaves the others closed, which their lines say.
                let _ = self.receive.adopt(ready);
                if let Some(marks) = self.marks.get(&sci) {
                    self.receive.set_fragments(sci, Some(*marks), Limits::default());
                }
            }
        }
    }

    /// Reads a frame without the VLAN tags in front of MACsec ([`bare`]).
    pub(super) fn see(&mut self, frame: &[u8]) -> Seen {
        let ethertype = ethertype(frame);
        match ethertype.map(EtherType::from) {
            Some(EtherType::Macsec) => self.protected(frame),
            Some(EtherType::Eapol) => self.mkpdu(frame).unwrap_or(Seen::Other(ethertype)),
            _ => Seen::Other(ethertype),
        }
    }

    fn protected(&mut self, frame: &[u8]) -> Seen {
        let mpdu = match Mpdu::parse(frame) {
            Ok(mpdu) => mpdu,
            Err(error) => {
                let why = self.suspects.as_ref().and_then(|suspects| suspects.explain(frame));
                return Seen::Malformed(error.to_string(), why);
            }
        };
        let (an, sci) = (mpdu.tag.an, mpdu.sci());
        let mut open = || {
            let mut place = frame.to_vec();
            let within = self.receive.accept(|| 0, &mut place, &mut self.whole)?;
            let marked = mpdu.tag.more_fragments || mpdu.tag.continued;
            Ok(match within {
                Some(within) if within.len() > frame.len() || marked => Opened::Completed(within.to_vec()),
                Some(within) => Opened::Whole(within.to_vec()),
                None => Opened::Piece,
            })
        };
        let opened = self.has_keys.then(&mut open);
        // A fragment without its place is authentic.
        let is_unproven = matches!(&opened, Some(Err(why)) if !matches!(why, Discard::Fragment(_)));
        let why = if is_unproven { self.why(frame) } else { None };
        let key = self.named[an.index()].map(|key| key.octets());
        // A forged frame proves nothing about its sender's numbers.
        let (number, order) = if is_unproven {
            (mpdu.tag.packet_number.into(), Number::Next)
        } else {
            let name = (sci.unwrap_or_default(), an, key);
            let number = |last| extended(mpdu.tag.packet_number, last);
            // An ICV that a key proves stands for its content.
            let proven = matches!(opened, Some(Ok(_)));
            self.audit.note(name, number, (if proven { &[] } else { mpdu.secure_data }, mpdu.icv))
        };
        Seen::Protected(Protected {
            sci,
            an,
            number,
            order,
            is_encrypted: mpdu.tag.tci.encryption(),
            opened,
            why,
        })
    }

    /// The deviation that explains a refused frame.
    fn why(&self, frame: &[u8]) -> Option<String> {
        let suspects = self.suspects.as_ref()?;
        let distributed = || {
            let keys = self.distributed.iter().map(|(key, an, sak, _)| ((key, an), sak));
            let (key, an) = why::opens(frame, keys)?;
            Some(format!("the key is {}, distributed for AN {}", hex(&key.octets()), an.number()))
        };
        suspects.explain(frame).or_else(distributed)
    }

    fn mkpdu(&mut self, frame: &[u8]) -> Option<Seen> {
        let parsed = Repr::parse(frame).ok()?;
        let basic = parsed.repr.basic;
        let overheard = self.caks.iter().find_map(|cak| Overheard::read(cak, frame));
        let proven = (!self.caks.is_empty()).then_some(overheard.is_some());
        let key = match parsed.repr.distributed_sak {
            Some(DistributedSak::Sak(sak)) => {
                Some((KeyIdentifier { server: basic.member, number: sak.number }, sak.an))
            }
            _ => None,
        };
        if proven != Some(false) {
            let used = parsed.repr.sak_use.and_then(|used| used.keys).into_iter().flatten();
            let used = used.filter(|used| used.is_some() && used.transmits).map(|used| (used.key, used.an));
            for (key, an) in used.chain(key) {
                self.named[an.index()] = Some(key);
            }
        }
        if let Some(Overheard { sci, channels, member, sak, users, .. }) = overheard {
            self.members.insert(member, (sci, channels));
            if let Some((key, an, sak)) = sak
                && !self.distributed.iter().any(|(known, ..)| *known == key)
            {
                self.distributed.push((key, an, sak, users));
                // As many as association numbers are in use.
                if self.distributed.len() > An::COUNT {
                    self.distributed.remove(0);
                }
            }
            self.install_distributed();
        }
        Some(Seen::Mkpdu { sci: basic.sci, message: basic.message, key, proven })
    }

    /// Gives each key to those of its users whose SCI is known by now.
    fn install_distributed(&mut self) {
        for (key, an, sak, users) in std::mem::take(&mut self.distributed) {
            let known: BTreeMap<Sci, u8> =
                users.iter().filter_map(|user| self.members.get(user).copied()).collect();
            let scis: Vec<Sci> =
                users.iter().filter_map(|user| self.members.get(user)).map(|(sci, _)| *sci).collect();
            // Short SCIs count all users.
            if scis.len() == users.len() || !sak.suite().is_xpn() {
                for (sci, ssci) in short_scis(scis) {
                    if !self.installed.contains(&(key, sci)) {
                        self.installed.push((key, sci));
                        let ssci = sak.suite().is_xpn().then_some(ssci);
                        let channels = known.get(&sci).copied().unwrap_or(1);
                        for (place, sci) in (0..).zip(channel_scis(sci, channels)) {
                            self.install(sci, ssci.map(|ssci| channel_ssci(ssci, place)), an, &sak);
                        }
                    }
                }
            }
            self.distributed.push((key, an, sak, users));
        }
    }
}

/// The EtherType of a frame.
pub(super) fn ethertype(frame: &[u8]) -> Option<u16> {
    frame.get(12..).and_then(<[u8]>::first_chunk).copied().map(u16::from_be_bytes)
}

/// A frame without its VLAN tags, and their control information, outermost first. A network puts
/// them in front of MACsec and takes them away again.
pub(super) fn bare(frame: &[u8]) -> (Cow<'_, [u8]>, Vec<u16>) {
    match VlanTagStack::parse(frame) {
        Ok(stack) if !stack.tags().is_empty() => {
            let addresses = frame.get(..12).unwrap_or_default();
            let rest = frame.get(stack.payload.saturating_sub(2)..).unwrap_or_default();
            let tags = stack.tags().iter().map(|tag| tag.tci.0).collect();
            (Cow::Owned([addresses, rest].concat()), tags)
        }
        _ => (Cow::Borrowed(frame), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use antedate_channel::macsec::{Transmit, TransmitConfig};
    use antedate_channel::mka::{Action, Config, Participant};
    use antedate_wire::ethernet::Address;

    use super::*;

    const KEY: [u8; 16] = [7; 16];

    fn sci(last: u8) -> Sci {
        Sci::new(Address([2, 0, 0x5e, 0, 0, last]), 1)
    }

    fn sender(last: u8, an: An, sak: &Sak) -> Transmit {
        let mut transmit = Transmit::new(TransmitConfig::new(sak.suite(), sci(last))).expect("a channel");
        transmit.install(an, sak, 1, 100).expect("installed");
        transmit.set_encoding_sa(an).expect("in use");
        transmit
    }

    /// A frame of a machine.
    fn machine(content: u8) -> Vec<u8> {
        let mut frame = vec![2, 0, 0x5e, 0, 0, 9, 2, 0, 0x5e, 0, 0, 8, 0x88, 0x92];
        frame.extend([content; 60]);
        frame
    }

    fn protect(transmit: &mut Transmit, frame: &[u8]) -> Vec<u8> {
        let mut out = vec![0; frame.len() + 40];
        let length = transmit.protect(frame, &mut out).expect("protected");
        out.truncate(length);
        out
    }

    fn opened(seen: Seen) -> (Number, Option<Result<Opened, Discard>>) {
        match seen {
            Seen::Protected(Protected { order, opened, .. }) => (order, opened),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reused_number_is_found_among_authentic_frames() {
        let mut reader = Reader::new();
        reader.add_keys(&static_keys());
        let sak = Sak::new(CipherSuite::GcmAes128, &KEY, None).expect("a key");
        let mut first = sender(1, An::default(), &sak);
        let mut second = sender(1, An::default(), &sak);
        let frame = protect(&mut first, &machine(1));
        assert_eq!(opened(reader.see(&frame)), (Number::Next, Some(Ok(Opened::Whole(machine(1))))));
        assert_eq!(opened(reader.see(&frame)), (Number::Copy, Some(Ok(Opened::Whole(machine(1))))));
        let mut forged = protect(&mut first, &machine(2));
        let genuine = forged.clone();
        forged[40] ^= 1;
        assert!(matches!(opened(reader.see(&forged)), (Number::Next, Some(Err(_)))));
        assert_eq!(
            opened(reader.see(&genuine)),
            (Number::Next, Some(Ok(Opened::Whole(machine(2))))),
            "a forgery counts not"
        );
        let again = protect(&mut second, &machine(3));
        assert_eq!(opened(reader.see(&again)), (Number::Reused, Some(Ok(Opened::Whole(machine(3))))));
        assert!(matches!(reader.see(&machine(1)), Seen::Other(Some(0x8892))));
        assert!(matches!(reader.see(&genuine[..20]), Seen::Malformed(..)));
        let streams: Vec<_> = reader.audit.streams().map(|(_, stream)| stream).collect();
        assert_eq!((streams.len(), streams[0].reused, streams[0].copies), (1, 1, 1));
    }

    fn static_keys() -> KeyFile {
        let text = format!(
            "suite = \"gcm-aes-128\"\n[[sa]]\nan = 0\nkey_id = \"{}\"\nkey = \"{}\"\n\
             [[member]]\nname = \"a\"\nsci = \"02:00:5e:00:00:01/1\"\n\
             [[member]]\nname = \"b\"\nsci = \"02:00:5e:00:00:02/1\"\n",
            "01".repeat(16),
            "07".repeat(16)
        );
        KeyFile::parse("keys".as_ref(), &text).expect("keys")
    }

    #[test]
    fn fragments_are_put_together() {
        let sak = Sak::new(CipherSuite::GcmAes128, &KEY, None).expect("a key");
        for marks in [Marks::More, Marks::Both] {
            let mut transmit = sender(1, An::default(), &sak);
            let long = [machine(1), vec![6; 400]].concat();
            let (mut pieces, mut out) = (Vec::new(), vec![0; 1_000]);
            let mut send = |piece: &[u8]| pieces.push(piece.to_vec());
            transmit.protect_split(&long, 200, marks, &mut out, &mut send).expect("split");
            let short = protect(&mut transmit, &machine(2));
            let mut reader = Reader::new();
            pieces.iter().chain([&short]).for_each(|frame| reader.expect(frame));
            reader.add_keys(&static_keys());
            let mut all: Vec<_> = pieces
                .iter()
                .chain([&short])
                .map(|frame| opened(reader.see(frame)).1.expect("keys"))
                .collect();
            assert_eq!(all.pop(), Some(Ok(Opened::Whole(machine(2)))));
            assert_eq!(all.pop(), Some(Ok(Opened::Completed(long))), "{marks:?}");
            assert!(all.len() > 1 && all.iter().all(|piece| *piece == Ok(Opened::Piece)), "{all:?}");
        }
    }

    #[test]
    fn outer_tags_are_taken_away() {
        let sak = Sak::new(CipherSuite::GcmAes128, &KEY, None).expect("a key");
        let frame = protect(&mut sender(1, An::default(), &sak), &machine(1));
        let tags = [0x88, 0xa8, 0, 7, 0x81, 0, 0xc0, 5];
        let tagged = [&frame[..12], &tags, &frame[12..]].concat();
        let (untagged, found) = bare(&tagged);
        assert_eq!((&*untagged, found), (&frame[..], vec![7, 0xc005]));
        let mut reader = Reader::new();
        reader.add_keys(&static_keys());
        assert_eq!(opened(reader.see(&untagged)).1, Some(Ok(Opened::Whole(machine(1)))));
        assert!(matches!(bare(&frame), (Cow::Borrowed(_), tags) if tags.is_empty()));
        (0..tagged.len()).for_each(|length| _ = reader.see(&bare(&tagged[..length]).0));
    }

    #[test]
    fn refusal_is_explained() {
        let sak = Sak::new(CipherSuite::GcmAes128, &KEY, None).expect("a key");
        let frame = protect(&mut sender(3, An::default(), &sak), &machine(1));
        let mut reader = Reader::new();
        reader.explain();
        reader.add_keys(&static_keys());
        let Seen::Protected(Protected { opened: Some(Err(Discard::UnknownSci)), why: Some(why), .. }) =
            reader.see(&frame)
        else {
            panic!("not refused")
        };
        assert!(why.contains("is no member's"), "{why}");
        let cut = [&frame[..12], &[0x88, 0xe5, 0x2c, 9], &frame[16..]].concat();
        assert!(matches!(reader.see(&cut), Seen::Malformed(..)));
    }

    #[test]
    fn frames_are_told_apart_without_keys() {
        let sak = Sak::new(CipherSuite::GcmAes128, &KEY, None).expect("a key");
        let mut transmit = sender(1, An::default(), &sak);
        let mut reader = Reader::new();
        assert_eq!(opened(reader.see(&protect(&mut transmit, &machine(1)))), (Number::Next, None));
        protect(&mut transmit, &machine(1));
        assert_eq!(opened(reader.see(&protect(&mut transmit, &machine(1)))), (Number::Gap(1), None));
    }

    /// Two members agree on a key; their MKPDUs open a frame.
    #[test]
    fn distributed_key_is_unwrapped() {
        agreed(CipherSuite::GcmAes128);
        // A nonce has the short SCI of its channel.
        agreed(CipherSuite::GcmAesXpn128);
    }

    fn agreed(suite: CipherSuite) {
        let cak = || Arc::new(Cak::new(&[5; 16], b"cak").expect("a CAK"));
        let mut filler = 0u8;
        let mut random = |out: &mut [u8]| {
            filler += 1;
            out.fill(filler);
        };
        let mut members = [1, 2].map(|last| {
            let channels = Config { channels: 3, takes_channels: 3, ..Config::new(sci(last)) };
            Participant::new(cak(), Config { suites: vec![suite], ..channels }, &mut random)
        });
        let (mut right, mut wrong) = (Reader::new(), Reader::new());
        right.caks.push(cak());
        wrong.caks.push(Arc::new(Cak::new(&[6; 16], b"cak").expect("a CAK")));
        (right.has_keys, wrong.has_keys) = (true, true);
        let mut transmit = Vec::new();
        for round in 0..20u64 {
            let now = Duration::from_millis(500 * round);
            for at in [0, 1] {
                members[at].tick(now, &mut random);
                while let Some(action) = members[at].next_action() {
                    match action {
                        Action::Send(frame) => {
                            assert!(matches!(right.see(&frame), Seen::Mkpdu { proven: Some(true), .. }));
                            assert!(matches!(wrong.see(&frame), Seen::Mkpdu { proven: Some(false), .. }));
                            members[1 - at].receive(now, &frame).expect("taken");
                        }
                        Action::Receive(install) => members[at].receives(install.key),
                        Action::Transmit(install) => {
                            let own = sci(at as u8 + 1);
                            let further = (0..).zip(channel_scis(own, 3));
                            let further = further.map(|(place, sci)| {
                                (sci, install.ssci.map(|ssci| channel_ssci(ssci, place)))
                            });
                            let express = (express_sci(own), install.ssci.map(express_ssci));
                            let channel = |(sci, ssci)| {
                                let config = TransmitConfig { ssci, ..TransmitConfig::new(suite, sci) };
                                let mut transmit = Transmit::new(config).expect("a channel");
                                transmit.install(install.an, &install.sak, 1, 100).expect("installed");
                                transmit.set_encoding_sa(install.an).expect("in use");
                                transmit
                            };
                            transmit = further.chain([express]).map(channel).collect();
                        }
                        _ => {}
                    }
                }
            }
        }
        assert_eq!(transmit.len(), 4, "a key within ten seconds");
        for transmit in &mut transmit {
            let frame = protect(transmit, &machine(4));
            assert_eq!(opened(right.see(&frame)), (Number::Next, Some(Ok(Opened::Whole(machine(4))))));
            assert!(matches!(opened(wrong.see(&frame)), (_, Some(Err(_)))));
        }
        let streams: Vec<_> = right.audit.streams().collect();
        assert!(streams[0].0.2.is_some(), "{streams:?}");
    }
}
