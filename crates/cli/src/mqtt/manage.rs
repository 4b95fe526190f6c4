//! `antedate mqtt init`, `rotate`, `revoke`, `remove` and `acl`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use antedate_host::fault::Fault;
use antedate_host::replace::replace;
use antedate_mqtt::acl;
use antedate_mqtt::file::GroupFile;
use antedate_mqtt::guard::Guard;
use antedate_mqtt::manage;
use antedate_mqtt::store::Store;
use antedate_mqtt_client::Qos;
use clap::Args;

use super::connection::{Link, block_on};
use super::enrol::{publish, unpublished};
use super::options::Broker;
use crate::failure::{Done, Failure};
use crate::output;

/// A state directory.
#[derive(Args)]
pub(crate) struct Init {
    /// The directory to create. Only for a publisher's name that never published under the group's
    /// keys
    directory: PathBuf,
    /// The directory exists and was moved here. Only if it is the last state, and no copy of it was
    /// used since
    #[arg(long)]
    state_moved: bool,
    /// The state may lie in memory (tmpfs). Only if the group's keys and the publisher's name are new
    /// at each start of the machine
    #[arg(long)]
    volatile_state: bool,
}

impl Init {
    pub(crate) fn run(self) -> Done {
        if self.volatile_state {
            Store::permit_volatile(&self.directory)?;
        }
        if self.state_moved {
            Store::settle(&self.directory)?;
            return output::print(&format!("{}: at home here from now on\n", self.directory.display()));
        }
        Store::create(&self.directory)?;
        output::print(&format!("{}: no sequence number used yet\n", self.directory.display()))
    }
}

/// Options of rotating and revoking.
#[derive(Args)]
struct Manager {
    #[command(flatten)]
    broker: Broker,
    /// The manager's group file, which gets the new key; or that of a group without a manager
    #[arg(long, value_name = "FILE")]
    group: PathBuf,
}

impl Manager {
    fn rotate(self, revoked: &[String], grace: u32, fresh: bool) -> Done {
        let settings = self.broker.settings()?;
        // Held to the end: two rotations at once would publish one epoch with two secrets.
        let mut manager = manage::Manager::open(&self.group)?;
        let guard = Guard::new(Vec::new(), None, None, None);
        if !fresh && manager.group().signing.is_none() {
            // The fault that there is nothing to publish, before a connection.
            manager.announce()?;
        }
        // Faults of the options are found before there is a new key.
        let link = Link::new(&settings, guard, Vec::new(), Qos::AtLeastOnce, false)?;
        if fresh {
            manager.rotate(revoked, grace)?;
        }
        let group = manager.group();
        let epoch = group.epoch();
        if fresh && group.manager.is_none() {
            return output::print(&format!(
                "group {}: epoch {epoch} is in {}. The group has no manager, so nothing is published: copy the file to all members again, to those that subscribe first\n",
                group.group,
                self.group.display()
            ));
        }
        let said = block_on(announce(link, &manager));
        output::print(&said.map_err(|failure| unpublished(failure, &self.group))?)
    }
}

/// Publishes the newest key of a group. Returns what was published, in words.
async fn announce(mut link: Link, manager: &manage::Manager) -> Result<String, Failure> {
    link.settle().await?;
    let (count, longest) = publish(&mut link, manager.announcements()).await?;
    link.finish().await?;
    let group = manager.group();
    let (name, epoch, place) = (&group.group, group.epoch(), group.rotation_topic_here(None));
    let members = members(group.recipients().len());
    Ok(match count {
        1 => format!("group {name}: epoch {epoch} for {members} on {place}\n"),
        _ => format!(
            "group {name}: epoch {epoch} for {members}, {count} messages of at most {longest} octets below {place}\n"
        ),
    })
}

/// The broker of a group, for a program that keeps it as words.
#[cfg(feature = "fleet")]
#[derive(clap::Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub(crate) struct BrokerOptions {
    #[command(flatten)]
    broker: Broker,
}

#[cfg(feature = "fleet")]
impl BrokerOptions {
    /// Reads the options of `antedate mqtt rotate` for a broker.
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        <Self as clap::Parser>::try_parse_from(words).map_err(|error| {
            let text = error.render().to_string();
            let what = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Failure::usage(
                what,
                "give a broker's options behind --: -h HOST -u USER --pw-file FILE --cafile FILE",
            )
        })
    }

    /// The manager's user at the broker, or empty.
    pub(crate) fn user(&self) -> Result<String, Failure> {
        Ok(self.broker.settings()?.login.map(|(user, _)| user).unwrap_or_default())
    }

    /// Publishes the newest key of a group. Returns what was published, in words.
    pub(crate) async fn announce(&self, manager: &manage::Manager) -> Result<String, Failure> {
        let guard = Guard::new(Vec::new(), None, None, None);
        let link = Link::new(&self.broker.settings()?, guard, Vec::new(), Qos::AtLeastOnce, false)?;
        announce(link, manager).await
    }
}

/// A number of members in words.
pub(super) fn members(count: usize) -> String {
    format!("{count} member{}", if count == 1 { "" } else { "s" })
}

/// Rotate.
#[derive(Args)]
pub(crate) struct Rotate {
    #[command(flatten)]
    manager: Manager,
    /// Seconds in which members still accept the previous key
    #[arg(long, default_value_t = manage::GRACE)]
    grace: u32,
    /// Publish the newest key again instead of a new one, with its original grace: for members
    /// added to the file, or if the broker was unavailable
    #[arg(long, conflicts_with = "grace")]
    again: bool,
}

impl Rotate {
    pub(crate) fn run(self) -> Done {
        self.manager.rotate(&[], self.grace, !self.again)
    }
}

