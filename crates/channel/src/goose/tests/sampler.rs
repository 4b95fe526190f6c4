//! Streams of sampled values, beside another GCM.

use super::*;
use antedate_wire::sampled::{self, Asdu, Asdus};

fn asdu(smp_cnt: u16, sample: &[u8]) -> Asdu<'_> {
    Asdu {
        sv_id: b"antedateMU01",
        dat_set: None,
        smp_cnt,
        conf_rev: 1,
        refr_tm: Some([9; 8]),
        smp_synch: 2,
        smp_rate: None,
        sample,
        smp_mod: None,
    }
}

fn stream(form: Form) -> Layout {
    let asdus = [asdu(0, &[0; 64]), asdu(1, &[0; 64])];
    let message = sampled::Message { appid: 0x4000, simulation: true, asdus: Asdus::Given(&asdus) };
    let destination = EthernetAddress([0x01, 0x0c, 0xcd, 0x04, 0x00, 0x01]);
    Layout::sampled(destination, EthernetAddress(SENDER), &message, form, PERIOD).unwrap()
}

fn sampler(layout: &Layout) -> Sampler<'_, Aes128Gcm> {
    Sampler::new(key(), Counter::new(SENDER, 1, 10_000), layout).unwrap()
}

fn samples(number: u16, octets: &[[u8; 64]; 2]) -> [Sample<'_>; 2] {
    [0, 1].map(|at| Sample {
        smp_cnt: 2 * number + at,
        refr_tm: [number as u8; 8],
        smp_synch: 1,
        octets: &octets[usize::from(at)],
    })
}

#[test]
fn stream_arrives_with_its_samples() {
    for form in FORMS {
        let layout = stream(form);
        let (mut sampler, mut subscriber) = (sampler(&layout), subscriber(form, 0));
        let mut frame = vec![0; 512];
        for number in 1..50 {
            sampler.idle(if number % 3 == 0 { 2 } else { u32::MAX });
            let octets = [[number as u8; 64], [number as u8 + 1; 64]];
            let len = sampler.publish(&samples(number, &octets), &mut frame).unwrap();
            assert_eq!(len, layout.frame_len());
            let got = subscriber.receive_sampled(&frame[..len]).unwrap();
            let read: Vec<Asdu<'_>> = got.asdus.iter().collect();
            assert_eq!((got.appid, got.simulation, read.len()), (0x4000, true, 2));
            for (at, asdu) in read.iter().enumerate() {
                assert_eq!((asdu.smp_cnt, asdu.smp_synch), (2 * number + at as u16, 1));
                assert_eq!((asdu.refr_tm, asdu.sample), (Some([number as u8; 8]), &octets[at][..]));
            }
            assert_eq!(subscriber.receive_sampled(&frame[..len]).map(|_| ()), Err(Dropped::Late));
            // Neither is the other.
            assert_eq!(subscriber.receive(&frame[..len]), Err(Dropped::Malformed));
        }
        assert_eq!(subscriber.counters().delivered, 49);
    }
}

#[test]
fn sampled_frame_matches_another_gcm() {
    let layout = stream(Form::Encrypted);
    let mut sampler = sampler(&layout);
    sampler.idle(u32::MAX);
    let octets = [[3; 64], [4; 64]];
    let mut frame = vec![0; 512];
    let len = sampler.publish(&samples(7, &octets), &mut frame).unwrap();
    let end = len - EXTENSION_LEN;
    let extension = &frame[end..len];
    let aad = [&frame[..22], &extension[..10]].concat();
    let sealed = [&frame[22..end], &extension[25..]].concat();
    let nonce: [u8; 12] = extension[11..23].try_into().unwrap();
    let cipher = aes_gcm::Aes128Gcm::new(&KEY.into());
    let plain = cipher.decrypt(&nonce.into(), Payload { msg: &sealed, aad: &aad }).unwrap();
    let read = sampled::Message::parse_pdu(0x4000, &plain).unwrap();
    assert_eq!(read.asdus.iter().map(|asdu| asdu.smp_cnt).collect::<Vec<_>>(), [14, 15]);
}

