//! A QEMU guest that is a Linux kernel and little else: built from Debian packages, driven over a serial line.
//!
//! Nothing is installed: packages are fetched with `apt-get download` and unpacked below the target directory. The
//! guest's `init` reads a command per line from its second serial port, runs it, and ends the answer with its status.

use crate::shell::{Background, Run, cache, program, root, until};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Packages beside the kernel: the programs of the guest. Their libraries come with their dependencies.
const PACKAGES: [&str; 7] =
    ["busybox-static", "dash", "iproute2", "iputils-ping", "wireguard-tools", "wpan-tools", "wpasupplicant"];
/// Where each program is taken from, and its name in the guest. Debian's busybox shell would run its own `ip` and
/// `ping` instead of the real ones, so the shell is dash.
const PROGRAMS: [(&[&str], &str); 7] = [
    (&["bin/busybox", "usr/bin/busybox"], "busybox"),
    (&["bin/dash", "usr/bin/dash"], "sh"),
    (&["bin/ip", "usr/bin/ip", "sbin/ip", "usr/sbin/ip"], "ip"),
    (&["bin/ping", "usr/bin/ping"], "ping"),
    (&["sbin/wpa_supplicant", "usr/sbin/wpa_supplicant"], "wpa_supplicant"),
    (&["usr/bin/wg", "bin/wg"], "wg"),
    (&["usr/bin/iwpan", "usr/sbin/iwpan"], "iwpan"),
];
const APPLETS: [&str; 12] =
    ["mount", "insmod", "cat", "stty", "poweroff", "sleep", "mkdir", "sed", "echo", "grep", "kill", "tail"];
/// What MACsec needs; `ctr` and `ghash-generic` are asked for by name at run time, which no dependency shows.
const MODULES: [&str; 8] = [
    "virtio_pci",
    "virtio_net",
    "ctr",
    "ghash-generic",
    "gcm",
    "aesni-intel",
    "ghash-clmulni-intel",
    "macsec",
];

/// What IEEE 802.15.4 needs, loaded by [`Guest::load_radios`] alone: two simulated radios that hear each other, and sockets.
const RADIOS: [&str; 5] = ["ctr", "ccm", "cmac", "mac802154_hwsim", "ieee802154_socket"];
/// What tunnels between bridges need, L2TPv3 and VXLAN over WireGuard, loaded by [`Guest::load_tunnels`] alone.
const TUNNELS: [&str; 9] =
    ["af_packet", "veth", "bridge", "l2tp_core", "l2tp_netlink", "l2tp_ip", "l2tp_eth", "vxlan", "wireguard"];
/// Our program of the guest.
const WPAN: &str = "peers/kernel-wpan/wpan.c";

/// A kernel image and an initial RAM disk.
pub(crate) struct Image {
    kernel: PathBuf,
    initrd: PathBuf,
}

