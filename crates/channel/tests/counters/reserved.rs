//! Counters that continue after a restart: packet numbers of MACsec, short and extended, GOOSE,
//! MQTT and IEEE 802.15.4. The packet is always the same, so equal results have equal nonces.

use std::sync::OnceLock;

use antedate_aead::{Aes128Gcm, Key};
use antedate_channel::dot15d4::{
    Address, Addressing, Config, ExtendedAddress, Header, KeyConfig, KeyIdentifier, KeyLookup, Levels,
    LinkKey, NonceKind, PanId, Policy, Protection, Security, SecurityLevel,
};
use antedate_channel::goose::{self, EXTENSION_LEN, Form, KeyPeriod, Layout};
use antedate_channel::macsec::{An, CipherSuite, SLOTS, Sak, Sci, Transmit, TransmitConfig};
use antedate_channel::mqtt::{Algorithm, Material, Publisher, Reserved};
use antedate_host::numbers::medium::Medium;
use antedate_host::numbers::model::{Bounds, Counter, RESERVE};
use antedate_host::numbers::{NumberFile, NumbersError, Reservation};
use antedate_wire::EthernetAddress;
use antedate_wire::goose::{Message, Value, Values};

const AN: An = An::ALL[0];
const SCI: Sci = Sci([2, 0, 0x5e, 0, 0, 1, 0, 1]);
/// The packet: addresses, EtherType and some data.
const FRAME: [u8; 40] = *b"\x02\0\x5e\0\0\x02\x02\0\x5e\0\0\x01\x88\x92\x80\x01abcdefghijklmnopqrstuvwx";

/// A transmit channel of MACsec.
struct Macsec<const XPN: bool>(Transmit);

impl<const XPN: bool> Counter for Macsec<XPN> {
    fn start(next: u64, limit: u64) -> Self {
        let suite = if XPN { CipherSuite::GcmAesXpn128 } else { CipherSuite::GcmAes128 };
        let config = TransmitConfig { ssci: Some(1), prepare: 1, ..TransmitConfig::new(suite, SCI) };
        let sak = Sak::new(suite, &[7; 16], XPN.then_some([9; 12])).expect("valid");
        let mut transmit = Transmit::new(config).expect("valid");
        transmit.install(AN, &sak, next, limit).expect("valid");
        Self(transmit)
    }

    fn reserve_until(&mut self, limit: u64) {
        self.0.reserve_until(AN, limit);
    }

    fn spend(&mut self) -> Option<Vec<u8>> {
        let mut out = vec![0; self.0.protected_len(FRAME.len())];
        let len = self.0.protect(&FRAME, &mut out).ok();
        self.0.idle(1);
        len.map(|len| out[..len].to_vec())
    }

    /// Prepared numbers are burnt, as the gateway burns them.
    fn next(&mut self) -> u64 {
        let next = self.0.status().next().map_or(0, |sa| sa.next_pn);
        next.saturating_add(SLOTS as u64)
    }
}

#[test]
fn macsec_packet_numbers_never_repeat() {
    let end = CipherSuite::GcmAes128.packet_number_end();
    for (first, faults) in [(1, 2), (end - 4, 1)] {
        let bounds = Bounds { faults, ..Bounds::new(first, end) };
        let explored = bounds.lives::<Macsec<false>>(Medium::with_empty_file);
        assert!(explored.runs > 500 && explored.packets > explored.runs, "{explored:?}");
    }
}

#[test]
fn extended_packet_numbers_never_repeat() {
    // The number in the frame has 32 bits: around the wrap, and at the end.
    for first in [(1 << 32) - 3, u64::MAX - 4] {
        let bounds = Bounds { faults: 1, ..Bounds::new(first, u64::MAX) };
        let explored = bounds.lives::<Macsec<true>>(Medium::with_empty_file);
        assert!(explored.runs > 500 && explored.packets > explored.runs, "{explored:?}");
    }
}

/// A publisher of GOOSE.
struct Goose {
    publisher: goose::Publisher<'static, Aes128Gcm>,
    limit: u64,
}

fn layout() -> &'static Layout {
    static LAYOUT: OnceLock<Layout> = OnceLock::new();
    LAYOUT.get_or_init(|| {
        let message = Message {
            appid: 0x1000,
            publisher: antedate_wire::goose::Publisher {
                gocb_ref: b"LD0/LLN0$GO$trip",
                time_allowed_to_live: 500,
                dat_set: b"LD0/LLN0$trip",
                go_id: None,
            },
            t: [0; 8],
            st_num: 1,
            sq_num: 0,
            simulation: false,
            conf_rev: 3,
            nds_com: false,
            all_data: Values::Given(&[Value::Boolean(false)]),
        };
        let period = KeyPeriod { key: 7, since: 0, minutes_left: 60 };
        let addresses = [EthernetAddress([1, 12, 205, 1, 0, 1]), EthernetAddress([2, 0, 0, 0, 0, 1])];
        Layout::new(addresses[0], addresses[1], &message, Form::Encrypted, period).expect("valid")
    })
}