#[test]
fn authenticated_stream_is_read_by_others() {
    let layout = stream(Form::Authenticated);
    let mut frame = vec![0; 512];
    let octets = [[3; 64], [4; 64]];
    let len = sampler(&layout).publish(&samples(7, &octets), &mut frame).unwrap();
    // A plain reader ends at the header's length.
    let read = sampled::Message::parse(&frame[14..len]).unwrap();
    assert_eq!(read.asdus.iter().map(|asdu| asdu.sample[0]).collect::<Vec<_>>(), [3, 4]);
    let mut subscriber = subscriber(Form::Authenticated, 0);
    for at in 0..len {
        let mut changed = frame[..len].to_vec();
        changed[at] ^= 1;
        assert!(subscriber.receive_sampled(&changed).is_err(), "{at}");
    }
    assert!(subscriber.receive_sampled(&frame[..len]).is_ok());
}

#[test]
fn samples_of_other_lengths_spend_no_number() {
    let layout = stream(Form::Authenticated);
    let mut sampler = sampler(&layout);
    let octets = [[3; 64], [4; 64]];
    let good = samples(1, &octets);
    let mut frame = vec![0; 512];
    let short = [good[0], Sample { octets: &[0; 60], ..good[1] }];
    assert_eq!(sampler.publish(&short, &mut frame), Err(PublishError::Values));
    assert_eq!(sampler.publish(&good[..1], &mut frame), Err(PublishError::Values));
    assert_eq!(sampler.publish(&good, &mut frame[..100]), Err(PublishError::Buffer));
    assert_eq!(sampler.counter_mut().left(), 9_999);
    assert!(sampler.publish(&good, &mut frame).is_ok());
}

#[test]
fn routed_stream_arrives_once() {
    let asdus = [asdu(0, &[0; 64]), asdu(1, &[0; 64])];
    let message = sampled::Message { appid: 0x4000, simulation: true, asdus: Asdus::Given(&asdus) };
    let layout = Layout::routed_sampled(&message, PERIOD).unwrap();
    for freshness in [Freshness::Counter, Freshness::Number] {
        let (mut sampler, mut frame) = (sampler(&layout), vec![0; 512]);
        let mut receiver = RoutedSubscriber::new(key(), PERIOD.key, freshness);
        for number in 1..20 {
            sampler.idle(if number % 3 == 0 { 2 } else { u32::MAX });
            let octets = [[number as u8; 64], [number as u8 + 1; 64]];
            let len = sampler.publish(&samples(number, &octets), &mut frame).unwrap();
            assert_eq!(len, layout.frame_len());
            let datagram = &frame[..len];
            // It is no GOOSE, and no changed octet passes.
            assert_eq!(receiver.receive(datagram), Err(Dropped::Malformed));
            for at in (0..len).step_by(7) {
                let mut changed = datagram.to_vec();
                changed[at] ^= 1;
                assert!(receiver.receive_sampled(&changed).is_err(), "{at}");
            }
            let got = receiver.receive_sampled(datagram).unwrap();
            let read: Vec<Asdu<'_>> = got.asdus.iter().collect();
            assert_eq!((got.appid, got.simulation, read.len()), (0x4000, true, 2));
            for (at, asdu) in read.iter().enumerate() {
                assert_eq!((asdu.smp_cnt, asdu.sample), (2 * number + at as u16, &octets[at][..]));
            }
            let again = receiver.receive_sampled(datagram).map(|_| ());
            assert!(matches!(again, Err(Dropped::Late | Dropped::Duplicate)), "{again:?}");
        }
        assert_eq!(receiver.counters().delivered, 19);
    }
}

#[test]
fn signed_stream_is_read() {
    let layout = stream(Form::Authenticated);
    let group = || HmacKey::new(&[7; HMAC_KEY_LEN]);
    let mut sampler = Sampler::<Aes128Gcm>::new(group(), Counter::new(SENDER, 1, 10_000), &layout).unwrap();
    let mut subscriber = Subscriber::<Aes128Gcm>::new(group(), PERIOD.key, Form::Authenticated, 0);
    let (mut frame, octets) = (vec![0; 512], [[3; 64], [4; 64]]);
    let len = sampler.publish(&samples(7, &octets), &mut frame).unwrap();
    let got = subscriber.receive_sampled(&frame[..len]).unwrap();
    assert_eq!(got.asdus.iter().map(|asdu| asdu.sample[0]).collect::<Vec<_>>(), [3, 4]);
}