/// Builds the image, or takes the one that is there.
pub(crate) fn build() -> Result<Image, String> {
    let dir = cache("peers/guest")?;
    let image = Image { kernel: dir.join("vmlinux"), initrd: dir.join("initrd") };
    let init = root().join("peers/kernel-macsec/init");
    // The recipe is part of the cache's key: a changed list or init builds anew.
    let text = |path: &Path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let recipe = format!(
        "{PACKAGES:?}{PROGRAMS:?}{APPLETS:?}{MODULES:?}{RADIOS:?}{TUNNELS:?}{}{}",
        text(&init)?,
        text(&root().join(WPAN))?
    );
    let stamp = dir.join("recipe");
    if image.kernel.exists() && image.initrd.exists() && fs::read_to_string(&stamp).is_ok_and(|s| s == recipe)
    {
        return Ok(image);
    }
    let kernel_package = kernel_package()?;
    let tree = unpack(&dir, &kernel_package)?;
    fs::write(&image.kernel, decompress(&find_kernel(&tree.join("boot"))?)?).map_err(|e| e.to_string())?;
    let mut archive = Cpio::default();
    for name in ["bin", "dev", "lib", "lib/x86_64-linux-gnu", "lib64", "mods", "proc", "run", "sys", "tmp"] {
        archive.entry(name, 0o040755, &[]);
    }
    let mut programs = Vec::new();
    for (places, name) in PROGRAMS {
        let path = first_file(&tree, places).ok_or(format!("no {name} in the packages"))?;
        archive.file(&format!("bin/{name}"), &path)?;
        programs.push(path);
    }
    for applet in APPLETS {
        archive.entry(&format!("bin/{applet}"), 0o120777, b"busybox");
    }
    for (name, path) in libraries(&tree, &programs)? {
        let place = if name.starts_with("ld-linux") { "lib64" } else { "lib/x86_64-linux-gnu" };
        archive.file(&format!("{place}/{name}"), &path)?;
    }
    archive.file("bin/wpan", &wpan(&dir)?)?;
    let mut done = BTreeSet::new();
    for (list, wanted) in [("order", &MODULES[..]), ("radios", &RADIOS[..]), ("tunnels", &TUNNELS[..])] {
        let mut order = String::new();
        for (name, bytes) in modules(&tree, wanted, &mut done)? {
            archive.entry(&format!("mods/{name}"), 0o100644, &bytes);
            order.push_str(&format!("{name}\n"));
        }
        archive.entry(&format!("mods/{list}"), 0o100644, order.as_bytes());
    }
    archive.entry("init", 0o100755, &fs::read(&init).map_err(|e| e.to_string())?);
    fs::write(&image.initrd, archive.finish()).map_err(|e| e.to_string())?;
    fs::write(&stamp, recipe).map_err(|e| e.to_string())?;
    println!("   guest built from {kernel_package} in {}", dir.display());
    Ok(image)
}

impl Image {
    /// The image with a program of this machine and files beside it: their places in the guest, modes and contents.
    pub(crate) fn with(&self, path: &Path, files: &[(&str, u32, &str)]) -> Result<Image, String> {
        let dir = cache("peers/guest")?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let plain = dir.join(format!("{name}.stripped"));
        program("strip").arg("-o").arg(&plain).arg(path).read(60)?;
        let mut archive = Cpio::default();
        archive.file(&format!("bin/{name}"), &plain)?;
        for (library, file) in libraries(&dir.join("tree"), &[plain])? {
            let place = if library.starts_with("ld-linux") { "lib64" } else { "lib/x86_64-linux-gnu" };
            archive.file(&format!("{place}/{library}"), &file)?;
        }
        archive.entry("etc", 0o040755, &[]);
        for (place, mode, text) in files {
            archive.entry(place, 0o100000 | mode, text.as_bytes());
        }
        // The kernel unpacks one archive after the other.
        let mut bytes = fs::read(&self.initrd).map_err(|e| e.to_string())?;
        bytes.extend(archive.finish());
        let initrd = dir.join(format!("initrd-{name}"));
        fs::write(&initrd, bytes).map_err(|e| e.to_string())?;
        Ok(Image { kernel: self.kernel.clone(), initrd })
    }
}

/// Compiles our program so that it needs no library of the guest.
fn wpan(dir: &Path) -> Result<PathBuf, String> {
    let out = dir.join("wpan");
    program("cc").args(["-O2", "-Wall", "-Wextra", "-static", "-o"]).arg(&out).arg(WPAN).read(60)?;
    Ok(out)
}

fn kernel_package() -> Result<String, String> {
    let depends = program("apt-cache").args(["depends", "linux-image-amd64"]).read(60)?;
    let name = depends
        .lines()
        .find_map(|l| l.trim().strip_prefix("Depends: ").filter(|n| n.starts_with("linux-image-")));
    name.map(str::to_string).ok_or("apt-cache knows no linux-image-amd64; `apt-get update` first".into())
}

