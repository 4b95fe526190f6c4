//! `antedate mqtt init`, `rotate`, `revoke` and `acl`.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

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
        // Faults of the options are found before there is a new key.
        let mut link = Link::new(&settings, guard, Vec::new(), Qos::AtLeastOnce, false)?;
        if fresh {
            manager.rotate(revoked, grace)?;
        }
        let group = manager.group();
        let epoch = group.keys.last().map_or(0, |key| key.epoch);
        if fresh && group.manager.is_none() {
            return output::print(&format!(
                "group {}: epoch {epoch} is in {}. The group has no manager, so nothing is published: copy the file to all members again, to those that subscribe first\n",
                group.group,
                self.group.display()
            ));
        }
        let message = manager.announce()?;
        let again = format!("antedate mqtt rotate --again --group {} publishes it", self.group.display());
        block_on(async {
            link.settle().await?;
            link.send(&group.rotation_topic, message, Qos::AtLeastOnce, true);
            while link.waiting() > 0 && !link.stop.load(Ordering::Relaxed) {
                link.turn(Duration::from_millis(200)).await?;
            }
            let waiting = link.waiting();
            link.finish().await?;
            if waiting > 0 {
                return Err(Failure::Verdict("stopped before the broker had confirmed it".into()));
            }
            Ok(())
        })
        .map_err(|failure| match failure {
            Failure::Verdict(why) => Failure::Verdict(format!("{why}; the new key is in the file: {again}")),
            other => other,
        })?;
        let count = group.recipients().len();
        output::print(&format!(
            "group {}: epoch {epoch} for {count} members on {}\n",
            group.group, group.rotation_topic
        ))
    }
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
    /// The password file to write, with new random passwords (mosquitto.conf: password_file); they
    /// are printed once
    #[arg(long, value_name = "FILE")]
    passwords: Option<PathBuf>,
}

impl Acl {
    pub(crate) fn run(self) -> Done {
        let groups = self.groups.iter().map(|file| GroupFile::load(file)).collect::<Result<Vec<_>, _>>()?;
        if let Some(empty) = groups.iter().find(|group| group.members.is_empty()) {
            return Err(Fault::of_file(&empty.file, "names no [[member]]", "give the manager's file").into());
        }
        let members = || groups.iter().flat_map(|group| &group.members);
        if let Some(member) = members().find(|member| member.name == self.manager) {
            let what = format!(
                "--manager {0}: {0} is a member too, who would have the manager's rights",
                member.name
            );
            return Err(Failure::usage(what, "give the manager another name with --manager"));
        }
        write(&self.acl, &acl::access_list(&groups, &self.manager)?)?;
        let Some(file) = &self.passwords else {
            return output::print(&format!("{}: written\n", self.acl.display()));
        };
        let mut users: Vec<&str> = members().map(|one| one.name.as_str()).collect();
        users.push(&self.manager);
        users.sort_unstable();
        users.dedup();
        let no_random = |error| {
            Failure::usage(
                format!("the system gives no random numbers: {error}"),
                "no passwords can be made here",
            )
        };
        let (mut lines, mut shown) = (String::new(), String::new());
        for user in users {
            let mut salt = [0; 12];
            getrandom::fill(&mut salt).map_err(no_random)?;
            let password = acl::password().map_err(no_random)?;
            lines.push_str(&acl::password_line(user, &password, &salt));
            shown.push_str(&format!("{user} {password}\n"));
        }
        write(file, &lines)?;
        output::print(&shown)
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
