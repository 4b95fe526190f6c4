//! SCL files (IEC 61850-6): ICD, CID and SCD. Read are the control blocks of GOOSE and of sampled
//! values, their addresses in the `Communication` section, and their data sets with the types of
//! `DataTypeTemplates`.
//!
//! A control block that cannot be used does not hinder the others: its fault is told when it is
//! asked for.

mod address;
mod streams;
mod templates;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use antedate_host::fault::{Fault, nearest};
use roxmltree::{Document, Node, ParsingOptions};

use crate::control::{Control, Entry};
use crate::stream::Stream;
use templates::Templates;

/// The longest file in octets.
pub const MAX_LEN: usize = 64 << 20;
/// The most elements, texts and comments of a file.
const MAX_NODES: u32 = 4_000_000;
/// The most control blocks of a file.
const MAX_CONTROLS: usize = 10_000;
/// The deepest nesting of elements. Real files have about fifteen.
const MAX_DEPTH: usize = 64;
/// The longest name or path of names.
const MAX_NAME: usize = 255;

/// A kind of control blocks.
pub trait Block: Sized {
    /// What a file without one has none of, and the element that it needs.
    const MISSING: (&'static str, &'static str);
}

impl Block for Control {
    const MISSING: (&'static str, &'static str) = ("GOOSE control block", "GSEControl");
}

impl Block for Stream {
    const MISSING: (&'static str, &'static str) = ("control block of sampled values", "SampledValueControl");
}

/// A control block of a file.
#[derive(Debug)]
pub struct Listed<T = Control> {
    /// the IED that publishes it
    pub ied: String,
    /// its name in the IED
    pub name: String,
    /// its reference, `LDName/LLN0$GO$NAME` or `LDName/LLN0$MS$NAME`
    pub reference: String,
    /// the line of its element
    pub line: usize,
    /// the control block, or why it cannot be used
    pub control: Result<T, Fault>,
}

/// The control blocks of GOOSE of a file on disk.
///
/// # Errors
/// When the file cannot be read, is too long, or is no SCL.
pub fn read(path: &Path) -> Result<Vec<Listed>, Fault> {
    parse(path, &text(path)?)
}

/// The control blocks of sampled values of a file on disk.
///
/// # Errors
/// When the file cannot be read, is too long, or is no SCL.
pub fn read_streams(path: &Path) -> Result<Vec<Listed<Stream>>, Fault> {
    parse_streams(path, &text(path)?)
}

fn text(path: &Path) -> Result<String, Fault> {
    let failed = |error: &std::io::Error| Fault::of_io(path, "read", error, "name an ICD, CID or SCD file");
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| failed(&error))?;
    file.take(MAX_LEN as u64 + 1).read_to_end(&mut text).map_err(|error| failed(&error))?;
    String::from_utf8(text).map_err(|_| {
        Fault::of_file(
            path,
            "is not UTF-8",
            "export it as UTF-8: iconv -f utf-16 -t utf-8 converts other forms",
        )
    })
}

/// The control blocks of GOOSE of a text. `path` is named in faults.
///
/// # Errors
/// When the text is too long, or is no SCL.
pub fn parse(path: &Path, text: &str) -> Result<Vec<Listed>, Fault> {
    blocks(path, text, ("GSEControl", "GSE", "GO"), |file, found| file.control(found))
}

/// The control blocks of sampled values of a text. `path` is named in faults.
///
/// # Errors
/// When the text is too long, or is no SCL.
pub fn parse_streams(path: &Path, text: &str) -> Result<Vec<Listed<Stream>>, Fault> {
    blocks(path, text, ("SampledValueControl", "SMV", "MS"), |file, found| file.stream(found))
}

/// A control block with what is around it.
struct Found<'a, 'input> {
    ied: Node<'a, 'input>,
    device: Node<'a, 'input>,
    control: Node<'a, 'input>,
    domain: String,
    reference: String,
}

