use super::*;

#[test]
fn shortest_frame_takes_6_72_us() {
    let path = Path { switches: 2, switch_us: 3.0, metres: 100.0, other_frame: 0 };
    let journey = Bearer::FastEthernet(path).journey(20, 13);
    assert!((journey.transmission_ms - 0.00672).abs() < 1e-9);
    assert!((journey.forwarding_ms - 2.0 * 0.00972).abs() < 1e-9);
    assert!((journey.propagation_ms - 0.0005).abs() < 1e-9);
}

#[test]
fn delays_are_interpolated_linearly() {
    let known = [(0.5, 10.0), (0.9, 14.0), (0.999, 40.0)];
    assert!((at_quantile(&known, 0.7) - 12.0).abs() < 1e-9);
    assert_eq!((at_quantile(&known, 0.1), at_quantile(&known, 0.999)), (10.0, 40.0));
}

#[test]
fn impossible_bearers_are_refused() {
    let wan = |delay_ms: Vec<(f64, f64)>, quantile| Bearer::Wireguard { rate_mbit: 10.0, delay_ms, quantile };
    assert!(wan(vec![(0.9, 1.0)], 0.999).fault().is_some_and(|why| why.contains("ends before")));
    assert!(wan(vec![(0.9, 5.0), (0.5, 9.0)], 0.5).fault().is_some_and(|why| why.contains("rising")));
    assert!(wan(vec![], 0.5).fault().is_some());
    assert_eq!(wan(vec![(0.5, 5.0), (1.0, 9.0)], 0.999).fault(), None);
    let tsch = Bearer::Tsch(Tsch::new(10, 6, 2));
    assert!(tsch.fault().is_some_and(|why| why.contains("slotframe")));
    let mqtt = |over| Bearer::Mqtt { broker_ms: 0.0, topic: 8, over: Box::new(over) };
    assert!(mqtt(mqtt(Bearer::None)).fault().is_some());
}

#[test]
fn mqtt_on_radio_waits_for_both_receivers() {
    let over = Box::new(Bearer::SixLowpan { wait_ms: 60.0, hops: 1 });
    let journey = Bearer::Mqtt { broker_ms: 1.0, topic: 13, over }.journey(48, 8);
    // A PUBLISH of 128 bytes or more has one more octet of length.
    let leg = publish::frames(13, 48 + 32 + 1, false);
    assert_eq!(leg.count, 2);
    assert!((journey.transmission_ms - 2.0 * leg.all_ms()).abs() < 1e-9);
    assert!((journey.forwarding_ms - 121.0).abs() < 1e-9);
}

#[test]
fn mqtt_on_tsch_counts_all_headers() {
    let over = Bearer::Tsch(Tsch::new(7, 1, 1));
    let mqtt = Bearer::Mqtt { broker_ms: 0.0, topic: 13, over: Box::new(over) };
    // 48 and 8 bytes with 5, 13, 12 and 24 around them: two frames a leg. The first comes a slotframe
    // after the missed cell, the second one more, and its cell ends a slot later.
    let journey = mqtt.journey(48, 8);
    assert!((journey.transmission_ms - 40.0).abs() < 1e-9 && (journey.forwarding_ms - 260.0).abs() < 1e-9);
    assert!(mqtt.stages(48, 8).iter().all(|stage| stage.what == "broker" || stage.occupied_ms == 140.0));
}

#[test]
fn mqtt_adds_both_legs_and_the_broker() {
    let leg = Bearer::Gigabit(Path::default()).journey(80, 8 + 3 + 2 + 32 + 52 + 24);
    let mqtt = Bearer::Mqtt { broker_ms: 0.5, topic: 32, over: Box::new(Bearer::Gigabit(Path::default())) };
    let journey = mqtt.journey(80, 8);
    assert!((journey.transmission_ms - 2.0 * leg.transmission_ms).abs() < 1e-12);
    assert!((journey.forwarding_ms - 0.5).abs() < 1e-12);
}

#[test]
fn listed_cells_replace_their_number() {
    let spread = Tsch { schedule: vec![vec![0, 50]], ..Tsch::new(101, 2, 1) };
    let [listed, anywhere] = [spread.clone(), Tsch::new(101, 2, 1)].map(|tsch| {
        let journey = Bearer::Tsch(tsch).journey(40, 29);
        journey.transmission_ms + journey.forwarding_ms
    });
    // From the second cell to the first one of the next slotframe; and with adjacent cells.
    assert!((listed - 520.0).abs() < 1e-9 && (anywhere - 1010.0).abs() < 1e-9, "{listed} {anywhere}");
    for (wrong, why) in [
        (Tsch { schedule: vec![vec![5, 3]], ..spread.clone() }, "rising"),
        (Tsch { schedule: vec![vec![101]], ..spread.clone() }, "below slots"),
        (Tsch { schedule: vec![vec![]], ..spread.clone() }, "offsets"),
        (Tsch { loss: 0.1, ..Tsch::new(101, 2, 1) }, "needs the schedule"),
        (Tsch { loss: 1.0, ..spread.clone() }, "0.95"),
        (Tsch { quantile: 1.0, ..spread }, "below 1"),
    ] {
        assert!(Bearer::Tsch(wrong).fault().is_some_and(|fault| fault.contains(why)), "{why}");
    }
}

#[test]
fn relays_add_their_delay_and_octets() {
    let over = || Box::new(Bearer::Gigabit(Path::default()));
    let relayed =
        |via, added_us, quantile| Bearer::Relayed { via, added_us, each_us: None, quantile, over: over() };
    let gateway = relayed(Via::Gateway, Vec::new(), 0.999);
    assert_eq!(gateway.fault(), None);
    let plain = over().journey(64 + 32, 0);
    let journey = gateway.journey(64, 0);
    let added = journey.forwarding_ms - plain.forwarding_ms - 2.0 * plain.transmission_ms;
    assert!((added - 0.0479).abs() < 1e-9, "{added}");
    assert!((gateway.beyond() - 0.001).abs() < 1e-9 && gateway.at_worst().is_none());
    // Nothing is known of the proxies beyond the 99th percentile.
    let proxy = relayed(Via::DtlsProxy, Vec::new(), 0.999);
    assert!(proxy.fault().is_some_and(|why| why.contains("ends before the quantile")));
    let measured = relayed(Via::DtlsProxy, vec![(0.5, 50.0), (1.0, 400.0)], 0.999);
    assert!(measured.fault().is_none() && measured.at_worst().is_some());
    let radio = Box::new(Bearer::Tsch(Tsch::new(7, 1, 1)));
    let wrong = Bearer::Relayed {
        via: Via::Gateway,
        added_us: Vec::new(),
        each_us: None,
        quantile: 0.9,
        over: radio,
    };
    assert!(wrong.fault().is_some_and(|why| why.contains("relayed: over")));
}
