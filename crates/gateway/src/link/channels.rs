//! Builds the secure channels and ports of a checked configuration.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use antedate_channel::fragment::Limits;
use antedate_channel::macsec::{
    self, CHANNELS_MAX, CipherSuite, Receive, ReceiveConfig, Rehearsal, Sak, Transmit, TransmitConfig,
    channel_scis,
};
use antedate_channel::mka;
use antedate_wire::Sci;
use antedate_wire::macsec::An;

use crate::config::check::is_express_channel;
use crate::config::express::{express_sci, express_ssci};
use crate::config::io::Leave;
use crate::config::keys::KeyFile;
use crate::config::keys::channels::{self, owner};
use crate::config::state;
use crate::config::uplink::SLOWEST_MBIT;
use crate::config::{Checked, Config, Keyed, Keys, Macsec, Protection, Rate, Run, SciMode};
use crate::frames::delivery::Delivery;
use crate::link::ledger::Ledger;
use crate::link::message::Ports;
use crate::link::path::{MACHINES_HEAD, PROTECTED_HEAD};
use crate::link::path::{Protector, Validator};
use crate::run::setup::no_socket;
use crate::sys::fanout::{self, Sharing};
use crate::sys::interface::{self, Interface};
use crate::sys::lanes::Lanes;
use crate::sys::sender::Sender;
use crate::sys::xdp::{Xdp, XdpError};
use antedate_host::fault::Fault;
use antedate_host::numbers::{KeyLock, NumberFile, NumbersError, Place, VOLATILE};

/// How long a configured AF_XDP socket waits for its queue, which the kernel frees some time after
/// its last owner has closed.
const PATIENCE: Duration = Duration::from_secs(1);

/// The secure channels of a gateway, and the ledger of their packet numbers.
#[derive(Debug)]
pub struct Channels {
    /// The transmit channel.
    pub protector: Protector,
    /// The express channel, if any.
    pub express: Option<Box<Transmit>>,
    /// The receive channels.
    pub validator: Validator,
    /// The transmit channel and the receive channels of each worker behind the first.
    pub further: Vec<(Protector, Validator)>,
    /// The packet numbers. `None` with agreed keys or without protection.
    pub ledger: Option<Ledger>,
    /// The right to send with these keys.
    pub locks: Vec<KeyLock>,
}

impl Channels {
    /// Installs the keys with reserved packet numbers.
    ///
    /// # Errors
    /// When packet numbers cannot be reserved.
    pub fn new(checked: &Checked) -> Result<Self, Fault> {
        match &checked.protection {
            // An overlay has channels of its own.
            Keyed::Plain | Keyed::Overlay { .. } => {
                let (protector, validator) = (Protector::Plain, Validator::Plain);
                Ok(Self {
                    protector,
                    express: None,
                    validator,
                    further: Vec::new(),
                    ledger: None,
                    locks: Vec::new(),
                })
            }
            Keyed::Macsec { macsec, keys, own } => Self::macsec(&checked.config, macsec, keys, *own),
            Keyed::Agreed { macsec, own, .. } => {
                // Each key names its own suite.
                let suite = checked.protection.suites().first().copied().unwrap_or(CipherSuite::GcmAes128);
                Self::empty(&checked.config, macsec, suite, *own)
            }
        }
    }

