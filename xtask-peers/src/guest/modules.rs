//! Kernel modules and their dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use xtask::shell::{Run, program};

/// The wanted modules, unpacked, after their dependencies and without those in `done`. Modules list
/// their dependencies in their `.modinfo` section, so `depmod` is not needed.
pub(super) fn modules(
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

pub(super) fn files(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut all: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    all.sort();
    Ok(all)
}
