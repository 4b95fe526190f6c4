//! Import circles: at most three sibling modules may import each other in a circle.
//!
//! An import in any file below a module counts for that module. Re-exports are followed to the
//! module that defines the name, and test modules are left out.

use super::{Fault, Source};
use imports::{Imports, Path};
use std::collections::{BTreeMap, BTreeSet};

mod imports;

/// The most modules of a circle.
const MAX: usize = 3;
/// The longest chain of re-exports that is followed.
const DEPTH: usize = 8;

pub(super) const REMEDY: &str = "move the shared items into a module of their own, below both";

/// An import as an edge between siblings: file, line, and the words.
type Edges = BTreeMap<String, BTreeMap<String, (String, usize, String)>>;

/// Circles of more than [`MAX`] modules in any crate.
pub(super) fn faults(sources: &[Source]) -> Vec<Fault> {
    let roots: BTreeSet<&str> = sources.iter().filter_map(|source| crate_root(&source.path)).collect();
    let mut faults = Vec::new();
    for root in roots {
        let own = sources.iter().filter(|source| source.path.starts_with(root));
        let modules = Modules::new(root, own);
        for (parent, edges) in modules.edges() {
            for circle in circles(&edges).into_iter().filter(|circle| circle.len() > MAX) {
                faults.push(fault(&parent, &circle, &edges));
            }
        }
    }
    faults
}

/// `crates/a/src/` of a library or a program.
fn crate_root(path: &str) -> Option<&str> {
    let root = path.strip_suffix("lib.rs").or_else(|| path.strip_suffix("main.rs"))?;
    root.ends_with("src/").then_some(root)
}

fn fault(parent: &[String], circle: &BTreeSet<String>, edges: &Edges) -> Fault {
    let name = if parent.is_empty() { "crate".to_string() } else { parent.join("::") };
    let members: Vec<&str> = circle.iter().map(String::as_str).collect();
    let mut what = format!("circle of {} modules in `{name}`: {}", circle.len(), members.join(" "));
    let inside = circle.iter().flat_map(|one| edges[one].iter().filter(|(other, _)| circle.contains(*other)));
    let imports: Vec<_> = inside.map(|(_, import)| import).collect();
    for (file, line, words) in &imports {
        what.push_str(&format!("\n  {file}:{line}: {words}"));
    }
    let (file, line, _) = imports[0];
    Fault::new(file, *line, what)
}

/// The modules of a crate by their paths. A library and a program in one folder share the root.
struct Modules(BTreeMap<Path, Vec<(String, Imports)>>);

impl Modules {
    fn new<'a>(root: &str, sources: impl Iterator<Item = &'a Source>) -> Self {
        let mut modules: BTreeMap<Path, Vec<(String, Imports)>> = BTreeMap::new();
        let mut test_modules = Vec::new();
        for source in sources {
            let Some(module) = module(&source.path[root.len()..]) else { continue };
            let imports = Imports::of(&source.code);
            test_modules.extend(
                imports.test_modules.iter().map(|name| [&module[..], std::slice::from_ref(name)].concat()),
            );
            modules.entry(module).or_default().push((source.path.clone(), imports));
        }
        modules.retain(|path, _| !test_modules.iter().any(|test| path.starts_with(test)));
        Self(modules)
    }

    /// The edges between the children of each module.
    fn edges(&self) -> BTreeMap<Path, Edges> {
        let mut edges: BTreeMap<Path, Edges> = BTreeMap::new();
        for (module, files) in &self.0 {
            for (file, imports) in files {
                for (line, path) in &imports.uses {
                    let Some(target) = self.absolute(module, path).and_then(|path| self.target(&path, 0))
                    else {
                        continue;
                    };
                    let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                    if common < module.len() && common < target.len() {
                        let from = edges.entry(module[..common].to_vec()).or_default();
                        let from = from.entry(module[common].clone()).or_default();
                        let words = format!("{} -> {}", module.join("::"), path.join("::"));
                        from.entry(target[common].clone()).or_insert((file.clone(), *line, words));
                    }
                }
            }
        }
        edges
    }

    /// The path from the crate's root; `None` for paths into other crates.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Path> {
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([module, &path[1..]].concat()),
            "super" => {
                let ups = path.iter().take_while(|word| *word == "super").count();
                Some([&module[..module.len().saturating_sub(ups)], &path[ups..]].concat())
            }
            first => {
                let child = [module, &[first.to_string()]].concat();
                self.0.contains_key(&child).then(|| [module, path].concat())
            }
        }
    }

    /// The module that defines a path: its longest prefix that is a module, or the origin of a
    /// re-export of the rest.
    fn target(&self, path: &[String], depth: usize) -> Option<Path> {
        let length = (0..=path.len()).rev().find(|length| self.0.contains_key(&path[..*length]))?;
        let (module, rest) = path.split_at(length);
        let wanted = rest.first().filter(|_| depth < DEPTH);
        let exports = || self.0[module].iter().flat_map(|(_, imports)| &imports.exports);
        let named = exports().filter(|(name, _)| Some(name) == wanted);
        // A glob may export any name, so globs come last.
        for (name, from) in named.chain(exports().filter(|(name, _)| name == "*" && wanted.is_some())) {
            let mut from = from.clone();
            if let (true, Some(wanted)) = (name == "*", wanted) {
                from.pop();
                from.push(wanted.clone());
            }
            let Some(absolute) = self.absolute(module, &from) else { continue };
            let further = self.target(&[&absolute[..], &rest[1..]].concat(), depth + 1);
            if further.as_deref().is_some_and(|further| further != module) {
                return further;
            }
        }
        Some(module.to_vec())
    }
}

