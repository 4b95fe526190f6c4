//! The verbs that change a fleet.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use antedate_fleet::engine::Engine;
use antedate_fleet::enrol::is_name;
use antedate_fleet::home::{Home, Member};
use antedate_fleet::identity::id_of_code;
use antedate_fleet::rollout::{self, Rollout, Waves};
use antedate_gateway::config::Config;
use antedate_host::fault::{Fault, Faults};
use antedate_host::private_file;
use clap::{Args, Subcommand};

use super::{Key, Place, block_on, connect, groups, leaf};
use crate::failure::{Done, Failure, ValueError};
use crate::output;

pub(super) fn name(text: &str) -> Result<String, ValueError> {
    if is_name(text) {
        Ok(text.to_owned())
    } else {
        Err(ValueError::new("use 1 to 64 letters, digits and - _ ."))
    }
}

#[derive(Args)]
pub(crate) struct Enrol {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    key: Key,
    /// The code that the device shows.
    #[arg(value_name = "CODE", requires = "role", conflicts_with = "tokens")]
    code: Option<String>,
    /// The device's name. [default: the one that it proposes]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// Its role, of which it gets the files.
    #[arg(long, value_name = "ROLE", value_parser = name)]
    role: Option<String>,
    /// Its cell, of which it gets the CAKs.
    #[arg(long, value_name = "CELL", value_parser = name)]
    cell: Option<String>,
    /// Approve the devices that have a token.
    #[arg(long, conflicts_with_all = ["name", "role", "cell"])]
    tokens: bool,
    /// Go on for so many seconds.
    #[arg(long, value_name = "SECONDS", requires = "tokens", default_value_t = 0)]
    watch: u64,
}

