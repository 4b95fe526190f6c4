//! MQTT groups: the manager's files, and what the broker lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use antedate_host::fault::{Fault, Faults};
use antedate_host::private_file;
use antedate_host::replace::replace;
use antedate_mqtt::acl::access_list;
use antedate_mqtt::file::GroupFile;
use antedate_mqtt::manage::{GRACE, Manager, has_members};

use super::Home;
use super::files::{read, write};
use crate::bearer::GroupError;
use crate::bearer::mqtt::Group;
use crate::enrol::is_name;
use crate::now;

/// A group whose broker lacks something, with its manager's file locked until this is dropped.
#[derive(Debug)]
pub struct Advance {
    /// The group.
    pub name: String,
    /// What is to be published.
    pub manager: Manager,
    /// The broker, in the options of `antedate mqtt rotate`.
    pub broker: Vec<String>,
}

/// One fault of several, as callers tell one.
fn one(faults: Faults) -> Fault {
    let mut all = faults.into_iter();
    let first =
        all.next().unwrap_or_else(|| Fault::of_file("antedate".as_ref(), "a fault without a text", ""));
    let more = all.count();
    if more == 0 {
        first
    } else {
        Fault { what: format!("{} (and {more} more faults)", first.what), ..first }
    }
}

impl Home {
    /// The manager's file of a group, and the file of its members.
    fn mqtt_files(&self, name: &str) -> Result<(PathBuf, PathBuf), Fault> {
        let file = self.group_file("mqtt", name)?;
        // A name may have a dot.
        Ok((file.with_file_name(format!("{name}.toml")), file))
    }

    /// Takes a manager's file over as a new group, or changes the broker of a group that is there.
    ///
    /// # Errors
    /// When the file is none of a manager without members, there is a group already, or there is none.
    pub fn set_mqtt(
        &self,
        name: &str,
        given: Option<&Path>,
        broker: Vec<String>,
        manager: String,
    ) -> Result<(), Faults> {
        let (managers, file) = self.mqtt_files(name)?;
        if let Some(given) = given {
            if managers.exists() {
                let what =
                    format!("the fleet has an MQTT group \"{name}\" already, whose keys are not overwritten");
                let remedy =
                    format!("change topics in {}, and the broker without a file", managers.display());
                return Err(Fault::of_file(given, what, remedy).into());
            }
            let group = GroupFile::load(given)?;
            let remedy =
                format!("make one: antedate keygen mqtt --group {name} --topic FILTER --managed --out FILE");
            let wrong = match &group {
                group if group.group != name => Some(format!("is of the group \"{}\"", group.group)),
                group if group.signing.is_none() => Some("is not a manager's file".to_owned()),
                group if !group.members.is_empty() => {
                    Some("has members, and those of a fleet's group are its devices".to_owned())
                }
                _ => None,
            };
            if let Some(what) = wrong {
                return Err(Fault::of_file(given, what, remedy).into());
            }
            private_file::create(&managers, &group.to_checked_text(false)?)?;
        }
        let mut group = if file.exists() { read(&file)? } else { Group::default() };
        if !managers.exists() {
            return Err(self.no_mqtt(name).into());
        }
        // The broker of now may have nothing of the one before.
        (group.broker, group.manager, group.unpublished) = (broker, manager, true);
        Ok(write(&file, &group)?)
    }

    fn no_mqtt(&self, name: &str) -> Fault {
        Fault::of_file(&self.directory, GroupError::NoMqtt(name.to_owned()).to_string(), "")
    }

