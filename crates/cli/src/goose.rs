//! `antedate goose`: publish and subscribe to protected GOOSE on an interface.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use antedate_aead::{Aes128Gcm, Key};
use antedate_channel::goose::{GroupKey, HmacKey};
use antedate_hardening::confine::Needs;
use antedate_lab::sys::packet::{Options, PacketSocket};
use clap::Subcommand;
pub(crate) use keeping::Secret;
use keeping::{Algorithm, State};

use crate::failure::{Done, Failure};
use crate::hardened;
use crate::output;

mod block;
mod carrier;
mod keeping;
mod keys;
mod lines;
mod list;
mod publish;
pub(crate) mod sampled;
mod socket;
mod subscribe;
mod timely;
mod watch;

/// Verbs of GOOSE.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Show the control blocks of an SCL file
    #[command(after_help = "Example:\n  antedate goose list docs/examples/goose/antedate.scd")]
    List(list::List),
    /// Publish values, prepared before they change
    ///
    /// Authenticated with AES-GMAC, or with HMAC-SHA256 if the key is one of it; a subscriber without
    /// the security extension can read them too.
    ///
    /// With an SCL file, each line of standard input is a JSON object with values by the names of data
    /// attributes. A line that changes a value is an event; it is repeated after MinTime, then after
    /// twice as long each time, up to MaxTime. Publishing ends with the input.
    #[command(
        after_help = "Examples:\n  sudo antedate goose publish eth0 --scl docs/examples/goose/antedate.scd --control-block gcbTrip --key key --state numbers --first\n  sudo antedate goose publish eth0 --key key --state state --first\n  sudo antedate goose publish eth0 --to 230.0.10.11 --key key --state state --first"
    )]
    Publish(publish::Publish),
    /// Print messages as lines of JSON
    ///
    /// With an SCL file, values have their names, messages of another configuration are not printed,
    /// and a publisher that is missing, or that is one too many, is a line of its own.
    #[command(
        after_help = "Examples:\n  sudo antedate goose subscribe eth0 --scl docs/examples/goose/antedate.scd --control-block gcbTrip --key key --state heard --first --wait\n  sudo antedate goose subscribe eth0 --key key --max-age 20\n  sudo antedate goose subscribe eth0 --plain --count 10\n  sudo antedate goose subscribe --routed 230.0.10.11 --key key --state heard --first --wait"
    )]
    Subscribe(subscribe::Subscribe),
}

impl Verb {
    pub(crate) fn run(self) -> Done {
        // A list needs no key.
        if !matches!(self, Self::List(_))
            && let Some(warning) = hardened::close_memory()
        {
            output::tell(format_args!("antedate: {warning}"));
        }
        match self {
            Self::List(verb) => verb.run(),
            Self::Publish(verb) => verb.run(),
            Self::Subscribe(verb) => verb.run(),
        }
    }
}

const ETHERTYPE: u16 = 0x88b8;

fn broken(error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("goose: {error}"), "this is a fault of the program")
}

/// The key of messages on Ethernet.
pub(crate) fn key(secret: &Secret) -> Result<GroupKey<Aes128Gcm>, Failure> {
    Ok(match secret.algorithm() {
        Algorithm::Gmac => GroupKey::Gcm(Key::new(secret.as_bytes()).map_err(|error| broken(&error))?),
        Algorithm::Hmac => {
            let octets = secret.as_bytes().try_into().map_err(|error| broken(&error))?;
            GroupKey::Hmac(HmacKey::new(octets))
        }
    })
}

/// The key of messages that are encrypted, which one of HMAC cannot do.
fn encrypting(secret: &Secret) -> Result<Key<Aes128Gcm>, Failure> {
    match key(secret)? {
        GroupKey::Gcm(key) => Ok(key),
        // The file of the keys was refused.
        GroupKey::Hmac(_) => Err(broken(&"a key of HMAC does not encrypt")),
    }
}

fn open(interface: &str) -> Result<PacketSocket, Failure> {
    let options = Options { protocol: ETHERTYPE, promiscuous: true, ..Options::default() };
    PacketSocket::open(interface, options).map_err(|error| {
        Failure::usage(
            format!("{interface}: {error}"),
            "name an interface that is up, as root or with CAP_NET_RAW",
        )
    })
}

/// The time in the form of IEC 61850.
fn now(quality: u8) -> [u8; 8] {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    antedate_goose::clock::octets(since.as_secs(), since.subsec_nanos(), quality)
}

/// Gives up the rights that are not needed once the socket and all files are open.
fn confine(writes: Vec<PathBuf>, reads: Vec<PathBuf>) {
    if let Some(warning) = hardened::confine(&Needs { writes, reads, ..Needs::default() }) {
        output::tell(format_args!("antedate: {warning}"));
    }
}

/// The operator's word about a state.
const fn state(first: bool, moved: bool) -> State {
    match (first, moved) {
        (true, _) => State::New,
        (_, true) => State::Moved,
        _ => State::Last,
    }
}