impl Counter for Goose {
    fn start(next: u64, limit: u64) -> Self {
        let counter = goose::Counter::new([2, 0, 0, 0, 0, 1], next, limit);
        let publisher =
            goose::Publisher::new(Key::new(&[7; 16]).expect("valid"), counter, layout()).expect("valid");
        Self { publisher, limit }
    }

    fn reserve_until(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
        self.publisher.counter_mut().reserve_until(limit);
    }

    fn spend(&mut self) -> Option<Vec<u8>> {
        let mut out = vec![0; layout().frame_len()];
        self.publisher.idle(2);
        let len = self.publisher.event([1; 8], 500, &[Value::Boolean(true)], &mut out).ok()?;
        // `stNum` differs, so only the nonce is compared.
        let extension = &out[len - EXTENSION_LEN..len];
        Some(extension[11..23].to_vec())
    }

    fn next(&mut self) -> u64 {
        self.limit - self.publisher.counter_mut().left()
    }
}

#[test]
fn goose_numbers_never_repeat() {
    let explored = Bounds::new(1, goose::END).lives::<Goose>(Medium::with_empty_file);
    assert!(explored.runs > 5_000 && explored.packets > explored.runs, "{explored:?}");
}

/// A publisher of MQTT payloads, which reserves when no number is left.
struct Mqtt(Publisher<Reserved>);

impl Counter for Mqtt {
    fn start(next: u64, limit: u64) -> Self {
        let material = Material::derive("g", Algorithm::A128Gcm, 1, &[7; 32], b"press7").expect("valid");
        Self(Publisher::new(&material, Reserved::new(next, limit)))
    }

    fn reserve_until(&mut self, limit: u64) {
        self.0.numbers_mut().raise(limit);
    }

    fn spend(&mut self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.0.idle(2);
        self.0.seal("plant/force", b"81.5", &mut out).ok().map(|_| out)
    }

    fn next(&mut self) -> u64 {
        self.0.numbers_mut().next()
    }

    fn more(numbers: &mut Reservation, file: &mut NumberFile<Medium>) -> Result<Option<u64>, NumbersError> {
        if numbers.left() > 0 {
            return Ok(None);
        }
        numbers.extend(file, RESERVE).map(|()| Some(numbers.limit()))
    }
}

#[test]
fn mqtt_numbers_never_repeat() {
    let explored = Bounds::new(1, u64::MAX).lives::<Mqtt>(Medium::with_empty_file);
    assert!(explored.runs > 5_000 && explored.packets > explored.runs, "{explored:?}");
}

/// A device of IEEE 802.15.4 with frame counters.
struct Dot15d4(Security);

const PAN: PanId = PanId(0xabcd);
const OWN: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 1]);
const OTHER: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 2]);
const LOOKUP: KeyLookup = KeyLookup::Identified(KeyIdentifier::Index(1));

impl Counter for Dot15d4 {
    fn start(next: u64, limit: u64) -> Self {
        let policy = Policy::uniform(Levels::AUTHENTICATED);
        let config = Config { extended: OWN, pan: PAN, short: None, policy, enc_without_mic: false };
        let mut security = Security::new(config);
        let key = KeyConfig {
            next,
            limit,
            ..KeyConfig::fresh(LOOKUP, LinkKey::new([7; 16]), NonceKind::FrameCounter)
        };
        security.install_key(key).expect("valid");
        Self(security)
    }

    fn reserve_until(&mut self, limit: u64) {
        self.0.reserve_until(&LOOKUP, limit);
    }

    fn spend(&mut self) -> Option<Vec<u8>> {
        let addressing = Addressing::within(PAN, Address::Extended(OTHER), Address::Extended(OWN));
        let protection = Protection { level: SecurityLevel::EncMic32, key: KeyIdentifier::Index(1) };
        let mut out = vec![0; 127];
        let secured =
            self.0.secure(&Header::data(1, addressing), &[], b"payload", protection, None, &mut out);
        secured.ok().map(|len| out[..len].to_vec())
    }

    fn next(&mut self) -> u64 {
        self.0.numbers(&LOOKUP).map_or(u64::MAX, |(next, _)| next)
    }
}

#[test]
fn frame_counters_never_repeat() {
    let end = u64::from(u32::MAX);
    for first in [1, end - 4] {
        let explored = Bounds::new(first, end).lives::<Dot15d4>(Medium::with_empty_file);
        assert!(explored.runs > 5_000 && explored.packets > explored.runs, "{explored:?}");
    }
}
