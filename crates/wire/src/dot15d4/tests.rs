//! Round trips of frames, table 7-2 row by row, and refusals.

use std::vec::Vec;

use proptest::prelude::*;

use super::ie::{
    Following, HeaderElementId, HeaderWriter, NestedIes, PayloadGroupId, PayloadIes, PayloadWriter,
    Synchronization, TimeCorrection,
};
use super::*;

const PAN: PanId = PanId(0xabcd);
const SHORT: Address = Address::Short(ShortAddress(2));
const EXTENDED: Address = Address::Extended(ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 0x0b]));

fn octets(header: &Header, behind: &[u8]) -> Vec<u8> {
    let mut out = std::vec![0; header.buffer_len()];
    assert_eq!(header.emit(&mut out), Ok(out.len()));
    out.extend(behind);
    out
}

#[test]
fn every_row_of_table_7_2_round_trips() {
    // Destination, source, both PAN identifiers, PAN ID compression.
    let rows = [
        (Address::Absent, Address::Absent, false, false, 0),
        (Address::Absent, Address::Absent, true, false, 1),
        (SHORT, Address::Absent, true, false, 0),
        (EXTENDED, Address::Absent, false, false, 1),
        (Address::Absent, SHORT, false, true, 0),
        (Address::Absent, EXTENDED, false, false, 1),
        (EXTENDED, EXTENDED, true, false, 0),
        (EXTENDED, EXTENDED, false, false, 1),
        (SHORT, SHORT, true, true, 0),
        (SHORT, EXTENDED, true, true, 0),
        (EXTENDED, SHORT, true, true, 0),
        (SHORT, EXTENDED, true, false, 1),
        (EXTENDED, SHORT, true, false, 1),
        (SHORT, SHORT, true, false, 1),
    ];
    for (dst, src, dst_pan, src_pan, compression) in rows {
        let addressing =
            Addressing { dst_pan: dst_pan.then_some(PAN), dst, src_pan: src_pan.then_some(PanId(1)), src };
        let header = Header::data(7, addressing);
        let bytes = octets(&header, b"x");
        assert_eq!(bytes[0] >> 6 & 1, compression, "{addressing:?}");
        let frame = Frame::parse(&bytes).unwrap();
        assert_eq!((frame.header, frame.payload()), (header, &b"x"[..]));
    }
    // Two extended addresses never have two PAN identifiers.
    let twice = Addressing { dst_pan: Some(PAN), dst: EXTENDED, src_pan: Some(PAN), src: EXTENDED };
    assert_eq!(Header::data(7, twice).emit(&mut [0; 40]), Err(crate::Error::Value));
}

#[test]
fn omitted_source_pan_is_the_destinations() {
    let same = Addressing { dst_pan: Some(PAN), dst: SHORT, src_pan: None, src: SHORT };
    assert_eq!((same.source_pan(), same.destination_pan()), (Some(PAN), Some(PAN)));
    let other = Addressing { src_pan: Some(PanId(9)), ..same };
    assert_eq!(other.source_pan(), Some(PanId(9)));
    assert_eq!(Addressing { src: Address::Absent, ..same }.source_pan(), None);
    assert_eq!(Addressing::within(PAN, Address::Absent, SHORT).source_pan(), Some(PAN));
}

#[test]
fn secured_frame_of_the_kernel_is_read() {
    // mac802154_hwsim's first frame at level 5, without its FCS.
    let bytes = b"\x69\x98\xcf\xcd\xab\x02\x00\x01\x00\x0d\x07\x00\x00\x00\x01\
        \x2f\xb4\x7d\x41\x2a\xfe\x7b\x33\x57\xb6\x20\xc0\x66\xb3\x07\x4c\x2b\xed";
    let frame = Frame::parse(bytes).unwrap();
    let expected = Header {
        frame_type: FrameType::Data,
        version: FrameVersion::V2006,
        frame_pending: false,
        ack_request: true,
        sequence: Some(0xcf),
        addressing: Addressing {
            dst_pan: Some(PAN),
            dst: Address::Short(ShortAddress(2)),
            src_pan: None,
            src: Address::Short(ShortAddress(1)),
        },
        security: Some(SecurityHeader::counted(SecurityLevel::EncMic32, KeyIdentifier::Index(1), 7)),
        ies: false,
    };
    assert_eq!(frame.header, expected);
    assert_eq!((frame.open().len(), frame.private().len(), frame.mic().len()), (15, 14, 4));
    assert_eq!(octets(&expected, &bytes[15..]), bytes);
}

