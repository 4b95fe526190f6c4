//! `cargo xtask capi`: the C library, and the header that fits it.

mod install;
mod modules;

pub(crate) use install::check;

use std::fs;
use std::path::{Path, PathBuf};
use xtask::mote::debian_cargo;
use xtask::setup::targets::{fetch_core, has_core};
use xtask::shell::{RELEASE, Run, cache, cargo, root};

/// The suites by their names in `antedate.h`, in small letters; `ccm` is the one of DTLS on motes.
const SUITES: [(&str, &str); 13] = [
    ("ccm", "aes-128-ccm-8"),
    ("aes-128-ccm-8", "aes-128-ccm-8"),
    ("aes-128-ccm", "aes-128-ccm"),
    ("aes-256-ccm", "aes-256-ccm"),
    ("ccm-star-32", "ccm-star-32"),
    ("ccm-star-64", "ccm-star-64"),
    ("ccm-star-128", "ccm-star-128"),
    ("aes-128-gcm", "aes-128-gcm"),
    ("aes-256-gcm", "aes-256-gcm"),
    ("chacha20-poly1305", "chacha20-poly1305"),
    ("aes-128-ocb3", "aes-128-ocb3"),
    ("aegis-128l", "aegis"),
    ("ascon-aead128", "ascon"),
];

/// The mark before the sizes in a library.
const BUILD: &str = "antedate build: capacity ";

/// The AES of a library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Aes {
    /// Constant-time on every CPU
    #[default]
    Bitslice,
    /// Look-ups, for a CPU without caches: elsewhere their time tells the key
    Table,
    /// A function of the program, for a chip's engine: see `antedate_set_aes`
    Callback,
}

#[derive(clap::Args, Clone)]
pub(crate) struct Arguments {
    /// The CPU, such as thumbv7m-none-eabi; without it, this machine
    #[arg(long, value_name = "TRIPLE")]
    pub(crate) target: Option<String>,
    /// A suite, such as ccm or ccm-star-64; may be given several times; without it, all
    #[arg(long, value_name = "SUITE", value_parser = SUITES.map(|(name, _)| name))]
    pub(crate) suite: Vec<String>,
    /// The AES of the suites
    #[arg(long, value_enum, default_value_t)]
    pub(crate) aes: Aes,
    /// With payloads of MQTT (antedate_mqtt.h), for programs with an operating system
    #[arg(long)]
    pub(crate) mqtt: bool,
    /// Bytes of payload that a context prepares, a multiple of 64; without it, 128 on a
    /// microcontroller and 1536 elsewhere
    #[arg(long, value_name = "BYTES", value_parser = capacity)]
    pub(crate) capacity: Option<usize>,
    /// Where `include` and `lib` go; without it, a folder of its own below target/capi
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) out: Option<PathBuf>,
    /// A profile of the tests, whose build is short.
    #[arg(skip)]
    pub(crate) profile: Option<&'static str>,
}

fn capacity(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes) if bytes > 0 && bytes % 64 == 0 && bytes < 1 << 16 => Ok(bytes),
        _ => Err("a multiple of 64 below 65536, such as 128".to_string()),
    }
}

impl Arguments {
    /// Whether the library runs without an operating system.
    fn is_bare(&self) -> bool {
        self.target.as_ref().is_some_and(|triple| triple.split('-').any(|word| word == "none"))
    }

    fn capacity(&self) -> usize {
        self.capacity.unwrap_or(if self.is_bare() { 128 } else { 1536 })
    }

