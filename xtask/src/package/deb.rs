//! The Debian package of a tree, by `dpkg-deb`.

use super::Verbs;
use super::tree::{PROGRAM, Tree, mode};
use crate::shell::{Run, program, root};
use std::fs;
use std::path::{Path, PathBuf};

const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
const DESCRIPTION: &str = "\
Description: secure communication for industrial devices that meets deadlines
 A gateway that protects Profinet, GOOSE and other layer-2 traffic by MACsec or
 between sites by WireGuard, a DTLS proxy for UDP devices, and an MQTT client with
 end-to-end protection. Ciphers are prepared before the packets exist.
";
const DESCRIPTION_OF_GATEWAY: &str = "\
Description: gateway that protects industrial layer-2 traffic in time
 It protects Profinet, GOOSE and other traffic by MACsec or between sites by
 WireGuard. Ciphers are prepared before the packets exist. The package antedate
 has a DTLS proxy and an MQTT client too, and takes more memory.
";

/// The package that has the same files, and cannot be installed beside that of these verbs.
fn other(verbs: Verbs) -> &'static str {
    if verbs == Verbs::Gateway { Verbs::Packaged.name() } else { Verbs::Gateway.name() }
}

/// Adds the control files to the tree, and packs it.
pub(super) fn pack(
    tree: &Tree,
    verbs: Verbs,
    version: &str,
    architecture: &str,
    compression: &str,
    folder: &Path,
) -> Result<PathBuf, String> {
    let depends = depends(&tree.place.join(PROGRAM))?;
    let mut sums = program("md5sum");
    let installed = [tree.below("usr")?, tree.below("etc")?].concat();
    let size: u64 = installed.iter().filter_map(|file| tree.size_of(file).ok()).sum();
    let sums = sums.args(tree.below("usr")?).current_dir(&tree.place).read(60)?;
    tree.write("DEBIAN/md5sums", &sums)?;
    let conffiles: String = tree.conffiles()?.iter().map(|file| format!("/{file}\n")).collect();
    tree.write("DEBIAN/conffiles", &conffiles)?;
    let (name, other) = (verbs.name(), other(verbs));
    let description = if verbs == Verbs::Gateway { DESCRIPTION_OF_GATEWAY } else { DESCRIPTION };
    let control = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: The Antedate developers <antedate@localhost>\n\
         Installed-Size: {}\nSection: net\nPriority: optional\n\
         Depends: {depends}, systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles\n\
         Recommends: ethtool, iproute2\nConflicts: {other}\nReplaces: {other}\n{description}",
        size.div_ceil(1024)
    );
    tree.write("DEBIAN/control", &control)?;
    for script in SCRIPTS {
        let file = root().join("packaging/debian").join(script);
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let text = text.replace("UNITS", &verbs.units().join(" ")).replace("OTHER", other);
        tree.write(&format!("DEBIAN/{script}"), &text)?;
        mode(&tree.place.join("DEBIAN").join(script), 0o755)?;
    }
    let deb = folder.join(format!("{name}_{version}_{architecture}.deb"));
    let mut command = program("dpkg-deb");
    command
        .args(["--root-owner-group", "--build"])
        .arg(format!("-Z{compression}"))
        .arg(&tree.place)
        .arg(&deb);
    command.env("SOURCE_DATE_EPOCH", &tree.time).read(120)?;
    Ok(deb)
}

/// The packages of the libraries that the program is linked with.
fn depends(binary: &Path) -> Result<String, String> {
    packages(&program("readelf").args(["--dynamic", "--version-info", "--wide"]).arg(binary).read(30)?)
}

/// The same of `readelf`'s output.
fn packages(said: &str) -> Result<String, String> {
    let needed = said.lines().filter(|line| line.contains("(NEEDED)"));
    let names: Vec<&str> = needed.filter_map(|line| line.split(['[', ']']).nth(1)).collect();
    let mut packages = Vec::new();
    for name in names {
        let package = match name.split_once(".so").map(|(name, _)| name) {
            Some("libc" | "libm" | "libdl" | "libpthread" | "ld-linux-x86-64" | "ld-linux-aarch64") => {
                format!("libc6 (>= {})", newest(said)?)
            }
            Some("libgcc_s") => "libgcc-s1 (>= 4.2)".to_owned(),
            _ => return Err(format!("the program needs {name}, of an unknown package")),
        };
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    packages.sort();
    Ok(packages.join(", "))
}

/// The newest version of the C library that the program needs.
fn newest(said: &str) -> Result<String, String> {
    let numbers = |text: &str| -> Option<Vec<u32>> { text.split('.').map(|n| n.parse().ok()).collect() };
    let versions = said.split(|c: char| !(c.is_alphanumeric() || "._".contains(c)));
    let versions = versions.filter_map(|word| word.strip_prefix("GLIBC_"));
    let newest = versions.filter_map(|version| Some((numbers(version)?, version))).max();
    newest.map(|(_, version)| version.to_owned()).ok_or_else(|| "no version of the C library".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::UNITS;
    use super::*;

    #[test]
    fn libraries_become_dependencies() {
        let said = " 0x1 (NEEDED) Shared library: [libgcc_s.so.1]\n 0x1 (NEEDED) Shared library: [libm.so.6]\n \
                    0x1 (NEEDED) Shared library: [libc.so.6]\n 000: 0 (*local*) 2 (GLIBC_2.9) 3 (GLIBC_2.34)\n \
                    0x20: Name: GLIBC_2.28  Flags: none\n";
        assert_eq!(packages(said), Ok("libc6 (>= 2.34), libgcc-s1 (>= 4.2)".to_owned()));
        assert!(packages(" 0x1 (NEEDED) Shared library: [libssl.so.3]\n").is_err());
    }

    #[test]
    fn scripts_name_units_of_the_examples() {
        for unit in UNITS {
            assert!(root().join("docs/examples").join(unit).exists(), "{unit}");
        }
        for script in SCRIPTS {
            let text = fs::read_to_string(root().join("packaging/debian").join(script)).expect(script);
            assert!(text.starts_with("#!/bin/sh\n") && text.contains("UNITS"), "{script}");
        }
    }
}
