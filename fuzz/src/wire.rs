//! Fuzz targets for the parsers of `antedate-wire`.

use antedate_wire::link_local;
use antedate_wire::macsec::{ICV_LEN, MAX_PADDED_LEN, Mpdu};
use antedate_wire::profinet::{self, Layout};
use antedate_wire::vlan::{self, Tag, Tci};
use antedate_wire::{
    CyclicFrame, CyclicRepr, EthernetAddress, EthernetFrame, EthernetRepr, VlanTagStack, checksum, goose,
    ipv4, ipv6, lldp, ptp, tcp, udp,
};

/// Ethernet and VLAN tags.
pub fn ethernet(data: &[u8]) {
    let Ok(frame) = EthernetFrame::new_checked(data) else {
        assert!(data.len() < 14);
        return;
    };
    let mut header = [0; 14];
    EthernetRepr::parse(&frame).emit(&mut header).expect("a header fits");
    assert_eq!(header, data[..14]);
    if let Ok(stack) = VlanTagStack::parse(data) {
        assert!(stack.payload <= data.len() && !stack.ethertype.is_vlan());
        assert_eq!(stack.payload, 14 + 4 * stack.tags().len());
        let mut tagged = vec![0; data.len() + 4];
        let tag = Tag::customer(Tci(0x2003));
        assert_eq!(vlan::insert(data, tag, &mut tagged), Ok(tagged.len()));
        if let Ok(with) = VlanTagStack::parse(&tagged) {
            assert_eq!((with.vlan(), with.tags()[0]), (Some(3), tag));
            assert_eq!(&tagged[with.payload..], &data[stack.payload..]);
        }
    }
}

/// A MACsec PDU.
pub fn macsec_mpdu(data: &[u8]) {
    let Ok(mpdu) = Mpdu::parse(data) else { return };
    let used = mpdu.header.len() + mpdu.secure_data.len() + ICV_LEN;
    assert!(used == data.len() || (used < data.len() && data.len() <= MAX_PADDED_LEN));
    let mut tag = [0; 16];
    mpdu.tag.emit(&mut tag).expect("a SecTAG fits");
    assert_eq!(tag[..mpdu.tag.buffer_len()], mpdu.header[12..]);
    assert!(mpdu.tag.sci.is_none() || mpdu.sci() == mpdu.tag.sci);
}

/// An MKPDU of MACsec Key Agreement.
pub fn mka(data: &[u8]) {
    let Ok(parsed) = antedate_wire::mka::Repr::parse(data) else { return };
    assert!(parsed.covered.len() + parsed.icv.len() <= data.len());
    let mut out = vec![0; parsed.repr.buffer_len()];
    assert_eq!(parsed.repr.emit(&mut out, |_| *parsed.icv), Ok(out.len()));
    let again = antedate_wire::mka::Repr::parse(&out).expect("what was written");
    assert_eq!((again.repr, again.icv, again.skipped), (parsed.repr, parsed.icv, 0));
    if let Some(features) = parsed.repr.announcement.and_then(|announcement| announcement.features()) {
        assert!(features.suites().count() * 8 < data.len());
    }
}

/// A frame with a PTP message: only the correction and the UDP checksum change.
pub fn ptp(data: &[u8]) {
    let Some(place) = ptp::Place::find(data) else { return };
    let before = place.message(data).expect("it was found");
    assert!(usize::from(before.message_len()) <= data.len());
    let mut frame = data.to_vec();
    let refused = place.add_residence(&mut frame, 1_000).is_err();
    assert_eq!(refused, before.is_signed() != Ok(false));
    assert_eq!(ptp::Place::find(&frame), Some(place));
    let after = place.message(&frame).expect("it is still there");
    if refused {
        assert_eq!(frame, data);
    } else if before.correction() != i64::MAX {
        assert_eq!(after.correction(), before.correction().saturating_add(1_000 << 16));
    }
    assert_eq!((after.origin(), after.flags()), (before.origin(), before.flags()));
    assert!(frame.iter().zip(data).filter(|(new, old)| new != old).count() <= 10);
}

