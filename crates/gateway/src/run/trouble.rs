//! The conditions that a gateway warns of, each with its remedy. The manual's chapter "When it does
//! not work" is compared with this list.

/// A condition that needs the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// Key agreement hears no other member.
    Alone,
    /// Key agreement hears a member that does not hear this gateway.
    Unheard,
    /// MKPDUs of this association have a wrong ICV.
    OtherCak,
    /// MKPDUs are of another association, and no member is there.
    OtherCkn,
    /// MKPDUs are of another association, beside members of this one.
    StrangeMkpdus,
    /// Key agreement cannot use the key server's key.
    NoKey,
    /// A live member does not use this key server's key.
    KeyNotTaken,
    /// The preferred CAK does not carry, because members lack it.
    CakWaits,
    /// The own MKPDUs come back on the uplink.
    Loop,
    /// MKPDUs of this association arrive on the field port.
    SwappedPorts,
    /// An MKPDU is longer than the uplink carries.
    LongMkpdu,
    /// Protected frames have a wrong ICV or SecTAG.
    ForgedFrames,
    /// Protected frames are of an unknown channel or association.
    UnknownFrames,
    /// Protected frames have old packet numbers.
    ReplayedFrames,
    /// The policy passes a kind of traffic that the wire does not carry.
    NotCarried,
    /// The path carries less than the uplink.
    ShortPath,
    /// The stack of a machine leaves work that the gateway cannot complete.
    UnsupportedOffload,
    /// Protected frames have the own SCI.
    OwnSci,
    /// Frames waited longer than their bound.
    StaleFrames,
    /// More frames come than the policy bounds.
    Storm,
    /// The field port was taken down, since frames cannot reach the far machines.
    FieldLowered,
    /// No other gateway of the group is there.
    NoStandby,
    /// A loop of gateways.
    FieldLoop,
    /// One of two uplinks does not carry.
    SilentUplink,
    /// A cyclic flow stopped, although the link of its port is up.
    FlowStopped,
    /// A setting of the host takes frames of a port, or carries them past the gateway.
    Host,
    /// There is no session with a peer of an overlay.
    NoSession,
    /// Handshakes are of an unknown public key.
    UnknownPublicKey,
    /// Handshakes are not for this gateway's public key, or forged.
    OtherPublicKey,
    /// Handshakes fail in their last step, which has the preshared key.
    OtherPresharedKey,
    /// Datagrams of an overlay are forged.
    ForgedDatagrams,
    /// Datagrams are of no session and no peer.
    StrangeDatagrams,
}

/// The texts of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// Its name in the status.
    pub name: &'static str,
    /// The warning.
    pub warning: &'static str,
    /// The remedy.
    pub remedy: &'static str,
    /// The line when it is over.
    pub over: &'static str,
}

const fn words(name: &'static str, warning: &'static str, remedy: &'static str, over: &'static str) -> Words {
    Words { name, warning, remedy, over }
}

impl Trouble {
    /// All conditions.
    pub const ALL: [Self; 32] = [
        Self::Alone,
        Self::Unheard,
        Self::OtherCak,
        Self::OtherCkn,
        Self::StrangeMkpdus,
        Self::NoKey,
        Self::KeyNotTaken,
        Self::CakWaits,
        Self::Loop,
        Self::SwappedPorts,
        Self::LongMkpdu,
        Self::ForgedFrames,
        Self::UnknownFrames,
        Self::ReplayedFrames,
        Self::NotCarried,
        Self::ShortPath,
        Self::UnsupportedOffload,
        Self::OwnSci,
        Self::StaleFrames,
        Self::Storm,
        Self::FieldLowered,
        Self::NoStandby,
        Self::FieldLoop,
        Self::SilentUplink,
        Self::FlowStopped,
        Self::Host,
        Self::NoSession,
        Self::UnknownPublicKey,
        Self::OtherPublicKey,
        Self::OtherPresharedKey,
        Self::ForgedDatagrams,
        Self::StrangeDatagrams,
    ];

