//! The encoders' output, read by `tshark`: an independent parser agrees, without expert warnings.

#![allow(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod skip;

use std::io::Write;
use std::process::Command;

use antedate_wire::dcp::{self, Block};
use antedate_wire::profinet::{DataStatus, Ioxs, Layout};
use antedate_wire::vlan::{Tag, Tci, VlanId};
use antedate_wire::{
    CyclicRepr, EtherType, EthernetAddress, EthernetRepr, FrameId, Sci, SecTag, arp, goose, ipv4, lldp,
    macsec,
};
use skip::skipped;

const PLC: EthernetAddress = EthernetAddress([0x02, 0x0e, 0xcf, 0, 0, 1]);
const DEVICE: EthernetAddress = EthernetAddress([0x02, 0x0e, 0xcf, 0, 0, 2]);

fn frame(dst_addr: EthernetAddress, tag: Option<Tag>, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 14];
    EthernetRepr { dst_addr, src_addr: DEVICE, ethertype }.emit(&mut out).unwrap();
    out.extend(payload);
    out.resize(out.len().max(60), 0);
    if let Some(tag) = tag {
        let plain = out;
        out = vec![0; plain.len() + 4];
        antedate_wire::vlan::insert(&plain, tag, &mut out).unwrap();
    }
    out
}

/// The output of tshark for `frames`: one line a frame with its protocols and the given fields.
fn dissect(name: &str, frames: &[Vec<u8>], fields: &[&str]) -> Option<String> {
    let mut pcap = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        pcap.extend(word.to_le_bytes());
    }
    for frame in frames {
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            pcap.extend(word.to_le_bytes());
        }
        pcap.extend(frame);
    }
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::File::create(&path).unwrap().write_all(&pcap).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.args(["-T", "fields", "-E", "separator=|", "-e", "_ws.expert.message", "-e", "_ws.malformed"]);
    tshark.args(["-e", "frame.protocols"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    match tshark.arg("-r").arg(&path).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skipped(&format!("{name}: tshark is not installed"));
            None
        }
        Err(error) => panic!("tshark: {error}"),
    }
}

#[test]
fn tshark_reads_cyclic_frames() {
    let emit = |frame_id, data: usize, iocs| {
        let layout = Layout::new(data, iocs);
        let repr = CyclicRepr {
            frame_id: FrameId(frame_id),
            c_sdu_len: layout.c_sdu_len(),
            cycle_counter: 4128,
            data_status: DataStatus::OPERATIONAL,
            transfer_status: 0,
        };
        let mut out = vec![0; repr.buffer_len()];
        let mut cyclic = repr.emit(&mut out).unwrap();
        layout.data_mut(cyclic.c_sdu_mut()).unwrap().fill(0x55);
        layout.set_status(cyclic.c_sdu_mut(), Ioxs::GOOD, Ioxs::GOOD).unwrap();
        out
    };
    let tag = Tag::customer(Tci::new(6, false, VlanId::PRIORITY));
    let frames = [
        frame(PLC, None, EtherType::Profinet, &emit(0x8000, 20, 2)),
        frame(PLC, Some(tag), EtherType::Profinet, &emit(0x8001, 4, 1)),
        frame(PLC, Some(tag), EtherType::Profinet, &emit(0xc001, 1400, 3)),
    ];
    let fields =
        ["pn_rt.frame_id", "pn_rt.cycle_counter", "pn_rt.ds", "pn_rt.transfer_status", "vlan.priority"];
    let Some(text) = dissect("cyclic.pcap", &frames, &fields) else { return };
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "||eth:ethertype:pn_rt:pn_io|32768|4128|0x35|0|");
    assert_eq!(lines[1], "||eth:ethertype:vlan:ethertype:pn_rt:pn_io|32769|4128|0x35|0|6");
    assert_eq!(lines[2], "||eth:ethertype:vlan:ethertype:pn_rt:pn_io|49153|4128|0x35|0|6");
}

