//! A guest's image: a kernel, and an initial RAM disk with programs and modules, all from Debian's
//! packages.

use super::cpio::Cpio;
use super::cpu::{Cpu, X86_64};
use super::modules::{files, modules};
use crate::place;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use xtask::shell::{Run, program, root};

/// Packages beside the kernel: the guest's programs. Their libraries come as dependencies.
const PACKAGES: [&str; 8] = [
    "busybox-static",
    "dash",
    "iperf3",
    "iproute2",
    "iputils-ping",
    "wireguard-tools",
    "wpan-tools",
    "wpasupplicant",
];
/// The source of each program, and its name in the guest. Debian's busybox shell would run its own
/// `ip` and `ping` instead of the real ones, so the shell is dash.
const PROGRAMS: [(&[&str], &str); 8] = [
    (&["bin/busybox", "usr/bin/busybox"], "busybox"),
    (&["bin/dash", "usr/bin/dash"], "sh"),
    (&["bin/ip", "usr/bin/ip", "sbin/ip", "usr/sbin/ip"], "ip"),
    (&["bin/ping", "usr/bin/ping"], "ping"),
    (&["sbin/wpa_supplicant", "usr/sbin/wpa_supplicant"], "wpa_supplicant"),
    (&["usr/bin/iperf3", "bin/iperf3"], "iperf3"),
    (&["usr/bin/wg", "bin/wg"], "wg"),
    (&["usr/bin/iwpan", "usr/sbin/iwpan"], "iwpan"),
];
const APPLETS: [&str; 12] =
    ["mount", "insmod", "cat", "stty", "poweroff", "sleep", "mkdir", "sed", "echo", "grep", "kill", "tail"];
/// Modules for MACsec. The kernel requests `ctr` and `ghash-generic` by name at run time, so no
/// dependency lists them. Modules for one CPU's instructions are absent from the other's kernel.
const MODULES: [&str; 11] = [
    "virtio_pci",
    "virtio_net",
    "ctr",
    "ghash-generic",
    "gcm",
    "aesni-intel",
    "ghash-clmulni-intel",
    "aes-ce-blk",
    "ghash-ce",
    "macsec",
    "8021q",
];

/// Modules for IEEE 802.15.4, loaded by [`load_radios`](super::Guest::load_radios) alone: two
/// simulated radios that hear each other, and sockets.
const RADIOS: [&str; 5] = ["ctr", "ccm", "cmac", "mac802154_hwsim", "ieee802154_socket"];
/// Modules for tunnels between bridges, L2TPv3 and VXLAN over WireGuard, loaded by
/// [`load_tunnels`](super::Guest::load_tunnels) alone.
const TUNNELS: [&str; 9] =
    ["af_packet", "veth", "bridge", "l2tp_core", "l2tp_netlink", "l2tp_ip", "l2tp_eth", "vxlan", "wireguard"];
/// The source of our program in the guest.
const WPAN: &str = "peers/kernel-wpan/wpan.c";

/// A kernel image and an initial RAM disk.
pub(crate) struct Image {
    pub(super) cpu: &'static Cpu,
    pub(super) kernel: PathBuf,
    pub(super) initrd: PathBuf,
}

/// Builds the image for this machine's kind of CPU, unless it is cached.
pub(crate) fn build() -> Result<Image, String> {
    build_for(&X86_64)
}