    /// The names of all MQTT groups.
    #[must_use]
    pub fn mqtt_groups(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.join("mqtt")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| {
            entry.file_name().to_str()?.strip_suffix(".json").filter(|name| is_name(name)).map(str::to_owned)
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// The groups of which devices know a key that are no members any more, and the names of those.
    ///
    /// # Errors
    /// When a file is damaged.
    pub fn left_mqtt(&self) -> Result<BTreeMap<String, Vec<String>>, Fault> {
        let mut groups = BTreeMap::new();
        for name in self.mqtt_groups() {
            let group: Group = read(&self.mqtt_files(&name)?.1)?;
            let sides = self.sides(&name, |member| &member.mqtt);
            let shown = |id: &str| self.devices.get(id).map_or_else(|| id.to_owned(), |one| one.name.clone());
            let names: Vec<String> = group.left(&sides).map(shown).collect();
            if !names.is_empty() {
                groups.insert(name, names);
            }
        }
        Ok(groups)
    }

    /// An MQTT group, with keys for its new members. Those that have left stay until
    /// [`Home::advance_mqtt`].
    ///
    /// # Errors
    /// When there is none, or a file is damaged or cannot be written.
    pub fn mqtt(&self, name: &str) -> Result<Group, Fault> {
        let (managers, file) = self.mqtt_files(name)?;
        if !managers.exists() || !file.exists() {
            return Err(self.no_mqtt(name));
        }
        let fault = |error: GroupError| Fault::of_file(&file, error.to_string(), "");
        let mut group: Group = read(&file)?;
        let sides = self.sides(name, |member| &member.mqtt);
        if group.join(&sides).map_err(fault)? {
            group.unpublished = true;
            write(&file, &group)?;
        }
        let mut found = GroupFile::load(&managers).map_err(one)?;
        let mut members = group.members(&sides);
        let names: BTreeSet<&str> = sides.iter().map(|side| side.member.name.as_str()).collect();
        members.extend(found.members.iter().filter(|old| !names.contains(old.name.as_str())).cloned());
        if !has_members(&found, &members) {
            let mut manager = Manager::open(&managers).map_err(one)?;
            manager.follow(members).map_err(one)?;
            drop(manager);
            found = GroupFile::load(&managers).map_err(one)?;
        }
        self.write_access(name, &found, &group.manager)?;
        group.text = found.to_checked_text(true).map_err(one)?.to_string();
        Ok(group)
    }

    /// Writes the access list for Mosquitto, if it is another one.
    fn write_access(&self, name: &str, group: &GroupFile, manager: &str) -> Result<(), Fault> {
        let manager = if manager.is_empty() { "manager" } else { manager };
        let text = access_list(std::slice::from_ref(group), manager, None)?;
        let file = self.mqtt_files(name)?.1.with_file_name(format!("{name}.acl"));
        if fs::read(&file).is_ok_and(|found| found == text.as_bytes()) {
            return Ok(());
        }
        replace(&file, text.as_bytes()).map(drop)
    }

    /// Makes a group's members those of the fleet: who has left is out by the next epoch, which is also made
    /// with `rotates`. `None` if there is nothing for the broker.
    ///
    /// # Errors
    /// As [`Home::mqtt`], or when another process changes the manager's file.
    pub fn advance_mqtt(&self, name: &str, rotates: bool) -> Result<Option<Advance>, Faults> {
        let mut group = self.mqtt(name)?;
        let (managers, file) = self.mqtt_files(name)?;
        let sides = self.sides(name, |member| &member.mqtt);
        if !rotates && !group.unpublished && group.left(&sides).next().is_none() {
            return Ok(None);
        }
        let mut manager = Manager::open(&managers)?;
        // First this mark: whatever comes in between, the next call publishes.
        group.unpublished = true;
        write(&file, &group)?;
        let is_new_epoch = manager.follow(group.members(&sides))?;
        if rotates && !is_new_epoch {
            manager.rotate(&[], GRACE)?;
        }
        group.forget_left(&sides);
        write(&file, &group)?;
        self.write_access(name, manager.group(), &group.manager)?;
        Ok(Some(Advance { name: name.to_owned(), manager, broker: group.broker }))
    }

    /// The broker has what [`Home::advance_mqtt`] gave.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn set_mqtt_published(&self, name: &str) -> Result<(), Fault> {
        let file = self.mqtt_files(name)?.1;
        let mut group: Group = read(&file)?;
        group.unpublished = false;
        write(&file, &group)
    }

    /// Counts a device as revoked.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn lose(&mut self, id: &str) -> Result<(), Fault> {
        if let Some(member) = self.devices.get_mut(id).filter(|member| member.revoked == 0) {
            member.revoked = now();
        }
        self.save()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bearer::Bearers;
    use crate::bearer::mqtt::{DEVICE, GROUP};
    use crate::home::Member;
    use crate::identity::{Identity, Seed};
    use antedate_channel::mqtt::Algorithm;
    use antedate_channel::mqtt::rotation;
    use antedate_mqtt::file::Device;
    use antedate_mqtt::manage::{new_group, new_managed_group};

    fn fleet() -> (tempfile::TempDir, Home) {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::create(&directory.path().join("fleet"), "plant", &[], 1, "").unwrap();
        let topics = vec!["plant/#".to_owned()];
        let group = new_managed_group("sensors", Algorithm::AesCcm16_64_128, topics).unwrap();
        let file = directory.path().join("sensors.toml");
        private_file::create(&file, &group.to_text(false)).unwrap();
        home.set_mqtt("sensors", Some(&file), vec!["-h".into(), "broker".into()], "boss".into()).unwrap();
        (directory, home)
    }

    fn join(home: &mut Home, name: &str, octet: u8) -> String {
        let keys = Identity::of(Seed::of([octet; 32])).public();
        let mut member = Member::new(name, "publisher", "", keys);
        member.mqtt = "sensors".into();
        home.devices.insert(keys.id(), member);
        keys.id()
    }

    /// The device of a member's file, as its programs read it.
    fn device(home: &Home, id: &str, directory: &Path) -> Device {
        let files = home.wanted(&mut Bearers::default(), id).unwrap().files;
        let file = directory.join(id);
        replace(&file, files[DEVICE].as_bytes()).unwrap();
        let group = GroupFile::parse(&file, &files[GROUP]).unwrap();
        assert!(group.keys.is_empty() && group.signing.is_none() && group.manager.is_some());
        Device::load(&file).unwrap()
    }

    /// The epoch that a rotation message brings a device.
    fn epoch(advance: &Advance, device: &Device) -> Option<u32> {
        let manager = advance.manager.group().manager.unwrap();
        advance.manager.announcements().find_map(|one| {
            let message = one.unwrap().message;
            let name = device.name.as_bytes();
            rotation::open("sensors", &message, &manager, name, &device.secret).ok().map(|found| found.epoch)
        })
    }

    #[test]
    fn lost_member_gets_no_new_epoch() {
        let (directory, mut home) = fleet();
        let (press, pump) = (join(&mut home, "press", 1), join(&mut home, "pump", 2));
        home.devices.get_mut(&pump).unwrap().values.insert("reader".into(), "yes".into());
        let [one, other] = [&press, &pump].map(|id| device(&home, id, directory.path()));
        let advance = home.advance_mqtt("sensors", false).unwrap().unwrap();
        assert_eq!((epoch(&advance, &one), epoch(&advance, &other)), (Some(1), Some(1)));
        assert_eq!(advance.broker, ["-h", "broker"]);
        drop(advance);
        // What was not published comes again, and then no more.
        assert!(home.advance_mqtt("sensors", false).unwrap().is_some());
        home.set_mqtt_published("sensors").unwrap();
        assert!(home.advance_mqtt("sensors", false).unwrap().is_none());
        let access = || fs::read_to_string(home.directory().join("mqtt/sensors.acl")).unwrap();
        let text = access();
        assert!(text.contains("user boss\n") && text.contains("user press\n"), "{text}");
        assert!(text.contains("topic readwrite plant/#") && text.contains("topic read plant/#"), "{text}");
        let advance = home.advance_mqtt("sensors", true).unwrap().unwrap();
        assert_eq!((epoch(&advance, &one), epoch(&advance, &other)), (Some(2), Some(2)));
        assert_eq!(advance.manager.group().keys.len(), 2, "members still read the epoch before");
        // Others find the file locked, and a look at the group needs no lock.
        assert!(home.advance_mqtt("sensors", true).unwrap_err().to_string().contains("another"));
        home.mqtt("sensors").unwrap();
        drop(advance);
        home.set_mqtt_published("sensors").unwrap();
        home.lose(&pump).unwrap();
        assert_eq!(home.left_mqtt().unwrap()["sensors"], ["pump"]);
        let advance = home.advance_mqtt("sensors", false).unwrap().unwrap();
        assert_eq!((epoch(&advance, &one), epoch(&advance, &other)), (Some(3), None));
        assert_eq!(advance.manager.group().keys.len(), 1, "nobody reads what the lost one may still seal");
        assert!(!fs::read_to_string(home.directory().join("mqtt/sensors.acl")).unwrap().contains("pump"));
        assert!(home.left_mqtt().unwrap().is_empty());
        drop(advance);
        // It comes back with other keys.
        home.devices.get_mut(&pump).unwrap().revoked = 0;
        let again = device(&home, &pump, directory.path());
        assert_ne!(again.public(), other.public());
        assert!(!format!("{:?}", home.mqtt("sensors").unwrap()).contains("secret"));
    }

    #[test]
    fn member_that_moves_leaves_at_the_next_epoch() {
        let (directory, mut home) = fleet();
        let press = join(&mut home, "press", 1);
        let before = device(&home, &press, directory.path());
        home.devices.get_mut(&press).unwrap().mqtt.clear();
        // A plan alone changes no epoch.
        assert_eq!(home.left_mqtt().unwrap()["sensors"], ["press"]);
        home.mqtt("sensors").unwrap();
        assert_eq!(GroupFile::load(&home.directory().join("mqtt/sensors.toml")).unwrap().epoch(), 1);
        let advance = home.advance_mqtt("sensors", false).unwrap().unwrap();
        assert_eq!((epoch(&advance, &before), advance.manager.group().epoch()), (None, 2));
    }

    #[test]
    fn only_a_managers_file_is_taken_over() {
        let (directory, mut home) = fleet();
        let fault = |name: &str, file: Option<&Path>| {
            home.set_mqtt(name, file, Vec::new(), String::new()).unwrap_err().to_string()
        };
        let file = directory.path().join("sensors.toml");
        assert!(fault("sensors", Some(&file)).contains("already"));
        assert!(fault("pumps", Some(&file)).contains("of the group \"sensors\""));
        assert!(fault("pumps", None).contains("no MQTT group pumps"));
        let topics = || vec!["plant/#".to_owned()];
        for (name, members) in [("static", false), ("full", true)] {
            let public = members.then(|| rotation::device_public(&[9; 32]));
            let member =
                antedate_mqtt::file::Member { name: "a".into(), public, publish: true, verify: None };
            let group = new_group(name, Algorithm::AesCcm16_64_128, topics(), vec![member]).unwrap();
            let file = directory.path().join(name);
            private_file::create(&file, &group.to_text(false)).unwrap();
            let said = fault(name, Some(&file));
            assert!(said.contains(if members { "has members" } else { "not a manager's" }), "{said}");
            assert!(said.contains("--managed"), "{said}");
        }
        home.set_mqtt("sensors", None, vec!["-p".into(), "1884".into()], String::new()).unwrap();
        assert_eq!(home.mqtt("sensors").unwrap().broker, ["-p", "1884"]);
        let press = join(&mut home, "press", 1);
        home.devices.get_mut(&press).unwrap().mqtt = "pumps".into();
        let said = home.wanted(&mut Bearers::default(), &press).unwrap_err();
        assert!(said.what.contains(&GroupError::NoMqtt("pumps".into()).to_string()), "{said}");
    }
}
