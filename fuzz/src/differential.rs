//! Parsers against those of other crates where both claim the format, and reassembly against a
//! plain model.

use antedate_channel::overlay::reassembly::{LONGEST, Part, Reassembly, Whole};
use antedate_wire::dot15d4::{self, FrameType, FrameVersion, KeyIdentifier};
use antedate_wire::dtls::handshake::{ClientHello, Fragment, HandshakeType, HelloVerifyRequest};
use antedate_wire::dtls::{Record, records};
use antedate_wire::{EtherType, EthernetFrame, VlanTagStack, ipv4, ipv6, tcp, udp};
use byte::{TryRead, TryWrite};
use etherparse::{
    Ethernet2Slice, Ipv4HeaderSlice, Ipv6HeaderSlice, Ipv6RawExtHeaderSlice, SingleVlanSlice, TcpSlice,
    UdpHeaderSlice, ether_type, ip_number,
};
use tls_parser::{
    DTLSMessage, DTLSMessageHandshakeBody, TlsRecordType, parse_dtls_message_handshake,
    parse_dtls_record_header,
};

/// Ethernet with VLAN tags, IP, TCP and UDP, against `etherparse`. The input is a frame, and a
/// packet.
pub fn against_etherparse(data: &[u8]) {
    tagged(data);
    packet(data);
}

fn tagged(data: &[u8]) {
    let theirs = Ethernet2Slice::from_slice_without_fcs(data);
    let ours = EthernetFrame::new_checked(data);
    assert_eq!(ours.is_ok(), theirs.is_ok());
    let Ok(theirs) = theirs else { return };
    let (mut kind, mut payload, mut tags) = (theirs.ether_type(), theirs.payload_slice(), Vec::new());
    let is_tag = |kind| {
        [ether_type::VLAN_TAGGED_FRAME, ether_type::PROVIDER_BRIDGING, ether_type::VLAN_DOUBLE_TAGGED_FRAME]
            .contains(&kind)
    };
    while is_tag(kind) {
        let Ok(tag) = SingleVlanSlice::from_slice(payload) else {
            assert!(VlanTagStack::parse(data).is_err(), "a truncated tag");
            return;
        };
        let fields =
            (tag.priority_code_point().value(), tag.drop_eligible_indicator(), tag.vlan_identifier().value());
        tags.push((kind.0, fields));
        (kind, payload) = (tag.ether_type(), tag.payload_slice());
    }
    let Ok(stack) = VlanTagStack::parse(data) else { return };
    // Tags that `etherparse` does not know are payload to it.
    let known = stack.tags().iter().take_while(|tag| is_tag(etherparse::EtherType(tag.protocol.number())));
    let known: Vec<_> = known
        .map(|tag| (tag.protocol.number(), (tag.tci.priority(), tag.tci.drop_eligible(), tag.tci.id())))
        .collect();
    assert_eq!(known, tags);
    if known.len() == stack.tags().len() {
        assert_eq!((stack.ethertype.number(), &data[stack.payload..]), (kind.0, payload));
        if matches!(stack.ethertype, EtherType::Ipv4 | EtherType::Ipv6) {
            packet(payload);
        }
    }
}

fn packet(data: &[u8]) {
    let theirs = Ipv4HeaderSlice::from_slice(data);
    let ours = ipv4::Packet::new_checked(data.to_vec());
    assert_eq!(ours.is_ok(), theirs.is_ok());
    if let (Ok(mut ours), Ok(theirs)) = (ours, theirs) {
        assert_eq!(ours.header_len(), usize::from(theirs.ihl()) * 4);
        assert_eq!((ours.total_len(), ours.ident()), (theirs.total_len(), theirs.identification()));
        assert_eq!(
            (ours.protocol().number(), ours.checksum()),
            (theirs.protocol().0, theirs.header_checksum())
        );
        assert_eq!((ours.src_addr(), ours.dst_addr()), (theirs.source_addr(), theirs.destination_addr()));
        assert_eq!(ours.is_fragment(), theirs.is_fragmenting_payload());
        ours.fill_checksum();
        // Their owned header has no place for the reserved flag.
        if data[6] & 0x80 == 0 {
            assert_eq!(ours.checksum(), theirs.to_header().calc_header_checksum());
        }
        above(&ours, &theirs);
    }
    let theirs = Ipv6HeaderSlice::from_slice(data);
    let ours = ipv6::Packet::new_checked(data);
    assert_eq!(ours.is_ok(), theirs.is_ok());
    if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
        assert_eq!(ours.next_header().number(), theirs.next_header().0);
        assert_eq!((ours.src_addr(), ours.dst_addr()), (theirs.source_addr(), theirs.destination_addr()));
        if let Ok((protocol, at)) = ours.upper_layer() {
            let (mut next, mut rest) = (theirs.next_header(), &data[theirs.slice().len()..]);
            while [
                ip_number::IPV6_HEADER_HOP_BY_HOP,
                ip_number::IPV6_ROUTE_HEADER,
                ip_number::IPV6_DESTINATION_OPTIONS,
            ]
            .contains(&next)
            {
                let extension = Ipv6RawExtHeaderSlice::from_slice(rest).expect("a whole extension");
                (next, rest) = (extension.next_header(), &rest[extension.slice().len()..]);
            }
            assert_eq!((protocol.number(), data.len() - at), (next.0, rest.len()));
        }
    }
}