    /// The features of the crate.
    fn features(&self) -> Result<Vec<&'static str>, String> {
        let chosen = |(name, _): &&(&str, &str)| match self.suite.is_empty() {
            true => {
                self.aes != Aes::Callback || name.starts_with("ccm-star") || name.starts_with("aes-128-ccm")
            }
            false => self.suite.iter().any(|suite| suite == name),
        };
        let mut features: Vec<&str> = SUITES.iter().filter(chosen).map(|(_, feature)| *feature).collect();
        features.sort_unstable();
        features.dedup();
        // A program that calls nothing of them links nothing of them.
        features.extend(["dot15d4", "dtls"]);
        if !self.is_bare() {
            features.push("std");
        }
        if self.mqtt && self.is_bare() {
            return Err("--mqtt needs an operating system, for its files; a mote has antedate.h and examples/c/mqtt_publisher.c".to_string());
        }
        if self.mqtt {
            features.push("mqtt");
        }
        let triple = self.target.as_deref().unwrap_or_default();
        match self.aes {
            Aes::Bitslice => {}
            Aes::Table if triple.starts_with("thumbv7") => features.push("table-aes-1k"),
            Aes::Table if triple.starts_with("msp430") => features.push("table-aes-2k"),
            Aes::Table => {
                return Err("tables are for a Cortex-M3 or M4 (--target thumbv7m-none-eabi, thumbv7em-none-eabi) and \
                            an MSP430 (msp430-none-elf): elsewhere the time of a look-up tells the key; use --aes \
                            bitslice"
                    .to_string());
            }
            Aes::Callback => features.push("callback-aes"),
        }
        let others = ["aes-256-ccm", "aes-128-gcm", "aes-256-gcm", "aes-128-ocb3", "chacha20-poly1305"];
        match features.iter().find(|feature| self.aes == Aes::Callback && others.contains(feature)) {
            Some(other) => Err(format!(
                "--aes callback is for CCM with AES-128, not for {other}: give --suite ccm or --suite ccm-star-64"
            )),
            None => Ok(features),
        }
    }

    /// The folder for `include` and `lib`.
    fn out(&self) -> Result<PathBuf, String> {
        if let Some(out) = &self.out {
            return Ok(out.clone());
        }
        let aes = match self.aes {
            Aes::Bitslice => "bitslice",
            Aes::Table => "table",
            Aes::Callback => "callback",
        };
        let suites = if self.suite.is_empty() { "all".to_string() } else { self.suite.join("+") };
        let mqtt = if self.mqtt { "-mqtt" } else { "" };
        let name = format!("{}-{suites}-{aes}{mqtt}", self.target.as_deref().unwrap_or("host"));
        Ok(cache("capi")?.join(name))
    }
}

/// Builds the library and its header, and says where they are.
pub(crate) fn main(arguments: &Arguments) -> Result<bool, String> {
    let out = build(arguments)?;
    println!("the header: {}", out.join("include/antedate.h").display());
    println!("the library: {}", out.join("lib/libantedate.a").display());
    Ok(true)
}

/// Builds the library and its header, and returns their folder.
pub(crate) fn build(arguments: &Arguments) -> Result<PathBuf, String> {
    let (features, out) = (arguments.features()?.join(","), arguments.out()?);
    if arguments.target.is_none() {
        install::install(arguments, &features, &out)?;
        return Ok(out);
    }
    let library = compile(arguments, &features, "staticlib", "libantedate_capi.a", &[])?;
    let sizes = Sizes::read(&library)?;
    if sizes.capacity != arguments.capacity() {
        return Err(format!("{}: it was built for another capacity", library.display()));
    }
    headers(arguments, &out, arguments.capacity(), arguments.is_bare().then_some(&sizes))?;
    let bytes = fs::read(&library).map_err(|e| format!("{}: {e}", library.display()))?;
    write(&out.join("lib/libantedate.a"), &bytes)?;
    println!("contexts: a sealer of {} bytes, an opener of {}", sizes.sealer, sizes.opener);
    println!("frames of 802.15.4: a key of {} bytes, a slot of {}", sizes.frame_key, sizes.frame_slot);
    Ok(out)
}

