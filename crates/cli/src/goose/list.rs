//! `antedate goose list`: the control blocks of an SCL file, of GOOSE and of sampled values.

use std::fmt::Write as _;
use std::path::PathBuf;

use antedate_goose::scl;
use antedate_goose::stream::Rate;
use clap::Args;

use crate::failure::{Done, Failure};
use crate::output;

#[derive(Args)]
pub(crate) struct List {
    /// An ICD, CID or SCD file (IEC 61850-6)
    file: PathBuf,
}

impl List {
    pub(super) fn run(self) -> Done {
        let (all, streams) = (scl::read(&self.file)?, scl::read_streams(&self.file)?);
        let mut text = String::new();
        let (mut faults, count) = (0, all.len() + streams.len());
        for one in all {
            let _ = writeln!(text, "{}/{} (line {}): {}", one.ied, one.name, one.line, one.reference);
            match one.control {
                Ok(control) => {
                    let at = control.address;
                    let _ = writeln!(
                        text,
                        "    to {}, APPID {:04X}, VLAN {}, priority {}; repeated after {} to {} ms; goID {}, confRev {}",
                        at.destination,
                        at.appid,
                        at.vlan,
                        at.priority,
                        at.min_time,
                        at.max_time,
                        control.go_id,
                        control.conf_rev,
                    );
                    let _ = writeln!(text, "    {}", control.dat_set);
                    for (name, of) in control.leaves() {
                        let _ = writeln!(text, "        {name}: {}", of.expected());
                    }
                }
                Err(fault) => {
                    faults += 1;
                    let _ = writeln!(text, "    cannot be used: {fault:#}");
                }
            }
        }
        for one in streams {
            let _ = writeln!(text, "{}/{} (line {}): {}", one.ied, one.name, one.line, one.reference);
            match one.control {
                Ok(stream) => {
                    let rate = match stream.rate {
                        Rate::PerPeriod(samples) => format!("{samples} samples in a period"),
                        Rate::PerSecond(samples) => format!("{samples} samples in a second"),
                    };
                    let _ = writeln!(
                        text,
                        "    sampled values to {}, APPID {:04X}, VLAN {}, priority {}; {rate}, {} in a frame; svID {}, confRev {}",
                        stream.destination,
                        stream.appid,
                        stream.vlan,
                        stream.priority,
                        stream.asdus,
                        stream.sv_id,
                        stream.conf_rev,
                    );
                    let _ = writeln!(text, "    {}", stream.dat_set);
                    for (name, of) in stream.leaves() {
                        let _ = writeln!(text, "        {name}: {}", of.expected());
                    }
                }
                Err(fault) => {
                    faults += 1;
                    let _ = writeln!(text, "    cannot be used: {fault:#}");
                }
            }
        }
        output::print(&text)?;
        match (count, faults) {
            (0, _) => Err(Failure::Verdict(format!(
                "{} has no control block of GOOSE or sampled values",
                self.file.display()
            ))),
            (_, 0) => Ok(()),
            _ => Err(Failure::Verdict(format!("{faults} of {count} control blocks cannot be used"))),
        }
    }
}
