//! The FrameID (IEC 61158-6-10, table of FrameID ranges): the kind of a Profinet real-time frame.

use core::fmt;

use crate::Result;
use crate::bytes::{at_least, be16};

/// The meaning of a FrameID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameIdRange {
    /// 0x0020 to 0x0021: clock synchronisation with follow-up
    PtcpSyncWithFollowUp,
    /// 0x0080 to 0x0081: clock synchronisation without follow-up
    PtcpSync,
    /// 0x0100 to 0x0fff: cyclic, RT class 3 (isochronous)
    RtClass3,
    /// 0x1000 to 0x2fff and 0x3800 to 0x3fff: cyclic, as a stream of a time-sensitive network
    RtStream,
    /// 0x8000 to 0xbbff: cyclic, RT class 1 (once called class 2), to one station
    RtClass1,
    /// 0xbc00 to 0xbfff: cyclic, RT class 1, to a group
    RtClass1Multicast,
    /// 0xc000 to 0xf7ff: cyclic, RT class 1 by its old numbers (within UDP: RT class UDP), to one station
    RtClass1Legacy,
    /// 0xf800 to 0xfbff: cyclic, RT class 1 by its old numbers (within UDP: RT class UDP), to a group
    RtClass1LegacyMulticast,
    /// 0xfc01: alarm of high priority
    AlarmHigh,
    /// 0xfe01: alarm of low priority
    AlarmLow,
    /// 0xfe02: remote service interface
    RemoteService,
    /// 0xfefc: DCP Hello
    DcpHello,
    /// 0xfefd: DCP Get and Set
    DcpGetSet,
    /// 0xfefe: DCP Identify request
    DcpIdentifyRequest,
    /// 0xfeff: DCP Identify response
    DcpIdentifyResponse,
    /// 0xff00 to 0xff01: clock announcement
    PtcpAnnounce,
    /// 0xff20 to 0xff21: clock follow-up
    PtcpFollowUp,
    /// 0xff40 to 0xff43: delay measurement between neighbours
    PtcpDelay,
    /// 0xff80 to 0xff8f: a fragment
    Fragment,
    /// reserved, or of an unknown version
    Unknown,
}

/// The FrameID: the first two octets of every Profinet real-time frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u16);

impl FrameId {
    /// DCP Hello.
    pub const DCP_HELLO: Self = Self(0xfefc);
    /// DCP Get and Set.
    pub const DCP_GET_SET: Self = Self(0xfefd);
    /// DCP Identify request.
    pub const DCP_IDENTIFY_REQUEST: Self = Self(0xfefe);
    /// DCP Identify response.
    pub const DCP_IDENTIFY_RESPONSE: Self = Self(0xfeff);

    /// The meaning of the FrameID.
    pub const fn range(self) -> FrameIdRange {
        use FrameIdRange::*;
        match self.0 {
            0x0020..=0x0021 => PtcpSyncWithFollowUp,
            0x0080..=0x0081 => PtcpSync,
            0x0100..=0x0fff => RtClass3,
            0x1000..=0x2fff | 0x3800..=0x3fff => RtStream,
            0x8000..=0xbbff => RtClass1,
            0xbc00..=0xbfff => RtClass1Multicast,
            0xc000..=0xf7ff => RtClass1Legacy,
            0xf800..=0xfbff => RtClass1LegacyMulticast,
            0xfc01 => AlarmHigh,
            0xfe01 => AlarmLow,
            0xfe02 => RemoteService,
            0xfefc => DcpHello,
            0xfefd => DcpGetSet,
            0xfefe => DcpIdentifyRequest,
            0xfeff => DcpIdentifyResponse,
            0xff00..=0xff01 => PtcpAnnounce,
            0xff20..=0xff21 => PtcpFollowUp,
            0xff40..=0xff43 => PtcpDelay,
            0xff80..=0xff8f => Fragment,
            _ => Unknown,
        }
    }

    /// Whether the frame carries cyclic data of RT class 1, to one station or to a group.
    pub const fn is_rt_class_1(self) -> bool {
        self.0 >= 0x8000 && self.0 <= 0xfbff
    }

    /// Whether the frame carries cyclic data, and hence ends in an APDU status.
    pub const fn is_cyclic(self) -> bool {
        self.is_rt_class_1() || matches!(self.range(), FrameIdRange::RtClass3 | FrameIdRange::RtStream)
    }

    /// Whether the frame belongs to an alarm connection.
    pub const fn is_alarm(self) -> bool {
        matches!(self.range(), FrameIdRange::AlarmHigh | FrameIdRange::AlarmLow)
    }

    /// Whether the frame is DCP.
    pub const fn is_dcp(self) -> bool {
        self.0 >= 0xfefc && self.0 <= 0xfeff
    }
}

impl fmt::Display for FrameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

impl fmt::Debug for FrameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({:?})", self.range())
    }
}

/// The FrameID at the front of the octets behind a Profinet EtherType.
pub fn frame_id(payload: &[u8]) -> Result<FrameId> {
    at_least(payload, 2)?;
    Ok(FrameId(be16(payload, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_match_the_standard() {
        use FrameIdRange::*;
        for (id, range) in [
            (0x0000, Unknown),
            (0x0080, PtcpSync),
            (0x0100, RtClass3),
            (0x7fff, Unknown),
            (0x8000, RtClass1),
            (0xbbff, RtClass1),
            (0xbc00, RtClass1Multicast),
            (0xc000, RtClass1Legacy),
            (0xfbff, RtClass1LegacyMulticast),
            (0xfc00, Unknown),
            (0xfc01, AlarmHigh),
            (0xfe01, AlarmLow),
            (0xfefd, DcpGetSet),
            (0xff41, PtcpDelay),
            (0xff8f, Fragment),
            (0xffff, Unknown),
        ] {
            assert_eq!(FrameId(id).range(), range, "{id:04x}");
        }
    }

    #[test]
    fn one_octet_is_refused() {
        assert_eq!(frame_id(&[0xfe]), Err(crate::Error::Truncated));
        assert_eq!(frame_id(&[0xfe, 0xfd, 1]), Ok(FrameId::DCP_GET_SET));
    }

    #[test]
    fn cyclic_and_acyclic_do_not_overlap() {
        for id in 0..=u16::MAX {
            let id = FrameId(id);
            use FrameIdRange::*;
            let rt1 =
                matches!(id.range(), RtClass1 | RtClass1Multicast | RtClass1Legacy | RtClass1LegacyMulticast);
            assert_eq!(id.is_rt_class_1(), rt1);
            assert!(!(id.is_cyclic() && id.is_dcp()));
        }
    }
}