/// TCP and UDP above IPv4, with the checksums that a network card left out.
fn above(ip: &ipv4::Packet<Vec<u8>>, theirs: &Ipv4HeaderSlice<'_>) {
    let Ok(len) = u16::try_from(ip.payload().len()) else { return };
    let (from, to) = (theirs.source(), theirs.destination());
    let ours = tcp::Segment::new_checked(ip.payload().to_vec());
    let segment = TcpSlice::from_slice(ip.payload());
    assert_eq!(ours.is_ok(), segment.is_ok());
    if let (Ok(mut ours), Ok(theirs)) = (ours, segment) {
        assert_eq!((ours.src_port(), ours.dst_port()), (theirs.source_port(), theirs.destination_port()));
        assert_eq!((ours.sequence(), ours.checksum()), (theirs.sequence_number(), theirs.checksum()));
        assert_eq!(
            (ours.header_len(), ours.payload()),
            (usize::from(theirs.data_offset()) * 4, theirs.payload())
        );
        let flags = [theirs.fin(), theirs.syn(), theirs.psh(), theirs.cwr()];
        let own = [tcp::Flags::FIN, tcp::Flags::SYN, tcp::Flags::PSH, tcp::Flags::CWR];
        assert_eq!(own.map(|flag| ours.flags().has(flag)), flags);
        if ip.protocol().number() == ip_number::TCP.0 {
            ours.fill_checksum(ip.pseudo_header_sum(len));
            assert_eq!(Ok(ours.checksum()), theirs.calc_checksum_ipv4(from, to));
        }
    }
    let ours = udp::Datagram::new_checked(ip.payload().to_vec());
    let datagram = UdpHeaderSlice::from_slice(ip.payload());
    assert_eq!(ours.is_ok(), datagram.is_ok());
    if let (Ok(mut ours), Ok(theirs)) = (ours, datagram) {
        assert_eq!((ours.src_port(), ours.dst_port()), (theirs.source_port(), theirs.destination_port()));
        assert_eq!((ours.length(), ours.checksum()), (theirs.length(), theirs.checksum()));
        // They sum the header's length field in place of the octets' number.
        if ip.protocol().number() == ip_number::UDP.0 && ours.length() == len {
            ours.fill_checksum(ip.pseudo_header_sum(len));
            let sum = theirs.to_header().calc_checksum_ipv4_raw(from, to, ours.payload());
            assert_eq!(Ok(ours.checksum()), sum);
        }
    }
}

