//! An MQTT group of the sites on Debian's Mosquitto: one publishes, two read, of which one is lost.

use super::cluster::fleet;
use super::{END, PATIENCE};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use xtask::shell::{Background, Run, antedate, program, tail, until};

/// The broker's port.
const PORT: u16 = 4796;
/// The topic of the publisher.
const TOPIC: &str = "plant/north";

/// Makes the group, and a broker with its access list, and brings the devices their keys. `apply` brings
/// all settings. The broker starts late.
pub(super) fn start(dir: &Path) -> Result<Background, String> {
    let file = dir.join("sensors.toml");
    let mut keygen = program(antedate());
    keygen.args(["keygen", "mqtt", "--group", "sensors", "--topic", "plant/#", "--managed", "--out"]);
    keygen.arg(&file).read(END)?;
    let mut set = program(antedate());
    set.args(["fleet", "set", "mqtt", "sensors"]).arg(&file).arg("--directory").arg(dir.join("fleet"));
    set.args(["--", "-h", "127.0.0.1", "-p", &PORT.to_string(), "-u", "manager"]).read(END)?;
    for site in ["centre", "north", "south"] {
        let reader = if site == "north" { "reader=" } else { "reader=yes" };
        fleet(dir, &["set", "device", site, "mqtt=sensors", reader])?;
    }
    let Err(said) = fleet(dir, &["apply", "--canaries", "0", "--wave", "0"]) else {
        return Err("nobody misses the broker of an MQTT group".into());
    };
    if !said.contains("MQTT group(s) sensors may lack the newest key") {
        return Err(format!("settings without a broker: {said}"));
    }
    let access = dir.join("fleet/mqtt/sensors.acl");
    let conf = dir.join("mosquitto.conf");
    let text = format!(
        "listener {PORT} 127.0.0.1\nallow_anonymous true\nacl_file {}\nuser root\nlog_dest stderr\n",
        access.display()
    );
    fs::write(&conf, text).map_err(|e| e.to_string())?;
    let mut broker = program("/usr/sbin/mosquitto");
    let mut broker = broker.arg("-c").arg(&conf).background(&dir.join("mosquitto.log"))?;
    until("the broker", PATIENCE, || match broker.alive() {
        Err(why) => Some(Err(why)),
        Ok(()) => broker.output().contains("running").then_some(Ok(())),
    })??;
    let said = fleet(dir, &["apply"])?;
    if !said.contains("epoch 1 for 3 members") {
        return Err(format!("the first keys are not published:\n{said}"));
    }
    Ok(broker)
}

/// `antedate mqtt` with the files of a device.
fn client(place: &Path, verb: &str, name: &str) -> Command {
    let files = place.join("files");
    let mut client = program(antedate());
    client.args(["mqtt", verb, "--agent", "-h", "127.0.0.1", "-p", &PORT.to_string(), "-u", name, "-q", "1"]);
    client.arg("--keys").arg(files.join("mqtt.toml")).arg("--device").arg(files.join("mqtt.device"));
    client
}

/// The programs of the group: numbers are published, one each 5 ms, and read at two sites.
pub(super) struct Flow {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    writer: JoinHandle<Result<(), String>>,
    publisher: Background,
    /// That of the site that stays, and that of the one that is lost.
    readers: [Background; 2],
}

/// Epoch and number of each payload that a reader printed.
fn read(reader: &Background) -> Vec<(u32, u64)> {
    let line = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let [publisher, epoch, .., number] = &words[..] else { return None };
        (publisher == "north").then_some((epoch.parse().ok()?, number.parse().ok()?))
    };
    reader.output().lines().filter_map(line).collect()
}

