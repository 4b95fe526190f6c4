//! A group and its members.

use std::vec::Vec;

use crate::mqtt::{Algorithm, Group, Publisher, Reserved};

pub(super) const SECRET: [u8; 32] = [0x5e; 32];
pub(super) const TOPIC: &str = "plant/press7/force";

pub(super) fn group(algorithm: Algorithm) -> Group {
    let mut group = Group::new("line 4", algorithm);
    group.install(1, &SECRET);
    group
}

pub(super) fn publisher(group: &Group, name: &[u8]) -> Publisher<Reserved> {
    let epoch = group.newest().expect("an epoch");
    Publisher::new(&group.material(epoch, name).expect("material"), Reserved::new(1, u64::MAX))
}

pub(super) fn sealed(publisher: &mut Publisher<Reserved>, topic: &str, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    publisher.seal(topic, payload, &mut out).expect("sealed");
    out
}
