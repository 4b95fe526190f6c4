//! `antedate keygen`.

use std::path::{Path, PathBuf};

use antedate_channel::macsec::CipherSuite;
#[cfg(feature = "dtls")]
use antedate_dtls::credentials::{self, own};
#[cfg(feature = "dtls")]
use antedate_dtls::psk;
use antedate_gateway::config::cak::CakFile;
use antedate_gateway::config::keys::{CHANNELS_MAX, KeyFile, MEMBERS_MAX, is_member_name};
use antedate_gateway::config::machine::{Machine as _, ThisMachine};
use antedate_gateway::config::sci::parse_sci;
use antedate_gateway::config::tunnel_keys::{self, Kind};
#[cfg(feature = "dtls")]
use antedate_host::private_file;
use antedate_wire::{EthernetAddress, Sci};
use clap::{Args, Subcommand};

use crate::failure::{Done, Failure, ValueError};
use crate::output;

/// Kinds of keys.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Keys for MACsec: static ones that all gateways share, or with --cak a pre-shared key for key
    /// agreement.
    ///
    /// Creates two associations with new random keys; gateways send under the first and accept
    /// both. The forms are those of `ip macsec`. Copy the file to each member over a secure way,
    /// with mode 0600.
    #[command(
        after_help = "Example:\n  antedate keygen macsec --member press=02:00:5e:10:00:01 --member hall=02:00:5e:10:00:02 --out keys.toml\n  antedate keygen macsec --cak --out cak\n  antedate keygen macsec --cak --priority 1 >> cak      a second CAK beside the first"
    )]
    Macsec(Macsec),
    /// Keys for WireGuard, in the form of `wg`: a private key, the public key of one, or a
    /// preshared key.
    ///
    /// Each end of an overlay keeps its private key and gives the others its public key.
    #[command(
        after_help = "Example:\n  antedate keygen wireguard --out wg.key           prints the public key\n  antedate keygen wireguard --public wg.key        prints it again\n  antedate keygen wireguard --preshared --out psk"
    )]
    Wireguard(Wireguard),
    #[cfg(feature = "mqtt")]
    /// Keys for MQTT payloads: a group's file with its first key, or a device's own key pair.
    ///
    /// A group of members with public keys has a manager, who rotates the key (antedate mqtt
    /// rotate) and revokes members. Without such members the file holds the key itself: copy it to
    /// each client over a secure way, with mode 0600.
    #[command(after_help = crate::mqtt::KEYGEN_EXAMPLES)]
    Mqtt(crate::mqtt::Keygen),
    #[cfg(feature = "dtls")]
    /// Pre-shared keys for DTLS: a line IDENTITY:HEXKEY for each device, as GnuTLS's psktool writes
    /// it.
    ///
    /// The listening side has the whole file, each connecting side its own line.
    #[command(
        after_help = "Example:\n  antedate keygen dtls --identity turbine-3 --identity turbine-4 --out psk"
    )]
    Dtls(Dtls),
    #[cfg(feature = "dtls")]
    /// A key pair on P-256 for DTLS with raw public keys, or for a certificate request.
    ///
    /// Prints the line of the public key, for the file of --peers on the other side.
    #[command(after_help = "Example:\n  antedate keygen raw-key --name turbine-3 --out turbine.key")]
    RawKey(RawKey),
}

impl Verb {
    pub(crate) fn run(self) -> Done {
        match self {
            Self::Macsec(verb) => verb.run(),
            #[cfg(feature = "dtls")]
            Self::Dtls(verb) => verb.run(),
            #[cfg(feature = "dtls")]
            Self::RawKey(verb) => verb.run(),
            Self::Wireguard(verb) => verb.run(),
            #[cfg(feature = "mqtt")]
            Self::Mqtt(verb) => verb.run(),
        }
    }
}