fn unpack(dir: &Path, kernel: &str) -> Result<PathBuf, String> {
    let debs = dir.join("debs");
    let tree = dir.join("tree");
    // Whatever an interrupted or older build left must not mix with this one.
    let _ = fs::remove_dir_all(&tree);
    let _ = fs::remove_dir_all(&debs);
    fs::create_dir_all(&debs).map_err(|e| e.to_string())?;
    let depends =
        program("apt-cache").args(["depends", "--recurse", "--important"]).args(PACKAGES).read(60)?;
    // Package names stand at the line's start, relations are indented, virtual packages in angle brackets; and a
    // library's package never needs Debian's installation machinery to be loaded.
    let is_library = |n: &&str| n.starts_with("lib") || *n == "zlib1g" || PACKAGES.contains(n);
    let packages: BTreeSet<&str> = depends.lines().filter(|l| !l.contains(':')).filter(is_library).collect();
    let fetch = || {
        let mut command = program("apt-get");
        command
            .current_dir(&debs)
            .args(["-qq", "-o", "APT::Sandbox::User=root", "download", kernel])
            .args(&packages);
        command.read(240)
    };
    if let Err(first) = fetch() {
        // Old kernels leave the mirror on security updates: a stale index names what is no longer there.
        program("apt-get").args(["-qq", "update"]).read(120).map_err(|e| format!("{first}\n{e}"))?;
        fetch()?;
    }
    for deb in files(&debs)? {
        program("dpkg-deb").arg("-x").arg(deb).arg(&tree).read(120)?;
    }
    Ok(tree)
}

fn files(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut all: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    all.sort();
    Ok(all)
}

fn first_file(tree: &Path, places: &[&str]) -> Option<PathBuf> {
    places.iter().map(|p| tree.join(p)).find(|p| p.is_file())
}

fn find_kernel(boot: &Path) -> Result<PathBuf, String> {
    let is_image = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("vmlinuz"));
    files(boot)?.into_iter().find(is_image).ok_or(format!("no kernel in {}", boot.display()))
}

/// The ELF image inside a bzImage. QEMU starts it directly (PVH), which saves the guest its slow decompression.
/// The header gives the payload's place (Linux x86 boot protocol, `setup_sects`, `payload_offset`, `payload_length`).
fn decompress(image: &Path) -> Result<Vec<u8>, String> {
    let bytes = fs::read(image).map_err(|e| format!("{}: {e}", image.display()))?;
    let word =
        |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
    let sectors = bytes.get(0x1f1).map(|s| if *s == 0 { 4 } else { usize::from(*s) });
    let payload = (|| {
        let start = (sectors? + 1) * 512 + word(0x248)?;
        // The last four bytes are the size once unpacked.
        bytes.get(start..start + word(0x24c)? - 4)
    })();
    let payload = payload.ok_or("the kernel image has no payload")?;
    let tool = match payload {
        [0xfd, b'7', b'z', ..] => "xz",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        [0x1f, 0x8b, ..] => "gzip",
        other => {
            return Err(format!("the kernel is compressed in a way not known here: {:02x?}", &other[..4]));
        }
    };
    let packed = image.with_extension("payload");
    let plain = image.with_extension("elf");
    fs::write(&packed, payload).map_err(|e| e.to_string())?;
    let script = format!("{tool} -dc < '{}' > '{}' 2>/dev/null; true", packed.display(), plain.display());
    program("sh").args(["-c", &script]).read(60)?;
    let elf = fs::read(&plain).map_err(|e| e.to_string())?;
    if elf.starts_with(b"\x7fELF") { Ok(elf) } else { Err(format!("{tool} gave no ELF image")) }
}

