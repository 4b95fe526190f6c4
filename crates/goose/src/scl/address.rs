//! The address of a control block: the `GSE` element of `Communication` (IEC 61850-8-1, 25), or the
//! `SMV` element of sampled values.

use antedate_host::fault::Fault;
use antedate_wire::EthernetAddress;
use roxmltree::Node;

use super::{Scl, children};
use crate::control::Address;

/// The standard's values for a tag that the file does not describe.
const VLAN: u16 = 0;
const PRIORITY: u8 = 4;
/// Times of a control block for which the file has none, in milliseconds.
const MIN_TIME: u32 = 4;
const MAX_TIME: u32 = 1000;
/// The longest time, a day: twice of it is far from the end of timeAllowedToLive.
const LONGEST: u32 = 86_400_000;

/// The addresses that messages of a kind have.
pub(super) struct Kind {
    name: &'static str,
    /// Examples.
    address: &'static str,
    appid: &'static str,
    /// Remedies.
    addresses: &'static str,
    appids: &'static str,
    is_appid: fn(u16) -> bool,
}

const GOOSE: Kind = Kind {
    name: "GOOSE",
    address: "01-0C-CD-01-00-01",
    appid: "1000",
    addresses: "take one from 01-0C-CD-01-00-00 to 01-0C-CD-01-01-FF",
    appids: "write up to four hexadecimal digits, 0000 to 3FFF, or 8000 and above for trips",
    is_appid: |appid| !(0x4000..0x8000).contains(&appid),
};

pub(super) const SAMPLED: Kind = Kind {
    name: "sampled values",
    address: "01-0C-CD-04-00-01",
    appid: "4000",
    addresses: "take one from 01-0C-CD-04-00-00 to 01-0C-CD-04-01-FF",
    appids: "write four hexadecimal digits, 4000 to 7FFF",
    is_appid: |appid| (0x4000..0x8000).contains(&appid),
};

/// Where messages go.
pub(super) struct Place {
    pub(super) destination: EthernetAddress,
    pub(super) appid: u16,
    pub(super) vlan: u16,
    pub(super) priority: u8,
}

impl<'a, 'input> Scl<'a, 'input> {
    /// The address of a `GSE` element.
    pub(super) fn address(&self, gse: Node<'a, 'input>) -> Result<Address, Fault> {
        let Place { destination, appid, vlan, priority } = self.place(gse, &GOOSE)?;
        let min_time = self.time(gse, "MinTime")?.unwrap_or(MIN_TIME);
        let max_time = self.time(gse, "MaxTime")?.unwrap_or(MAX_TIME.max(min_time));
        if max_time < min_time {
            return Err(self.fault(
                gse,
                format!("MaxTime is {max_time} ms and MinTime {min_time} ms"),
                "MaxTime must not be below MinTime",
            ));
        }
        Ok(Address { destination, appid, vlan, priority, min_time, max_time })
    }

    /// The places of a `GSE` or `SMV` element.
    pub(super) fn place(&self, gse: Node<'a, 'input>, kind: &Kind) -> Result<Place, Fault> {
        let places = |kind: &'static str| {
            let all = children(gse, "Address").flat_map(|address| children(address, "P"));
            all.filter(move |place| place.attribute("type") == Some(kind))
        };
        let text = |kind| places(kind).next().map(|place| (place, place.text().unwrap_or_default().trim()));
        let needed = |kind: &'static str, example: &str| {
            text(kind).ok_or_else(|| {
                let remedy = format!("add <P type=\"{kind}\">{example}</P> to its Address");
                self.fault(gse, format!("the {} has no {kind}", gse.tag_name().name()), remedy)
            })
        };
        let hex = |digits: &str, most: usize| {
            let is_hex =
                !digits.is_empty() && digits.len() <= most && digits.bytes().all(|c| c.is_ascii_hexdigit());
            u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
        };

        let (place, octets) = needed("MAC-Address", kind.address)?;
        let destination: EthernetAddress = octets.parse().map_err(|_| {
            self.fault(
                place,
                format!("MAC-Address `{octets}` is not six octets"),
                "write it as in 01-0C-CD-01-00-01",
            )
        })?;
        if destination.0[0] & 1 == 0 {
            return Err(self.fault(
                place,
                format!("MAC-Address `{octets}` is no group address"),
                kind.addresses,
            ));
        }
        let (place, digits) = needed("APPID", kind.appid)?;
        let appid = hex(digits, 4).filter(|appid| (kind.is_appid)(*appid)).ok_or_else(|| {
            self.fault(place, format!("APPID `{digits}` is no APPID of {}", kind.name), kind.appids)
        })?;
        let vlan = match text("VLAN-ID") {
            None => VLAN,
            Some((place, digits)) => hex(digits, 3).filter(|id| *id < 0xfff).ok_or_else(|| {
                self.fault(
                    place,
                    format!("VLAN-ID `{digits}` is no VLAN"),
                    "write three hexadecimal digits, 000 to FFE",
                )
            })?,
        };
        let priority = match text("VLAN-PRIORITY") {
            None => PRIORITY,
            Some((place, digit)) => digit.parse().ok().filter(|priority| *priority < 8).ok_or_else(|| {
                self.fault(
                    place,
                    format!("VLAN-PRIORITY `{digit}` is no priority"),
                    "write a digit from 0 to 7",
                )
            })?,
        };
        Ok(Place { destination, appid, vlan, priority })
    }

    /// A time in milliseconds.
    fn time(&self, gse: Node<'a, 'input>, name: &'a str) -> Result<Option<u32>, Fault> {
        let Some(node) = children(gse, name).next() else { return Ok(None) };
        let text = node.text().unwrap_or_default().trim();
        let wrong = || {
            self.fault(
                node,
                format!("{name} `{text}` is no time from 1 ms to a day"),
                "write a whole number of milliseconds, with unit=\"s\" multiplier=\"m\"",
            )
        };
        // The schema fixes the unit, and `m` is the only multiplier of later editions.
        let factor = match node.attribute("multiplier") {
            None | Some("m") => 1.0,
            Some("") => 1000.0,
            Some(_) => return Err(wrong()),
        };
        let milliseconds = text.parse::<f64>().map_err(|_| wrong())? * factor;
        let fits = (1.0..=f64::from(LONGEST)).contains(&milliseconds) && milliseconds.fract() == 0.0;
        if fits { Ok(Some(milliseconds as u32)) } else { Err(wrong()) }
    }
}
