//! `antedate keygen mqtt`.

use std::path::PathBuf;

use antedate_channel::mqtt::rotation::is_device_public;
use antedate_channel::mqtt::signed::is_verifying_key;
use antedate_channel::mqtt::{Algorithm, topic};
use antedate_host::hex::{hex, parse_hex};
use antedate_host::private_file::create;
use antedate_mqtt::file::{Device, GroupFile, Member, NAME_RULE, WEAK, is_name};
use antedate_mqtt::manage;
use clap::{ArgGroup, Args};

use crate::failure::{Done, Failure, ValueError};
use crate::output;

pub(crate) const EXAMPLES: &str = "Examples:
  antedate keygen mqtt --group line4 --topic 'plant/line4/#' --out line4.toml
  antedate keygen mqtt --device press7 --out press7.device
  antedate keygen mqtt --group line4 --topic 'plant/line4/#' --member press7=PUBLIC --reader scada=PUBLIC --out manager.toml
  antedate keygen mqtt --group line4 --topic 'plant/line4/#' --managed --past-epochs 8 --out manager.toml
  antedate keygen mqtt --for-members manager.toml --out line4.toml";

/// Keys for MQTT.
#[derive(Args)]
#[command(group(ArgGroup::new("kind").required(true).args(["group", "device", "for_members"])))]
pub(crate) struct Keygen {
    /// A new group of this name, with a key for its first epoch
    #[arg(long, value_name = "NAME", value_parser = name, requires = "topics")]
    group: Option<String>,
    /// A new key pair for a device of this name
    #[arg(long, value_name = "NAME", value_parser = name)]
    device: Option<String>,
    /// The members' part of a manager's group file
    #[arg(long, value_name = "FILE")]
    for_members: Option<PathBuf>,
    /// A topic filter of the group; may be given more than once
    #[arg(long = "topic", value_name = "FILTER", value_parser = filter, conflicts_with_all = ["device", "for_members"])]
    topics: Vec<String>,
    /// Messages of these topics are refused so many seconds after they were sealed, and carry the time;
    /// may be given more than once
    #[arg(long = "max-age", value_name = "FILTER=SECONDS", value_parser = max_age, conflicts_with_all = ["device", "for_members"])]
    max_ages: Vec<(String, u32)>,
    /// Messages of these topics are signed by their publishers, so that no member can speak for another;
    /// may be given more than once
    #[arg(long, value_name = "FILTER", value_parser = filter, conflicts_with_all = ["device", "for_members"])]
    signed: Vec<String>,
    /// The payload cipher
    #[arg(long, default_value = "aes-ccm-16-64-128", value_parser = algorithm, conflicts_with_all = ["device", "for_members"])]
    algorithm: Algorithm,
    /// A member that publishes and reads: its name, its public key if it gets rotations, and the key that
    /// verifies what it signs
    #[arg(long = "member", value_name = "NAME[=PUBLIC[:VERIFY]]", value_parser = publisher, conflicts_with_all = ["device", "for_members"])]
    members: Vec<Member>,
    /// A member that reads only
    #[arg(long = "reader", value_name = "NAME[=PUBLIC[:VERIFY]]", value_parser = reader, conflicts_with_all = ["device", "for_members"])]
    readers: Vec<Member>,
    /// The group has a manager, who admits members later (antedate mqtt admit)
    #[arg(long, conflicts_with_all = ["device", "for_members"])]
    managed: bool,
    /// Rotations bring the keys of so many epochs before, so that retained payloads stay readable, for
    /// newcomers too; never those of epochs before a member was removed
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=32), conflicts_with_all = ["device", "for_members"])]
    past_epochs: u32,
    /// The file to create, readable by its owner only. An existing one is not overwritten. Without
    /// it, standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Keygen {
    pub(crate) fn run(self) -> Done {
        let Self { group, device, for_members, topics, max_ages, signed, algorithm, .. } = self;
        let Self { members, readers, managed, past_epochs, out, .. } = self;
        let (text, said) = if let Some(name) = device {
            let device = Device { name, secret: manage::random()? };
            // Scripts take the public key from the end.
            let said = format!(
                "for signed topics {0}={1}:{2}\nthe key of {0}, public key {1}",
                device.name,
                hex(&device.public()),
                hex(&device.verify())
            );
            (device.to_text(), said)
        } else if let Some(file) = for_members {
            let group = GroupFile::load(&file)?;
            (group.to_checked_text(true)?, format!("group {} for its members", group.group))
        } else {
            let members: Vec<Member> = members.into_iter().chain(readers).collect();
            for (i, member) in members.iter().enumerate() {
                if members.iter().take(i).any(|other| other.name == member.name) {
                    let what = format!("the name {} is used twice", member.name);
                    return Err(Failure::usage(what, "give each member a name of its own"));
                }
            }
            let count = super::manage::members(members.len());
            let name = group.unwrap_or_default();
            let group = match managed {
                true if members.is_empty() => manage::new_managed_group(&name, algorithm, topics)?,
                _ => manage::new_group(&name, algorithm, topics, members)?,
            };
            if group.manager.is_none() && (managed || past_epochs > 0) {
                let what = "--managed and --past-epochs are for rotations, and no member has a public key";
                return Err(Failure::usage(what, "give --member NAME=PUBLIC, or --managed without members"));
            }
            let group = GroupFile { max_ages, signed, past_epochs, ..group };
            if group.max_ages.is_empty() {
                output::tell(format_args!("antedate: {}", ageless(&group.group)));
            }
            (group.to_checked_text(false)?, format!("group {} with {count}, {algorithm}", group.group))
        };
        match out {
            Some(file) => {
                create(&file, &text)?;
                output::print(&format!("{}: {said}\n", file.display()))
            }
            None => output::print(&text),
        }
    }
}