impl Enrol {
    pub(crate) fn run(self) -> Done {
        if self.code.is_none() && !self.tokens {
            let home = self.place.open()?;
            let pending = block_on(async { Ok(Rollout::pending(&home, &connect(&home).await?).await?) })?;
            let mut text = String::new();
            for request in pending {
                let keys = request.keys;
                let token = if request.proof.is_some() { ", has a token" } else { "" };
                text.push_str(&format!(
                    "{}  proposes \"{}\", antedate {}{token}\n    {}\n",
                    keys.code(),
                    request.name,
                    request.antedate,
                    keys.fingerprint()
                ));
            }
            if text.is_empty() {
                output::tell("no device asks for membership");
            }
            return output::print(&text);
        }
        with_rollout(&self.place, &self.key, async |rollout| {
            if self.tokens {
                let end = Instant::now() + Duration::from_secs(self.watch);
                loop {
                    let count = rollout.admit_by_token().await?;
                    if count > 0 || self.watch == 0 {
                        output::tell(format_args!("{count} device(s) are members by their tokens"));
                    }
                    if Instant::now() >= end {
                        return Ok(());
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            self.approve(rollout).await
        })
    }

    async fn approve(&self, rollout: &mut Rollout<'_>) -> Done {
        let code = self.code.clone().unwrap_or_default();
        let id = id_of_code(&code).ok_or_else(|| {
            Failure::usage(format!("\"{code}\" is no code"), "write the 16 letters that the device shows")
        })?;
        let pending = Rollout::pending(rollout.home, rollout.engine).await?;
        let request = pending.into_iter().find(|request| request.keys.id() == id).ok_or_else(|| {
            Failure::usage(
                format!("no device with the code {code} asks for membership"),
                "call `antedate agent enrol` on it; see `antedate fleet enrol`",
            )
        })?;
        let name = self.name.clone().unwrap_or_else(|| request.name.clone());
        if name.is_empty() {
            return Err(Failure::usage("the device proposes no name", "give it one with --name"));
        }
        if rollout.home.devices.values().any(|member| member.name == name) {
            return Err(Failure::usage(
                format!("there is a device \"{name}\" already"),
                "give it another --name",
            ));
        }
        let role = self.role.clone().unwrap_or_default();
        let fingerprint = request.keys.fingerprint();
        rollout
            .admit(vec![(request, name.clone(), role.clone(), self.cell.clone().unwrap_or_default())])
            .await?;
        output::print(&format!("{name} is a member with the role {role}\n    {fingerprint}\n"))
    }
}

#[derive(Args)]
pub(crate) struct Issue {
    #[command(flatten)]
    place: Place,
    /// The role of their devices.
    #[arg(long, value_name = "ROLE", value_parser = name)]
    role: String,
    /// The cell of their devices.
    #[arg(long, value_name = "CELL", value_parser = name)]
    cell: Option<String>,
    /// How many.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,
    /// Days for which they are valid.
    #[arg(long, value_name = "DAYS", default_value_t = 7)]
    days: u64,
}

impl Issue {
    pub(crate) fn run(self) -> Done {
        let mut home = self.place.open()?;
        let tokens =
            home.issue(&self.role, self.cell.as_deref().unwrap_or_default(), self.count as usize, self.days)?;
        home.save()?;
        output::print(&tokens.iter().map(|token| format!("{token}\n")).collect::<String>())
    }
}

#[derive(Subcommand)]
pub(crate) enum Set {
    /// Take over a file as a template of a role. ${name}, ${cell} and ${KEY} stand for a device's
    /// values.
    #[command(after_help = "Example:\n  antedate fleet set role gateway gateway.toml")]
    Role(SetRole),
    /// Set values of a device: KEY=VALUE, or KEY= to remove it.
    ///
    /// The keys `role`, `cell` (MACsec), `overlay` (WireGuard), `dtls` and `mqtt` move it. An overlay has one
    /// device with hub=yes and endpoint=HOST:PORT, and a DTLS group one or more with listener=yes. With
    /// reader=yes a device of an MQTT group may not publish.
    #[command(
        after_help = "Examples:\n  antedate fleet set device press uplink=eth1 field=eth0\n  antedate fleet set device hall overlay=wan hub=yes endpoint=hall.example:51820\n  antedate fleet set device press overlay=wan\n  antedate fleet set device press dtls=sensors\n  antedate fleet set device press mqtt=sensors"
    )]
    Device(SetDevice),
    /// Take over a manager's file of an MQTT group, and its broker. Without a file, another broker for it.
    ///
    /// The broker is given behind --, by the options of `antedate mqtt rotate`, with absolute paths of
    /// files. The user there may write the group's rotation topic.
    #[command(
        after_help = "Examples:\n  antedate keygen mqtt --group sensors --topic 'plant/#' --managed --out sensors.toml\n  antedate fleet set mqtt sensors sensors.toml -- -h broker.example -u manager --pw-file /etc/antedate/manager.pw --cafile /etc/antedate/ca.pem\n  antedate fleet set mqtt sensors -- -h other.example"
    )]
    Mqtt(super::groups::SetMqtt),
    /// Take other certificates of authorities for TLS to NATS. Devices get them with their next document.
    ///
    /// First a file with the old and the new authority, and `antedate fleet renew --within 401`; then new
    /// certificates at the servers; then a file with the new authority alone.
    #[command(
        after_help = "Example:\n  cat old-ca.pem new-ca.pem > both.pem\n  antedate fleet set certificates both.pem\n  antedate fleet renew --within 401"
    )]
    Certificates(SetCertificates),
}

