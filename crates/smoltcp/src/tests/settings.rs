//! Settings that are refused.

use alloc::format;
use alloc::vec;

use antedate_wire::EthernetAddress;
use smoltcp::phy::Medium;

use super::world::{MTU, Numbers, World, address, cak};
use crate::{MIN_MTU, MacsecDevice, Settings, SetupError};

fn refusal(change: impl FnOnce(&mut Settings)) -> SetupError {
    let mut settings = Settings::new(address(0));
    change(&mut settings);
    let device = MacsecDevice::new(World::new().port(0), cak(b"name"), settings, Numbers(1));
    device.err().expect("refused")
}

#[test]
fn wrong_settings_say_what_to_change() {
    let group = EthernetAddress([1; 6]);
    let refused = [
        (refusal(|settings| settings.address = group), SetupError::NotUnicast(group)),
        (refusal(|settings| settings.port = 0), SetupError::Port(0)),
        (refusal(|settings| settings.port = 0x8001), SetupError::Port(0x8001)),
        (refusal(|settings| settings.suites = vec![]), SetupError::NoSuite),
        (refusal(|settings| settings.destinations = vec![]), SetupError::Destinations(0)),
        (refusal(|settings| settings.destinations = vec![group; 9]), SetupError::Destinations(9)),
        (refusal(|settings| settings.max_peers = 64), SetupError::Peers(64)),
    ];
    for (refusal, expected) in refused {
        assert_eq!(refusal, expected);
        assert!(format!("{refusal}").len() > 20);
    }
}

#[test]
fn unfit_drivers_are_refused() {
    let try_with = |mtu, medium| {
        let mut port = World::new().port(0);
        (port.mtu, port.medium) = (mtu, medium);
        MacsecDevice::new(port, cak(b"name"), Settings::new(address(0)), Numbers(1)).map(drop)
    };
    assert_eq!(try_with(MTU, Medium::Ip), Err(SetupError::NotEthernet));
    assert_eq!(try_with(MIN_MTU - 1, Medium::Ethernet), Err(SetupError::MtuTooSmall { mtu: MIN_MTU - 1 }));
    assert_eq!(try_with(MIN_MTU, Medium::Ethernet), Ok(()));
    let told = format!("{}", SetupError::MtuTooSmall { mtu: 100 });
    assert!(told.contains("100") && told.contains("622"), "{told}");
}

#[test]
fn sci_is_address_and_port() {
    let mut settings = Settings::new(address(3));
    settings.port = 0x0102;
    assert_eq!(settings.sci().0, [2, 0, 0x5e, 0, 9, 3, 1, 2]);
}