/// The echo and the hello of Antedate gateways, and their form of frames to link-local groups.
pub fn echo(data: &[u8]) {
    let mut carried = data.to_vec();
    if let Ok(frame) = link_local::restore(&mut carried) {
        let mut again = vec![0; data.len()];
        assert_eq!(link_local::carry(frame, &mut again), Ok(data.len()));
        // The destination on the way is not compared.
        assert_eq!(again[6..], data[6..]);
    }
    if let Ok(repr) = antedate_wire::echo::Repr::parse(data) {
        let mut out = [0xff; antedate_wire::echo::ECHO_LEN];
        repr.emit(&mut out).expect("an echo fits");
        assert_eq!(out[..48], data[..48]);
    }
    if let Ok(hello) = antedate_wire::hello::Repr::parse(data) {
        let mut out = [0xff; antedate_wire::hello::MAX_HELLO_LEN];
        let out = hello.emit(&mut out);
        // Destination and the unused bits of the state are not compared.
        assert_eq!(out[6..38], data[6..38]);
        assert_eq!(antedate_wire::hello::Repr::parse(out), Ok(hello));
    }
    if let Ok(probe) = antedate_wire::probe::Repr::parse(data) {
        let mut out = [0xff; antedate_wire::probe::PROBE_LEN];
        probe.emit(&mut out);
        // The destination is not compared.
        assert_eq!(out[6..44], data[6..44]);
    }
    if let Ok((hello, covered, icv)) = antedate_wire::standby::Hello::parse(data) {
        let mut out = [0xff; antedate_wire::standby::MAX_HELLO_LEN];
        assert_eq!(hello.emit(&mut out), Ok(covered.len()));
        // Destination and the unused bits of the state are not compared.
        assert_eq!(out[6..21], data[6..21]);
        assert_eq!(out[21], data[21] & 7);
        assert_eq!(out[22..covered.len()], data[22..covered.len()]);
        assert_eq!(icv[..], data[covered.len()..][..icv.len()]);
    }
}

/// ARP.
pub fn arp(data: &[u8]) {
    if let Ok(repr) = antedate_wire::arp::Repr::parse(data) {
        let mut out = [0; 28];
        repr.emit(&mut out).expect("a packet fits");
        assert_eq!(out, data[..28]);
    }
}

/// LLDP.
pub fn lldp(data: &[u8]) {
    let tlvs = lldp::Tlvs::new(data).flatten();
    assert!(tlvs.map(|tlv| tlv.value.len() + 2).sum::<usize>() <= data.len());
    if let Ok(repr) = lldp::Repr::parse(data) {
        repr.optional_tlvs().for_each(|tlv| {
            let _ = tlv.expect("was parsed").profinet();
        });
        let mut out = vec![0; repr.buffer_len()];
        assert_eq!(repr.emit(&mut out), Ok(out.len()));
        assert_eq!(lldp::Repr::parse(&out), Ok(repr));
    }
}

/// DCP.
pub fn dcp(data: &[u8]) {
    use antedate_wire::dcp::{Access, Pdu, ServiceId, Writer};
    let Ok(pdu) = Pdu::parse(data) else { return };
    let _ = pdu.requested().count();
    assert!(pdu.header.service != ServiceId::Set || pdu.header.access() == Access::Write);
    let blocks: Result<Vec<_>, _> = pdu.blocks().collect();
    let Ok(blocks) = blocks else { return };
    let mut out = vec![0; data.len() + 2];
    let mut writer = Writer::new(&mut out, &pdu.header).expect("a header fits");
    blocks.iter().for_each(|block| writer.block(block).expect("as many octets as were read, and a filler"));
    let len = writer.finish().expect("as long as it was");
    let again = Pdu::parse(&out[..len]).expect("what was written");
    assert_eq!(again.header, pdu.header);
    assert!(again.blocks().flatten().eq(blocks));
}

