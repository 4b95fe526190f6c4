//! Control blocks of sampled values: `SampledValueControl` and its `SmvOpts` (IEC 61850-6, 9.3.11).

use antedate_host::fault::Fault;

use super::address::{Place, SAMPLED};
use super::{Common, Found, Scl, children};
use crate::stream::{MAX_ASDUS, Rate, Stream, octets};

impl<'a, 'input> Scl<'a, 'input> {
    pub(super) fn stream(&self, found: &Found<'a, 'input>) -> Result<Stream, Fault> {
        let control = found.control;
        let sv_id = self.attribute(control, "smvID")?;
        if control.attribute("multicast") == Some("false") {
            let what = "multicast is false: it is sent to one client, when that asks for it";
            return Err(self.fault(control, what, "name a control block with multicast=\"true\""));
        }
        let number = |name: &str, most: u16| {
            let text = self.attribute(control, name)?;
            text.parse().ok().filter(|number| (1..=most).contains(number)).ok_or_else(|| {
                let what = format!("{name} `{text}` is no number from 1 to {most}");
                self.fault(control, what, "write it in decimal")
            })
        };
        let given = number("smpRate", u16::MAX)?;
        let rate = match control.attribute("smpMod") {
            None | Some("SmpPerPeriod") => Rate::PerPeriod(given),
            Some("SmpPerSec") => Rate::PerSecond(given),
            Some(other) => {
                let what = format!("smpMod `{other}` is not supported");
                return Err(self.fault(control, what, "write SmpPerPeriod or SmpPerSec"));
            }
        };
        // Edition 1 has another spelling.
        let name = if control.has_attribute("nofASDU") { "nofASDU" } else { "noASDU" };
        let asdus = number(name, MAX_ASDUS.into())? as u8;
        let option = |name| {
            let options = children(control, "SmvOpts").next();
            options.is_some_and(|options| matches!(options.attribute(name), Some("true" | "1")))
        };
        let Common { conf_rev, dat_set, entries, address } = self.common(found)?;
        let Place { destination, appid, vlan, priority } = self.place(address, &SAMPLED)?;
        let stream = Stream {
            reference: found.reference.clone(),
            sv_id: sv_id.to_owned(),
            dat_set,
            conf_rev,
            destination,
            appid,
            vlan,
            priority,
            rate,
            asdus,
            has_dat_set: option("dataSet"),
            has_time: option("refreshTime"),
            has_rate: option("sampleRate"),
            entries,
        };
        let variable = stream.leaves().into_iter().find(|(_, of)| octets(of).is_none());
        let variable = variable.map(|(name, of)| (name.to_owned(), of.expected()));
        match variable {
            Some((name, of)) => {
                let what = format!("`{name}` has no fixed place in samples: it is {of}");
                Err(self.fault(control, what, "leave it out of the data set"))
            }
            None => Ok(stream),
        }
    }
}