/// The control blocks of a text: elements of a name, with addresses of another, and the letters of
/// their references.
fn blocks<T>(
    path: &Path,
    text: &str,
    (element, address, letters): (&str, &'static str, &str),
    make: impl for<'a, 'input> Fn(&Scl<'a, 'input>, &Found<'a, 'input>) -> Result<T, Fault>,
) -> Result<Vec<Listed<T>>, Fault> {
    let whole = |what: String, remedy: &str| Fault::of_file(path, what, remedy);
    if text.len() > MAX_LEN {
        return Err(whole(
            format!("is longer than {} MiB", MAX_LEN >> 20),
            "export the CID file of the IED instead of the whole SCD",
        ));
    }
    if let Some(line) = too_deep(text) {
        let fault = whole(format!("nests elements more than {MAX_DEPTH} deep"), "export the file anew");
        return Err(Fault { line: Some(line), ..fault });
    }
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let line = Some(error.pos().row as usize);
        let remedy = "mend the XML, or export the file anew";
        Fault { line, ..whole(format!("is not well-formed XML: {error}"), remedy) }
    })?;
    let root = document.root_element();
    if root.tag_name().name() != "SCL" {
        let what = format!("is XML with a root of <{}>, not <SCL>", root.tag_name().name());
        return Err(Fault { line: Some(1), ..whole(what, "name an ICD, CID or SCD file") });
    }
    let file = Scl {
        path,
        lines: text.bytes().enumerate().filter(|(_, octet)| *octet == b'\n').map(|(at, _)| at).collect(),
        templates: Templates::of(root),
        address_element: address,
        addresses: addresses(root, address),
    };
    let mut out = Vec::new();
    for ied in children(root, "IED") {
        for device in children(ied, "AccessPoint")
            .flat_map(|at| children(at, "Server"))
            .flat_map(|at| children(at, "LDevice"))
        {
            for control in children(device, "LN0").flat_map(|node| children(node, element)) {
                if control.attribute("type") == Some("GSSE") {
                    continue;
                }
                if out.len() == MAX_CONTROLS {
                    return Err(whole(
                        format!("has more than {MAX_CONTROLS} control blocks"),
                        "export the CID file of the IED instead of the whole SCD",
                    ));
                }
                out.push(file.listed((ied, device, control), letters, &make));
            }
        }
    }
    Ok(out)
}

/// The control block with this reference, `IED/NAME` or name; the only one without a name.
///
/// # Errors
/// When there is none, there are several, or it cannot be used.
pub fn select<T: Block>(path: &Path, all: Vec<Listed<T>>, wanted: Option<&str>) -> Result<T, Fault> {
    let is_wanted = |one: &Listed<T>| match wanted {
        None => true,
        Some(wanted) => {
            one.reference == wanted
                || one.name == wanted
                || wanted.split_once('/') == Some((&one.ied, &one.name))
        }
    };
    let names: Vec<String> = all.iter().map(|one| format!("{}/{}", one.ied, one.name)).collect();
    let mut found: Vec<Listed<T>> = all.into_iter().filter(is_wanted).collect();
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => only.control,
        (None, _) => Err(match wanted {
            Some(wanted) if !names.is_empty() => Fault::of_file(
                path,
                format!("has no control block `{wanted}`"),
                near(wanted, names.iter().map(String::as_str), "antedate goose list FILE shows them"),
            ),
            _ => Fault::of_file(
                path,
                format!("has no {}", T::MISSING.0),
                format!("name a file with a {} element in an LN0 of an IED", T::MISSING.1),
            ),
        }),
        (Some(last), false) => {
            let shown: Vec<String> =
                found.iter().chain([&last]).take(8).map(|one| format!("{}/{}", one.ied, one.name)).collect();
            Err(Fault::of_file(
                path,
                format!("has {} such control blocks: {}", found.len() + 1, shown.join(", ")),
                "name one of them with --control-block IED/NAME; antedate goose list FILE shows all",
            ))
        }
    }
}

/// What control blocks of all kinds have.
struct Common<'a, 'input> {
    conf_rev: u32,
    /// The reference of the data set.
    dat_set: String,
    entries: Vec<Entry>,
    /// The element with its address.
    address: Node<'a, 'input>,
}