/// GOOSE.
pub fn goose(data: &[u8]) {
    let Ok(header) = goose::Repr::parse(data) else { return };
    let mut out = [0; 8];
    header.emit(&mut out).expect("a header fits");
    assert_eq!(out, data[..8]);
    if let Ok(publisher) = goose::Publisher::parse(data) {
        assert!(publisher.gocb_ref.len() + publisher.dat_set.len() < data.len());
    }
    if let Ok(message) = goose::Message::parse(data) {
        assert_eq!(goose::Publisher::parse(data), Ok(message.publisher));
        let mut out = vec![0; message.buffer_len()];
        let mut holes = 0;
        assert_eq!(message.emit(&mut out, &mut |hole| holes += hole.range.len()), Ok(out.len()));
        let again = goose::Message::parse(&out).expect("what was written");
        assert_eq!(again.all_data.iter().count(), message.all_data.iter().count());
        assert_eq!(
            (again.publisher, again.st_num, again.sq_num),
            (message.publisher, message.st_num, message.sq_num)
        );
        assert!(holes < out.len());
    }
}

/// Routed GOOSE: a parsed datagram's header is written again, and its elements lie inside.
pub fn routed(data: &[u8]) {
    use antedate_wire::routed::{Datagram, Element, HEADER_LEN};
    if let Ok(datagram) = Datagram::parse(data) {
        let mut out = [0; HEADER_LEN];
        if datagram.header.emit(datagram.payload.len(), &mut out).is_ok() {
            let again = [&out[..], &data[HEADER_LEN..]].concat();
            assert_eq!(Datagram::parse(&again).map(|again| again.header), Ok(datagram.header));
        }
        assert_eq!(datagram.associated.len() + datagram.payload.len() + 18, data.len());
    }
    let mut left = data;
    while let Ok((_, apdu, rest)) = Element::parse(left) {
        assert!(apdu.len() + rest.len() < left.len());
        left = rest;
    }
}

/// Sampled values: a parsed message is written octet for octet.
pub fn sampled(data: &[u8]) {
    use antedate_wire::sampled::Message;
    let Ok(message) = Message::parse(data) else { return };
    let asdus: Vec<_> = message.asdus.iter().collect();
    let mut out = vec![0; message.buffer_len()];
    let mut holes = 0;
    assert_eq!(message.emit(&mut out, &mut |hole| holes += hole.range.len()), Ok(out.len()));
    let again = Message::parse(&out).expect("what was written");
    assert!(again.asdus.iter().eq(asdus) && holes < out.len());
}

/// PPMP: a parsed message is JSON that contains the device's identifier, and a written message
/// parses.
pub fn ppmp(data: &[u8]) {
    use antedate_wire::ppmp::{Body, Fixed, Measurement, Message, Repr, Series, Time};
    let tokens = antedate_wire::json::Reader::new(data).count();
    assert!(tokens <= data.len() + 1);
    if let Ok(message) = Message::parse(data) {
        assert!(message.entries > 0 && !message.device.is_empty() && message.device.len() < data.len());
        assert!(antedate_wire::json::Reader::new(data).all(|token| token.is_ok()));
    }
    let Some((number, name)) = data.split_first_chunk::<8>() else { return };
    let Ok(name) = core::str::from_utf8(name) else { return };
    let value = Fixed { value: i64::from_le_bytes(*number), digits: number[0] % 12, width: number[1] % 30 };
    let series = [Series { name, unit: None, values: &[value] }];
    let ts = Time(u64::from_le_bytes(*number) >> (number[2] % 64));
    let time = Fixed { value: 0, digits: 0, width: 1 };
    let list = [Measurement { ts, time: &[time], series: &series }];
    let mut out = vec![0; 512];
    if let Ok(len) = (Repr { device: "d", body: Body::Measurements(&list) }).emit(&mut out, &mut |_| ()) {
        // A series may have the same name as the times.
        assert!(Message::parse(&out[..len]).is_ok_and(|message| message.entries == 1));
    }
}