/// The shared libraries that the programs load, from the unpacked packages alone.
fn libraries(tree: &Path, programs: &[PathBuf]) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut found = BTreeMap::new();
    let mut queue = programs.to_vec();
    while let Some(path) = queue.pop() {
        let headers = program("objdump").arg("-p").arg(&path).read(20).unwrap_or_default();
        for name in headers.lines().filter_map(|l| l.trim().strip_prefix("NEEDED")).map(str::trim) {
            if found.contains_key(name) {
                continue;
            }
            let places = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64", "usr/lib64"];
            let file = places.iter().map(|p| tree.join(p).join(name)).find(|p| p.is_file());
            let file = file.ok_or(format!("no package of the guest has {name}"))?;
            queue.push(file.clone());
            found.insert(name.to_string(), file);
        }
    }
    let loader = "ld-linux-x86-64.so.2";
    let places = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64"];
    let file =
        places.iter().map(|p| tree.join(p).join(loader)).find(|p| p.is_file()).ok_or("no dynamic loader")?;
    found.insert(loader.to_string(), file);
    Ok(found)
}

/// The wanted modules with their dependencies first, unpacked, without those that are `done`. Modules carry their dependencies in their `.modinfo`
/// section, so no `depmod` is needed.
fn modules(
    tree: &Path,
    wanted: &[&str],
    done: &mut BTreeSet<String>,
) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut at = BTreeMap::new();
    let mut queue = vec![
        first_dir(tree, &["lib/modules", "usr/lib/modules"]).ok_or("the kernel package has no modules")?,
    ];
    while let Some(dir) = queue.pop() {
        for path in files(&dir)? {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_dir() {
                queue.push(path);
            } else if let Some((stem, _)) = name.split_once(".ko") {
                at.insert(stem.replace('-', "_"), path);
            }
        }
    }
    let mut order = Vec::new();
    for name in wanted {
        load(&name.replace('-', "_"), &at, done, &mut order)?;
    }
    Ok(order)
}

fn first_dir(tree: &Path, places: &[&str]) -> Option<PathBuf> {
    places.iter().map(|p| tree.join(p)).find(|p| p.is_dir())
}

fn load(
    name: &str,
    at: &BTreeMap<String, PathBuf>,
    done: &mut BTreeSet<String>,
    order: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), String> {
    // A name without a file is built into the kernel.
    let Some(path) = at.get(name) else { return Ok(()) };
    if !done.insert(name.to_string()) {
        return Ok(());
    }
    let file = path.display().to_string();
    let plain = if file.ends_with(".xz") || file.ends_with(".zst") {
        let tool = if file.ends_with(".xz") { "xz" } else { "zstd" };
        let plain = path.with_extension("plain");
        program("sh").args(["-c", &format!("{tool} -dc < '{file}' > '{}'", plain.display())]).read(20)?;
        plain
    } else {
        path.clone()
    };
    let bytes = fs::read(&plain).map_err(|e| format!("{}: {e}", plain.display()))?;
    for needed in modinfo(&bytes, b"depends=").split(',').filter(|n| !n.is_empty()) {
        load(&needed.replace('-', "_"), at, done, order)?;
    }
    order.push((format!("{name}.ko"), bytes));
    Ok(())
}