/// Builds the image for a CPU, unless it is cached.
pub(crate) fn build_for(cpu: &'static Cpu) -> Result<Image, String> {
    let _lock = place::lock(cpu.debian)?;
    let dir = cpu.folder()?;
    let image = Image { cpu, kernel: dir.join("vmlinux"), initrd: dir.join("initrd") };
    let init = root().join("peers/kernel-macsec/init");
    // The recipe is part of the cache's key: a changed list or `init` causes a new build.
    let text = |path: &Path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let recipe = format!(
        "{cpu:?}{PACKAGES:?}{PROGRAMS:?}{APPLETS:?}{MODULES:?}{RADIOS:?}{TUNNELS:?}{}{}",
        text(&init)?,
        text(&root().join(WPAN))?
    );
    let stamp = dir.join("recipe");
    if image.kernel.exists() && image.initrd.exists() && fs::read_to_string(&stamp).is_ok_and(|s| s == recipe)
    {
        return Ok(image);
    }
    let (kernel_package, tree) = unpack(cpu, &dir)?;
    let kernel = find_kernel(&tree.join("boot"))?;
    let kernel =
        if cpu.packed { decompress(&kernel)? } else { fs::read(&kernel).map_err(|e| e.to_string())? };
    fs::write(&image.kernel, kernel).map_err(|e| e.to_string())?;
    let mut archive = Cpio::default();
    let own = format!("lib/{}", cpu.tools);
    for name in ["bin", "dev", "lib", &own, "lib64", "mods", "proc", "run", "sys", "tmp"] {
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
    add_libraries(&mut archive, cpu, &tree, &programs)?;
    archive.file("bin/wpan", &wpan(cpu, &dir)?)?;
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
    /// The image with a program for its CPU and further files: their paths in the guest, modes and
    /// contents.
    pub(crate) fn with(&self, path: &Path, files: &[(&str, u32, &str)]) -> Result<Image, String> {
        let dir = self.cpu.folder()?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let plain = dir.join(format!("{name}.stripped"));
        self.cpu.tool("strip").arg("-o").arg(&plain).arg(path).read(60)?;
        let mut archive = Cpio::default();
        archive.file(&format!("bin/{name}"), &plain)?;
        add_libraries(&mut archive, self.cpu, &dir.join("tree"), &[plain])?;
        archive.entry("etc", 0o040755, &[]);
        for (place, mode, text) in files {
            archive.entry(place, 0o100000 | mode, text.as_bytes());
        }
        // The kernel unpacks concatenated archives.
        let mut bytes = fs::read(&self.initrd).map_err(|e| e.to_string())?;
        bytes.extend(archive.finish());
        let initrd = dir.join(format!("initrd-{name}"));
        fs::write(&initrd, bytes).map_err(|e| e.to_string())?;
        Ok(Image { cpu: self.cpu, kernel: self.kernel.clone(), initrd })
    }
}

/// Compiles our program statically.
fn wpan(cpu: &Cpu, dir: &Path) -> Result<PathBuf, String> {
    let out = dir.join("wpan");
    cpu.tool("gcc").args(["-O2", "-Wall", "-Wextra", "-static", "-o"]).arg(&out).arg(WPAN).read(60)?;
    Ok(out)
}

fn kernel_package(cpu: &Cpu) -> Result<String, String> {
    let depends = cpu.apt("apt-cache")?.args(["depends", cpu.kernel]).read(60)?;
    let name = depends
        .lines()
        .find_map(|l| l.trim().strip_prefix("Depends: ").filter(|n| n.starts_with("linux-image-")));
    name.map(str::to_string).ok_or(format!("no package {}; `apt-get update` first", cpu.kernel))
}

/// Fetches and unpacks the packages; returns the kernel's name and the folder.
fn unpack(cpu: &Cpu, dir: &Path) -> Result<(String, PathBuf), String> {
    let debs = dir.join("debs");
    let tree = dir.join("tree");
    // Remains of an interrupted or older build must not mix with this one.
    let _ = fs::remove_dir_all(&tree);
    let _ = fs::remove_dir_all(&debs);
    fs::create_dir_all(&debs).map_err(|e| e.to_string())?;
    let fetch = || {
        let kernel = kernel_package(cpu)?;
        let mut depends = cpu.apt("apt-cache")?;
        let depends = depends.args(["depends", "--recurse", "--important"]).args(PACKAGES).read(60)?;
        // Package names begin a line, relations are indented, and virtual packages have angle
        // brackets. Only libraries and the listed packages are kept: no program here needs Debian's
        // installation tools.
        let is_library = |n: &&str| n.starts_with("lib") || *n == "zlib1g" || PACKAGES.contains(n);
        let packages: BTreeSet<&str> =
            depends.lines().filter(|l| !l.contains(':')).filter(is_library).collect();
        let mut command = cpu.apt("apt-get")?;
        command
            .current_dir(&debs)
            .args(["-qq", "-o", "APT::Sandbox::User=root", "download", &kernel])
            .args(&packages);
        command.read(240).map(|_| kernel)
    };
    // Security updates remove old kernels from the mirror: a stale index names missing packages,
    // and one that was never fetched names none.
    let kernel = fetch().or_else(|first| {
        let mut update = cpu.apt("apt-get")?;
        update.args(["-qq", "-o", "APT::Sandbox::User=root", "update"]);
        // A mirror that lacks one index may have all the packages in the others.
        let updated = update.read(120).err().unwrap_or_default();
        fetch().map_err(|again| format!("{first}\n{updated}\n{again}"))
    })?;
    for deb in files(&debs)? {
        program("dpkg-deb").arg("-x").arg(deb).arg(&tree).read(120)?;
    }
    Ok((kernel, tree))
}

fn first_file(tree: &Path, places: &[&str]) -> Option<PathBuf> {
    places.iter().map(|p| tree.join(p)).find(|p| p.is_file())
}

fn find_kernel(boot: &Path) -> Result<PathBuf, String> {
    let is_image = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("vmlinuz"));
    files(boot)?.into_iter().find(is_image).ok_or(format!("no kernel in {}", boot.display()))
}

/// The ELF image inside a bzImage. QEMU starts it directly (PVH), which saves the guest its slow
/// decompression. The header gives the payload's position (Linux x86 boot protocol, `setup_sects`,
/// `payload_offset`, `payload_length`).
fn decompress(image: &Path) -> Result<Vec<u8>, String> {
    let bytes = fs::read(image).map_err(|e| format!("{}: {e}", image.display()))?;
    let word =
        |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
    let sectors = bytes.get(0x1f1).map(|s| if *s == 0 { 4 } else { usize::from(*s) });
    let payload = (|| {
        let start = (sectors? + 1) * 512 + word(0x248)?;
        // The last four bytes are the unpacked size.
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

/// Adds the shared libraries of the programs, from the unpacked packages alone.
fn add_libraries(archive: &mut Cpio, cpu: &Cpu, tree: &Path, programs: &[PathBuf]) -> Result<(), String> {
    let folder = format!("lib/{}", cpu.tools);
    let find = |name: &str| {
        let places = [folder.clone(), format!("usr/{folder}"), "lib64".into(), "usr/lib64".into()];
        places.iter().map(|p| tree.join(p).join(name)).find(|p| p.is_file())
    };
    let (loader, place) = cpu.loader;
    archive.file(&format!("{place}/{loader}"), &find(loader).ok_or("no dynamic loader")?)?;
    let mut found = BTreeSet::from([loader.to_string()]);
    let mut queue = programs.to_vec();
    while let Some(path) = queue.pop() {
        let headers = cpu.tool("objdump").arg("-p").arg(&path).read(20)?;
        for name in headers.lines().filter_map(|l| l.trim().strip_prefix("NEEDED")).map(str::trim) {
            if !found.insert(name.to_string()) {
                continue;
            }
            let file = find(name).ok_or(format!("no package of the guest has {name}"))?;
            archive.file(&format!("{folder}/{name}"), &file)?;
            queue.push(file);
        }
    }
    Ok(())
}
