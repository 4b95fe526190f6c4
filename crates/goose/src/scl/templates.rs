//! Members of data sets (`FCDA`) and their types in `DataTypeTemplates`.

use std::collections::HashMap;

use antedate_host::fault::Fault;
use antedate_wire::goose::MAX_DEPTH;
use roxmltree::Node;

use super::{Scl, children, near};
use crate::control::{Content, Entry};
use crate::types::Type;

/// The most data attributes of a data set: more do not fit a frame.
pub(super) const MAX_ATTRIBUTES: usize = 512;

/// Elements of `DataTypeTemplates` by their identifiers.
pub(super) struct Templates<'a, 'input> {
    nodes: HashMap<&'a str, Node<'a, 'input>>,
    objects: HashMap<&'a str, Node<'a, 'input>>,
    attributes: HashMap<&'a str, Node<'a, 'input>>,
    enums: HashMap<&'a str, Node<'a, 'input>>,
}

impl<'a, 'input: 'a> Templates<'a, 'input> {
    pub(super) fn of(root: Node<'a, 'input>) -> Self {
        let of = |kind: &'static str| {
            let all = children(root, "DataTypeTemplates").flat_map(move |at| children(at, kind));
            all.filter_map(|node| Some((node.attribute("id")?, node))).collect()
        };
        Self {
            nodes: of("LNodeType"),
            objects: of("DOType"),
            attributes: of("DAType"),
            enums: of("EnumType"),
        }
    }
}

impl<'a, 'input> Scl<'a, 'input> {
    /// The entry of an `FCDA`. `room` counts the data attributes that the data set may still have.
    pub(super) fn member(
        &self,
        ied: Node<'a, 'input>,
        owner: &str,
        fcda: Node<'a, 'input>,
        room: &mut usize,
    ) -> Result<Entry, Fault> {
        let text = |name| fcda.attribute(name).unwrap_or_default();
        if fcda.has_attribute("ix") {
            let what =
                format!("FCDA with ix, an element of the array `{}.{}`", text("doName"), text("daName"));
            let remedy = "arrays are not supported: leave it out of the data set";
            return Err(self.fault(fcda, what, remedy));
        }
        let (inst, class) = (self.attribute(fcda, "ldInst")?, self.attribute(fcda, "lnClass")?);
        let (object, fc) = (self.attribute(fcda, "doName")?, self.attribute(fcda, "fc")?);
        let device = children(ied, "AccessPoint")
            .flat_map(|at| children(at, "Server"))
            .flat_map(|at| children(at, "LDevice"))
            .find(|device| device.attribute("inst") == Some(inst))
            .ok_or_else(|| {
                let what = format!("the IED has no logical device `{inst}`");
                self.fault(fcda, what, "name one of its LDevice elements in ldInst")
            })?;
        let node = device
            .children()
            .filter(|node| matches!(node.tag_name().name(), "LN" | "LN0"))
            .find(|node| {
                let is = |here, there| node.attribute(here).unwrap_or_default() == text(there);
                is("prefix", "prefix") && is("lnClass", "lnClass") && is("inst", "lnInst")
            })
            .ok_or_else(|| {
                let what =
                    format!("`{inst}` has no logical node `{}{class}{}`", text("prefix"), text("lnInst"));
                self.fault(fcda, what, "name one of its LN elements in prefix, lnClass and lnInst")
            })?;
        let domain = match device.attribute("ldName") {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => format!("{owner}{inst}"),
        };
        let mut name = format!("{domain}/{}{class}{}", text("prefix"), text("lnInst"));

        // The data object, with its sub-objects.
        let mut at = self.named(node, "lnType", &self.templates.nodes, "LNodeType")?;
        for (depth, part) in object.split('.').enumerate() {
            let element = if depth == 0 { "DO" } else { "SDO" };
            let next = self.child(fcda, at, element, part)?;
            at = self.named(next, "type", &self.templates.objects, "DOType")?;
            name = format!("{name}.{part}");
            self.single(next, &name)?;
        }
        let Some(path) = fcda.attribute("daName").filter(|path| !path.is_empty()) else {
            let parts = self.constrained(at, fc, &name, room, 0)?;
            if parts.is_empty() {
                let what = format!("`{name}` has no data attribute with fc=\"{fc}\"");
                return Err(self.fault(fcda, what, "name a functional constraint of its DOType"));
            }
            return Ok(Entry { name, content: Content::Structure(parts) });
        };

        // The data attribute, with its parts.
        let mut parts = path.split('.');
        let first = parts.next().unwrap_or_default();
        let mut attribute = self.child(fcda, at, "DA", first)?;
        if attribute.attribute("fc") != Some(fc) {
            let has = attribute.attribute("fc").unwrap_or("none");
            let what = format!("`{name}.{first}` has the functional constraint {has}, not {fc}");
            return Err(self.fault(fcda, what, format!("write fc=\"{has}\"")));
        }
        name = format!("{name}.{first}");
        for part in parts {
            self.single(attribute, &name)?;
            let of = self.named(attribute, "type", &self.templates.attributes, "DAType")?;
            attribute = self.child(fcda, of, "BDA", part)?;
            name = format!("{name}.{part}");
        }
        self.attribute_entry(attribute, name, room, 0)
    }