#[test]
fn enhanced_ack_carries_time_correction() {
    for (microseconds, nack) in [(0, false), (-1, false), (2047, true), (-2048, false), (-317, true)] {
        let correction = TimeCorrection { microseconds, nack };
        let mut ies = [0; 4];
        let mut writer = HeaderWriter::new(&mut ies);
        writer.time_correction(correction).unwrap();
        assert_eq!(writer.finish(Following::Nothing), Ok(4));
        let header = Header::enhanced_ack(Some(9), Addressing::within(PAN, EXTENDED, Address::Absent));
        let bytes = octets(&header, &ies);
        let frame = Frame::parse(&bytes).unwrap();
        assert_eq!(frame.header_ies().time_correction(), Some(correction));
        assert_eq!((frame.following(), frame.payload()), (Following::Nothing, &[][..]));
        assert_eq!(frame.mac_header(), &bytes);
    }
    assert_eq!(TimeCorrection::new(5000, false).microseconds, 2047);
    assert_eq!(TimeCorrection::new(-5000, false).microseconds, -2048);
    assert_eq!(TimeCorrection::parse(&[0, 0x10]), None);
    assert_eq!(TimeCorrection::parse(&[0]), None);
    // Contiki-NG and OpenWSN send these octets for no correction.
    assert_eq!(TimeCorrection::default().to_octets(), [0, 0]);
}

#[test]
fn enhanced_beacon_carries_the_slot() {
    let synchronization = Synchronization { asn: Asn::new(0x12_3456_789a).unwrap(), join_metric: 3 };
    let mut behind = [0; 40];
    let head = HeaderWriter::new(&mut behind).finish(Following::PayloadIes).unwrap();
    let mut writer = PayloadWriter::new(&mut behind[head..]);
    writer.push(PayloadGroupId::Mlme, &synchronization.to_nested()).unwrap();
    writer.push(PayloadGroupId::Vendor, b"abc").unwrap();
    let body = writer.finish(true).unwrap();
    let mut header =
        Header::data(1, Addressing::within(PAN, Address::Short(ShortAddress::BROADCAST), EXTENDED));
    header.frame_type = FrameType::Beacon;
    header.ies = true;
    let mut bytes = octets(&header, &behind[..head + body]);
    bytes.extend(b"rest");
    let frame = Frame::parse(&bytes).unwrap();
    assert_eq!((frame.following(), frame.header_ies().count()), (Following::PayloadIes, 0));
    let (ies, content) = PayloadIes::split(frame.payload()).unwrap();
    assert_eq!(content, b"rest");
    let ies: Vec<_> = ies.collect();
    assert_eq!(ies.len(), 2);
    assert_eq!(NestedIes::new(ies[0].content).synchronization(), Some(synchronization));
    assert_eq!((ies[1].group, ies[1].content), (PayloadGroupId::Vendor, &b"abc"[..]));
}