fn write(mut into: ChildStdin, stop: &AtomicBool, sent: &AtomicU64) -> Result<(), String> {
    while !stop.load(Ordering::Acquire) {
        writeln!(into, "{}", sent.load(Ordering::Acquire)).map_err(|e| format!("the publisher: {e}"))?;
        sent.fetch_add(1, Ordering::AcqRel);
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

impl Flow {
    /// Starts them at the sites `centre`, `north` and `south`.
    pub(super) fn start([centre, north, south]: [&PathBuf; 3]) -> Result<Self, String> {
        let reader = |place: &Path, name: &str| {
            let mut reader = client(place, "sub", name);
            reader.args(["--origin", "-t", "plant/#"]).background(&place.join("mqtt.log"))
        };
        let readers = [reader(centre, "centre")?, reader(south, "south")?];
        let state = north.join("mqtt");
        program(antedate()).args(["mqtt", "init"]).arg(&state).read(END)?;
        let mut publisher = client(north, "pub", "north");
        publisher.arg("--state").arg(state).args(["-t", TOPIC, "-l"]);
        let (publisher, into) = publisher.piped(&north.join("mqtt.log"))?;
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ended, count) = (Arc::clone(&stop), Arc::clone(&sent));
        let writer = thread::spawn(move || write(into, &ended, &count));
        let flow = Self { stop, sent, writer, publisher, readers };
        flow.until_read("payloads of the first epoch", 1, &[0, 1])?;
        Ok(flow)
    }

    /// Waits until these readers have some payloads of an epoch.
    fn until_read(&self, what: &str, epoch: u32, readers: &[usize]) -> Result<(), String> {
        let has = |at: &usize| read(&self.readers[*at]).iter().filter(|(of, _)| *of == epoch).count() > 50;
        until(what, PATIENCE, || readers.iter().all(has).then_some(())).map_err(|why| {
            let logs = self.readers.iter().chain([&self.publisher]).map(|one| tail(&one.output(), 4));
            format!("{why}\n{}", logs.collect::<Vec<_>>().join("\n"))
        })
    }

    /// Changes the epoch, and judges that no payload is lost at either reader.
    pub(super) fn rotate(&self, dir: &Path, note: &mut dyn FnMut(String)) -> Result<(), String> {
        fleet(dir, &["rotate", "--mqtt", "sensors"])?;
        self.until_read("payloads of the second epoch", 2, &[0, 1])?;
        for reader in &self.readers {
            let numbers: Vec<u64> = read(reader).into_iter().map(|(_, number)| number).collect();
            // A reader that subscribed late has missed the first ones.
            let (first, count) = (numbers.first().copied().unwrap_or_default(), numbers.len() as u64);
            if numbers.iter().copied().ne(first..first + count) {
                return Err(format!("payloads of MQTT were lost while the epoch changed: {numbers:?}"));
            }
        }
        let count = read(&self.readers[0]).len();
        note(format!("the next epoch of an MQTT group under traffic: 0 of {count} payloads lost"));
        Ok(())
    }

    /// After the loss of the south: it is not told the third epoch, and its broker may read nothing of it.
    pub(super) fn lost(self, dir: &Path, note: &mut dyn FnMut(String)) -> Result<(), String> {
        self.until_read("payloads of the third epoch", 3, &[0])?;
        self.stop.store(true, Ordering::Release);
        self.writer.join().map_err(|_| "the writer panicked".to_owned())??;
        self.publisher.finish(END)?;
        let last = self.sent.load(Ordering::Acquire).saturating_sub(1);
        until("the last payload", PATIENCE, || {
            read(&self.readers[0]).last().filter(|(_, number)| *number == last).map(drop)
        })?;
        let [centre, south] = self.readers;
        let opened = read(&centre).iter().filter(|(epoch, _)| *epoch == 3).count();
        // The broker has not read its new access list: it still passes envelopes on to the south.
        let said = south.output();
        if read(&south).iter().any(|(epoch, _)| *epoch > 2) || !said.contains(TOPIC) {
            return Err(format!("the lost reader opens what comes after:\n{}", tail(&said, 4)));
        }
        let access = fs::read_to_string(dir.join("fleet/mqtt/sensors.acl")).map_err(|e| e.to_string())?;
        if access.contains("south") || !access.contains("user north") {
            return Err(format!("the access list after a revocation:\n{access}"));
        }
        note(format!(
            "a lost reader opens none of {opened} payloads after its revocation, and has no right at the broker"
        ));
        centre.stop(END)?;
        south.stop(END).map(drop)
    }
}