/// MAC headers of IEEE 802.15.4, against `ieee802154`: those of versions 0 and 1, and those of
/// version 2 that mean the same there.
pub fn against_ieee802154(data: &[u8]) {
    use ieee802154::mac;
    let Ok(frame) = dot15d4::Frame::parse(data) else { return };
    let header = frame.header;
    let (dst, src) = (header.addressing.dst, header.addressing.src);
    if header.version == FrameVersion::V2015 {
        use dot15d4::Address::{Absent, Extended};
        let compressed_alike = !matches!((dst, src), (Absent, _) | (_, Absent) | (Extended(_), Extended(_)));
        let counted = header.security.is_none_or(|one| one.frame_counter.is_some() && !one.asn_in_nonce);
        if header.sequence.is_none() || !compressed_alike || !counted {
            return;
        }
    }
    let (theirs, len) = mac::Header::try_read(data, ()).expect("a header of both");
    assert_eq!(len, header.buffer_len());
    let kind = match theirs.frame_type {
        mac::FrameType::Beacon => Some(FrameType::Beacon),
        mac::FrameType::Data => Some(FrameType::Data),
        mac::FrameType::Acknowledgement => Some(FrameType::Ack),
        mac::FrameType::MacCommand => Some(FrameType::Command),
        _ => None,
    };
    assert_eq!((Some(header.frame_type), header.sequence), (kind, Some(theirs.seq)));
    assert_eq!((header.frame_pending, header.ack_request), (theirs.frame_pending, theirs.ack_request));
    let address = |address: Option<mac::Address>| match address {
        None => (None, dot15d4::Address::Absent),
        Some(mac::Address::Short(pan, short)) => {
            (Some(dot15d4::PanId(pan.0)), dot15d4::Address::Short(dot15d4::ShortAddress(short.0)))
        }
        Some(mac::Address::Extended(pan, long)) => {
            let long = dot15d4::ExtendedAddress(long.0.to_be_bytes());
            (Some(dot15d4::PanId(pan.0)), dot15d4::Address::Extended(long))
        }
    };
    assert_eq!((header.addressing.destination_pan(), dst), address(theirs.destination));
    assert_eq!((header.addressing.source_pan(), src), address(theirs.source));
    assert_eq!(header.security.is_some(), theirs.has_security());
    if let (Some(ours), Some(theirs)) = (header.security, theirs.auxiliary_security_header) {
        assert_eq!(ours.frame_counter, Some(theirs.get_frame_counter()));
        let mut control = [0];
        theirs.control.try_write(&mut control, ()).expect("an octet");
        assert_eq!([ours.level.number() | ours.key.mode() << 3], control);
        let index = theirs.key_identifier.map(|key| key.key_index);
        assert_eq!(ours.key.index(), index);
        use ieee802154::mac::security::KeySource;
        // Their integers are of this machine's order.
        match (ours.key, theirs.key_identifier.and_then(|key| key.key_source)) {
            (KeyIdentifier::Source4(source, _), Some(KeySource::Short(theirs))) => {
                assert_eq!(source, theirs.to_ne_bytes());
            }
            (KeyIdentifier::Source8(source, _), Some(KeySource::Long(theirs))) => {
                assert_eq!(source, theirs.to_ne_bytes());
            }
            (KeyIdentifier::Implicit | KeyIdentifier::Index(_), None) => {}
            other => panic!("two kinds of keys: {other:?}"),
        }
    }
}

/// Records and handshake messages of DTLS 1.2, against `tls-parser`, which knows no connection IDs.
pub fn against_tls_parser(data: &[u8]) {
    let mut rest = data;
    for record in records(data, 0) {
        let Ok(record) = record else { break };
        let (behind, header) = parse_dtls_record_header(rest).expect("a header of both");
        let Record { content_type, version, epoch, sequence, fragment, .. } = record;
        assert_eq!((content_type.number(), version), (header.content_type.0, header.version.0));
        assert_eq!((epoch, sequence), (header.epoch, header.sequence_number));
        assert_eq!(fragment, &behind[..header.length.into()]);
        rest = &behind[fragment.len()..];
        if header.content_type == TlsRecordType::Handshake {
            message(fragment);
        }
    }
    message(data);
}

fn message(octets: &[u8]) {
    let Ok((ours, behind)) = Fragment::parse(octets) else { return };
    let Ok((after, DTLSMessage::Handshake(theirs))) = parse_dtls_message_handshake(octets) else { return };
    assert_eq!((ours.kind.number(), ours.message, behind), (theirs.msg_type.0, theirs.message_seq, after));
    let place = (theirs.length as usize, theirs.fragment_offset as usize, theirs.fragment_length as usize);
    assert_eq!((ours.length, ours.offset, ours.octets.len()), place);
    match theirs.body {
        DTLSMessageHandshakeBody::Fragment(part) => assert_eq!(ours.octets, part),
        DTLSMessageHandshakeBody::ClientHello(theirs) => {
            assert_eq!(ours.kind, HandshakeType::ClientHello);
            // Ours also refuses empty lists, and octets behind the extensions.
            let Ok(ours) = ClientHello::parse(ours.octets) else { return };
            assert_eq!((ours.version, &ours.random[..]), (theirs.version.0, theirs.random));
            assert_eq!((ours.session, ours.cookie), (theirs.session_id.unwrap_or_default(), theirs.cookie));
            assert!(ours.suites().eq(theirs.ciphers.iter().map(|suite| suite.0)));
            assert!(ours.compressions.iter().eq(theirs.comp.iter().map(|method| &method.0)));
            assert_eq!(ours.extensions.octets(), theirs.ext.unwrap_or_default());
        }
        DTLSMessageHandshakeBody::HelloVerifyRequest(theirs) => {
            let Ok(ours) = HelloVerifyRequest::parse(ours.octets) else { return };
            assert_eq!((ours.version, ours.cookie), (theirs.server_version.0, theirs.cookie));
        }
        _ => {}
    }
}