#[test]
fn older_open_fields_are_not_private() {
    let secured = |frame_type, addressing, level| Header {
        frame_type,
        version: FrameVersion::V2006,
        frame_pending: false,
        ack_request: false,
        sequence: Some(0x84),
        addressing,
        security: Some(SecurityHeader::counted(level, KeyIdentifier::Implicit, 5)),
        ies: false,
    };
    // The beacon of annex C: superframe, no GTS, no pending address, payload, MIC of eight.
    let source = Address::Extended(ExtendedAddress([0xac, 0xde, 0x48, 0, 0, 0, 0, 1]));
    let beacon = secured(
        FrameType::Beacon,
        Addressing::within(PanId(0x4321), Address::Absent, source),
        SecurityLevel::Mic64,
    );
    let bytes = octets(&beacon, b"\x55\xcf\0\0\x51\x52\x53\x54MIC-MIC-");
    let frame = Frame::parse(&bytes).unwrap();
    assert_eq!((frame.private(), frame.mic()), (&b"\x51\x52\x53\x54"[..], &b"MIC-MIC-"[..]));
    // One GTS descriptor, two short and one extended address pending.
    let long = [&[0x55, 0xcf, 0x01, 0x00, 1, 2, 3, 0x12][..], &[0; 12], b"pay", &[0; 8]].concat();
    assert_eq!(Frame::parse(&octets(&beacon, &long)).unwrap().private(), b"pay");
    assert_eq!(Frame::parse(&octets(&beacon, &long[..20])).err(), Some(FormatError::Beacon));
    let command =
        secured(FrameType::Command, Addressing::within(PAN, EXTENDED, source), SecurityLevel::EncMic64);
    let bytes = octets(&command, b"\x01\xceMIC-MIC-");
    let frame = Frame::parse(&bytes).unwrap();
    assert_eq!((frame.open().last(), frame.private()), (Some(&1), &b"\xce"[..]));
    assert_eq!(Frame::parse(&octets(&command, b"MIC-MIC-")).err(), Some(FormatError::Command));
}

#[test]
fn reserved_values_are_named() {
    let good = octets(&Header::data(7, Addressing::within(PAN, SHORT, SHORT)), b"abc");
    let with = |at: usize, change: u8| {
        let mut bytes = good.clone();
        bytes[at] ^= change;
        Frame::parse(&bytes).err()
    };
    assert_eq!(with(0, 0), None);
    assert_eq!(with(0, 0x04), Some(FormatError::FrameType));
    assert_eq!(with(0, 0x80), Some(FormatError::FrameControlBits));
    assert_eq!(with(1, 0x10), Some(FormatError::FrameVersion));
    assert_eq!(with(1, 0x0c), Some(FormatError::AddressingMode));
    assert_eq!(with(1, 0xc0), Some(FormatError::AddressingMode));
    // Version 1 has no sequence number suppression, version 0 no readable security.
    assert_eq!(with(1, 0x31), Some(FormatError::FrameControlBits));
    let mut legacy = good.clone();
    legacy[1] ^= 0x20;
    legacy[0] |= 0x08;
    assert_eq!(Frame::parse(&legacy).err(), Some(FormatError::LegacySecurity));
    // Version 1, PAN ID compression with one address.
    assert_eq!(Frame::parse(b"\x41\x18\x07\xcd\xab\x02\x00").err(), Some(FormatError::Addressing));
    assert_eq!(Frame::parse(b"\x01\x10\x07").err(), Some(FormatError::Addressing));
    assert_eq!(Frame::parse(b"\x02\x10\x07xx").err(), Some(FormatError::TooShort));
    assert!(Frame::parse(b"\x02\x10\x07").is_ok());
    for len in 0..9 {
        assert_eq!(Frame::parse(&good[..len]).err(), Some(FormatError::TooShort), "{len}");
    }
}

#[test]
fn bad_security_headers_are_refused() {
    let mut header = Header::data(7, Addressing::within(PAN, SHORT, SHORT));
    header.security = Some(SecurityHeader::tsch(SecurityLevel::EncMic128, KeyIdentifier::Index(1)));
    let good = octets(&header, &[0; 16]);
    assert!(Frame::parse(&good).is_ok_and(|frame| frame.private().is_empty()));
    assert_eq!(Frame::parse(&good[..good.len() - 1]).err(), Some(FormatError::TooShort));
    let mut reserved = good.clone();
    reserved[9] |= 0x80;
    assert_eq!(Frame::parse(&reserved).err(), Some(FormatError::SecurityControlBits));
    // Frame counter suppression in version 1.
    let mut older = good;
    older[1] ^= 0x30;
    assert_eq!(Frame::parse(&older).err(), Some(FormatError::SecurityControlBits));
}