    /// The attributes of a data object with a functional constraint.
    fn constrained(
        &self,
        of: Node<'a, 'input>,
        fc: &str,
        name: &str,
        room: &mut usize,
        depth: usize,
    ) -> Result<Vec<Entry>, Fault> {
        self.bounded(of, depth)?;
        let mut out = Vec::new();
        for child in of.children().filter(Node::is_element) {
            let name = || Ok(format!("{name}.{}", self.attribute(child, "name")?));
            match child.tag_name().name() {
                "SDO" => {
                    self.take(child, room)?;
                    let name = name()?;
                    self.single(child, &name)?;
                    let of = self.named(child, "type", &self.templates.objects, "DOType")?;
                    let parts = self.constrained(of, fc, &name, room, depth + 1)?;
                    if !parts.is_empty() {
                        out.push(Entry { name, content: Content::Structure(parts) });
                    }
                }
                "DA" if child.attribute("fc") == Some(fc) => {
                    out.push(self.attribute_entry(child, name()?, room, depth + 1)?);
                }
                _ => (),
            }
        }
        Ok(out)
    }

    /// A data attribute or a part of one.
    fn attribute_entry(
        &self,
        node: Node<'a, 'input>,
        name: String,
        room: &mut usize,
        depth: usize,
    ) -> Result<Entry, Fault> {
        self.take(node, room)?;
        self.single(node, &name)?;
        let basic = self.attribute(node, "bType")?;
        let content = match basic {
            "Struct" => {
                self.bounded(node, depth)?;
                let of = self.named(node, "type", &self.templates.attributes, "DAType")?;
                let mut parts = Vec::new();
                for part in children(of, "BDA") {
                    let name = format!("{name}.{}", self.attribute(part, "name")?);
                    parts.push(self.attribute_entry(part, name, room, depth + 1)?);
                }
                Content::Structure(parts)
            }
            "Enum" => {
                let of = self.named(node, "type", &self.templates.enums, "EnumType")?;
                let values = children(of, "EnumVal").filter_map(|one| {
                    Some((
                        one.attribute("ord")?.parse().ok()?,
                        one.text().unwrap_or_default().trim().to_owned(),
                    ))
                });
                Content::Leaf(Type::Enum(values.collect()))
            }
            basic => Content::Leaf(Type::of(basic).ok_or_else(|| {
                let what = format!("`{name}` has the type {basic}, which is not supported");
                self.fault(node, what, "leave it out of the data set")
            })?),
        };
        Ok(Entry { name, content })
    }

    /// Refuses arrays. `count` is a number, or the name of a data attribute with one.
    fn single(&self, node: Node<'a, 'input>, name: &str) -> Result<(), Fault> {
        match node.attribute("count") {
            None | Some("" | "0") => Ok(()),
            Some(count) => Err(self.fault(
                node,
                format!("`{name}` is an array (count=\"{count}\")"),
                "arrays are not supported: leave it out of the data set; name the data attributes beside it one by one",
            )),
        }
    }

    /// Refuses a structure that is nested too deep in others.
    fn bounded(&self, node: Node<'a, 'input>, depth: usize) -> Result<(), Fault> {
        if depth < MAX_DEPTH {
            return Ok(());
        }
        let what = format!("its types are nested more than {MAX_DEPTH} deep, or contain themselves");
        Err(self.fault(node, what, "look for a type that names itself"))
    }

    fn take(&self, node: Node<'a, 'input>, room: &mut usize) -> Result<(), Fault> {
        *room = room.checked_sub(1).ok_or_else(|| {
            let what = format!("the data set has more than {MAX_ATTRIBUTES} data attributes");
            self.fault(node, what, "divide it, since a frame does not hold them")
        })?;
        Ok(())
    }

    /// The template that an attribute of an element names.
    fn named(
        &self,
        node: Node<'a, 'input>,
        attribute: &str,
        all: &HashMap<&'a str, Node<'a, 'input>>,
        kind: &str,
    ) -> Result<Node<'a, 'input>, Fault> {
        let id = self.attribute(node, attribute)?;
        all.get(id).copied().ok_or_else(|| {
            let remedy = "add it to DataTypeTemplates, or export the file with its templates";
            self.fault(node, format!("there is no {kind} `{id}`"), near(id, all.keys().copied(), remedy))
        })
    }

    /// The child of a template with a name.
    fn child(
        &self,
        fcda: Node<'a, 'input>,
        of: Node<'a, 'input>,
        element: &'a str,
        name: &str,
    ) -> Result<Node<'a, 'input>, Fault> {
        children(of, element).find(|child| child.attribute("name") == Some(name)).ok_or_else(|| {
            let known: Vec<&str> =
                children(of, element).filter_map(|child| child.attribute("name")).collect();
            let kind = format!("{} `{}`", of.tag_name().name(), of.attribute("id").unwrap_or_default());
            let what = format!("{kind} of line {} has no {element} `{name}`", self.line(of));
            self.fault(
                fcda,
                what,
                near(name, known.iter().copied(), "name one that it has, or mend the type"),
            )
        })
    }
}
