//! A control block: who publishes what, to which address.

use antedate_wire::EthernetAddress;
use antedate_wire::goose::{Message, Publisher, Value, Values};

use crate::types::Type;

/// A GOOSE control block with its address and its data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Control {
    /// `GoCBRef`: `LDName/LLN0$GO$NAME`
    pub reference: String,
    /// `GoID`
    pub go_id: String,
    /// `DatSet`: `LDName/LLN0$NAME`
    pub dat_set: String,
    /// `ConfRev`
    pub conf_rev: u32,
    /// address and times
    pub address: Address,
    /// the entries of the data set
    pub entries: Vec<Entry>,
}

/// The address and the times of a control block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// the group address
    pub destination: EthernetAddress,
    /// the application identifier
    pub appid: u16,
    /// the VLAN, 0 for a tag with a priority only
    pub vlan: u16,
    /// the priority, 0 to 7
    pub priority: u8,
    /// milliseconds to the first repetition of an event
    pub min_time: u32,
    /// milliseconds between repetitions without an event
    pub max_time: u32,
}

/// A member of a data set, or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// the reference: `LDName/LN.DO.DA`
    pub name: String,
    /// the content
    pub content: Content,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// a value
    Leaf(Type),
    /// a structure
    Structure(Vec<Entry>),
}

impl Control {
    /// The data attributes of the data set, from the first to the last.
    #[must_use]
    pub fn leaves(&self) -> Vec<(&str, &Type)> {
        leaves(&self.entries)
    }

    /// A message of this control block before its first event.
    #[must_use]
    pub fn message<'a>(&'a self, values: &'a [Value<'a>]) -> Message<'a> {
        Message {
            appid: self.address.appid,
            publisher: Publisher {
                gocb_ref: self.reference.as_bytes(),
                time_allowed_to_live: 2 * self.address.max_time,
                dat_set: self.dat_set.as_bytes(),
                go_id: Some(self.go_id.as_bytes()),
            },
            t: [0; 8],
            st_num: 1,
            sq_num: 0,
            simulation: false,
            conf_rev: self.conf_rev,
            nds_com: false,
            all_data: Values::Given(values),
        }
    }
}

/// The data attributes of entries, from the first to the last.
pub(crate) fn leaves(entries: &[Entry]) -> Vec<(&str, &Type)> {
    let mut out = Vec::new();
    collect(entries, &mut out);
    out
}

fn collect<'a>(entries: &'a [Entry], out: &mut Vec<(&'a str, &'a Type)>) {
    for entry in entries {
        match &entry.content {
            Content::Leaf(of) => out.push((&entry.name, of)),
            Content::Structure(parts) => collect(parts, out),
        }
    }
}