/// What an operator must know about a group whose messages do not age.
pub(super) fn ageless(group: &str) -> String {
    format!(
        "group {group}: no topic has a most age, so a recorded command is new to a subscriber that was away (remedy: name the topics of commands under [[fresh]] in the group file, or with --max-age when it is made)"
    )
}

/// Reads `PUBLIC[:VERIFY]`.
pub(super) fn keys(text: &str) -> Result<([u8; 32], Option<[u8; 32]>), ValueError> {
    let (public, verify) =
        text.split_once(':').map_or((text, None), |(public, verify)| (public, Some(verify)));
    let verify = verify.map(|verify| key(verify, is_verifying_key)).transpose()?;
    Ok((key(public, is_device_public)?, verify))
}

pub(super) fn name(text: &str) -> Result<String, ValueError> {
    if is_name(text) { Ok(text.to_owned()) } else { Err(ValueError::new(NAME_RULE)) }
}

fn filter(text: &str) -> Result<String, ValueError> {
    topic::check_filter(text).map(|()| text.to_owned()).map_err(ValueError::new)
}

fn max_age(text: &str) -> Result<(String, u32), ValueError> {
    let parts = text.rsplit_once('=').and_then(|(topics, seconds)| Some((topics, seconds.parse().ok()?)));
    match parts {
        Some((topics, seconds)) if seconds > 0 => Ok((filter(topics)?, seconds)),
        _ => Err(ValueError::new("write a filter and whole seconds: plant/line4/valve=5")),
    }
}

fn algorithm(text: &str) -> Result<Algorithm, ValueError> {
    text.parse::<Algorithm>().map_err(ValueError::new)
}

fn publisher(text: &str) -> Result<Member, ValueError> {
    member(text, true)
}

fn reader(text: &str) -> Result<Member, ValueError> {
    member(text, false)
}

fn member(text: &str, publish: bool) -> Result<Member, ValueError> {
    let (text, keys) = text.split_once('=').map_or((text, None), |(text, keys)| (text, Some(keys)));
    let (public, verify) = match keys.map(|keys| keys.split_once(':').unwrap_or((keys, ""))) {
        None => (None, None),
        Some((public, verify)) => {
            let verify = if verify.is_empty() { None } else { Some(key(verify, is_verifying_key)?) };
            // A signer of a group without a manager has no other key.
            let public = if public.is_empty() && verify.is_some() {
                None
            } else {
                Some(key(public, is_device_public)?)
            };
            (public, verify)
        }
    };
    Ok(Member { name: name(text)?, public, publish, verify })
}

fn key(digits: &str, is_good: impl Fn(&[u8; 32]) -> bool) -> Result<[u8; 32], ValueError> {
    let mut public = [0; 32];
    if !parse_hex(digits, &mut public) {
        return Err(ValueError::new(
            "a public key has 64 hexadecimal digits; antedate keygen mqtt --device prints it",
        ));
    }
    if is_good(&public) { Ok(public) } else { Err(ValueError::new(format!("{digits} {WEAK}"))) }
}
