//! `antedate mqtt` and `antedate keygen mqtt`.

mod connection;
mod enrol;
mod frames;
mod keygen;
mod lines;
mod manage;
mod options;
mod outage;
mod properties;
mod proxy;
mod publish;
mod subscribe;
mod url;

use clap::Subcommand;

use crate::failure::Done;
use crate::output;

pub(crate) use keygen::{EXAMPLES as KEYGEN_EXAMPLES, Keygen};
#[cfg(feature = "fleet")]
pub(crate) use manage::BrokerOptions;

/// Verbs of MQTT.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Publish like mosquitto_pub, with the payload sealed.
    #[command(disable_help_flag = true)]
    Pub(publish::Pub),
    /// Subscribe like mosquitto_sub, and print payloads that are authentic and new.
    #[command(disable_help_flag = true)]
    Sub(subscribe::Sub),
    /// Seal payloads of standard input, for applications with an MQTT client of their own.
    Seal(frames::Seal),
    /// Open sealed payloads of standard input, and print those that are authentic and new.
    Open(frames::Open),
    /// Serve applications that know nothing of this: clear MQTT on this machine, sealed payloads
    /// towards the broker.
    #[command(disable_help_flag = true)]
    Proxy(proxy::Proxy),
    /// Show a running proxy's counters, connections and epochs.
    #[command(after_help = "Example:\n  antedate mqtt status /run/antedate-mqtt-proxy/status")]
    Status {
        /// The socket that the proxy was given with --status.
        socket: std::path::PathBuf,
    },
    /// Create a state directory for a client's sequence numbers.
    #[command(after_help = "Example:\n  antedate mqtt init /var/lib/antedate/press7")]
    Init(manage::Init),
    /// Give a group its next key, and publish it for all members as a retained message (without a
    /// manager: copy the file).
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  antedate mqtt rotate --group manager.toml -h broker.example"
    )]
    Rotate(manage::Rotate),
    /// Rotate without some members, as `remove` does.
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  antedate mqtt revoke --group manager.toml --member press7"
    )]
    Revoke(manage::Revoke),
    /// Ask the manager of a group to become a member: show a code, and write the group file that the
    /// manager answers with.
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  antedate mqtt enrol --group line4 --name press7 --device press7.device --keys line4.toml -h broker.example"
    )]
    Enrol(enrol::Enrol),
    /// Make a device that asks by `enrol` a member, by its name and the code that it shows.
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  antedate mqtt admit --group manager.toml --code 7K3QZ-0V9XA-M2C4T-HR8DE press7 -h broker.example"
    )]
    Admit(enrol::Admit),
    /// Give a member's name to another device. The former one can read no new payload.
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  antedate mqtt replace --group manager.toml --code 7K3QZ-0V9XA-M2C4T-HR8DE press7 -h broker.example"
    )]
    Replace(enrol::Replace),
    /// Remove members, as for lost devices, which can then read no new payload.
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  antedate mqtt remove --group manager.toml press7 -h broker.example"
    )]
    Remove(manage::Remove),
    /// Write Mosquitto's access list and passwords from group files.
    #[command(after_help = "Example:\n  antedate mqtt acl --acl acl --passwords passwords manager.toml")]
    Acl(manage::Acl),
}

impl Verb {
    pub(crate) fn run(self) -> Done {
        match self {
            Self::Pub(verb) => verb.run(),
            Self::Sub(verb) => verb.run(),
            Self::Seal(verb) => verb.run(),
            Self::Open(verb) => verb.run(),
            Self::Proxy(verb) => verb.run(),
            Self::Status { socket } => {
                output::print(&format!("{:#}\n", antedate_mqtt_proxy::status::ask(&socket)?))
            }
            Self::Init(verb) => verb.run(),
            Self::Rotate(verb) => verb.run(),
            Self::Revoke(verb) => verb.run(),
            Self::Enrol(verb) => verb.run(),
            Self::Admit(verb) => verb.run(),
            Self::Replace(verb) => verb.run(),
            Self::Remove(verb) => verb.run(),
            Self::Acl(verb) => verb.run(),
        }
    }
}
