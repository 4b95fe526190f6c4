//! What goes wrong in key agreement, for the watch.

use std::io;
use std::time::Duration;

use antedate_channel::mka::{CakStatus, Dropped, LIFE_TIME, Status};
use antedate_wire::{EthernetAddress, Sci};

use super::report::joined;
use crate::run::trouble::Trouble;
use crate::run::watch::Watch;

/// The longest duration of a fault that a start or a change of members may cause.
const PASSING: Duration = Duration::from_secs(3);
/// The time for members to install a key: the key server makes the next one after the life time.
const SLOW: Duration = Duration::from_secs(8);
/// The time in which key agreement finds out whether the standard's group reaches a member.
const FINDING: Duration = Duration::from_secs(10);
/// The time of a usual change of the CAK.
const CHANGING: Duration = Duration::from_secs(60);
/// Sources to remember.
const SOURCES: usize = 4;
/// The packet type of an MKPDU in an EAPOL header (IEEE 802.1X-2020, table 11-3).
const EAPOL_MKA: u8 = 5;

/// MKPDUs of one kind: their number and last senders. Senders are not authenticated.
#[derive(Debug, Default)]
struct Heard {
    count: u64,
    sources: Vec<EthernetAddress>,
}

impl Heard {
    fn from(&mut self, frame: &[u8]) {
        self.count += 1;
        let Some(source) = frame.get(6..12).and_then(|octets| EthernetAddress::from_bytes(octets).ok())
        else {
            return;
        };
        self.sources.retain(|known| *known != source);
        self.sources.insert(0, source);
        self.sources.truncate(SOURCES);
    }

    fn tell(&self, watch: &Watch, trouble: Trouble) {
        watch.count(trouble, "", self.count, &format!("last from {}", joined(&self.sources)));
    }
}

/// What lasts, and since when.
#[derive(Debug, Default)]
pub(super) struct Symptoms {
    wrong_icv: Heard,
    other_name: Heard,
    strange: Heard,
    own: Heard,
    on_the_field: Heard,
    /// Passed frames that switches keep: all, and those while a switch was between.
    passed: u64,
    kept: u64,
    far: Option<Duration>,
    /// A member is live.
    has_members: bool,
    alone: Option<Duration>,
    fault: Option<Duration>,
    without_key: Option<Duration>,
    waiting: Option<Duration>,
    /// Members that do not hear us, and live ones that do not take our key.
    deaf: Vec<(Sci, Duration)>,
    keyless: Vec<(Sci, Duration)>,
}

impl Symptoms {
    /// Notes a refused MKPDU.
    pub(super) fn refused(&mut self, reason: Dropped, frame: &[u8]) {
        match reason {
            Dropped::WrongIcv => self.wrong_icv.from(frame),
            Dropped::Own => self.own.from(frame),
            Dropped::OtherName if !self.has_members => self.other_name.from(frame),
            Dropped::OtherName | Dropped::OtherAlgorithm => self.strange.from(frame),
            // Switches speak other kinds of EAPOL.
            Dropped::Malformed if frame.get(15) == Some(&EAPOL_MKA) => self.strange.from(frame),
            _ => {}
        }
    }

    /// Notes an MKPDU of this association on the field port.
    pub(super) fn on_the_field(&mut self, frame: &[u8]) {
        self.on_the_field.from(frame);
    }