/// Compiles the library, and returns its file.
fn compile(
    arguments: &Arguments,
    features: &str,
    kind: &str,
    file: &str,
    flags: &[String],
) -> Result<PathBuf, String> {
    let profile = arguments.profile.unwrap_or(if arguments.is_bare() { "mote" } else { RELEASE });
    let triple = arguments.target.as_deref();
    let own = triple.is_none_or(|triple| has_core(triple) || fetch_core(triple));
    let mut command = if own { cargo() } else { debian_cargo()? };
    if !own {
        command.args(["-Zbuild-std=core", "-Zbuild-std-features=compiler-builtins-mem"]);
    }
    let target = cache("capi")?.join("build");
    command.args(["rustc", "--locked", "--profile", profile, "--package", "antedate-capi"]);
    command.args(["--crate-type", kind, "--no-default-features", "--features", features]);
    if let Some(triple) = triple {
        command.args(["--target", triple]);
    }
    command.arg("--target-dir").arg(&target);
    if !flags.is_empty() {
        command.arg("--").args(flags);
    }
    command.env("ANTEDATE_CAPACITY", arguments.capacity().to_string()).env_remove("RUSTFLAGS");
    command.echoed(600)?;
    Ok(target.join(triple.unwrap_or_default()).join(profile).join(file))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let fault = |e: std::io::Error| format!("{}: {e}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(fault)?;
    fs::write(path, bytes).map_err(fault)
}

/// Headers that are installed as they are.
const LAYERS: [&str; 2] = ["antedate_dot15d4.h", "antedate_dtls.h"];

/// Writes the headers, that of the engine with the library's numbers.
fn headers(arguments: &Arguments, out: &Path, capacity: usize, exact: Option<&Sizes>) -> Result<(), String> {
    let read = |name: &str| {
        let path = root().join("crates/capi/include").join(name);
        fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
    };
    let own = header_of(&read("antedate.h")?, capacity, exact)?;
    write(&out.join("include/antedate.h"), own.as_bytes())?;
    for name in LAYERS.into_iter().chain(arguments.mqtt.then_some("antedate_mqtt.h")) {
        write(&out.join("include").join(name), read(name)?.as_bytes())?;
    }
    Ok(())
}

/// The sizes of a library's contexts.
struct Sizes {
    capacity: usize,
    sealer: usize,
    opener: usize,
    frame_key: usize,
    frame_slot: usize,
}

impl Sizes {
    /// Reads the text that the library has for this purpose (`ANTEDATE_BUILD`).
    fn read(library: &Path) -> Result<Self, String> {
        let bytes = fs::read(library).map_err(|e| format!("{}: {e}", library.display()))?;
        let at = bytes.windows(BUILD.len()).position(|window| window == BUILD.as_bytes());
        let text = at.and_then(|at| bytes.get(at..at + 105)).map(String::from_utf8_lossy);
        let numbers =
            text.as_deref().unwrap_or_default().split([' ', ',']).filter_map(|word| word.parse().ok());
        match numbers.collect::<Vec<usize>>()[..] {
            [capacity, sealer, opener, frame_key, frame_slot] => {
                Ok(Self { capacity, sealer, opener, frame_key, frame_slot })
            }
            _ => Err(format!("{}: no sizes in it", library.display())),
        }
    }
}

/// The header with the library's numbers: a program that was told another capacity does not compile.
fn header_of(header: &str, capacity: usize, exact: Option<&Sizes>) -> Result<String, String> {
    const PLACE: &str = "#ifndef ANTEDATE_CAPACITY\n#define ANTEDATE_CAPACITY 1536\n#endif\n";
    let mut own = format!(
        "#if defined(ANTEDATE_CAPACITY) && ANTEDATE_CAPACITY != {capacity}\n#error \"the library was built with the capacity \
         {capacity}\"\n#endif\n#undef ANTEDATE_CAPACITY\n#define ANTEDATE_CAPACITY {capacity}\n"
    );
    if let Some(Sizes { sealer, opener, frame_key, frame_slot, .. }) = exact {
        for (name, bytes) in
            [("SEALER", sealer), ("OPENER", opener), ("DOT15D4_KEY", frame_key), ("DOT15D4_SLOT", frame_slot)]
        {
            own += &format!("#define ANTEDATE_{name}_BYTES {bytes}\n");
        }
    }
    match header.split_once(PLACE) {
        Some((before, after)) => Ok(format!("{before}{own}{after}")),
        None => Err("antedate.h has no default capacity to replace".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn read(words: &[&str]) -> Arguments {
        Line::try_parse_from([&["capi"], words].concat()).expect("read").arguments
    }

    #[test]
    fn mote_has_one_suite_and_its_aes() {
        let mote = read(&["--target", "thumbv7m-none-eabi", "--suite", "ccm", "--aes", "table"]);
        assert_eq!(mote.features().as_deref(), Ok(&["aes-128-ccm-8", "dot15d4", "dtls", "table-aes-1k"][..]));
        assert_eq!((mote.is_bare(), mote.capacity()), (true, 128));
        let host = read(&[]);
        assert_eq!(
            host.features().map(|features| features.len()),
            Ok(15),
            "twelve suites, two layers and std"
        );
        assert_eq!((host.is_bare(), host.capacity()), (false, 1536));
    }

    #[test]
    fn table_and_callback_are_refused_elsewhere() {
        let refused = |words: &[&str]| read(words).features().expect_err("refused");
        assert!(refused(&["--aes", "table"]).contains("the time of a look-up tells the key"));
        assert!(refused(&["--aes", "table", "--target", "thumbv8m.main-none-eabi"]).contains("bitslice"));
        assert!(refused(&["--aes", "callback", "--suite", "aes-128-gcm"]).contains("not for aes-128-gcm"));
        assert!(read(&["--aes", "callback"]).features().is_ok());
        for wrong in [&["--suite", "ccn"][..], &["--capacity", "100"], &["--capacity", "0"]] {
            assert!(Line::try_parse_from([&["capi"], wrong].concat()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn header_has_the_sizes_of_the_library() {
        let header = fs::read_to_string(root().join("crates/capi/include/antedate.h")).expect("is there");
        let sizes = Sizes { capacity: 128, sealer: 592, opener: 568, frame_key: 216, frame_slot: 392 };
        let exact = header_of(&header, 128, Some(&sizes)).expect("replaced");
        for line in ["CAPACITY 128", "SEALER_BYTES 592", "OPENER_BYTES 568", "DOT15D4_SLOT_BYTES 392"] {
            assert!(exact.contains(&format!("#define ANTEDATE_{line}\n")), "{line}");
        }
        assert!(header_of("another", 128, None).is_err());
    }
}