#[test]
fn malformed_elements_are_refused() {
    let mut header = Header::data(7, Addressing::within(PAN, SHORT, SHORT));
    header.ies = true;
    let parse = |behind: &[u8]| Frame::parse(&octets(&header, behind)).map(|frame| frame.payload().to_vec());
    assert_eq!(parse(b"\x80\x3f"), Ok(Vec::new()));
    assert_eq!(parse(b"\x80\x3fabc"), Ok(b"abc".to_vec()));
    assert_eq!(parse(b"\x81\x3fa"), Err(FormatError::InformationElement));
    assert_eq!(parse(b"\x02\x0f\x00"), Err(FormatError::InformationElement));
    assert_eq!(parse(b"\x02"), Err(FormatError::InformationElement));
    assert_eq!(parse(b"\x00\x88"), Err(FormatError::InformationElement));
    assert_eq!(PayloadIes::split(b"\x03\x90ab").err(), Some(FormatError::InformationElement));
    assert_eq!(PayloadIes::split(b"\x01\xf8a").err(), Some(FormatError::InformationElement));
    assert_eq!(PayloadIes::split(b"\x00\x10").err(), Some(FormatError::InformationElement));
    assert!(NestedIes::new(b"\x09\x1aa").any(|ie| ie.is_err()));
}

#[test]
fn fcs_matches_the_standard() {
    // The acknowledgment of clause 7.2.11, and a frame of the kernel.
    assert_eq!(fcs(&[0x02, 0x00, 0x6a]), 0x79e4);
    let frame = b"\x69\x98\xcf\xcd\xab\x02\x00\x01\x00\x0d\x07\x00\x00\x00\x01\
        \x2f\xb4\x7d\x41\x2a\xfe\x7b\x33\x57\xb6\x20\xc0\x66\xb3\x07\x4c\x2b\xed\x41\x10";
    assert_eq!(check_fcs(frame).map(<[u8]>::len), Ok(33));
    let mut out = [0; 35];
    out[..33].copy_from_slice(&frame[..33]);
    assert_eq!((append_fcs(&mut out, 33), out), (Some(35), *frame));
    out[3] ^= 1;
    assert_eq!(check_fcs(&out), Err(FormatError::Fcs));
    assert_eq!(append_fcs(&mut out, 34), None);
}

#[test]
fn numbers_and_addresses_keep_their_bounds() {
    assert_eq!(Asn::new(1 << 40), None);
    assert_eq!(Asn::MAX.after(1), None);
    for number in [0, 1, 100, 101, 0xffff, 0x1_0000, 0xffff_ffff, 0x12_3456_789a, Asn::MAX.number()] {
        for length in [1, 2, 3, 7, 16, 101, 0x7fff, 0xffff] {
            assert_eq!(u64::from(Asn::new(number).unwrap().modulo(length)), number % u64::from(length));
        }
    }
    assert_eq!(Asn::MAX.modulo(0), 0);
    assert_eq!(Asn::new(0x01_0203_0405).unwrap().to_be_bytes(), [1, 2, 3, 4, 5]);
    assert_eq!("02:00:00:00:00:00:00:0b".parse().map(Address::Extended), Ok(EXTENDED));
    for wrong in ["02:00:00:00:00:00:00", "02:00:00:00:00:00:00:0b:00", "+2:00:00:00:00:00:00:0b", ""] {
        assert!(wrong.parse::<ExtendedAddress>().is_err(), "{wrong}");
    }
}

fn any_address() -> impl Strategy<Value = Address> {
    prop_oneof![
        Just(Address::Absent),
        any::<u16>().prop_map(|a| Address::Short(ShortAddress(a))),
        any::<[u8; 8]>().prop_map(|a| Address::Extended(ExtendedAddress(a))),
    ]
}

fn any_key() -> impl Strategy<Value = KeyIdentifier> {
    prop_oneof![
        Just(KeyIdentifier::Implicit),
        any::<u8>().prop_map(KeyIdentifier::Index),
        any::<([u8; 4], u8)>().prop_map(|(s, i)| KeyIdentifier::Source4(s, i)),
        any::<([u8; 8], u8)>().prop_map(|(s, i)| KeyIdentifier::Source8(s, i)),
    ]
}

