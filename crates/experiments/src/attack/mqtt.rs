//! Attacks by a broker, a publisher and a member on sealed payloads. They need no broker: whatever
//! it delivers, the member's guard decides.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use antedate_channel::mqtt::{Algorithm, Dropped};
use antedate_mqtt::file::{Device, GroupFile, Member};
use antedate_mqtt::guard::{Guard, Verdict};
use antedate_mqtt::manage::{self, Manager};
use antedate_mqtt::store::Store;

use super::Finding;
use crate::{ExperimentError, failed};

/// The attacks' names.
pub(super) const NAMES: [&str; 5] =
    ["mqtt-topic", "mqtt-publisher", "mqtt-replay", "mqtt-change", "mqtt-rotation"];

const TOPIC: &str = "plant/press7";
const OTHER: &str = "plant/press8";
const KEYS: &str = "antedate/keys/line4";
const MESSAGES: usize = 200;

/// A group with a manager, two publishers and a receiver, and sealed messages.
struct Group {
    files: PathBuf,
    envelopes: Vec<Vec<u8>>,
    /// Rotations that another manager has made for the same members.
    foreign: Vec<Vec<u8>>,
    receiver: Guard,
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.files);
    }
}

fn device(name: &str) -> Result<Device, ExperimentError> {
    Ok(Device { name: name.into(), secret: manage::random().map_err(failed)? })
}

fn again(device: &Device) -> Device {
    Device { name: device.name.clone(), secret: device.secret.clone() }
}

/// A manager of a group of these devices.
fn manager(file: &Path, devices: &[&Device]) -> Result<Manager, ExperimentError> {
    let member = |one: &&Device| Member {
        name: one.name.clone(),
        public: Some(one.public()),
        publish: true,
        verify: None,
    };
    let members = devices.iter().map(member).collect();
    let group = manage::new_group("line4", Algorithm::A128Gcm, vec!["plant/#".into()], members);
    fs::write(file, group.map_err(failed)?.to_text(false))?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600))?;
    Manager::open(file).map_err(failed)
}

/// A member with a state of its own.
fn member(manager: &Manager, device: &Device, state: &Path) -> Result<Guard, ExperimentError> {
    // The keys are this run's.
    Store::permit_volatile(state).and_then(|()| Store::create(state)).map_err(failed)?;
    let file = GroupFile::parse(Path::new("line4.toml"), &manager.group().to_text(true)).map_err(failed)?;
    let store = Store::open(state).map_err(failed)?;
    let mut guard = Guard::new(vec![file], Some(again(device)), Some(store), None);
    let rotation = manager.announce().map_err(failed)?;
    match guard.open(KEYS, &rotation, &mut Vec::new()) {
        Verdict::Rotated { .. } => Ok(guard),
        other => Err(format!("a member has no key: {other:?}").into()),
    }
}

fn sealed(guard: &mut Guard, topic: &str) -> Result<Vec<u8>, ExperimentError> {
    let mut out = Vec::new();
    guard.seal(topic, b"close valve", &mut out).map_err(failed)?;
    Ok(out)
}

impl Group {
    fn make() -> Result<Self, ExperimentError> {
        let files = crate::files("antedate-lab-").with_extension("mqtt");
        let _ = fs::remove_dir_all(&files);
        DirBuilder::new().mode(0o700).create(&files)?;
        let devices = [device("press7")?, device("press8")?, device("scada")?];
        let all: Vec<&Device> = devices.iter().collect();
        let [press7, _, scada] = &devices;
        let own = manager(&files.join("manager.toml"), &all)?;
        let mut publisher = member(&own, press7, &files.join("press7"))?;
        let envelopes = (0..MESSAGES).map(|_| sealed(&mut publisher, TOPIC)).collect::<Result<_, _>>()?;
        let mut other = manager(&files.join("other.toml"), &all)?;
        let mut foreign = vec![other.announce().map_err(failed)?];
        for _ in 0..3 {
            other.rotate(&[], 60).map_err(failed)?;
            foreign.push(other.announce().map_err(failed)?);
        }
        let receiver = member(&own, scada, &files.join("scada"))?;
        Ok(Self { files, envelopes, foreign, receiver })
    }