/// What is known of a whole file.
struct Scl<'a, 'input> {
    path: &'a Path,
    /// The places of the ends of lines.
    lines: Vec<usize>,
    templates: Templates<'a, 'input>,
    /// The name of elements with addresses.
    address_element: &'static str,
    /// `GSE` or `SMV` elements by IED, logical device and control block. A second one of a name is
    /// ignored.
    addresses: HashMap<[&'a str; 3], Node<'a, 'input>>,
}

impl<'a, 'input> Scl<'a, 'input> {
    fn line(&self, node: Node<'_, '_>) -> usize {
        self.lines.partition_point(|end| *end < node.range().start) + 1
    }

    /// A fault of an element.
    fn fault(&self, node: Node<'_, '_>, what: impl Into<String>, remedy: impl Into<String>) -> Fault {
        Fault { line: Some(self.line(node)), ..Fault::of_file(self.path, what, remedy) }
    }

    /// An attribute that an element must have.
    fn attribute(&self, node: Node<'a, 'input>, name: &str) -> Result<&'a str, Fault> {
        let element = node.tag_name().name();
        let value = node.attribute(name).filter(|value| !value.is_empty()).ok_or_else(|| {
            self.fault(node, format!("<{element}> has no {name}"), format!("give it {name}=\"...\""))
        })?;
        if value.len() > MAX_NAME {
            let what = format!("the {name} of <{element}> is longer than {MAX_NAME} octets");
            return Err(self.fault(node, what, "shorten it"));
        }
        Ok(value)
    }

    fn listed<T>(
        &self,
        (ied, device, control): (Node<'a, 'input>, Node<'a, 'input>, Node<'a, 'input>),
        letters: &str,
        make: impl Fn(&Self, &Found<'a, 'input>) -> Result<T, Fault>,
    ) -> Listed<T> {
        let text = |node: Node<'a, 'input>, name| node.attribute(name).unwrap_or_default();
        let (owner, name) = (text(ied, "name"), text(control, "name"));
        let domain = match device.attribute("ldName") {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => format!("{owner}{}", text(device, "inst")),
        };
        let reference = format!("{domain}/LLN0${letters}${name}");
        let found = Found { ied, device, control, domain, reference };
        let made = make(self, &found);
        Listed {
            ied: owner.to_owned(),
            name: name.to_owned(),
            line: self.line(control),
            control: made,
            reference: found.reference,
        }
    }

    /// A control block of GOOSE.
    fn control(&self, found: &Found<'a, 'input>) -> Result<Control, Fault> {
        let go_id = self.attribute(found.control, "appID")?;
        let Common { conf_rev, dat_set, entries, address } = self.common(found)?;
        Ok(Control {
            reference: found.reference.clone(),
            go_id: go_id.to_owned(),
            dat_set,
            conf_rev,
            address: self.address(address)?,
            entries,
        })
    }

    /// What control blocks of all kinds have.
    fn common(&self, found: &Found<'a, 'input>) -> Result<Common<'a, 'input>, Fault> {
        let Found { ied, device, control, domain, reference } = found;
        let (owner, inst) = (self.attribute(*ied, "name")?, self.attribute(*device, "inst")?);
        let (name, control) = (self.attribute(*control, "name")?, *control);
        let conf_rev = match control.attribute("confRev") {
            None => 0,
            Some(text) => text.parse().map_err(|_| {
                self.fault(
                    control,
                    format!("confRev `{text}` is not a number of 32 bits"),
                    "write it in decimal",
                )
            })?,
        };
        if reference.len() > 129 {
            return Err(self.fault(
                control,
                "its reference is longer than 129 characters",
                "shorten the names",
            ));
        }
        let set = control.attribute("datSet").filter(|set| !set.is_empty()).ok_or_else(|| {
            self.fault(control, "the control block has no data set", "give it datSet=\"...\"")
        })?;
        let node = control.parent_element().unwrap_or(control);
        let data_set =
            children(node, "DataSet").find(|one| one.attribute("name") == Some(set)).ok_or_else(|| {
                let known: Vec<&str> =
                    children(node, "DataSet").filter_map(|one| one.attribute("name")).collect();
                let remedy = "add a DataSet to the same LN0, or name another one in datSet";
                self.fault(
                    control,
                    format!("there is no data set `{set}` beside it"),
                    near(set, known.iter().copied(), remedy),
                )
            })?;
        let entries = self.entries(*ied, data_set, owner)?;
        let address = self.addresses.get(&[owner, inst, name]).copied().ok_or_else(|| {
            let element = self.address_element;
            self.fault(
                control,
                "it has no address",
                format!(
                    "add <{element} ldInst=\"{inst}\" cbName=\"{name}\"> to the ConnectedAP of {owner} in Communication"
                ),
            )
        })?;
        Ok(Common { conf_rev, dat_set: format!("{domain}/LLN0${set}"), entries, address })
    }