    /// Channels without keys, for key agreement.
    fn empty(config: &Config, settings: &Macsec, suite: CipherSuite, own: Sci) -> Result<Self, Fault> {
        // The place in the list of members, which comes with each key.
        let ssci = suite.is_xpn().then_some(0);
        let usual = TransmitConfig { ssci, ..sending(config, settings, suite, own) };
        let refused = |error: macsec::TransmitConfigError| {
            Fault::of_file(&config.file, error.to_string(), "see sci, port and end_station in [macsec]")
        };
        let workers = config.run.threads.channels();
        let mut transmit = Vec::with_capacity(workers);
        for sci in channel_scis(own, workers as u8) {
            transmit.push(Transmit::new(TransmitConfig { sci, ..usual }).map_err(refused)?);
        }
        let express = TransmitConfig { sci: express_sci(own), ..usual };
        let express = config.express.as_ref().map(|_| Transmit::new(express)).transpose().map_err(refused)?;
        let receive = ReceiveConfig {
            replay_window: settings.replay_window,
            two_paths: config.second_uplink.is_some(),
            // Each peer may have an express channel too.
            max_peers: (usize::from(CHANNELS_MAX) + 1) * mka::MAX_PEERS,
            ..ReceiveConfig::new(suite)
        };
        let mut pairs = transmit.into_iter().map(|transmit| {
            let receive = Box::new(Receive::new(receive));
            (Protector::Macsec(Box::new(transmit)), Validator::Macsec(receive))
        });
        let (protector, validator) = pairs.next().ok_or_else(|| {
            Fault::of_file(&config.file, "there is no channel", "see sci and port in [macsec]")
        })?;
        Ok(Self {
            protector,
            express: express.map(Box::new),
            validator,
            further: pairs.collect(),
            ledger: None,
            locks: Vec::new(),
        })
    }

    fn macsec(config: &Config, settings: &Macsec, keys: &KeyFile, own: Sci) -> Result<Self, Fault> {
        let refused = |why: &dyn fmt::Display| {
            let what = format!("the keys cannot be used so: {why}");
            Fault::of_file(&config.file, what, "make new ones with `antedate keygen macsec`")
        };
        let workers = config.run.threads.channels();
        let member = keys.member(own).ok_or_else(|| refused(&"this gateway is no member"))?;
        let usual = sending(config, settings, keys.suite, own);
        let mut transmit = Vec::with_capacity(workers);
        for (sci, ssci) in channels::all(member).take(workers) {
            let config = TransmitConfig { sci, ssci, ..usual };
            transmit.push(Box::new(Transmit::new(config).map_err(|e| refused(&e))?));
        }
        if transmit.len() < workers {
            return Err(refused(&"there are more workers than channels"));
        }
        if config.express.is_some() {
            let ssci = member.ssci.map(express_ssci);
            let other = TransmitConfig { sci: express_sci(own), ssci, ..usual };
            transmit.push(Box::new(Transmit::new(other).map_err(|e| refused(&e))?));
        }
        let mut receive = Vec::with_capacity(workers);
        for worker in 0..workers {
            let mut those = Box::new(Receive::new(ReceiveConfig {
                replay_window: settings.replay_window,
                two_paths: config.second_uplink.is_some(),
                max_peers: keys.members.len(),
                ..ReceiveConfig::new(keys.suite)
            }));
            for peer in keys.peers(own).filter(|peer| owner(peer.sci, workers) == worker) {
                those.add_peer(peer.sci, peer.ssci).map_err(|e| refused(&e))?;
            }
            receive.push(those);
        }
        // After all checks of the configuration: otherwise each failed start would cost a
        // reservation.
        let directory = &config.state.directory;
        let state_fault = |error: NumbersError| state::fault(&error, Fault::of_file(directory, "", ""));
        let own_channels = || channels::all(member).take(workers);
        let locks = keys.associations.iter().flat_map(|sa| {
            let id = sa.numbers_id();
            own_channels().map(move |(sci, _)| KeyLock::take(&id, Place(sci.0)))
        });
        let locks = locks.collect::<Result<Vec<_>, _>>().map_err(state_fault)?;
        let numbers = NumberFile::open(directory).map_err(state_fault)?;
        if numbers.is_homeless() {
            tracing::info!(
                directory = %directory.display(),
                "an earlier version made the state; copies of it are told from now on"
            );
        }
        if numbers.is_volatile() {
            tracing::warn!(directory = %directory.display(), "the state {VOLATILE}");
        }
        let ledger = Ledger::open(numbers, keys, own, config.state.reserve).map_err(state_fault)?;
        for sa in ledger.transmit() {
            if !sa.numbers.is_exhausted() {
                let sak = sak(keys, sa.an).map_err(|e| refused(&e))?;
                // All channels share one reservation; their SCIs keep the nonces apart.
                for transmit in &mut transmit {
                    transmit
                        .install(sa.an, &sak, sa.numbers.next(), sa.numbers.limit())
                        .map_err(|e| refused(&e))?;
                }
            }
        }
        if let Some(an) = ledger.encoding() {
            for transmit in &mut transmit {
                transmit.set_encoding_sa(an).map_err(|e| refused(&e))?;
            }
        }
        if let Some(marks) = settings.fragmentation.agreed() {
            // Express channels carry only whole frames.
            for peer in keys.peers(own).filter(|peer| !is_express_channel(keys, peer)) {
                if let Some(receive) = receive.get_mut(owner(peer.sci, workers)) {
                    receive.set_fragments(peer.sci, Some(marks), Limits::default());
                }
            }
        }
        for sa in ledger.receive() {
            let sak = sak(keys, sa.an).map_err(|e| refused(&e))?;
            if let Some(receive) = receive.get_mut(owner(sa.sci, workers)) {
                receive.install(sa.sci, sa.an, &sak, sa.lowest).map_err(|e| refused(&e))?;
            }
        }
        let express = if config.express.is_some() { transmit.pop() } else { None };
        let mut pairs = transmit
            .into_iter()
            .zip(receive)
            .map(|(transmit, receive)| (Protector::Macsec(transmit), Validator::Macsec(receive)));
        let (protector, validator) = pairs.next().ok_or_else(|| refused(&"there is no channel"))?;
        let further = pairs.collect();
        Ok(Self { protector, express, validator, further, ledger: Some(ledger), locks })
    }
}

