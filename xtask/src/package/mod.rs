//! `cargo xtask package`: Debian packages and tarballs of the program, and an image for containers.
//!
//! All are one tree of files (`tree`), which `dpkg-deb` and `tar` pack. `cargo-deb` would be a
//! tool to build in each CI, and packs no tarball; `dpkg-deb` is on every Debian.

mod deb;
mod oci;
mod tree;

use crate::cross::{ARMV8, ARMV8_STATIC, Cross, X86_STATIC};
use crate::setup::targets::{fetch_core, has_core};
use crate::shell::{RELEASE, Run, TESTS, antedate_of, cache, cargo, has_program, program, root, target};
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

use oci::Layout;
use tree::{PROGRAM, Tree};

/// The verbs of a packaged program. `lab` and `plan` are for a desk, and a third of its size.
const FEATURES: &str = "dtls,fleet,mqtt,pages";
/// Libraries of others are built for size where a program is to be small: a frame meets none of them
/// but what is generic or inlined, which is compiled with ours.
const LIBRARIES_FOR_SIZE: &str = r#"profile.release.package."*".opt-level="s""#;
/// The folder of the motes' programs, where `antedate lab motes` looks for them.
const MOTES: &str = "usr/share/antedate";
/// The units of a gateway alone.
const GATEWAY_UNITS: usize = 2;

/// The verbs that a program has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verbs {
    /// Those of a gateway, and what is always there: for machines with little memory.
    Gateway,
    /// All but those for a desk.
    Packaged,
    /// All.
    Lab,
}

impl Verbs {
    /// Cargo's features; `None`: the default.
    fn features(self) -> Option<&'static str> {
        match self {
            Self::Gateway => Some("pages"),
            Self::Packaged => Some(FEATURES),
            Self::Lab => None,
        }
    }

    /// The name of package, tarball and image.
    fn name(self) -> &'static str {
        if self == Self::Gateway { "antedate-gateway" } else { "antedate" }
    }

    /// The units of these verbs.
    fn units(self) -> &'static [&'static str] {
        if self == Self::Gateway { &UNITS[..GATEWAY_UNITS] } else { &UNITS }
    }

    /// The most octets of the stripped program in a release.
    fn limit(self) -> u64 {
        match self {
            Self::Gateway => 9_000_000,
            Self::Packaged => 21_000_000,
            Self::Lab => u64::MAX,
        }
    }
}

/// The units, which `docs/examples` has.
const UNITS: [&str; 7] = [
    "antedate-gateway.service",
    "antedate-overlay.service",
    "antedate-agent.service",
    "antedate-dtls-connect.service",
    "antedate-dtls-listen.service",
    "antedate-mqtt-proxy.service",
    "antedate-mqtt-sub.service",
];

/// A CPU, and the C library of its programs.
struct Machine {
    /// Rust's target.
    target: &'static str,
    /// Debian's architecture, which is Go's too.
    debian: &'static str,
    /// The prefix of its tools.
    tools: &'static str,
    /// The cross compiler, if it needs one.
    cross: Option<&'static Cross>,
    /// The program needs no library, and runs on any Linux: a tarball and an image instead of a
    /// Debian package.
    is_static: bool,
}

const MACHINES: [Machine; 4] = [
    Machine {
        target: "x86_64-unknown-linux-gnu",
        debian: "amd64",
        tools: "x86_64-linux-gnu-",
        cross: None,
        is_static: false,
    },
    Machine {
        target: ARMV8.target,
        debian: "arm64",
        tools: "aarch64-linux-gnu-",
        cross: Some(&ARMV8),
        is_static: false,
    },
    Machine {
        target: X86_STATIC.target,
        debian: "amd64",
        tools: "x86_64-linux-gnu-",
        cross: Some(&X86_STATIC),
        is_static: true,
    },
    Machine {
        target: ARMV8_STATIC.target,
        debian: "arm64",
        tools: "aarch64-linux-gnu-",
        cross: Some(&ARMV8_STATIC),
        is_static: true,
    },
];

