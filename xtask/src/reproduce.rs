//! `cargo xtask reproduce`: a release that anyone can build again, octet by octet.
//!
//! The sources of the newest commit are built in two folders. Paths are no part of the result: the
//! compiler writes other names for the folder and for cargo's (`--remap-path-prefix`). The compiler,
//! the linker and the target's libraries must be the same.

use std::fs;
use std::path::{Path, PathBuf};
use xtask::shell::{Run, cache, cargo, program};

/// Seconds of a build.
const BUILD_SECONDS: u64 = 3_600;
/// The folders, with names of different lengths.
const FOLDERS: [&str; 2] = ["one", "the-other-folder"];
/// Files that cargo makes for itself.
const NOT_SHIPPED: [&str; 2] = ["d", "rlib"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The package: `antedate`, `antedate-capi` or `antedate-mosquitto-plugin`
    #[arg(long, value_name = "NAME", default_value = "antedate")]
    package: String,
    /// The profile
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
}

/// Builds twice and compares. False if a file differs.
pub(crate) fn main(arguments: &Arguments) -> Result<bool, String> {
    let folder = cache("reproduce")?;
    let built = FOLDERS.map(|name| build(&folder.join(name), arguments));
    let [one, other] = built.map(|built| built.map(|at| (files(&at), at)));
    let ((names, one), (others, other)) = (one?, other?);
    let (names, others) = (names?, others?);
    if names.is_empty() || names != others {
        return Err(format!("the builds have other files: {names:?} and {others:?}"));
    }
    let mut same = true;
    for name in names {
        let [a, b] = [&one, &other].map(|at| read(&at.join(&name)));
        let (a, b) = (a?, b?);
        let differ = a.iter().zip(&b).filter(|(a, b)| a != b).count() + a.len().abs_diff(b.len());
        let sum = program("sha256sum").arg(one.join(&name)).read(60)?;
        let sum = sum.split_whitespace().next().unwrap_or_default().to_owned();
        match differ {
            0 => println!("{name}: the same twice, {} octets, SHA-256 {sum}", a.len()),
            _ => println!("{name}: {differ} octets differ of {} and {}", a.len(), b.len()),
        }
        same &= differ == 0;
    }
    Ok(same)
}

/// Builds the newest commit in this folder. Returns the folder of the results.
fn build(folder: &Path, arguments: &Arguments) -> Result<PathBuf, String> {
    let io = |e: std::io::Error| format!("{}: {e}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(io)?;
    }
    let sources = folder.join("sources");
    fs::create_dir_all(&sources).map_err(io)?;
    let archive = folder.join("sources.tar");
    program("git").args(["archive", "--output"]).arg(&archive).arg("HEAD").bounded(60)?;
    program("tar").arg("-xf").arg(&archive).arg("-C").arg(&sources).bounded(60)?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
    let names = [(folder, "/antedate"), (home.as_path(), "/cargo")];
    let flags =
        |option: &str| names.map(|(from, to)| format!("{option}={}={to}", from.display())).join("\u{1f}");
    let mut build = cargo();
    build.current_dir(&sources);
    build.args(["build", "--locked", "--package", &arguments.package, "--profile", &arguments.profile]);
    build.env("CARGO_TARGET_DIR", folder.join("target")).env("CARGO_INCREMENTAL", "0");
    build.env("CARGO_ENCODED_RUSTFLAGS", flags("--remap-path-prefix"));
    build.env("CFLAGS", flags("-ffile-prefix-map").replace('\u{1f}', " "));
    build.echoed(BUILD_SECONDS)?;
    let folder_of = if arguments.profile == "dev" { "debug" } else { &arguments.profile };
    Ok(folder.join("target").join(folder_of))
}

/// The names of the files to ship.
fn files(at: &Path) -> Result<Vec<String>, String> {
    let io = |e: std::io::Error| format!("{}: {e}", at.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(at).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_file() && !name.starts_with('.') && !NOT_SHIPPED.contains(&extension) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|e| format!("{}: {e}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shipped_files_are_compared() {
        let folder = std::env::temp_dir().join(format!("antedate-reproduce-{}", std::process::id()));
        fs::create_dir_all(folder.join("deps")).expect("a folder");
        for name in ["antedate", "antedate.d", ".cargo-lock", "libantedate.a", "libantedate.rlib"] {
            fs::write(folder.join(name), name).expect("written");
        }
        assert_eq!(files(&folder), Ok(vec!["antedate".to_owned(), "libantedate.a".to_owned()]));
        fs::remove_dir_all(folder).expect("removed");
    }
}