/// The transmit channel of a configuration, without its SSCI.
fn sending(config: &Config, settings: &Macsec, suite: CipherSuite, own: Sci) -> TransmitConfig {
    TransmitConfig {
        sci_mode: match settings.sci_mode {
            SciMode::Explicit => macsec::SciMode::Explicit,
            SciMode::EndStation => macsec::SciMode::EndStation,
            SciMode::PointToPoint => macsec::SciMode::PointToPoint,
        },
        confidentiality: settings.confidentiality,
        prepare: config.run.prepare,
        ..TransmitConfig::new(suite, own)
    }
}

/// The SAK of an association.
fn sak(keys: &KeyFile, an: An) -> Result<Sak, macsec::SakError> {
    let known = keys.associations.iter().find(|sa| sa.an == an);
    let (key, salt) = known.map_or((&[][..], None), |sa| (sa.key.as_bytes(), sa.salt));
    Sak::new(keys.suite, key, salt)
}

/// The ports of a thread: out, and in.
pub type BothPorts = (Ports<Sender>, Ports<Delivery>);

/// Opens the ports of each thread that has its own.
///
/// # Errors
/// As [`outward`].
pub fn ports(
    config: &Config,
    (field, uplink, second): (&Interface, &Interface, Option<&Interface>),
    mtu: usize,
) -> Result<Vec<BothPorts>, Fault> {
    let (file, run) = (&config.file, &config.run);
    if run.threads.channels() > 1 {
        let agreed = match &config.protection {
            Protection::Macsec(macsec) => matches!(macsec.keys, Keys::Agreed(_)),
            _ => false,
        };
        let sharing = if agreed { Sharing::Agreed } else { Sharing::Always };
        return shared(file, (field, uplink), mtu, (run, sharing));
    }
    let out = outward(file, field, (uplink, second), mtu, run)?;
    Ok(vec![(out, inward(file, (uplink, second), field, run)?)])
}

/// Opens the ports from the machines to the uplink. Frames are dropped when older than their bound.
///
/// # Errors
/// When the kernel refuses, with a remedy where there is one.
pub fn outward(
    config: &Path,
    field: &Interface,
    (uplink, second): (&Interface, Option<&Interface>),
    mtu: usize,
    run: &Run,
) -> Result<Ports<Sender>, Fault> {
    let open = || {
        let from = Lanes::open(field, MACHINES_HEAD, run.max_age)?;
        let mut to = Sender::open(uplink, run.qdisc_bypass)?;
        if let Some(second) = second {
            to = to.and(second, run.qdisc_bypass)?;
        }
        io::Result::Ok(Ports { from, to, mtu })
    };
    open().map_err(|error| no_socket(config, [field, uplink], &error))
}