/// Arguments of `cargo xtask package`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask package                                       amd64: a Debian package and a tarball
  cargo xtask package --target aarch64-unknown-linux-gnu    arm64
  cargo xtask package --target x86_64-unknown-linux-musl --target aarch64-unknown-linux-musl
                                                            static programs, and an image of both
  cargo xtask package --profile dev                         a quick build, to try the package
  cargo xtask package --gateway                             the verbs of a gateway alone
  cargo xtask package --lab                                 with all experiments: `antedate lab motes`")]
pub struct Arguments {
    /// The machine; may be given several times
    #[arg(long, value_name = "TARGET", default_value = MACHINES[0].target, value_parser = targets())]
    target: Vec<String>,
    /// Cargo's profile
    #[arg(long, default_value = RELEASE)]
    profile: String,
    /// The verbs of a gateway alone, as the package antedate-gateway: for machines with little memory
    #[arg(long, conflicts_with = "lab")]
    gateway: bool,
    /// With the experiments, the planner and the programs of the motes; in target/package-lab
    #[arg(long)]
    pub lab: bool,
}

fn targets() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(MACHINES.iter().map(|machine| machine.target))
}

/// Makes the packages of all targets: with all verbs if there is an archive of the motes' programs.
/// False if a program of a release is too large.
pub fn main(arguments: &Arguments, motes: Option<&Path>) -> Result<bool, String> {
    let mut fits = true;
    let (version, folder) = (version()?, cache(if motes.is_some() { "package-lab" } else { "package" })?);
    let verbs = match motes {
        Some(_) => Verbs::Lab,
        None if arguments.gateway => Verbs::Gateway,
        None => Verbs::Packaged,
    };
    let name = format!("{}-{version}", verbs.name());
    let mut image = None;
    for machine in MACHINES.iter().filter(|machine| arguments.target.iter().any(|t| t == machine.target)) {
        let built = machine.build(&arguments.profile, verbs)?;
        let tree = machine.tree(&built, &folder, verbs, motes)?;
        let tarball = folder.join(format!("{name}-{}.tar.gz", machine.target));
        tree.tar(&name, &tarball)?;
        let mut made = vec![tarball];
        if machine.is_static {
            let layout = match image.take() {
                Some(layout) => layout,
                None => Layout::new(&folder.join(format!("{name}-oci")), &version)?,
            };
            image.insert(layout).add(&tree, machine.debian)?;
        } else {
            made.push(deb::pack(&tree, verbs, &version, machine.debian, "xz", &folder)?);
        }
        for file in made {
            let size = fs::metadata(&file).map_err(|e| format!("{}: {e}", file.display()))?.len();
            println!("{}: {size} octets", file.display());
        }
        let size = tree.size_of(PROGRAM)?;
        println!("the stripped program: {size} octets");
        if arguments.profile == RELEASE && size > verbs.limit() {
            println!("more than {}: see what grew (nm --size-sort)", verbs.limit());
            fits = false;
        }
    }
    if let Some(image) = image {
        println!("{}: an image for containers (OCI layout)", image.finish()?.display());
    }
    Ok(fits)
}

/// Makes Debian packages of the tests' build with this version in a folder, without compression, and
/// returns their paths: with all units, and with those of a gateway alone.
pub fn of_tests(version: &str, folder: &Path) -> Result<[PathBuf; 2], String> {
    let machine = Machine::own()?;
    let pack = |verbs| {
        let tree = machine.tree(&antedate_of(TESTS), folder, verbs, None)?;
        deb::pack(&tree, verbs, version, machine.debian, "none", folder)
    };
    Ok([pack(Verbs::Packaged)?, pack(Verbs::Gateway)?])
}

