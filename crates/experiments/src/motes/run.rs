//! Finds the programs and runs them.

use super::archive;
use crate::ExperimentError;
use crate::msp430::image::Image;
use crate::msp430::{Devices, Machine};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const CORTEX_M3: &str = "thumbv7m-none-eabi";
const MSP430: &str = "msp430-none-elf";

/// Cycles before the simulator gives up; the longest program needs less than a tenth.
const LIMIT: u64 = 2_000_000_000;
/// The same for QEMU.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program's numbers by name.
pub(super) struct Numbers {
    numbers: BTreeMap<String, f64>,
    mote: &'static str,
}

impl Numbers {
    /// Parses lines of a name and a number, and subtracts the count of an empty measurement.
    fn parse(mote: &'static str, text: &str) -> Result<Self, ExperimentError> {
        let mut numbers = BTreeMap::new();
        for line in text.lines() {
            let number =
                line.split_once(' ').and_then(|(name, number)| Some((name, number.parse::<u32>().ok()?)));
            let (name, number) =
                number.ok_or_else(|| format!("{mote}: not a name and a number: `{line}`"))?;
            numbers.insert(name.to_owned(), f64::from(number));
        }
        let nothing =
            numbers.remove("nothing").ok_or_else(|| format!("{mote}: the program printed nothing"))?;
        for (name, number) in &mut numbers {
            if !name.contains("-ram-") {
                *number -= nothing;
            }
        }
        Ok(Self { numbers, mote })
    }

    /// The number of this name.
    pub(super) fn get(&self, name: &str) -> Result<f64, ExperimentError> {
        let missing = || format!("{}: no number for {name}; build the programs anew: {BUILD}", self.mote);
        self.numbers.get(name).copied().ok_or_else(|| missing().into())
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.numbers.extend(other.numbers);
    }
}

/// Profile of a program: optimised for size where a goal bounds it, ChaCha20-Poly1305 for speed.
fn profile(target: &str, name: &str) -> &'static str {
    match (target, name) {
        (CORTEX_M3, "chacha" | "chacha_holes" | "gcm_holes" | "mqtt_chacha" | "mqtt_gcm") => "fast",
        (MSP430, "chacha" | "ascon" | "chacha_holes" | "gcm_holes" | "dtls" | "slots") => "release",
        (MSP430, name) if name.starts_with("node-") => "release",
        (MSP430, _) => "small",
        _ => "release",
    }
}

const BUILD: &str = "cargo xtask firmware";

/// Footprint of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    /// Bytes of flash.
    pub(crate) flash: f64,
    /// Bytes of RAM: variables, and the deepest stack.
    pub(crate) ram: f64,
}

/// The directory with the programs of both CPUs.
pub(super) struct Programs {
    place: PathBuf,
    /// Removes what was unpacked.
    _unpacked: Option<TempDir>,
}

impl Programs {
    /// Looks in `ANTEDATE_FIRMWARE` (a directory or an archive), beside this program, in the workspace's
    /// target directory, and in the archive that was installed with this program.
    pub(super) fn find() -> Result<Self, ExperimentError> {
        if let Some(place) = std::env::var_os("ANTEDATE_FIRMWARE") {
            let place = PathBuf::from(place);
            if place.is_file() {
                return Self::unpack(&place);
            }
            return match Self::complete(&place) {
                true => Ok(Self { place, _unpacked: None }),
                false => Err(format!("ANTEDATE_FIRMWARE: no programs in {}", place.display()).into()),
            };
        }
        let own = std::env::current_exe().unwrap_or_default();
        let prefixes: Vec<&Path> = own.ancestors().skip(2).take(2).collect();
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        let places = prefixes.iter().map(|dir| dir.join("firmware")).chain([target.join("firmware")]);
        if let Some(place) = places.into_iter().find(|place| Self::complete(place)) {
            return Ok(Self { place, _unpacked: None });
        }
        let installed = prefixes.first().map(|prefix| prefix.join(archive::PLACE));
        match installed.filter(|archive| archive.is_file()) {
            Some(archive) => Self::unpack(&archive),
            None => Err(format!(
                "the programs of the motes are missing: `{BUILD}` in the workspace builds them; an installed \
                 antedate has them in {} beside its bin; ANTEDATE_FIRMWARE names another directory or archive",
                archive::PLACE
            )
            .into()),
        }
    }

    fn unpack(archive: &Path) -> Result<Self, ExperimentError> {
        let wrong = |error: std::io::Error| ExperimentError::from(format!("{}: {error}", archive.display()));
        let unpacked = tempfile::Builder::new().prefix("antedate-lab-motes-").tempdir().map_err(wrong)?;
        archive::unpack(archive, unpacked.path()).map_err(wrong)?;
        let place = unpacked.path().to_owned();
        if !Self::complete(&place) {
            return Err(format!("{}: no programs of the motes", archive.display()).into());
        }
        Ok(Self { place, _unpacked: Some(unpacked) })
    }

    fn complete(place: &Path) -> bool {
        [CORTEX_M3, MSP430]
            .iter()
            .all(|target| place.join(target).join(profile(target, "ccm")).join("ccm").is_file())
    }

    fn path(&self, target: &str, name: &str) -> PathBuf {
        self.place.join(target).join(profile(target, name)).join(name)
    }

    fn image(&self, target: &str, name: &str) -> Result<Image, ExperimentError> {
        let path = self.path(target, name);
        Image::read(&path)
            .map_err(|error| format!("{}: {error}; build it anew: {BUILD}", path.display()).into())
    }