fn modinfo(module: &[u8], key: &[u8]) -> String {
    let starts = |w: &[u8]| w[0] == 0 && &w[1..] == key;
    let Some(at) = module.windows(key.len() + 1).position(starts) else { return String::new() };
    let value = &module[at + key.len() + 1..];
    let end = value.iter().position(|b| *b == 0).unwrap_or(0);
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// A cpio archive in the form that the kernel unpacks (`newc`).
#[derive(Default)]
struct Cpio {
    bytes: Vec<u8>,
    inode: u32,
}

impl Cpio {
    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.inode += 1;
        let length = data.len();
        // inode, mode, uid, gid, links, mtime, size, dev (2), rdev (2), name's length with its end, checksum
        let fields = [self.inode, mode, 0, 0, 1, 0, length as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(data);
        self.pad();
    }

    fn file(&mut self, name: &str, path: &Path) -> Result<(), String> {
        let data = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mode = fs::metadata(path).map_err(|e| e.to_string())?.permissions().mode();
        self.entry(name, 0o100000 | (mode & 0o777), &data);
        Ok(())
    }

    fn pad(&mut self) {
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

/// A running guest.
pub(crate) struct Guest {
    machine: Background,
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Guest {
    /// Boots the image with a network card on the TAP device `tap`, by way of `wrap` (a command that runs QEMU in the
    /// right namespace).
    pub(crate) fn boot(image: &Image, mut wrap: Command, tap: &str, mac: &str) -> Result<Guest, String> {
        wrap.args(["-netdev", &format!("tap,id=net,ifname={tap},script=no,downscript=no,vhost=off")]);
        // Room for a full field frame and what MACsec adds.
        wrap.args(["-device", &format!("virtio-net-pci,netdev=net,mac={mac},romfile=,host_mtu=1600")]);
        Guest::start(image, wrap)
    }

    /// Boots the image with two network cards, each on a TAP device: its name, and the card's address.
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
        let mut qemu = program("qemu-system-x86_64");
        qemu.args(["-nic", "none"]);
        Guest::start(image, qemu)
    }

    /// Boots the image without a network, and with a clock that counts instructions: each takes a nanosecond, and idle time
    /// passes at once. Times then say how much is done, the same in each run, and not how busy this machine is.
    pub(crate) fn boot_counting(image: &Image) -> Result<Guest, String> {
        let mut qemu = program("qemu-system-x86_64");
        qemu.args(["-nic", "none", "-icount", "shift=0,sleep=off"]);
        Guest::start(image, qemu)
    }

    /// Loads the simulated radios.
    pub(crate) fn load_radios(&mut self) -> Result<(), String> {
        self.load("radios")
    }

    /// Loads what tunnels and bridges need.
    pub(crate) fn load_tunnels(&mut self) -> Result<(), String> {
        self.load("tunnels")
    }

    fn load(&mut self, list: &str) -> Result<(), String> {
        let line = format!("while read -r m; do insmod /mods/$m || echo $m failed; done </mods/{list}");
        let said = self.run(&line)?;
        if said.contains("failed") { Err(format!("the guest's modules: {said}")) } else { Ok(()) }
    }

    fn start(image: &Image, mut wrap: Command) -> Result<Guest, String> {
        let dir = cache("peers/guest")?;
        let socket = dir.join("serial.sock");
        let _ = fs::remove_file(&socket);
        wrap.args(["-machine", "q35,accel=tcg", "-cpu", "max", "-m", "256", "-smp", "1"]);
        wrap.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"]);
        wrap.arg("-kernel").arg(&image.kernel).arg("-initrd").arg(&image.initrd);
        wrap.args(["-append", "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off tsc=reliable no_timer_check random.trust_cpu=on ipv6.disable=1"]);
        wrap.args(["-device", "virtio-rng-pci"]);
        wrap.args(["-chardev", &format!("socket,id=agent,path={},server=on,wait=off", socket.display())]);
        wrap.args(["-device", "isa-serial,chardev=agent"]);
        let start = Instant::now();
        let mut machine = wrap.background(&dir.join("console.log"))?;
        let stream = until("QEMU's serial socket", 10.0, || UnixStream::connect(&socket).ok())?;
        // A guest that counts instructions boots ten times as slowly.
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

    /// Runs a shell command in the guest; gives its status and output.
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
                return Err(format!("no answer\n{}", crate::shell::tail(&self.machine.output(), 20)));
            }
            let line = String::from_utf8_lossy(&line);
            match line.trim_end().strip_prefix("\x01done ") {
                Some(status) => return Ok((status.parse().unwrap_or(-1), output)),
                None => output.push_str(&line),
            }
        }
    }
}
