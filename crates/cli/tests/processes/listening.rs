//! `antedate inspect --interface` tells what passes an interface, in both directions, as it passes.

use std::time::{Duration, Instant};

use antedate_lab::ns::Namespace;
use antedate_lab::process::{Place, Process};
use antedate_lab::sys::packet::{Options, PacketSocket};

use super::{ANTEDATE, HEADS, PATIENCE, signal};

pub(super) fn interface_is_inspected() {
    let space = Namespace::create("listening").expect("a namespace");
    let lines = ["link add near type veth peer name far", "link set near up", "link set far up"];
    space.batch(&lines.map(String::from)).expect("a pair of interfaces");
    let place = Place { namespace: Some(space.file()), ..Place::default() };
    let words = ["inspect", "--interface", "near"];
    let mut inspect = Process::start("inspect", &ANTEDATE.into(), &words, &place).expect("it starts");
    let open = |name: &str| {
        space.run(|| PacketSocket::open(name, Options::default())).expect("run").expect("a socket")
    };
    let (near, far) = (open("near"), open("far"));
    // A frame in, with a VLAN tag, and one out. The first ones come before it listens.
    let tagged = [&HEADS[0][..12], &[0x81, 0, 0, 7], &HEADS[0][12..], &[0; 44]].concat();
    let plain = [&HEADS[1][..], &[0; 44]].concat();
    let (mut within, mut out) = (false, false);
    let end = Instant::now() + PATIENCE;
    while !(within && out) {
        assert!(Instant::now() < end, "{within} {out}: {:?}", inspect.errors());
        far.send(&tagged).and_then(|()| near.send(&plain)).expect("sent");
        while let Some(line) = inspect.next_line(Duration::from_millis(50)) {
            within |= line.contains("VLAN 7 [8892] not protected");
            out |= line.contains("[88b5] not protected");
        }
    }
    signal(&inspect, "INT");
    let told = inspect.end();
    assert!(told.iter().any(|line| line.contains(" frames, 0 opened, 0 refused")), "{told:?}");
    assert_eq!(inspect.exit_code(), Some(0));
}