/// Revoke.
#[derive(Args)]
pub(crate) struct Revoke {
    #[command(flatten)]
    manager: Manager,
    /// A member to revoke; may be given more than once
    #[arg(long = "member", value_name = "NAME", required = true)]
    members: Vec<String>,
}

impl Revoke {
    pub(crate) fn run(self) -> Done {
        // Payloads of the member under the old key are refused.
        self.manager.rotate(&self.members, 0, true)
    }
}

/// Remove.
#[derive(Args)]
pub(crate) struct Remove {
    #[command(flatten)]
    manager: Manager,
    /// The members to remove
    #[arg(value_name = "NAME", required = true)]
    members: Vec<String>,
}

impl Remove {
    pub(crate) fn run(self) -> Done {
        let Self { manager, members } = self;
        manager.rotate(&members, 0, true)
    }
}

/// Access list and passwords.
#[derive(Args)]
pub(crate) struct Acl {
    /// Group files with their members
    #[arg(required = true)]
    groups: Vec<PathBuf>,
    /// The user at the broker that rotates
    #[arg(long, default_value = "manager", value_parser = super::keygen::name)]
    manager: String,
    /// The access list to write (mosquitto.conf: acl_file)
    #[arg(long, value_name = "FILE")]
    acl: PathBuf,
    /// The password file to write (mosquitto.conf: password_file). Users that are in it keep their
    /// passwords; those of others are random, and printed once
    #[arg(long, value_name = "FILE")]
    passwords: Option<PathBuf>,
    /// A user that gets a new password, as for a replaced device; may be given more than once
    #[arg(long = "renew", value_name = "NAME", requires = "passwords", conflicts_with = "renew_all")]
    renew: Vec<String>,
    /// All users get new passwords
    #[arg(long, requires = "passwords")]
    renew_all: bool,
    /// A user that may ask to become a member (antedate mqtt enrol), and nothing else
    #[arg(long, value_name = "NAME", value_parser = super::keygen::name)]
    enrolment: Option<String>,
}

impl Acl {
    pub(crate) fn run(self) -> Done {
        let groups = self.groups.iter().map(|file| GroupFile::load(file)).collect::<Result<Vec<_>, _>>()?;
        if let Some(empty) = groups.iter().find(|group| group.members.is_empty()) {
            return Err(Fault::of_file(&empty.file, "names no [[member]]", "give the manager's file").into());
        }
        let members = || groups.iter().flat_map(|group| &group.members);
        for (option, user) in [("manager", Some(&self.manager)), ("enrolment", self.enrolment.as_ref())] {
            if let Some(member) = members().find(|member| Some(&member.name) == user) {
                let what = format!(
                    "--{option} {0}: {0} is a member too, who would have rights that are not its own",
                    member.name
                );
                return Err(Failure::usage(what, format!("give another name with --{option}")));
            }
        }
        if self.enrolment.as_ref() == Some(&self.manager) {
            return Err(Failure::usage(
                "--enrolment is the manager's name",
                "give another name with --enrolment",
            ));
        }
        let list = acl::access_list(&groups, &self.manager, self.enrolment.as_deref())?;
        let Some(file) = &self.passwords else {
            write(&self.acl, &list)?;
            return output::print(&format!("{}: written\n", self.acl.display()));
        };
        let mut users: Vec<&str> = members().map(|one| one.name.as_str()).collect();
        users.push(&self.manager);
        users.extend(self.enrolment.as_deref());
        users.sort_unstable();
        users.dedup();
        if let Some(name) = self.renew.iter().find(|name| !users.contains(&name.as_str())) {
            return Err(Failure::usage(
                format!("--renew {name}: there is no such user"),
                "name a member, or the manager",
            ));
        }
        let before = if self.renew_all { String::new() } else { passwords(file)? };
        let mut kept: BTreeMap<&str, &str> =
            before.lines().filter_map(|line| Some((line.split_once(':')?.0, line))).collect();
        kept.retain(|user, _| !self.renew.iter().any(|renewed| renewed == user));
        let gone: Vec<&str> =
            kept.keys().copied().filter(|user| users.binary_search(user).is_err()).collect();
        let no_random = |error| {
            Failure::usage(
                format!("the system gives no random numbers: {error}"),
                "no passwords can be made here",
            )
        };
        let (mut lines, mut shown) = (String::new(), String::new());
        for user in users {
            if let Some(line) = kept.get(user) {
                lines.push_str(line);
                lines.push('\n');
                continue;
            }
            let mut salt = [0; 12];
            getrandom::fill(&mut salt).map_err(no_random)?;
            let password = acl::password().map_err(no_random)?;
            lines.push_str(&acl::password_line(user, &password, &salt));
            shown.push_str(&format!("{user} {password}\n"));
        }
        // The list last: it gives rights to users that have their passwords.
        write(file, &lines)?;
        write(&self.acl, &list)?;
        if !gone.is_empty() {
            output::tell(format_args!(
                "antedate: {}: without {} from now on",
                file.display(),
                gone.join(", ")
            ));
        }
        output::print(&shown)
    }
}

/// The present password file, empty if there is none.
fn passwords(file: &Path) -> Result<String, Failure> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Fault::of_io(
            file,
            "read",
            &error,
            "run this as a user who can read it, or give another file",
        )
        .into()),
    }
}

/// Writes a file for the broker. Its reader is the broker's user, which is unknown for a new file.
fn write(file: &Path, text: &str) -> Done {
    if replace(file, text.as_bytes())? {
        let shown = file.display();
        output::tell(format_args!(
            "antedate: {shown}: new, and only its owner can read it; for a broker that runs as mosquitto: chown mosquitto: {shown}"
        ));
    }
    Ok(())
}