#[derive(Args)]
pub(crate) struct Macsec {
    /// The cipher suite.
    #[arg(long, value_name = "SUITE", default_value = "gcm-aes-128", value_parser = suite)]
    #[arg(
        help = "The cipher suite: gcm-aes-128, gcm-aes-256, gcm-aes-xpn-128, gcm-aes-xpn-256; between Antedate gateways also chacha20-poly1305, aegis-128l, ascon-aead128 and aes-128-ocb3"
    )]
    suite: CipherSuite,
    /// A pre-shared key for key agreement (MKA) instead: a random CAK and its name, in
    /// wpa_supplicant's form.
    #[arg(long, conflicts_with_all = ["members", "suite"])]
    cak: bool,
    /// The length of the CAK: 128 or 256.
    #[arg(long, value_name = "BITS", default_value = "128", value_parser = ["128", "256"], requires = "cak", conflicts_with = "members")]
    bits: String,
    /// Write the CAK as a block with this priority, above 0, to append to a cak_file: the CAK of the
    /// largest priority is preferred.
    #[arg(long, value_name = "N", requires = "cak", conflicts_with = "members", value_parser = clap::value_parser!(i32).range(1..))]
    priority: Option<i32>,
    /// A gateway: its name and its SCI, or the address of its uplink (the SCI's port is then 1).
    /// Two or more.
    #[arg(long = "member", value_name = "NAME=SCI|MAC", required_unless_present = "cak", value_parser = member)]
    members: Vec<(String, Sci)>,
    /// Transmit channels of each gateway, with consecutive port numbers: as many as the largest
    /// `run.workers` of them.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "cak", value_parser = clap::value_parser!(u16).range(1..=CHANNELS_MAX.into()))]
    channels: u16,
    /// The file to create, readable by its owner only. An existing one is not overwritten. Without
    /// it, standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Macsec {
    fn run(self) -> Done {
        if self.cak {
            return self.cak();
        }
        check(&self.members)?;
        let keys = KeyFile::generate(self.suite, self.members, getrandom::fill).map_err(no_random)?;
        let keys = keys.with_channels(self.channels);
        // Channels of two gateways may have one SCI, which the file's reader finds.
        KeyFile::parse(self.out.as_deref().unwrap_or(Path::new("-")), &keys.to_text())?;
        match self.out {
            Some(file) => {
                keys.write_new(&file)?;
                output::print(&format!("{}: keys for {} members\n", file.display(), keys.members.len()))
            }
            None => output::print(&keys.to_text()),
        }
    }

    /// Creates a pre-shared key.
    fn cak(self) -> Done {
        let bits = if self.bits == "256" { 256 } else { 128 };
        let key = CakFile::generate(bits, self.priority.unwrap_or(0), getrandom::fill).map_err(no_random)?;
        match self.out {
            Some(file) => {
                key.write_new(&file)?;
                output::print(&format!(
                    "{}: a {bits}-bit CAK named {}\n",
                    file.display(),
                    key.entries[0].name()
                ))
            }
            None => output::print(&key.to_text()),
        }
    }
}

#[derive(Args)]
pub(crate) struct Wireguard {
    /// A preshared key instead, which two ends share in addition to their keys.
    #[arg(long, conflicts_with = "public")]
    preshared: bool,
    /// Print the public key of this private key.
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    public: Option<PathBuf>,
    /// The file to create, readable by its owner only. An existing one is not overwritten. Without
    /// it, standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Wireguard {
    fn run(self) -> Done {
        if let Some(file) = self.public {
            let private = tunnel_keys::load(&file, ThisMachine.user())?;
            return output::print(&format!("{}\n", *tunnel_keys::encode(&tunnel_keys::public_of(&private))));
        }
        let kind = if self.preshared { Kind::Preshared } else { Kind::Private };
        let key = tunnel_keys::generate(kind, getrandom::fill).map_err(no_random)?;
        let Some(file) = self.out else {
            return output::print(&format!("{}\n", *tunnel_keys::encode(&key)));
        };
        tunnel_keys::write_new(&file, &key)?;
        match kind {
            Kind::Preshared => output::print(&format!("{}: a preshared key\n", file.display())),
            Kind::Private => {
                output::print(&format!("{}\n", *tunnel_keys::encode(&tunnel_keys::public_of(&key))))
            }
        }
    }
}