prop_compose! {
    fn any_header()(
        frame_type in prop::sample::select(&FrameType::ALL[..]),
        version in prop::sample::select(&FrameVersion::ALL[..]),
        bits: [bool; 3],
        sequence: Option<u8>,
        (dst, src) in (any_address(), any_address()),
        pans: (Option<u16>, Option<u16>),
        security in prop::option::of((0u8..8, any_key(), any::<Option<u32>>(), any::<bool>())),
    ) -> Header {
        Header {
            frame_type,
            version,
            frame_pending: bits[0],
            ack_request: bits[1],
            sequence,
            addressing: Addressing { dst_pan: pans.0.map(PanId), dst, src_pan: pans.1.map(PanId), src },
            security: security.map(|(level, key, frame_counter, asn_in_nonce)| SecurityHeader {
                level: SecurityLevel::from_bits(level), key, frame_counter, asn_in_nonce,
            }),
            ies: bits[2],
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn any_header_round_trips_or_is_refused(header in any_header()) {
        let mut out = [0; MAX_HEADER_LEN + 48];
        if let Ok(len) = header.emit(&mut out) {
            prop_assert!(len <= MAX_HEADER_LEN);
            // The zeros form a termination-free element list, open beacon fields, a command and a
            // MIC.
            let behind = if header.frame_type == FrameType::Ack && header.version != FrameVersion::V2015 {
                0
            } else {
                header.level().mic_len() + 16
            };
            let frame = Frame::parse(&out[..len + behind]);
            prop_assert_eq!(frame.map(|frame| frame.header).ok(), Some(header));
        }
    }

    #[test]
    fn parser_never_panics_or_loses_octets(bytes in prop::collection::vec(any::<u8>(), 0..130)) {
        if let Ok(frame) = Frame::parse(&bytes) {
            prop_assert_eq!([frame.open(), frame.private(), frame.mic()].concat(), &bytes[..]);
            prop_assert_eq!([frame.mac_header(), frame.payload(), frame.mic()].concat(), &bytes[..]);
            let mut out = [0; MAX_HEADER_LEN];
            let len = frame.header.emit(&mut out).unwrap();
            prop_assert_eq!(&out[..len], &bytes[..len]);
            let _ = frame.header_ies().count();
            if let Ok((ies, content)) = PayloadIes::split(frame.payload()) {
                prop_assert!(content.len() <= frame.payload().len());
                ies.for_each(|ie| { let _ = NestedIes::new(ie.content).count(); });
            }
        }
    }

    #[test]
    fn elements_round_trip(
        headers in prop::collection::vec((0u8..0x7e, prop::collection::vec(any::<u8>(), 0..8)), 0..5),
        payloads in prop::collection::vec((0u8..0xf, prop::collection::vec(any::<u8>(), 0..300)), 0..3),
    ) {
        let mut out = [0; 1000];
        let mut writer = HeaderWriter::new(&mut out);
        for (id, content) in &headers {
            writer.push(HeaderElementId::from_number(*id), content).unwrap();
        }
        let len = writer.finish(Following::Payload).unwrap();
        prop_assert_eq!(super::ie::HeaderIes::measure(&out[..len]), Ok((len, Following::Payload)));
        let read: Vec<_> = super::ie::HeaderIes::new(&out[..len]).map(|ie| (ie.id.number(), ie.content.to_vec())).collect();
        prop_assert_eq!(read, headers);
        let mut writer = PayloadWriter::new(&mut out);
        for (group, content) in &payloads {
            writer.push(PayloadGroupId::from_number(*group), content).unwrap();
        }
        let len = writer.finish(true).unwrap();
        let (ies, rest) = PayloadIes::split(&out[..len]).unwrap();
        prop_assert!(rest.is_empty());
        let read: Vec<_> = ies.map(|ie| (ie.group.number(), ie.content.to_vec())).collect();
        prop_assert_eq!(read, payloads);
    }
}
