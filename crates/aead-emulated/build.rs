//! Copies the sources of `antedate-aead` for the emulated CPU; see `src/lib.rs`.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The attribute of a kernel, up to its features.
const KERNEL: &str = "#[target_feature(enable = ";

fn main() {
    let engine = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../aead");
    let out = PathBuf::from(variable("OUT_DIR"));
    for folder in ["src", "tests"] {
        println!("cargo::rerun-if-changed={}", engine.join(folder).display());
    }
    let mut kernels = Vec::new();
    for path in files(&engine.join("src")) {
        let short = path.strip_prefix(&engine).expect("it is below").display().to_string();
        let text = fs::read_to_string(&path).expect("the engine's source is text");
        let to = out.join(&short);
        fs::create_dir_all(to.parent().expect("it has a folder")).expect("OUT_DIR is writable");
        if short.ends_with(".rs") {
            let text = emulated(&short, &text, &mut kernels);
            fs::write(to, text).expect("OUT_DIR is writable");
        } else {
            fs::write(to, text).expect("OUT_DIR is writable");
        }
    }
    assert!(kernels.len() > 100, "only {} kernels were found", kernels.len());
    fs::write(out.join("src/root.rs"), root(&out)).expect("OUT_DIR is writable");
    fs::write(out.join("kernels.txt"), kernels.concat()).expect("OUT_DIR is writable");
    fs::write(out.join("tests.rs"), tests(&engine.join("tests"))).expect("OUT_DIR is writable");
}

fn variable(name: &str) -> String {
    env::var(name).expect("cargo sets it")
}

/// The files below a folder, in the order of their paths.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the engine lies beside this package") {
        let path = entry.expect("a folder's entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The crate's root without inner attributes and comments, which `include!` refuses.
fn root(out: &Path) -> String {
    let text = fs::read_to_string(out.join("src/lib.rs")).expect("it was just written");
    let (_, items) = text.split_once("\nmod backend;").expect("the modules follow the attributes");
    format!("mod backend;{items}")
}

/// Neither modules of the tests, nor for this package: the program of the integration tests, and
/// the one of the feature `rustcrypto`.
const LEFT_OUT: [&str; 2] = ["all.rs", "rustcrypto.rs"];

/// The modules of the integration tests.
fn tests(folder: &Path) -> String {
    let folder = folder.canonicalize().expect("the engine has tests");
    let tests = files(&folder)
        .into_iter()
        .filter(|path| path.parent() == Some(&folder) && !LEFT_OUT.iter().any(|name| path.ends_with(name)));
    let common = ["common/mod.rs", "common/morus.rs"].map(|name| folder.join(name));
    let module = |path: PathBuf| {
        let named = if path.ends_with("mod.rs") { path.parent() } else { Some(&*path) };
        let name = named.and_then(Path::file_stem).expect("a file has a name").display();
        format!("#[path = {path:?}]\nmod {name};\n")
    };
    tests.chain(common).map(module).collect()
}

/// The text for the emulated CPU, on the same lines. Adds the kernels found.
fn emulated(file: &str, text: &str, kernels: &mut Vec<String>) -> String {
    let text = nested_imports(text).replace("core::arch", "crate::emulated");
    let literals = macro_features(&text);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for at in 0..lines.len() {
        let Some(rest) = lines[at].trim_start().strip_prefix(KERNEL) else { continue };
        let features = rest.strip_suffix(")]").expect("the attribute is alone on its line").to_owned();
        let (place, body) = (format!("{file}:{}", at + 1), body(&lines, at));
        let one = [features.trim_matches('"').to_owned()];
        // QEMU runs the kernels of ARM.
        let of_one = if features.starts_with('$') { &literals[..] } else { &one };
        for of_one in of_one.iter().filter(|_| file.contains("/x86/")) {
            kernels.push(format!("{place}\t{of_one}\n"));
        }
        lines[body] += &format!(" crate::emulated::ran!({place:?}, {features});");
        lines[at] = format!("{KERNEL}\"sse2\")]");
    }
    let text = lines.join("\n");
    let (all, replaced) = (text.matches("target_feature(enable"), text.matches("(enable = \"sse2\")]"));
    assert_eq!(all.count(), replaced.count(), "{file}: an attribute that is not a line of its own");
    assert!(!text.contains("std::arch"), "{file}: instructions from elsewhere");
    text
}

/// The line that opens the body of the function below an attribute.
fn body(lines: &[String], attribute: usize) -> usize {
    let function = (attribute..lines.len())
        .find(|line| lines[*line].contains("fn "))
        .expect("a function follows its attribute");
    assert!(function - attribute < 6, "line {attribute}: the attribute of something else");
    (function..lines.len()).find(|line| lines[*line].ends_with('{')).expect("a function has a body")
}

/// The sets of features that a file gives to its macros of kernels.
fn macro_features(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for literal in text.lines().filter(|line| !line.contains("target_feature")).flat_map(literals) {
        let names = ["sse2", "ssse3", "sse4.1", "aes", "avx", "avx2", "bmi2", "gfni", "pclmulqdq"];
        let known = |name: &str| names.contains(&name) || name.starts_with("avx512") || name.starts_with("v");
        if literal.split(',').all(known) && !found.contains(&literal.to_owned()) {
            found.push(literal.to_owned());
        }
    }
    found
}

/// The string literals of a line of code.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    code.split('"').skip(1).step_by(2)
}

/// Takes `arch::...` out of `use core::{...};` into a `use` of its own, on the line where the
/// statement ends.
fn nested_imports(text: &str) -> String {
    const OPEN: &str = "use core::{";
    let Some((before, rest)) = text.split_once(OPEN) else { return text.to_owned() };
    let (inside, after) = rest.split_once("};").expect("the statement ends");
    let Some(at) = inside.find("arch::").filter(|at| !inside[..*at].ends_with("::")) else {
        return format!("{before}{OPEN}{inside}}};{}", nested_imports(after));
    };
    let mut depth = 0;
    let length = inside[at..]
        .find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        })
        .unwrap_or(inside.len() - at);
    let (import, others) = (&inside[at..at + length], &inside[(at + length + 1).min(inside.len())..]);
    format!("{before}{OPEN}{}{others}}}; use core::{import};{}", &inside[..at], nested_imports(after))
}