#[cfg(feature = "dtls")]
#[derive(Args)]
pub(crate) struct Dtls {
    /// The identity of a key, up to 128 octets. One or more.
    #[arg(long = "identity", value_name = "NAME", required = true)]
    identities: Vec<String>,
    /// The length of each key: 128 or 256.
    #[arg(long, value_name = "BITS", default_value = "128", value_parser = ["128", "256"])]
    bits: String,
    /// The file to create, readable by its owner only. An existing one is not overwritten. Without
    /// it, standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[cfg(feature = "dtls")]
impl Dtls {
    fn run(self) -> Done {
        let octets = if self.bits == "256" { 32 } else { 16 };
        let text = psk::generate(&self.identities, octets).map_err(no_random)?;
        // Faults of the file are found before it is written.
        let file = psk::PskFile::parse(&text).map_err(|(_, what, remedy)| Failure::usage(what, remedy))?;
        if let Some(name) = self.identities.iter().find(|name| file.client(Some(name)).is_err()) {
            let what = format!("--identity {name:?} would be read as another name, or as a remark");
            return Err(Failure::usage(what, "give it neither a # nor a space in front"));
        }
        match self.out {
            Some(file) => {
                private_file::create(&file, &text)?;
                output::print(&format!("{}: keys for {} identities\n", file.display(), self.identities.len()))
            }
            None => output::print(&text),
        }
    }
}

#[cfg(feature = "dtls")]
#[derive(Args)]
pub(crate) struct RawKey {
    /// The name of this side in the line.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The file to create with the private key in PEM (PKCS #8), readable by its owner only. An existing
    /// one is not overwritten.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[cfg(feature = "dtls")]
impl RawKey {
    fn run(self) -> Done {
        let (text, spki) = own::generate().map_err(no_random)?;
        let line = format!("{} {}\n", self.name, credentials::digest(&spki));
        let known = credentials::peers::Peers::parse(&line);
        known.map_err(|(_, what, remedy)| Failure::usage(what, remedy))?;
        private_file::create(&self.out, &text)?;
        output::print(&line)
    }
}

fn no_random(error: getrandom::Error) -> Failure {
    Failure::usage(
        format!("the system gives no random numbers: {error}"),
        "no keys can be made on this system",
    )
}

/// Finds the faults of a key file before it is written.
fn check(members: &[(String, Sci)]) -> Done {
    if !(2..=MEMBERS_MAX).contains(&members.len()) {
        let what = format!("{} member(s), but keys are shared by 2 to {MEMBERS_MAX}", members.len());
        return Err(Failure::usage(what, "give --member NAME=MAC for each gateway"));
    }
    for (index, (name, sci)) in members.iter().enumerate() {
        for (other, other_sci) in members.iter().take(index) {
            if name == other {
                return Err(Failure::usage(
                    format!("--member {name} comes twice"),
                    "give each gateway a name of its own",
                ));
            }
            if sci == other_sci {
                return Err(Failure::usage(
                    format!("{name} and {other} have the same SCI {sci}"),
                    "give each gateway an address of its own",
                ));
            }
        }
    }
    Ok(())
}

fn suite(text: &str) -> Result<CipherSuite, ValueError> {
    text.parse::<CipherSuite>().map_err(ValueError::new)
}

fn member(text: &str) -> Result<(String, Sci), ValueError> {
    let (name, place) = text
        .split_once('=')
        .ok_or_else(|| ValueError::new("write NAME=SCI or NAME=MAC, e.g. press=02:00:5e:10:00:01"))?;
    if !is_member_name(name) {
        return Err(ValueError::new(format!(
            "\"{name}\" is not a name: use 1 to 64 letters, digits and - _ ."
        )));
    }
    let sci = parse_sci(place).or_else(|| Some(Sci::new(place.parse::<EthernetAddress>().ok()?, 1)));
    let sci = sci.ok_or_else(|| {
        ValueError::new(format!("\"{place}\" is neither an SCI (16 hexadecimal digits) nor an address"))
    })?;
    Ok((name.to_owned(), sci))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_has_name_and_sci_or_address() {
        let sci = Sci([2, 0, 0x5e, 0x10, 0, 1, 0, 1]);
        for text in ["a=02:00:5e:10:00:01", "a=02005e1000010001", "a=02:00:5e:10:00:01/1"] {
            assert_eq!(member(text), Ok(("a".to_owned(), sci)), "{text}");
        }
        for text in ["a", "=02005e1000010001", "a=", "a b=02005e1000010001", "a=02:00:5e:10:00"] {
            assert!(member(text).is_err(), "{text}");
        }
    }
}