/// Packs a build as `package --lab` does, unpacks the tarball in an empty folder, and returns the
/// program's path there.
pub fn unpacked(profile: &str, motes: &Path, folder: &Path) -> Result<PathBuf, String> {
    let (name, tarball) = ("antedate-lab", folder.join("lab.tar.gz"));
    let tree = Machine::own()?.tree(&antedate_of(profile), folder, Verbs::Lab, Some(motes))?;
    tree.tar(name, &tarball)?;
    program("tar").arg("--extract").arg("--file").arg(&tarball).current_dir(folder).read(60)?;
    Ok(folder.join(name).join(PROGRAM))
}

impl Machine {
    /// The one that this is, whose programs run here without an emulator.
    fn own() -> Result<Self, String> {
        let own = MACHINES.into_iter().find(|machine| machine.target.starts_with(ARCH));
        own.map(|machine| Self { cross: None, ..machine }).ok_or_else(|| format!("no package for {ARCH}"))
    }

    /// Builds the program, beside other builds: with other verbs than theirs.
    fn build(&self, profile: &str, verbs: Verbs) -> Result<PathBuf, String> {
        self.ready()?;
        let mut command = match self.cross {
            Some(cross) => cross.cargo("build"),
            None => {
                let mut command = cargo();
                command.args(["build", "--locked", "--target", self.target, "--target-dir"]);
                command.arg(target().join("cross"));
                command
            }
        };
        command.args(["--profile", profile, "--package", "antedate"]);
        if let Some(features) = verbs.features() {
            command.args(["--no-default-features", "--features", features]);
        }
        if verbs == Verbs::Gateway && profile == RELEASE {
            command.args(["--config", LIBRARIES_FOR_SIZE]);
        }
        command.echoed(1800)?;
        let profile = if profile == TESTS { "debug" } else { profile };
        Ok(target().join("cross").join(self.target).join(profile).join("antedate"))
    }

    /// The error says what this machine lacks to build for the target.
    fn ready(&self) -> Result<(), String> {
        if let Some(compiler) = self.cross.map(Cross::compiler).filter(|compiler| !has_program(compiler)) {
            return Err(format!(
                "no program {compiler}: apt-get install gcc-aarch64-linux-gnu musl-tools qemu-user"
            ));
        }
        if !has_core(self.target) && !fetch_core(self.target) {
            return Err(format!("no standard library: rustup target add {}", self.target));
        }
        Ok(())
    }

    /// Runs a program of the target here.
    fn runs(&self, binary: &Path) -> std::process::Command {
        match self.cross {
            Some(cross) if !cross.target.starts_with(ARCH) => {
                let mut command = program(format!("qemu-{}", cross.emulator));
                command.arg("-L").arg(format!("/usr/{}", cross.tools)).arg(binary);
                command
            }
            _ => program(binary),
        }
    }

    /// The tree of a built program.
    fn tree(&self, binary: &Path, folder: &Path, verbs: Verbs, motes: Option<&Path>) -> Result<Tree, String> {
        let mut tree = Tree::new(&folder.join("tree"))?;
        tree.program(&format!("{}strip", self.tools), binary)?;
        let pages = tree.place.join("usr");
        self.runs(binary).arg("pages").arg(pages).read(60)?;
        tree.rest(verbs.units())?;
        if let Some(motes) = motes {
            tree.copy(motes, MOTES)?;
        }
        Ok(tree)
    }
}

/// The version of `Cargo.toml`, before its release: with the time and name of the commit.
fn version() -> Result<String, String> {
    let text = fs::read_to_string(root().join("Cargo.toml")).map_err(|e| format!("Cargo.toml: {e}"))?;
    let version = text.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    let version = version.ok_or("Cargo.toml: no version")?;
    let format = "--format=%cd.%h";
    let commit = program("git").args(["log", "-1", "--date=format:%Y%m%d%H%M%S", format]).read(20)?;
    // `~` sorts before the end, and so before the release.
    Ok(format!("{version}~{}", commit.trim()))
}