#[test]
fn tshark_reads_dcp() {
    use dcp::Option::{All, DeviceId, IpParameter, NameOfStation};
    use dcp::{ServiceId, ServiceType};
    let emit = |frame_id, service, service_type, blocks: &[Block<'_>], asked: &[dcp::Option]| {
        let header = dcp::Header { frame_id, service, service_type, xid: 0x1234_5678, response_delay: 1 };
        let mut out = vec![0; 200];
        let mut writer = dcp::Writer::new(&mut out, &header).unwrap();
        blocks.iter().for_each(|block| writer.block(block).unwrap());
        asked.iter().for_each(|option| writer.request(*option).unwrap());
        let len = writer.finish().unwrap();
        out.truncate(len);
        frame(PLC, None, EtherType::Profinet, &out)
    };
    let name = Block { option: NameOfStation, info: 0, value: b"device-1" };
    let id = Block { option: DeviceId, info: 0, value: &[0xfe, 0xed, 0, 1] };
    let ip = Block { option: IpParameter, info: 1, value: &[10, 0, 0, 2, 255, 255, 255, 0, 10, 0, 0, 1] };
    let everyone = Block { option: All, info: 0, value: &[] };
    let done = Block { option: dcp::Option::ControlResponse, info: 0, value: &[2, 2, 0] };
    let get_set = FrameId::DCP_GET_SET;
    let frames = [
        emit(FrameId::DCP_IDENTIFY_REQUEST, ServiceId::Identify, ServiceType::Request, &[everyone], &[]),
        emit(FrameId::DCP_IDENTIFY_REQUEST, ServiceId::Identify, ServiceType::Request, &[name], &[]),
        emit(
            FrameId::DCP_IDENTIFY_RESPONSE,
            ServiceId::Identify,
            ServiceType::ResponseSuccess,
            &[name, id, ip],
            &[],
        ),
        emit(get_set, ServiceId::Get, ServiceType::Request, &[], &[NameOfStation, IpParameter]),
        emit(get_set, ServiceId::Get, ServiceType::ResponseSuccess, &[name, ip], &[]),
        emit(get_set, ServiceId::Set, ServiceType::Request, &[name], &[]),
        emit(get_set, ServiceId::Set, ServiceType::ResponseSuccess, &[done], &[]),
        emit(FrameId::DCP_HELLO, ServiceId::Hello, ServiceType::Request, &[name, ip], &[]),
    ];
    let fields = ["pn_dcp.service_id", "pn_dcp.service_type", "pn_dcp.suboption_device_nameofstation"];
    let Some(text) = dissect("dcp.pcap", &frames, &fields) else { return };
    let expected = [
        "5|0|",
        "5|0|device-1",
        "5|1|device-1",
        "3|0|",
        "3|1|device-1",
        "4|0|device-1",
        "4|1|",
        "6|0|device-1",
    ];
    for (line, expected) in text.lines().zip(expected) {
        let (head, tail) = line.split_once("pn_dcp|").expect(line);
        assert!(head.starts_with("||"), "{line}");
        assert_eq!(tail, expected, "{text}");
    }
    assert_eq!(text.lines().count(), frames.len());
}

#[test]
fn tshark_reads_lldp_arp_goose_and_sectag() {
    let mut own = [0; 16];
    let own_len = lldp::emit_profinet(&mut own, lldp::ProfinetSubtype::PortStatus, &[0; 4]).unwrap();
    let neighbour = lldp::Repr {
        chassis_id: lldp::Id::Mac(DEVICE),
        port_id: lldp::Id::Local(b"port-001.device-1"),
        ttl: 20,
        optional: &own[..own_len],
    };
    let mut lldp_pdu = vec![0; neighbour.buffer_len()];
    neighbour.emit(&mut lldp_pdu).unwrap();

    let mut arp_packet = [0; arp::PACKET_LEN];
    let request = arp::Repr {
        operation: arp::Operation::Request,
        source_hardware_addr: DEVICE,
        source_protocol_addr: ipv4::Address::new(10, 0, 0, 2),
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: ipv4::Address::new(10, 0, 0, 1),
    };
    request.emit(&mut arp_packet).unwrap();

    let pdu =
        b"\x61\x3f\x80\x08IED1/GO1\x81\x02\x07\xd0\x82\x08IED1/DS1\x83\x02go\x84\x08\x5f\x5e\x10\0\0\0\0\0\
        \x85\x01\x01\x86\x01\x05\x87\x01\0\x88\x01\x01\x89\x01\0\x8a\x01\x01\xab\x03\x83\x01\x01";
    let mut goose_message = vec![0; 8];
    let header = goose::Repr { appid: 1, length: 8 + pdu.len() as u16, reserved1: 0, reserved2: 0 };
    header.emit(&mut goose_message).unwrap();
    goose_message.extend(pdu);

    let mut protected = frame(PLC, None, EtherType::Profinet, &[0; 46])[..12].to_vec();
    let sectag = SecTag {
        tci: macsec::Tci::NONE.with_encryption(true).with_changed_text(true),
        an: macsec::An::ALL[1],
        short_length: 20,
        more_fragments: false,
        continued: false,
        packet_number: 77,
        sci: Some(Sci::new(DEVICE, 1)),
    };
    protected.resize(28, 0);
    sectag.emit(&mut protected[12..]).unwrap();
    protected.extend([0x5a; 36]);

    let frames = [
        frame(EthernetAddress::LLDP_NEAREST_BRIDGE, None, EtherType::Lldp, &lldp_pdu),
        frame(EthernetAddress::BROADCAST, None, EtherType::Arp, &arp_packet),
        frame(EthernetAddress([1, 0x0c, 0xcd, 1, 0, 1]), None, EtherType::Goose, &goose_message),
        protected,
    ];
    let fields = [
        "lldp.port.id",
        "arp.dst.proto_ipv4",
        "goose.gocbRef",
        "goose.numDatSetEntries",
        "macsec.PN",
        "macsec.SL",
        "macsec.SCI.system_identifier",
    ];
    let Some(text) = dissect("others.pcap", &frames, &fields) else { return };
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("||eth:ethertype:lldp|port-001.device-1|"), "{text}");
    assert!(lines[1].starts_with("||eth:ethertype:arp||10.0.0.1|"), "{text}");
    assert!(lines[2].contains("goose|||IED1/GO1|1|"), "{text}");
    assert!(lines[3].ends_with("|77|20|02:0e:cf:00:00:02"), "{text}");
    assert!(lines.iter().all(|line| line.starts_with("||")), "{text}");
}