    /// The messages of an attack, each with its topic.
    fn messages(&mut self, name: &str) -> Vec<(&'static str, Vec<u8>)> {
        let on = |topic: &'static str, messages: &[Vec<u8>]| {
            messages.iter().map(|one| (topic, one.clone())).collect::<Vec<_>>()
        };
        match name {
            "mqtt-topic" => on(OTHER, &self.envelopes),
            "mqtt-publisher" => self.envelopes.iter().map(|one| (TOPIC, renamed(one))).collect(),
            "mqtt-replay" => {
                let mut out = Vec::new();
                for one in &self.envelopes {
                    // The first time it is genuine.
                    self.receiver.open(TOPIC, one, &mut out);
                }
                on(TOPIC, &self.envelopes)
            }
            "mqtt-change" => {
                let flip = |(at, one): (usize, &Vec<u8>)| {
                    let mut changed = one.clone();
                    let at = at % changed.len();
                    changed[at] ^= 1;
                    (TOPIC, changed)
                };
                self.envelopes.iter().enumerate().map(flip).collect()
            }
            _ => on(KEYS, &self.foreign),
        }
    }
}

/// The envelope with the other publisher's name in it.
fn renamed(envelope: &[u8]) -> Vec<u8> {
    let mut out = envelope.to_vec();
    if let Some(at) = envelope.windows(6).position(|window| window == b"press7") {
        out[at + 5] = b'8';
    }
    out
}

/// Short name of a refusal.
const fn reason(dropped: &Dropped) -> &'static str {
    match dropped {
        Dropped::NotEnvelope(_) => "no envelope",
        Dropped::Algorithm { .. } => "algorithm",
        Dropped::UnknownEpoch { .. } => "unknown epoch",
        Dropped::OldEpoch { .. } => "old epoch",
        Dropped::NotPublisher { .. } => "no publisher",
        Dropped::Unauthentic { .. } => "unauthentic",
        Dropped::Moved { .. } => "moved",
        Dropped::Impersonated { .. } => "impersonated",
        Dropped::Repeated { .. } | Dropped::Late { .. } => "replayed",
        _ => "other",
    }
}

/// Runs the attacks that are asked for.
pub(super) fn run(asked: impl Fn(&str) -> bool) -> Result<Vec<Finding>, ExperimentError> {
    let mut findings = Vec::new();
    for name in NAMES.into_iter().filter(|name| asked(name)) {
        let mut group = Group::make()?;
        let expected: &[&str] = match name {
            "mqtt-topic" => &["moved", "unauthentic"],
            "mqtt-publisher" => &["unauthentic", "impersonated"],
            "mqtt-replay" => &["replayed"],
            "mqtt-change" => &[
                "unauthentic",
                "no envelope",
                "algorithm",
                "old epoch",
                "unknown epoch",
                "no publisher",
                "moved",
                "impersonated",
            ],
            _ => &["no rotation"],
        };
        let (mut refused, mut finding) =
            (BTreeMap::<&str, u64>::new(), Finding { name, ..Finding::default() });
        for (topic, message) in group.messages(name) {
            finding.sent += 1;
            match group.receiver.open(topic, &message, &mut Vec::new()) {
                Verdict::Refused(dropped) => *refused.entry(reason(&dropped)).or_default() += 1,
                Verdict::NoRotation(_) => *refused.entry("no rotation").or_default() += 1,
                Verdict::Plain | Verdict::Opened(_) | Verdict::Rotated { .. } | Verdict::Known { .. } => {
                    finding.came_out += 1;
                }
            }
        }
        finding.counted =
            refused.iter().filter(|(name, _)| expected.contains(name)).map(|(_, count)| count).sum();
        let seen: Vec<String> = refused.iter().map(|(name, count)| format!("{name} {count}")).collect();
        finding.seen = seen.join(", ");
        // The member goes on with the group's key.
        let mut out = Vec::new();
        let honest = group.receiver.seal("plant/scada", b"on", &mut out).is_ok();
        finding.fault = if honest { String::new() } else { ", and the member has no key any more".into() };
        findings.push(finding);
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_payloads_withstand_each_attack() {
        for finding in run(|_| true).expect("the attacks") {
            assert!(finding.sent > 0 && finding.counted == finding.sent, "{finding:?}");
            assert_eq!((finding.came_out, finding.fault.as_str()), (0, ""), "{finding:?}");
        }
    }
}