    /// Its texts.
    #[must_use]
    pub const fn words(self) -> Words {
        match self {
            Self::Alone => words(
                "alone",
                "no other member of the association is heard",
                "start the other gateway, and see cables and switches between; with switches both need mka_destination = \"auto\" or \"broadcast\"",
                "another member is heard",
            ),
            Self::Unheard => words(
                "unheard",
                "a member is heard that does not hear this gateway",
                "write mka_destination = \"auto\" here, and see what filters frames from here to there",
                "the member hears this gateway",
            ),
            Self::OtherCak => words(
                "other-cak",
                "MKPDUs of this CKN have a wrong ICV: their sender has another CAK, or they are forged",
                "copy one cak_file to all gateways and restart those that ran with another; a new CAK needs a CKN of its own",
                "MKPDUs have no wrong ICV any more",
            ),
            Self::OtherCkn => words(
                "other-ckn",
                "MKPDUs of another CKN arrive, and no member: their sender has another cak_file",
                "put the CAKs of both into the cak_file of both, each in a block network={ }, and run `antedate gateway reload` there; or copy one cak_file to all gateways",
                "a member is heard, or MKPDUs of another CKN arrive no more",
            ),
            Self::StrangeMkpdus => words(
                "strange-mkpdus",
                "MKPDUs of another CKN or without a valid form arrive beside those of the members",
                "look for their sender; another association on the same wire does no harm; a gateway with another CAK needs the cak_file with both",
                "strange MKPDUs arrive no more",
            ),
            Self::NoKey => words(
                "no-key",
                "there are members, but no key can be used",
                "write the same cipher, confidentiality and include_sci in [macsec] of all gateways, and give each its own SCI",
                "key agreement can use the keys",
            ),
            Self::KeyNotTaken => words(
                "key-not-taken",
                "a live member does not take this key server's key",
                "write the same cipher, confidentiality and include_sci in [macsec] of all gateways; the log of the member says more",
                "the member takes the key",
            ),
            Self::CakWaits => words(
                "cak-waits",
                "a less preferred CAK carries, because members are not live with the preferred one",
                "give them the cak_file with both CAKs and reload it there, or remove the block of the old one here and reload; see `antedate gateway key-status`",
                "the preferred CAK carries",
            ),
            Self::Loop => words(
                "loop",
                "this gateway's own MKPDUs come back on the uplink",
                "look for a loop or a mirror port in the network of the uplink",
                "own MKPDUs come back no more",
            ),
            Self::SwappedPorts => words(
                "swapped-ports",
                "MKPDUs of this association arrive on the field port",
                "exchange the two cables, or field.interface and uplink.interface; nothing else may connect both networks",
                "MKPDUs arrive on the field port no more",
            ),
            Self::LongMkpdu => words(
                "long-mkpdu",
                "an MKPDU is longer than the uplink carries, and none is fragmented",
                "raise the uplink's MTU to 300 and 16 for each further gateway, or there is no key",
                "MKPDUs fit the uplink",
            ),
            Self::ForgedFrames => words(
                "forged-frames",
                "protected frames with a wrong ICV or SecTAG arrive: forged, changed on the way, or of another key",
                "look for their sender; see that all gateways have the same keys",
                "forged frames arrive no more",
            ),
            Self::UnknownFrames => words(
                "unknown-frames",
                "protected frames of an unknown channel arrive",
                "look for their sender; with key_file, see that all gateways have the same file; another association on the same wire does no harm",
                "frames of an unknown channel arrive no more",
            ),
            Self::ReplayedFrames => words(
                "replayed-frames",
                "protected frames with old packet numbers arrive: replayed, duplicated, overtaken on the way, or of a peer whose state went back",
                "where the path changes the order of frames, write replay_window = 64 in [macsec]; if no frame of a peer with static keys passes, its state was restored: make new keys",
                "frames with old packet numbers arrive no more",
            ),
            Self::NotCarried => words(
                "not-carried",
                "the policy passes traffic that the switches between the gateways do not forward",
                "write carry_link_local = true in [uplink] of all gateways, connect them by a cable or [overlay], or refuse the traffic: remove its name from policy.allow; if a bundle such as profinet passes it, write a [[policy.rule]] with action = \"deny\"",
                "no switch is between the gateways, or the policy does not pass the traffic",
            ),
            Self::ShortPath => words(
                "short-path",
                "the path carries shorter frames than the uplink",
                "raise the MTU of all switches on the path; meanwhile full frames pass with fragmentation = \"auto\", with static keys \"marked\"",
                "the path carries the uplink's frames",
            ),
            Self::UnsupportedOffload => words(
                "unsupported-offload",
                "super-frames of the machines' stack are refused: their kind of tunnel cannot be segmented here",
                "turn the offload off at the sending machine: ethtool -K INTERFACE tso off gso off, and for tunnels tx-udp_tnl-segmentation off tx-gre-segmentation off",
                "super-frames are refused no more",
            ),
            Self::OwnSci => words(
                "own-sci",
                "protected frames with this gateway's own SCI arrive: another gateway has the same SCI, or frames come back",
                "give each gateway its own sci in [macsec]; if one with the same static key ran, make new keys",
                "frames with the own SCI arrive no more",
            ),
            Self::StaleFrames => words(
                "stale-frames",
                "frames waited longer than their bound, and were dropped",
                "see what kept the gateway from its core: run.priority, run.cpus, other programs, a paused machine",
                "frames wait no longer than their bound",
            ),
            Self::Storm => words(
                "storm",
                "more frames come than the policy bounds, and the rest is dropped",
                "look at the machine with this address, and for a loop behind this port; if the traffic is wanted, raise the bound in [policy]",
                "frames stay within the bounds",
            ),
            Self::FieldLowered => words(
                "field-lowered",
                "the field port is taken down, so that the machines see that the way is interrupted",
                "restore the link that is named: the uplink, the other gateway or the cable behind it; the field port then comes back by itself",
                "the field port is set up again",
            ),
            Self::NoStandby => words(
                "no-standby",
                "no other gateway of the standby group is there, so the next loss is an outage",
                "see that the other gateway runs, that a switch joins the two field ports or the two uplinks, and that both have the CAK and the group of [standby]",
                "another gateway of the group is there",
            ),
            Self::FieldLoop => words(
                "field-loop",
                "gateways form a loop, in which frames may go round",
                "remove one of the two ways between the networks, or give the two gateways of one field the same group of [standby]",
                "no probe comes back, and no such gateway is heard",
            ),
            Self::SilentUplink => words(
                "silent-uplink",
                "one of two uplinks does not carry",
                "see its cable, the switches of its way, and second_uplink.interface here and there; frames go on by the other uplink, and its loss would be an outage",
                "both uplinks carry",
            ),
            Self::FlowStopped => words(
                "flow-stopped",
                "a cyclic flow stopped, although the link is up",
                "see whether its sender runs, and what lies between it and this gateway; a station that was removed is forgotten after an hour",
                "all cyclic flows go on",
            ),
            Self::Host => words(
                "host",
                "a setting of this host gets in the way of the gateway",
                "see `antedate gateway check` with the configuration",
                "the setting is gone",
            ),
            Self::NoSession => words(
                "no-session",
                "there is no session with a peer",
                "see that it runs, its endpoint, public_key and listen here and there, and that firewalls pass its UDP port both ways",
                "there is a session with the peer",
            ),
            Self::UnknownPublicKey => words(
                "unknown-public-key",
                "handshakes of a public key arrive that belongs to no peer",
                "compare public_key of [[overlay.peer]] with the key that `antedate keygen wireguard` printed there",
                "handshakes of unknown public keys arrive no more",
            ),
            Self::OtherPublicKey => words(
                "other-public-key",
                "handshakes arrive that are not made for this gateway's public key, or are forged",
                "compare this gateway's public key (`antedate gateway status`) with public_key at the other end",
                "handshakes for another public key arrive no more",
            ),
            Self::OtherPresharedKey => words(
                "other-preshared-key",
                "handshakes arrive that are made for this gateway and cannot be opened: their sender has another preshared key, or they are forged",
                "copy one preshared_key_file to both ends, or remove it at both",
                "handshakes that cannot be opened arrive no more",
            ),
            Self::ForgedDatagrams => words(
                "forged-datagrams",
                "datagrams arrive that their session cannot open: forged, or changed on the way",
                "look for their sender",
                "forged datagrams arrive no more",
            ),
            Self::StrangeDatagrams => words(
                "strange-datagrams",
                "datagrams of no session arrive",
                "look for their sender; those of a peer end with its next handshake",
                "datagrams of no session arrive no more",
            ),
        }
    }

    /// Whether it may last in a healthy network: it does not count for `status --check`.
    #[must_use]
    pub const fn is_notice(self) -> bool {
        matches!(self, Self::CakWaits | Self::StrangeMkpdus | Self::NotCarried | Self::StrangeDatagrams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAPTER: &str = include_str!("../../../../docs/src/troubleshooting.md");

    #[test]
    fn chapter_has_every_warning() {
        for trouble in Trouble::ALL {
            let Words { name, warning, remedy, over } = trouble.words();
            assert!(CHAPTER.contains(&format!("### `{name}`\n")), "`{name}` has no section");
            let (_, section) = CHAPTER.split_once(&format!("### `{name}`\n")).unwrap();
            let section = section.split("\n### ").next().unwrap_or_default();
            // Lines of the chapter are broken anywhere.
            let section = section.split_whitespace().collect::<Vec<_>>().join(" ");
            for text in [warning, remedy, over] {
                assert!(section.contains(text), "the section of `{name}` lacks: {text}");
            }
        }
    }

    #[test]
    fn names_of_warnings_differ() {
        let mut names = Trouble::ALL.map(|trouble| trouble.words().name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