/// Opens the AF_XDP socket of a port, if frames leave so. `None`: they leave by the packet socket;
/// a socket that was just closed may hold the queue, see [`Attached`].
///
/// # Errors
/// When it is configured, and another socket has the queue, or the kernel refuses.
pub fn xdp(config: &Config, key: &'static str, leave: &Leave, port: &Interface) -> Result<Attached, Fault> {
    if !leave.xdp {
        return Ok(Attached::No);
    }
    let patience = if leave.must { PATIENCE } else { PATIENCE / 5 };
    match Xdp::open(port, patience) {
        Ok(xdp) => Ok(Attached::Xdp(Box::new(xdp))),
        Err(error) if leave.must => {
            let what = format!("\"xdp\" cannot be on {}: {error}", port.name);
            Err(config.at(key, Fault::of_file(&config.file, what, error.remedy())))
        }
        Err(XdpError::Busy) => Ok(Attached::Later),
        Err(error) => {
            tracing::info!(interface = %port.name, %error, "frames leave by a packet socket");
            Ok(Attached::No)
        }
    }
}

/// Whether a port has its AF_XDP socket.
#[derive(Debug)]
pub enum Attached {
    /// It has none.
    No,
    /// Another socket has the queue, perhaps not for long.
    Later,
    /// It has this one.
    Xdp(Box<Xdp>),
}

/// As [`outward`], from the uplink to the machines.
///
/// # Errors
/// As [`outward`].
pub fn inward(
    config: &Path,
    (uplink, second): (&Interface, Option<&Interface>),
    field: &Interface,
    run: &Run,
) -> Result<Ports<Delivery>, Fault> {
    let open = || {
        let mut from = Lanes::open(uplink, PROTECTED_HEAD, run.max_age)?;
        if let Some(second) = second {
            from = from.and(second, PROTECTED_HEAD, run.max_age)?;
        }
        let to = Delivery::open(field, run.qdisc_bypass, run.max_age)?;
        io::Result::Ok(Ports { from, to, mtu: field.mtu })
    };
    open().map_err(|error| no_socket(config, [uplink, field], &error))
}

/// As [`outward`] and [`inward`], for each of several workers. The kernel puts each frame into the
/// ring of one of them.
///
/// # Errors
/// As [`outward`].
fn shared(
    config: &Path,
    (field, uplink): (&Interface, &Interface),
    mtu: usize,
    (run, sharing): (&Run, Sharing),
) -> Result<Vec<BothPorts>, Fault> {
    let (workers, bypass) = (run.threads.channels(), run.qdisc_bypass);
    let open = || {
        let from_field = fanout::field(field, MACHINES_HEAD, run.max_age, (workers, sharing))?;
        let from_uplink = fanout::uplink(uplink, PROTECTED_HEAD, run.max_age, workers)?;
        let pairs = from_field.into_iter().zip(from_uplink).map(|(from_field, from_uplink)| {
            let out = Ports { from: from_field, to: Sender::open(uplink, bypass)?, mtu };
            let to = Delivery::open(field, bypass, run.max_age)?;
            Ok((out, Ports { from: from_uplink, to, mtu: field.mtu }))
        });
        pairs.collect::<io::Result<Vec<_>>>()
    };
    open().map_err(|error| no_socket(config, [field, uplink], &error))
}

/// The rehearsal of frames with a random key. `None` without random numbers; everything else works
/// without it.
#[must_use]
pub fn rehearsal(suite: CipherSuite) -> Option<Rehearsal> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).ok()?;
    Some(Rehearsal::new(secret, suite))
}

/// The rate of the uplink in Mbit/s. An interface that reports none, as without a link, counts as
/// the slowest: bulk then leaves later than it could, but never delays an express frame.
#[must_use]
pub fn rate(checked: &Checked, rate: Rate) -> u64 {
    match rate {
        Rate::Mbit(mbit) => mbit.into(),
        Rate::OfLink => interface::speed(&checked.uplink.name).unwrap_or(SLOWEST_MBIT),
    }
}