#[derive(Args)]
pub(crate) struct SetCertificates {
    #[command(flatten)]
    place: Place,
    /// The file (PEM).
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Args)]
pub(crate) struct SetRole {
    #[command(flatten)]
    place: Place,
    /// The role.
    #[arg(value_name = "ROLE", value_parser = name)]
    role: String,
    /// The file, whose name it keeps.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Args)]
pub(crate) struct SetDevice {
    #[command(flatten)]
    place: Place,
    /// The device's name or code.
    #[arg(value_name = "DEVICE")]
    device: String,
    /// Values.
    #[arg(value_name = "KEY=VALUE", required = true)]
    values: Vec<String>,
}

impl Set {
    pub(crate) fn run(self) -> Done {
        match self {
            Self::Role(verb) => verb.run(),
            Self::Device(verb) => verb.run(),
            Self::Certificates(verb) => verb.run(),
            Self::Mqtt(verb) => verb.run(),
        }
    }
}

impl SetRole {
    fn run(self) -> Done {
        let home = self.place.open()?;
        let text = fs::read_to_string(&self.file)
            .map_err(|error| Fault::of_io(&self.file, "read the file", &error, "give a text in UTF-8"))?;
        let name = self.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        home.set_role(&self.role, &name, &text)?;
        let devices = home.members().filter(|(_, member)| member.role == self.role).count();
        output::print(&format!(
            "{name} of the role {} is set; see `antedate fleet plan` for its {devices} device(s)\n",
            self.role
        ))
    }
}

impl SetCertificates {
    fn run(self) -> Done {
        let mut home = self.place.open()?;
        let pem = fs::read_to_string(&self.file).map_err(|error| {
            Fault::of_io(&self.file, "read the certificates", &error, "give a file of certificates (PEM)")
        })?;
        if home.fleet.certificates.is_empty() {
            let remedy = "make a fleet with `antedate fleet init --certificates FILE --tls DIR`";
            return Err(Fault::of_file(&self.file, "the fleet has no certificates", remedy).into());
        }
        if !pem.contains("-----BEGIN CERTIFICATE-----") {
            let remedy = "give a file of certificates (PEM)";
            return Err(Fault::of_file(&self.file, "is no file of certificates", remedy).into());
        }
        // Devices with certificates that fit no server would be cut off for good.
        let access = home.access_with(&pem)?;
        block_on(async { Ok(Engine::connect(&access).await.map(drop)) })?.map_err(|error| {
            let what = format!("no server is believed with these certificates: {error}");
            Fault::of_file(&self.file, what, "give a file with the present authority too, and start a server")
        })?;
        home.set_certificates(&pem)?;
        let all = home.fleet.pass_days.saturating_add(1);
        output::print(&format!(
            "the certificates are set; call `antedate fleet renew --within {all}` to tell all devices\n"
        ))
    }
}

/// The name of a group, or none.
fn is_group(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

impl SetDevice {
    fn run(self) -> Done {
        let mut home = self.place.open()?;
        let id = home.find(&self.device)?;
        let Some(member) = home.devices.get_mut(&id) else { return Ok(()) };
        for text in &self.values {
            let form = || Failure::usage(format!("\"{text}\" is no value"), "write KEY=VALUE");
            let (key, value) = text.split_once('=').ok_or_else(form)?;
            if !is_name(key) || value.contains(['\n', '\r']) {
                return Err(form());
            }
            match key {
                "name" | "id" => {
                    return Err(Failure::usage(
                        format!("`{key}` is not a value that can be set"),
                        "use another key",
                    ));
                }
                "role" if is_name(value) => member.role = value.to_owned(),
                "cell" if is_group(value) => member.cell = value.to_owned(),
                "overlay" if is_group(value) => member.overlay = value.to_owned(),
                "dtls" if is_group(value) => member.dtls = value.to_owned(),
                "mqtt" if is_group(value) => member.mqtt = value.to_owned(),
                "role" | "cell" | "overlay" | "dtls" | "mqtt" => return Err(form()),
                "hub" | "listener" | "reader" if !matches!(value, "yes" | "") => {
                    return Err(Failure::usage(
                        format!("\"{text}\" is none"),
                        format!("write {key}=yes or {key}="),
                    ));
                }
                _ if value.is_empty() => drop(member.values.remove(key)),
                _ => drop(member.values.insert(key.to_owned(), value.to_owned())),
            }
        }
        home.save()?;
        output::print(&format!("{} is set; see `antedate fleet plan`\n", self.device))
    }
}

#[derive(Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    key: Key,
    /// Devices of the first wave; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 1)]
    canaries: usize,
    /// Devices of each further wave; 0 for all at once.
    #[arg(long, value_name = "N", default_value_t = 100)]
    wave: usize,
    /// Seconds until a wave must be well.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    /// Tell all devices their settings again, changed or not.
    #[arg(long)]
    again: bool,
}

/// Finds faults of configurations before a device does. Only faults of the text: the machine is the
/// device's.
pub(super) fn check(one: &rollout::Planned) -> Result<(), Faults> {
    let Some(text) = one.settings.files.get("gateway.toml") else { return Ok(()) };
    let place = PathBuf::from(format!("{}/gateway.toml", one.name));
    Config::parse(&place, text).map(drop)
}

/// Connects and works with all keys.
fn with_rollout<T>(
    place: &Place,
    key: &Key,
    work: impl AsyncFnOnce(&mut Rollout<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut home = place.open()?;
    let (signing, reading) = (key.load(&home)?, home.reading()?);
    block_on(async {
        let engine: Engine = connect(&home).await?;
        let mut say = |line: String| output::tell(line);
        let mut rollout = Rollout {
            home: &mut home,
            engine: &engine,
            signing: &signing,
            reading: &reading,
            check: &check,
            say: &mut say,
        };
        work(&mut rollout).await
    })
}

impl Apply {
    pub(crate) fn run(self) -> Done {
        let waves =
            Waves { canaries: self.canaries, size: self.wave, patience: Duration::from_secs(self.patience) };
        with_rollout(&self.place, &self.key, async |rollout| {
            let planned = rollout::plan(rollout.home, self.again)?;
            planned.iter().try_for_each(check)?;
            if planned.is_empty() && rollout.home.left_cells()?.is_empty() {
                if groups::publish(rollout.home, groups::due(rollout.home)).await? == 0 {
                    output::print("nothing to change\n")?;
                }
                return Ok(());
            }
            let begin = Instant::now();
            let done = rollout.apply(planned, waves).await?;
            output::print(&format!(
                "{} device(s) have their settings after {:.1} s\n",
                done.applied,
                begin.elapsed().as_secs_f64()
            ))?;
            if !done.silent.is_empty() {
                let names = done.silent.join(", ");
                output::print(&format!("silent, and find them when they are back: {names}\n"))?;
            }
            // Only now: a device that went back is in its old cell still.
            for cell in rollout.follow_cells(waves.patience).await? {
                output::print(&format!("the cell {cell} has another CAK, since devices have left it\n"))?;
            }
            groups::publish(rollout.home, groups::due(rollout.home)).await.map(drop)
        })
    }
}

#[derive(Args)]
pub(crate) struct Renew {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    key: Key,
    /// The devices whose passes end within so many days. [default: half of their validity]
    #[arg(long, value_name = "DAYS")]
    within: Option<u64>,
    /// Seconds to wait for the devices.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
}

impl Renew {
    pub(crate) fn run(self) -> Done {
        with_rollout(&self.place, &self.key, async |rollout| {
            let fleet = &rollout.home.fleet;
            // Keys that end earlier than passes are renewed with them.
            let keys = if fleet.keys_days == 0 { fleet.pass_days } else { fleet.keys_days };
            let spare = fleet.pass_days.saturating_sub(keys.min(fleet.pass_days) / 2);
            let within = self.within.unwrap_or(spare);
            let leaves = leaf::renew(rollout.home, rollout.signing, within.saturating_mul(86_400))?;
            for name in &leaves {
                output::print(&format!(
                    "nats/leaf-{name}.creds, nats/leaf-{name}-system.creds: new passes; copy them to the machine of \
                     the leaf node, whose server reads them when it connects\n"
                ))?;
            }
            let planned = rollout::renewals(rollout.home, within.saturating_mul(86_400));
            if planned.is_empty() {
                if !leaves.is_empty() {
                    return Ok(());
                }
                return output::print(&format!("no pass ends within {within} day(s)\n"));
            }
            let waves = Waves { canaries: 0, size: 100, patience: Duration::from_secs(self.patience) };
            let done = rollout.apply(planned, waves).await?;
            output::print(&format!("{} device(s) have new passes\n", done.applied))?;
            if !done.silent.is_empty() {
                let names = done.silent.join(", ");
                output::print(&format!("silent, and find them when they are back: {names}\n"))?;
            }
            Ok(())
        })
    }
}

#[derive(Args)]
pub(crate) struct Rotate {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    key: Key,
    #[command(flatten)]
    group: Group,
    /// Seconds until all members must have the new keys. The two ends of a pair of an overlay have
    /// 45 at most.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Group {
    /// A cell, which gets another CAK.
    #[arg(value_name = "CELL", value_parser = name)]
    cell: Option<String>,
    /// An overlay, whose spokes get other preshared keys of WireGuard.
    #[arg(long, value_name = "NAME", value_parser = name)]
    overlay: Option<String>,
    /// A DTLS group, whose connectors get other keys.
    #[arg(long, value_name = "NAME", value_parser = name)]
    dtls: Option<String>,
    /// An MQTT group, which gets the next epoch.
    #[arg(long, value_name = "NAME", value_parser = name)]
    mqtt: Option<String>,
}

impl Rotate {
    pub(crate) fn run(self) -> Done {
        if let Some(name) = &self.group.mqtt {
            return groups::rotate(&self.place, name);
        }
        let patience = Duration::from_secs(self.patience);
        with_rollout(&self.place, &self.key, async |rollout| {
            let Group { cell, overlay, dtls, .. } = &self.group;
            let nobody = |what: &str, name: &str| {
                Err(Failure::usage(
                    format!("the {what} \"{name}\" has no members"),
                    "see `antedate fleet devices`",
                ))
            };
            let has =
                |home: &Home, of: &dyn Fn(&Member) -> bool| home.members().any(|(_, member)| of(member));
            let (what, members) = match (cell, overlay, dtls) {
                (Some(name), _, _) if !has(rollout.home, &|member| member.cell == *name) => {
                    return nobody("cell", name);
                }
                (Some(name), _, _) => {
                    (format!("cell {name} has another CAK"), rollout.rotate(name, patience).await?)
                }
                (_, Some(name), _) if !has(rollout.home, &|member| member.overlay == *name) => {
                    return nobody("overlay", name);
                }
                (_, Some(name), _) => (
                    format!("overlay {name} has other preshared keys"),
                    rollout.rotate_overlay(name, patience).await?,
                ),
                (_, _, Some(name)) if !has(rollout.home, &|member| member.dtls == *name) => {
                    return nobody("DTLS group", name);
                }
                (_, _, Some(name)) => {
                    (format!("DTLS group {name} has other keys"), rollout.rotate_dtls(name, patience).await?)
                }
                (None, None, None) => return Ok(()),
            };
            output::print(&format!("the {what}, on {members} device(s)\n"))
        })
    }
}

#[derive(Args)]
pub(crate) struct Revoke {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    key: Key,
    /// The device's name or code.
    #[arg(value_name = "DEVICE")]
    device: String,
    /// Seconds to wait for the other members of its groups.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    patience: u64,
}

impl Revoke {
    pub(crate) fn run(self) -> Done {
        with_rollout(&self.place, &self.key, async |rollout| {
            let id = rollout.home.find(&self.device)?;
            let patience = Duration::from_secs(self.patience);
            // Whatever fails here, the others get other keys.
            let saved = rollout.home.lose(&id);
            let due = groups::due(rollout.home);
            let brokers = groups::announce(due, patience);
            let (revoked, published) = tokio::join!(rollout.revoke(&id, patience), brokers);
            let published = groups::written(rollout.home, published);
            revoked?;
            saved?;
            published?;
            output::print(&format!("{} is no member any more\n", self.device))
        })
    }
}

#[derive(Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    place: Place,
    /// The file to create, readable by its owner only. It holds the keys of all groups.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Put the signing key into it too.
    #[arg(long)]
    with_signing_key: bool,
}

impl Backup {
    pub(crate) fn run(self) -> Done {
        let home: Home = self.place.open()?;
        private_file::create(&self.file, &home.pack(self.with_signing_key)?)?;
        output::print(&format!("{}: the fleet with {} device(s)\n", self.file.display(), home.devices.len()))
    }
}

#[derive(Args)]
pub(crate) struct Restore {
    #[command(flatten)]
    place: Place,
    /// The backup.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Restore {
    pub(crate) fn run(self) -> Done {
        let home = Home::unpack(&self.file, &self.place.directory)?;
        output::print(&format!(
            "{}: the fleet \"{}\" with {} device(s); next: antedate fleet apply --again\n",
            self.place.directory.display(),
            home.fleet.name,
            home.devices.len()
        ))
    }
}