/// Profinet's cyclic frames.
pub fn profinet(data: &[u8]) {
    let id = profinet::frame_id(data);
    let Ok(frame) = CyclicFrame::new_checked(data) else { return };
    assert!(id.is_ok_and(|id| id.is_cyclic()));
    let repr = CyclicRepr::parse(&frame);
    let mut out = data.to_vec();
    assert!(repr.emit(&mut out).is_ok());
    assert_eq!(out, data);
    let layout = Layout { offset: usize::from(data[1]), data: usize::from(data[0]), iocs: 2 };
    assert!(layout.data(frame.c_sdu()).is_none_or(|object| object.len() == layout.data));
    let _ = (layout.iops(frame.c_sdu()), layout.iocs(frame.c_sdu(), 1));
}

/// Profinet's alarms.
pub fn alarm(data: &[u8]) {
    use antedate_wire::profinet::alarm::{Content, Pdu};
    use antedate_wire::profinet::cm::Writer;
    let Ok(pdu) = Pdu::parse(data) else { return };
    let mut out = vec![0; data.len()];
    let len = pdu.emit(&mut out).expect("as long as it was");
    assert_eq!(Pdu::parse(&out[..len]), Ok(pdu));
    let Ok(content) = Content::parse(pdu.content) else { return };
    let mut out = vec![0; data.len()];
    let mut writer = Writer::new(&mut out);
    content.emit(pdu.priority, &mut writer).expect("as long as it was");
    let len = writer.len();
    assert_eq!(Content::parse(&out[..len]), Ok(content));
}

/// RPC with the blocks of Profinet's context management.
pub fn dcerpc(data: &[u8]) {
    use antedate_wire::dcerpc::{HEADER_LEN, Header};
    use antedate_wire::profinet::cm::connect::{
        AlarmCr, ArRequest, ExpectedSubmodules, IocrRequest, IocrResponse,
    };
    use antedate_wire::profinet::cm::control::Control;
    use antedate_wire::profinet::cm::record::Record;
    use antedate_wire::profinet::cm::{ARGS_LEN, Args, BlockType, Blocks, Writer};
    let Ok((header, body)) = Header::parse(data) else { return };
    let mut out = vec![0; HEADER_LEN + body.len()];
    header.emit(body.len(), &mut out).expect("a header fits");
    assert_eq!(Header::parse(&out).expect("what was written").0, header);
    let Ok(args) = Args::parse(header.order, body) else { return };
    let mut head = [0; ARGS_LEN];
    Args::emit(header.order, args.first, args.maximum, args.blocks.len(), &mut head).expect("they fit");
    assert_eq!(head, body[..ARGS_LEN]);
    // A block that was written is the same when it is read again.
    let again = |kind: BlockType, build: &dyn Fn(&mut Writer<'_>) -> antedate_wire::Result<()>| {
        let mut out = vec![0; data.len() + 64];
        let mut writer = Writer::new(&mut out);
        build(&mut writer).expect("as long as it was");
        let len = writer.len();
        let block = Blocks::new(&out[..len]).next().expect("one").expect("what was written");
        assert_eq!(block.kind, kind);
        block.body.to_vec()
    };
    for block in args.blocks().flatten() {
        if let Ok(ar) = ArRequest::parse(block.body) {
            let body = again(BlockType::ArRequest, &|writer| ar.emit(writer));
            assert_eq!(ArRequest::parse(&body), Ok(ar));
        }
        if let Ok(alarm) = AlarmCr::parse(block.body) {
            let body = again(BlockType::AlarmCrRequest, &|writer| alarm.emit(writer));
            assert_eq!(AlarmCr::parse(&body), Ok(alarm));
        }
        if let Ok(control) = Control::parse(block.body) {
            let kind = BlockType::ParameterEndRequest;
            assert_eq!(Control::parse(&again(kind, &|writer| control.emit(kind, writer))), Ok(control));
        }
        if let Ok(record) = Record::parse(block.body) {
            let kind = BlockType::ReadRequest;
            assert_eq!(Record::parse(&again(kind, &|writer| record.emit(kind, writer))), Ok(record));
        }
        if let Ok(request) = IocrRequest::parse(block.body) {
            let mut objects = 0;
            request.objects(|_| objects += 1);
            assert!(objects * 6 < block.body.len());
        }
        if let Ok(expected) = ExpectedSubmodules::parse(block.body) {
            let mut submodules = 0;
            expected.submodules(|_| submodules += 1);
            assert!(submodules * 14 < block.body.len());
        }
        let _ = (IocrResponse::parse(block.body), AlarmCr::accepted(block.body));
    }
}