    /// Runs a program on the simulated MSP430.
    pub(super) fn msp430(&self, name: &str, devices: Devices) -> Result<Numbers, ExperimentError> {
        Numbers::parse("MSP430", &self.on_msp430(name, devices)?)
    }

    fn on_msp430(&self, name: &str, devices: Devices) -> Result<String, ExperimentError> {
        let image = self.image(MSP430, name)?;
        let wrong = |what: String| ExperimentError::from(format!("{name} on the MSP430: {what}"));
        let mut machine = Machine::with(&image, devices).map_err(|error| wrong(error.to_string()))?;
        match machine.run(LIMIT) {
            Ok(finished) if finished.code == 0 => Ok(finished.output),
            Ok(finished) => Err(wrong(meaning(i32::from(finished.code)))),
            Err(stop) => Err(wrong(stop.to_string())),
        }
    }

    /// Runs a program on QEMU's Cortex-M3.
    pub(super) fn cortex_m3(&self, name: &str) -> Result<Numbers, ExperimentError> {
        Numbers::parse("Cortex-M3", &self.on_cortex_m3(name)?)
    }

    fn on_cortex_m3(&self, name: &str) -> Result<String, ExperimentError> {
        let mut command = Command::new("qemu-system-arm");
        command
            .args([
                "-M",
                "mps2-an385",
                "-icount",
                "shift=0",
                "-display",
                "none",
                "-monitor",
                "none",
                "-serial",
                "none",
            ])
            .args([
                "-chardev",
                "stdio,id=console",
                "-semihosting-config",
                "enable=on,target=native,chardev=console",
            ])
            .arg("-kernel")
            .arg(self.path(CORTEX_M3, name))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let wrong = |what: String| ExperimentError::from(format!("{name} on QEMU's Cortex-M3: {what}"));
        let mut child = command
            .spawn()
            .map_err(|error| wrong(format!("qemu-system-arm: {error}; apt-get install qemu-system-arm")))?;
        // Threads read the pipes, so a talkative program cannot block.
        let read = |pipe: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                if let Some(mut pipe) = pipe {
                    let _ = pipe.read_to_end(&mut text);
                }
                String::from_utf8_lossy(&text).into_owned()
            })
        };
        let out = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
        let errors = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
        let end = Instant::now() + PATIENCE;
        let status = loop {
            match child.try_wait().map_err(|error| wrong(error.to_string()))? {
                Some(status) => break Some(status),
                None if Instant::now() > end => break None,
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        if status.is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let (out, errors) = (out.join().unwrap_or_default(), errors.join().unwrap_or_default());
        match status {
            Some(status) if status.success() => Ok(out),
            Some(status) => {
                let code = status.code().map_or_else(|| status.to_string(), meaning);
                Err(wrong(format!("{code} {}", errors.trim()).trim_end().to_owned()))
            }
            None => Err(wrong(format!("not done after {} s", PATIENCE.as_secs()))),
        }
    }

    /// Footprint of a node's program on the Cortex-M3 or the MSP430, after a run.
    pub(super) fn footprint(&self, cortex_m3: bool, name: &str) -> Result<Footprint, ExperimentError> {
        let (target, said) = if cortex_m3 {
            (CORTEX_M3, self.on_cortex_m3(name)?)
        } else {
            // The engine is the paper's; its time does not matter here.
            (MSP430, self.on_msp430(name, Devices { aes_cycles: Some(1), ..Devices::default() })?)
        };
        let stack = said.trim().strip_prefix("node-ram-stack ").and_then(|bytes| bytes.parse::<f64>().ok());
        let stack = stack.ok_or_else(|| format!("{name}: no depth of the stack: `{}`", said.trim()))?;
        let image = self.image(target, name)?;
        Ok(Footprint { flash: image.size() as f64, ram: image.variables as f64 + stack })
    }

    /// Runs the programs whose sizes are compared; the size of a failing program means nothing.
    pub(super) fn runs(&self) -> Result<(), ExperimentError> {
        for name in ["smallest", "nothing"] {
            self.on_msp430(name, Devices::default())?;
            self.on_cortex_m3(name)?;
        }
        Ok(())
    }

    /// Size of the sensor's program over the one without cryptography: Cortex-M3, MSP430.
    pub(super) fn code_sizes(&self) -> Result<[usize; 2], ExperimentError> {
        let mut sizes = [0; 2];
        for (size, target) in sizes.iter_mut().zip([CORTEX_M3, MSP430]) {
            let (with, without) = (self.image(target, "smallest")?, self.image(target, "nothing")?);
            *size = with.size().saturating_sub(without.size());
        }
        Ok(sizes)
    }
}

/// Meaning of a program's exit code.
fn meaning(code: i32) -> String {
    match code {
        1 => "a known answer did not come out".into(),
        2 => "a routine of the compiler's library is wrong".into(),
        3 => "the program panicked".into(),
        4 => "what must fit did not".into(),
        5 => "a fault of the CPU".into(),
        code => format!("exit code {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_overhead_is_subtracted() {
        let numbers =
            Numbers::parse("mote", "nothing 7\naes-128-block 539\nccm8-ram-127 216\n").expect("numbers");
        assert_eq!(numbers.get("aes-128-block").ok(), Some(532.0));
        assert_eq!(numbers.get("ccm8-ram-127").ok(), Some(216.0), "bytes are not counted by the counter");
        assert!(numbers.get("else").is_err_and(|error| error.to_string().contains(BUILD)));
    }

    #[test]
    fn malformed_output_is_refused() {
        for text in ["", "nothing", "nothing x\n", "a 1\n", "nothing 1\nqemu: fatal\n"] {
            assert!(Numbers::parse("mote", text).is_err(), "{text}");
        }
    }
}