    /// Notes the result of sending an MKPDU of this length.
    pub(super) fn sent(result: &io::Result<()>, len: usize, watch: &Watch) {
        let too_long = matches!(result, Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE));
        let detail = too_long.then(|| format!("{len} octets"));
        watch.holds(Trouble::LongMkpdu, "", detail.as_deref());
    }

    /// Compares with the state of the participant.
    pub(super) fn report(&mut self, status: &Status, now: Duration, watch: &Watch) {
        let live: Vec<Sci> = status.members.iter().filter(|m| m.live).map(|m| m.sci).collect();
        self.has_members = !live.is_empty();
        let lasting = |since: &mut Option<Duration>, holds: bool, time: Duration| {
            let began = if holds { *since.get_or_insert(now) } else { since.take().unwrap_or(now) };
            holds && now >= began + time
        };
        let alone = lasting(&mut self.alone, status.members.is_empty(), LIFE_TIME);
        watch.holds(Trouble::Alone, "", alone.then_some(""));
        self.wrong_icv.tell(watch, Trouble::OtherCak);
        if self.has_members {
            watch.holds(Trouble::OtherCkn, "", None);
        } else {
            self.other_name.tell(watch, Trouble::OtherCkn);
        }
        self.strange.tell(watch, Trouble::StrangeMkpdus);
        self.own.tell(watch, Trouble::Loop);
        self.on_the_field.tell(watch, Trouble::SwappedPorts);
        let faulty = lasting(&mut self.fault, status.fault.is_some(), PASSING);
        let unkeyed = self.has_members && !status.keys.iter().flatten().any(|key| key.transmits);
        let unkeyed = lasting(&mut self.without_key, unkeyed, SLOW);
        let detail = match status.fault {
            Some(fault) => faulty.then(|| fault.to_string()),
            None => unkeyed.then(|| "the key server distributes none".to_owned()),
        };
        watch.holds(Trouble::NoKey, "", detail.as_deref());

        // A restarted member's earlier identity lasts some seconds beside the live one.
        let deaf = status.members.iter().filter(|m| !m.live && !live.contains(&m.sci)).map(|m| m.sci);
        each(&mut self.deaf, deaf.collect(), now, LIFE_TIME, watch, Trouble::Unheard);
        let key = status.is_key_server && status.keys[0].is_some();
        let keyless = status.members.iter().filter(|m| key && m.live && !m.receives).map(|m| m.sci);
        each(&mut self.keyless, keyless.collect(), now, SLOW, watch, Trouble::KeyNotTaken);
    }
}

impl Symptoms {
    /// Notes whether the preferred CAK carries.
    pub(super) fn waits(&mut self, caks: &[CakStatus], now: Duration, watch: &Watch) {
        let carrier = caks.iter().position(|cak| cak.carries);
        let (Some(preferred), Some(carrier @ 1..)) = (caks.first(), carrier) else {
            self.waiting = None;
            return watch.holds(Trouble::CakWaits, "", None);
        };
        if now < *self.waiting.get_or_insert(now) + CHANGING {
            return;
        }
        let here = |sci: Sci| preferred.members.iter().any(|member| member.live && member.sci == sci);
        let others = caks.get(carrier).map_or(&[][..], |cak| &cak.members);
        let lacking = others.iter().filter(|member| member.live && !here(member.sci));
        let lacking: Vec<String> = lacking.map(|member| member.sci.to_string()).collect();
        watch.holds(Trouble::CakWaits, "", Some(&lacking.join(", ")));
    }

    /// Notes how many frames the policy has passed, by kind of traffic, that no switch forwards.
    pub(super) fn kept_by_switches(
        &mut self,
        status: &Status,
        passed: &[(&str, u64)],
        now: Duration,
        watch: &Watch,
    ) {
        let total = passed.iter().map(|(_, count)| count).sum();
        let more = total - std::mem::replace(&mut self.passed, total);
        // What is between keeps the group of the nearest non-TPMR bridge, so it keeps LLDP's too.
        let near = [EthernetAddress::PAE_GROUP, EthernetAddress::LLDP_NEAREST_BRIDGE];
        let far = |to: EthernetAddress| !near.contains(&to);
        if !status.members.iter().any(|member| member.live && member.reached_by.is_some_and(far)) {
            self.far = None;
            return watch.holds(Trouble::NotCarried, "", None);
        }
        if now < *self.far.get_or_insert(now) + FINDING {
            return;
        }
        self.kept += more;
        let names: Vec<&str> = passed.iter().filter(|(_, count)| *count > 0).map(|(name, _)| *name).collect();
        watch.count(Trouble::NotCarried, "", self.kept, &names.join(", "));
    }
}