/// Nanoseconds that a whole may be incomplete.
const PATIENCE: u64 = 500_000_000;

/// Wholes with all their parts, which are judged anew at each part.
#[derive(Default)]
struct Model {
    open: Vec<(Whole, u64, Vec<(usize, Vec<u8>, bool)>)>,
    whole: u64,
    incomplete: u64,
    contradictory: u64,
    malformed: u64,
}

impl Model {
    fn add(&mut self, now: u64, part: Part<'_>) -> Option<Vec<u8>> {
        let end = part.offset + part.octets.len();
        let uneven = part.offset % 8 != 0 || !part.last && part.octets.len() % 8 != 0;
        if part.octets.is_empty() || uneven || end > LONGEST {
            self.malformed += 1;
            return None;
        }
        let before = self.open.len();
        self.open.retain(|(_, since, _)| now - since < PATIENCE);
        self.incomplete += (before - self.open.len()) as u64;
        let same = |of: &Whole| match (*of, part.of) {
            (Whole::Frame { session, first, .. }, Whole::Frame { session: s, first: f, .. }) => {
                (session, first) == (s, f)
            }
            (one, other) => one == other,
        };
        let at = self.open.iter().position(|(of, ..)| same(of)).unwrap_or_else(|| {
            self.open.push((part.of, now, Vec::new()));
            self.open.len() - 1
        });
        let (of, _, parts) = &mut self.open[at];
        parts.push((part.offset, part.octets.to_vec(), part.last));
        parts.sort();
        let ends = |(offset, octets, _): &(usize, Vec<u8>, bool)| offset + octets.len();
        let overlap = parts.windows(2).any(|pair| ends(&pair[0]) > pair[1].0);
        let beyond = parts.iter().rev().skip(1).any(|(.., last)| *last);
        if *of != part.of || overlap || beyond {
            self.contradictory += 1;
            self.open.remove(at);
            return None;
        }
        let whole: Vec<u8> = parts.iter().flat_map(|(_, octets, _)| octets.clone()).collect();
        let complete = parts.last().is_some_and(|last| last.2 && ends(last) == whole.len());
        complete.then(|| {
            self.whole += 1;
            self.open.remove(at);
            whole
        })
    }
}

/// Reassembly against a plain model. Four octets per part: its whole; its offset; its length;
/// whether it is the last, and the time since the one before.
pub fn reassembly(data: &[u8]) {
    let (mut reassembly, mut model, mut now) = (Reassembly::default(), Model::default(), 0);
    for (number, [of, offset, len, how]) in data.as_chunks::<4>().0.iter().enumerate() {
        let of = match of % 4 {
            0 => Whole::Packet((of / 4 % 3).into()),
            count => Whole::Frame { session: u32::from(of >> 6), first: u64::from(of / 4 % 8), count },
        };
        let last = how & 1 == 1;
        let (odd, unaligned) = (usize::from(how >> 1 & 3), usize::from(how >> 7) * 4);
        let octets: Vec<u8> =
            (0..(usize::from(*len) * 40).saturating_sub(odd)).map(|at| (at * 7 + number) as u8).collect();
        now += u64::from(how >> 3 & 15) * 20_000_000;
        let part = Part { of, offset: usize::from(*offset) * 40 + unaligned, octets: &octets, last };
        let expected = model.add(now, part);
        assert_eq!(reassembly.add(now, part).map(|whole| whole.to_vec()), expected);
        let counted = reassembly.counters();
        assert_eq!(
            [counted.whole, counted.incomplete, counted.contradictory, counted.malformed],
            [model.whole, model.incomplete, model.contradictory, model.malformed]
        );
    }
}