/// IP, TCP, UDP and checksums: pending host offloads are completed correctly for any octets.
pub fn ip(data: &[u8]) {
    if let Ok(mut packet) = ipv4::Packet::new_checked(data.to_vec()) {
        packet.fill_checksum();
        assert!(packet.verify_checksum());
        let sum = packet.pseudo_header_sum(packet.payload().len() as u16);
        if let Ok(mut segment) = tcp::Segment::new_checked(packet.payload().to_vec()) {
            segment.fill_checksum(sum);
            assert!(segment.verify_checksum(sum) && segment.header_len() <= packet.payload().len());
        }
        if let Ok(mut datagram) = udp::Datagram::new_checked(packet.payload().to_vec()) {
            datagram.fill_checksum(sum);
            assert!(datagram.verify_checksum(sum) && datagram.checksum() != 0);
        }
    }
    if let Ok(packet) = ipv6::Packet::new_checked(data)
        && let Ok((_, at)) = packet.upper_layer()
    {
        assert!((40..=data.len()).contains(&at));
    }
    if let [start, offset, rest @ ..] = data {
        let mut frame = rest.to_vec();
        let (start, offset) = (usize::from(*start), usize::from(*offset));
        let fits = start + offset + 2 <= rest.len();
        assert_eq!(checksum::complete_partial(&mut frame, start, offset).is_ok(), fits);
    }
}

/// Addresses and identifiers as text.
pub fn text(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    if let Ok(address) = text.parse::<EthernetAddress>() {
        assert_eq!(address.to_string(), text.to_lowercase().replace('-', ":"));
    }
    if let Ok(sci) = text.parse::<antedate_wire::Sci>() {
        assert_eq!(sci.to_string(), text.to_lowercase());
    }
}

/// Type-length-value messages: sorting and restoring returns the original, both ways.
pub fn tlv(data: &[u8]) {
    use antedate_wire::tlv::{Layout, Lengths};
    let Some((&choice, message)) = data.split_first() else { return };
    let lengths = [Lengths::One, Lengths::Two, Lengths::Ber][usize::from(choice % 3)];
    let layout = Layout { types: usize::from(choice / 3 % 3), lengths };
    let (mut there, mut back) = (vec![0; message.len()], vec![0; message.len()]);
    if let Ok(front) = layout.sort(message, &mut there) {
        let values: usize = layout.elements(message).map(|e| e.expect("was read").value.len()).sum();
        assert_eq!(front + values, message.len());
        layout.restore(&there, &mut back).expect("was sorted");
        assert_eq!(back, message);
    } else {
        assert!(layout.elements(message).any(|element| element.is_err()));
    }
    if layout.restore(message, &mut there).is_ok() {
        layout.sort(&there, &mut back).expect("was restored");
        assert_eq!(back, message);
    }
}

/// VXLAN.
pub fn vxlan(data: &[u8]) {
    use antedate_wire::vxlan;
    if let Ok((vni, frame)) = vxlan::parse(data) {
        assert_eq!(frame.len() + vxlan::HEADER_LEN, data.len());
        let again = [&vxlan::header(vni)[..], frame].concat();
        assert_eq!(vxlan::parse(&again), Ok((vni, frame)));
    }
}