/// A trouble with each of these members that lasts for `time`.
fn each(
    known: &mut Vec<(Sci, Duration)>,
    mut concerned: Vec<Sci>,
    now: Duration,
    time: Duration,
    watch: &Watch,
    trouble: Trouble,
) {
    concerned.dedup();
    for (sci, _) in known.extract_if(.., |(sci, _)| !concerned.contains(sci)) {
        watch.holds(trouble, &sci.to_string(), None);
    }
    for sci in concerned {
        match known.iter().find(|(other, _)| *other == sci) {
            Some((_, since)) if now >= *since + time => watch.holds(trouble, &sci.to_string(), Some("")),
            Some(_) => {}
            None => known.push((sci, now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use antedate_channel::mka::{Action, Cak, Config, Participant};

    use super::*;

    fn participant(cak: u8, name: &[u8], number: u8, change: impl Fn(&mut Config)) -> Participant {
        let mut config = Config::new(Sci([2, 0, 0, 0, 0, number, 0, 1]));
        config.priority = number;
        change(&mut config);
        Participant::new(Cak::new(&[cak; 16], name).expect("a key"), config, &mut |o| o.fill(number))
    }

    /// Two participants for some seconds. `heard` decides whether the first and the second hear.
    struct Pair {
        all: [Participant; 2],
        symptoms: [Symptoms; 2],
        watches: [Watch; 2],
        now: Duration,
    }

    impl Pair {
        fn new(first: Participant, second: Participant) -> Self {
            Self {
                all: [first, second],
                symptoms: Default::default(),
                watches: Default::default(),
                now: Duration::ZERO,
            }
        }

        fn run(&mut self, seconds: u64, heard: [bool; 2]) {
            for _ in 0..seconds * 10 {
                self.now += Duration::from_millis(100);
                let mut frames: [Vec<Vec<u8>>; 2] = Default::default();
                for (number, one) in self.all.iter_mut().enumerate() {
                    one.tick(self.now, &mut |octets| octets.fill(number as u8 + 70));
                    while let Some(action) = one.next_action() {
                        match action {
                            Action::Send(frame) => frames[1 - number].push(frame),
                            Action::Receive(install) => one.receives(install.key),
                            _ => {}
                        }
                    }
                }
                for (number, frames) in frames.iter().enumerate().filter(|(number, _)| heard[*number]) {
                    for frame in frames {
                        if let Err(reason) = self.all[number].receive(self.now, frame) {
                            self.symptoms[number].refused(reason, frame);
                        }
                    }
                }
                for number in 0..2 {
                    let status = self.all[number].status(self.now);
                    self.symptoms[number].report(&status, self.now, &self.watches[number]);
                }
            }
        }

        fn names(&self, number: usize) -> Vec<String> {
            self.watches[number].active().into_iter().map(|warning| warning.name).collect()
        }
    }

    fn agreeing(second: impl Fn(&mut Config)) -> Pair {
        Pair::new(participant(1, b"a", 1, |_| {}), participant(1, b"a", 2, second))
    }

    #[test]
    fn lone_member_speaks_until_another_comes() {
        let mut pair = agreeing(|_| {});
        pair.run(5, [false; 2]);
        assert_eq!(pair.names(0), Vec::<String>::new(), "it may come yet");
        pair.run(2, [false; 2]);
        assert_eq!(pair.names(0), ["alone"]);
        pair.run(5, [true; 2]);
        assert_eq!((pair.names(0), pair.names(1)), (vec![], vec![]));
    }

    #[test]
    fn unheard_member_speaks_on_both_ends() {
        let mut pair = agreeing(|_| {});
        pair.run(10, [true, false]);
        assert_eq!((pair.names(0), pair.names(1)), (vec!["unheard".into()], vec!["alone".into()]));
        let about = pair.watches[0].active()[0].about.clone();
        assert_eq!(about, Sci([2, 0, 0, 0, 0, 2, 0, 1]).to_string());
        pair.run(10, [true; 2]);
        assert_eq!((pair.names(0), pair.names(1)), (vec![], vec![]));
    }

    #[test]
    fn other_keys_speak_on_both_ends() {
        for (cak, name, what) in [(2, &b"a"[..], "other-cak"), (1, b"b", "other-ckn")] {
            let mut pair = Pair::new(participant(1, b"a", 1, |_| {}), participant(cak, name, 2, |_| {}));
            pair.run(8, [true; 2]);
            for number in 0..2 {
                let names = pair.names(number);
                assert!(names.contains(&what.to_owned()) && names.contains(&"alone".to_owned()), "{names:?}");
                let active = pair.watches[number].active();
                assert!(active.iter().any(|warning| warning.what.contains("last from 02:00:00:00:00:0")));
            }
        }
    }

    #[test]
    fn other_settings_speak_on_both_ends() {
        use antedate_channel::macsec::CipherSuite;
        let mut pair = agreeing(|config| config.suites = vec![CipherSuite::GcmAes256]);
        pair.run(15, [true; 2]);
        assert_eq!((pair.names(0), pair.names(1)), (vec!["no-key".into()], vec!["no-key".into()]));
        assert!(pair.watches[0].active()[0].what.contains("cipher suite"));
        let mut pair = agreeing(|config| config.confidentiality = false);
        pair.run(15, [true; 2]);
        assert_eq!((pair.names(0), pair.names(1)), (vec!["key-not-taken".into()], vec!["no-key".into()]));
        assert!(pair.watches[1].active()[0].what.contains("encryption"));
    }

    #[test]
    fn lldp_over_a_switch_speaks() {
        let (mut symptoms, watch) = (Symptoms::default(), Watch::default());
        let mut pair = agreeing(|_| {});
        pair.run(2, [true; 2]);
        let mut status = pair.all[0].status(pair.now);
        assert_eq!(status.members[0].reached_by, Some(EthernetAddress::PAE_GROUP));
        let mut at = |second, status: &Status, passed: &[(&str, u64)]| {
            symptoms.kept_by_switches(status, passed, Duration::from_secs(second), &watch);
            watch.active().len()
        };
        assert_eq!(at(0, &status, &[("lldp", 3)]), 0, "a cable carries it");
        status.members[0].reached_by = Some(EthernetAddress::BROADCAST);
        assert_eq!(at(1, &status, &[("lldp", 4)]), 0, "it may be a cable");
        assert_eq!(at(11, &status, &[("lldp", 4)]), 0, "none since");
        assert_eq!(at(12, &status, &[("lldp", 6), ("ptcp", 0)]), 1);
        let active = watch.active();
        assert_eq!((active[0].name.as_str(), active[0].count), ("not-carried", 2));
        assert!(active[0].what.ends_with("(lldp)"), "{active:?}");
    }

    #[test]
    fn strangers_beside_members_are_a_notice() {
        let mut pair = agreeing(|_| {});
        pair.run(5, [true; 2]);
        let mut stranger = participant(1, b"b", 3, |_| {});
        stranger.tick(Duration::ZERO, &mut |_| {});
        let Some(Action::Send(frame)) = stranger.next_action() else { panic!("an MKPDU") };
        let refused = pair.all[0].receive(pair.now, &frame).expect_err("another association");
        pair.symptoms[0].refused(refused, &frame);
        pair.run(1, [true; 2]);
        let active = pair.watches[0].active();
        assert_eq!((active.len(), active[0].name.as_str(), active[0].notice), (1, "strange-mkpdus", true));
    }

    #[test]
    fn eapol_of_a_switch_is_ignored() {
        let mut symptoms = Symptoms::default();
        let request = [&[1, 0x80, 0xc2, 0, 0, 3, 2, 0, 0, 0, 0, 9, 0x88, 0x8e, 2, 0][..], &[0; 44]].concat();
        symptoms.refused(Dropped::Malformed, &request);
        assert_eq!(symptoms.strange.count, 0);
    }
}
