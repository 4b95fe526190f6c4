//! A QEMU guest with a minimal Linux system: built from Debian packages, driven over a serial line.
//!
//! Nothing is installed: `apt-get download` fetches packages, which are unpacked below the target
//! directory. The guest's `init` reads a command per line from its second serial port, runs it, and
//! ends the answer with its status.

use crate::place;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};
use xtask::shell::{Background, Run, until};

mod cpio;
mod cpu;
mod image;
mod modules;
pub(crate) use cpu::{AARCH64, ARMV7, Cpu};
pub(crate) use image::{Image, build, build_for};

pub(crate) struct Guest {
    machine: Background,
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Guest {
    /// Boots the image with a network card on the TAP device `tap`. `wrap` is a command that runs
    /// QEMU in the right namespace.
    pub(crate) fn boot(image: &Image, mut wrap: Command, tap: &str, mac: &str) -> Result<Guest, String> {
        wrap.args(["-netdev", &format!("tap,id=net,ifname={tap},script=no,downscript=no,vhost=off")]);
        // Fits a full field frame and MACsec's overhead.
        wrap.args(["-device", &format!("virtio-net-pci,netdev=net,mac={mac},romfile=,host_mtu=1600")]);
        Guest::start(image, wrap)
    }

    /// Boots the image with two network cards, each given by its TAP device and address.
    pub(crate) fn boot_between(
        image: &Image,
        mut wrap: Command,
        cards: &[(&str, String); 2],
    ) -> Result<Guest, String> {
        for (at, (tap, mac)) in cards.iter().enumerate() {
            wrap.args(["-netdev", &format!("tap,id=net{at},ifname={tap},script=no,downscript=no,vhost=off")]);
            wrap.args(["-device", &format!("virtio-net-pci,netdev=net{at},mac={mac},romfile=")]);
        }
        Guest::start(image, wrap)
    }

    /// Boots the image without a network.
    pub(crate) fn boot_alone(image: &Image) -> Result<Guest, String> {
        let mut qemu = image.cpu.qemu();
        qemu.args(["-nic", "none"]);
        Guest::start(image, qemu)
    }

    /// Boots the image without a network and with a clock that counts instructions: each takes a
    /// nanosecond, and idle time passes at once. Times then measure work, are the same in each run,
    /// and do not depend on the load of this machine.
    pub(crate) fn boot_counting(image: &Image) -> Result<Guest, String> {
        let mut qemu = image.cpu.qemu();
        qemu.args(["-nic", "none", "-icount", "shift=0,sleep=off"]);
        Guest::start(image, qemu)
    }

    pub(crate) fn load_radios(&mut self) -> Result<(), String> {
        self.load("radios")
    }

    pub(crate) fn load_tunnels(&mut self) -> Result<(), String> {
        self.load("tunnels")
    }

    fn load(&mut self, list: &str) -> Result<(), String> {
        let line = format!("while read -r m; do insmod /mods/$m || echo $m failed; done </mods/{list}");
        let said = self.run(&line)?;
        if said.contains("failed") { Err(format!("the guest's modules: {said}")) } else { Ok(()) }
    }

    fn start(image: &Image, mut wrap: Command) -> Result<Guest, String> {
        let cpu = image.cpu;
        let dir = place::run()?;
        let socket = dir.join("serial.sock");
        let _ = fs::remove_file(&socket);
        let (port, device) = cpu.port;
        wrap.args(cpu.machine).args(["-m", "256", "-smp", "1"]);
        wrap.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"]);
        wrap.arg("-kernel").arg(&image.kernel).arg("-initrd").arg(&image.initrd);
        // The kernel passes unknown parameters to `init` as variables.
        let told = format!(
            "{} quiet loglevel=4 panic=-1 random.trust_cpu=on ipv6.disable=1 port={port}",
            cpu.append
        );
        wrap.args(["-append", &told]);
        wrap.args(["-device", "virtio-rng-pci"]);
        wrap.args(["-chardev", &format!("socket,id=agent,path={},server=on,wait=off", socket.display())]);
        wrap.args(["-device", &format!("{device},chardev=agent")]);
        let start = Instant::now();
        let mut machine = wrap.background(&dir.join("console.log"))?;
        let stream = until("QEMU's serial socket", 10.0, || UnixStream::connect(&socket).ok())?;
        // A guest that counts instructions takes ten times as long to boot.
        stream.set_read_timeout(Some(Duration::from_secs(240))).map_err(|e| e.to_string())?;
        let writer = stream.try_clone().map_err(|e| e.to_string())?;
        let mut guest = Guest {
            machine: {
                machine.alive()?;
                machine
            },
            reader: BufReader::new(stream),
            writer,
        };
        guest.answer()?;
        println!(
            "   guest up in {:.1} s: {}",
            start.elapsed().as_secs_f64(),
            guest.run("cat /proc/version")?.trim()
        );
        Ok(guest)
    }

    /// Runs a shell command in the guest; an error unless it succeeds.
    pub(crate) fn run(&mut self, command: &str) -> Result<String, String> {
        let (status, output) = self.attempt(command)?;
        if status == 0 { Ok(output) } else { Err(format!("guest: {command}: status {status}\n{output}")) }
    }

    /// Runs a shell command in the guest; returns its status and output.
    pub(crate) fn attempt(&mut self, command: &str) -> Result<(i32, String), String> {
        self.writer.write_all(format!("{command}\n").as_bytes()).map_err(|e| format!("guest: {e}"))?;
        self.answer().map_err(|e| format!("guest: {command}: {e}"))
    }

    fn answer(&mut self) -> Result<(i32, String), String> {
        let mut output = String::new();
        loop {
            let mut line = Vec::new();
            let read = self.reader.read_until(b'\n', &mut line);
            if !matches!(read, Ok(n) if n > 0) {
                let _ = self.machine.alive();
                return Err(format!("no answer\n{}", xtask::shell::tail(&self.machine.output(), 20)));
            }
            let line = String::from_utf8_lossy(&line);
            match line.trim_end().strip_prefix("\x01done ") {
                Some(status) => return Ok((status.parse().unwrap_or(-1), output)),
                None => output.push_str(&line),
            }
        }
    }
}