    /// The entries of a data set.
    fn entries(
        &self,
        ied: Node<'a, 'input>,
        data_set: Node<'a, 'input>,
        owner: &str,
    ) -> Result<Vec<Entry>, Fault> {
        let mut out = Vec::new();
        // A frame of Ethernet holds some 400 of the smallest values.
        let mut room = templates::MAX_ATTRIBUTES;
        for member in data_set.children().filter(Node::is_element) {
            if member.tag_name().name() == "Private" || member.tag_name().name() == "Text" {
                continue;
            }
            if member.tag_name().name() != "FCDA" {
                let what = format!("<{}> in a data set", member.tag_name().name());
                return Err(self.fault(member, what, "only FCDA elements are members"));
            }
            out.push(self.member(ied, owner, member, &mut room)?);
        }
        if out.is_empty() {
            return Err(self.fault(data_set, "the data set is empty", "add FCDA elements"));
        }
        Ok(out)
    }
}

/// A remedy: the known name that is nearest, if one is near.
fn near<'k>(wrong: &str, known: impl Iterator<Item = &'k str> + Clone, otherwise: &str) -> String {
    let known = known.filter(|name| name.len() <= MAX_NAME).take(1000);
    match (wrong.len() <= MAX_NAME).then(|| nearest(wrong, known)).flatten() {
        Some(name) => format!("did you mean `{name}`?"),
        None => otherwise.to_owned(),
    }
}

/// Child elements with a name.
fn children<'a, 'input: 'a>(
    node: Node<'a, 'input>,
    name: &'a str,
) -> impl Iterator<Item = Node<'a, 'input>> + use<'a, 'input> {
    node.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

/// Elements with addresses, by IED, logical device and control block.
fn addresses<'a, 'input: 'a>(
    root: Node<'a, 'input>,
    element: &'static str,
) -> HashMap<[&'a str; 3], Node<'a, 'input>> {
    let mut out = HashMap::new();
    for point in children(root, "Communication")
        .flat_map(|at| children(at, "SubNetwork"))
        .flat_map(|at| children(at, "ConnectedAP"))
    {
        for gse in children(point, element) {
            let names = [point.attribute("iedName"), gse.attribute("ldInst"), gse.attribute("cbName")];
            out.entry(names.map(Option::unwrap_or_default)).or_insert(gse);
        }
    }
    out
}

/// The line of the first element that is nested too deep. Parsing takes stack for each level, so it
/// is looked for before. Comments, character data and attribute values may hide it or look like it;
/// the bound is far from what files have.
fn too_deep(text: &str) -> Option<usize> {
    let octets = text.as_bytes();
    let (mut depth, mut line) = (0usize, 1);
    for (at, octet) in octets.iter().enumerate() {
        match (octet, octets.get(at + 1)) {
            (b'\n', _) => line += 1,
            (b'<', Some(b'/')) | (b'/', Some(b'>')) => depth = depth.saturating_sub(1),
            (b'<', Some(next)) if !matches!(next, b'!' | b'?') => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Some(line);
                }
            }
            _ => (),
        }
    }
    None
}