/// The module of a file below the crate's root; `None` for tests and for further programs.
fn module(file: &str) -> Option<Path> {
    let mut words: Path = file.strip_suffix(".rs")?.split('/').map(str::to_string).collect();
    if words.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        words.pop();
    }
    let is_test = |word: &String| word == "tests" || word.ends_with("_tests");
    (!words.iter().any(is_test) && words.first().is_none_or(|first| first != "bin")).then_some(words)
}

/// The strongly connected components of more than one module.
fn circles(edges: &Edges) -> Vec<BTreeSet<String>> {
    let reached = |from: &String| {
        let (mut seen, mut queue) = (BTreeSet::new(), vec![from]);
        while let Some(one) = queue.pop() {
            for next in edges.get(one).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(next.clone()) {
                    queue.push(next);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<String>> = edges.keys().map(|one| (one, reached(one))).collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for (one, seen) in &reach {
        let back = |other: &&String| reach.get(*other).is_some_and(|seen| seen.contains(*one));
        let circle: BTreeSet<String> = seen.iter().filter(back).cloned().collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let root = ("crates/x/src/lib.rs", "mod a; mod b; mod c; mod d;");
        let sources = files.iter().chain([&root]).map(|(path, text)| Source::new(path, text));
        let told: Vec<String> = faults(&sources.collect::<Vec<_>>()).iter().map(Fault::to_string).collect();
        told.iter().map(|text| text.lines().next().unwrap_or_default().to_string()).collect()
    }

    #[test]
    fn circle_of_four_is_found() {
        let files = [
            ("crates/x/src/a.rs", "\nuse crate::b::B;"),
            ("crates/x/src/b/mod.rs", "mod inner;"),
            ("crates/x/src/b/inner.rs", "fn f() -> super::super::c::C {}"),
            ("crates/x/src/c.rs", "use super::{d::{self, D}, std};"),
            ("crates/x/src/d.rs", "use crate::{a as other};"),
        ];
        assert_eq!(found(&files), ["crates/x/src/a.rs:2: circle of 4 modules in `crate`: a b c d"]);
        assert_eq!(found(&files[..4]), [""; 0], "no way back");
    }

    #[test]
    fn tests_and_comments_do_not_count() {
        let files = [
            ("crates/x/src/a.rs", "use crate::b::B;"),
            ("crates/x/src/b.rs", "use crate::c::C;"),
            ("crates/x/src/c.rs", "use crate::d::D;"),
            (
                "crates/x/src/d.rs",
                "// use crate::a::A;\n#[cfg(test)]\nmod tests { use crate::a::A; fn f() { {} } }",
            ),
        ];
        assert_eq!(found(&files), [""; 0]);
        let files = [files[0], files[1], files[2], ("crates/x/src/d.rs", "#[cfg(test)] mod checks;")];
        let inner = ("crates/x/src/d/checks.rs", "use crate::a::A;");
        assert_eq!(found(&[&files[..], &[inner]].concat()), [""; 0]);
    }

    #[test]
    fn re_exports_are_followed() {
        let files = [
            ("crates/x/src/lib.rs", "pub use a::A; pub(crate) use b::*; mod a; mod b; mod c; mod d;"),
            ("crates/x/src/a.rs", "use crate::Bee;"),
            ("crates/x/src/b.rs", "pub use crate::c::C;"),
            ("crates/x/src/c.rs", "use crate::d::D;"),
            ("crates/x/src/d.rs", "use crate::A;"),
        ];
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        assert_eq!(faults(&sources).len(), 1, "by `A` and by the star");
    }
}
