//! `antedate goose list`: the control blocks of an SCL file.

use std::fmt::Write as _;
use std::path::PathBuf;

use antedate_goose::scl;
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
        let all = scl::read(&self.file)?;
        let mut text = String::new();
        let (mut faults, count) = (0, all.len());
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
        output::print(&text)?;
        match (count, faults) {
            (0, _) => Err(Failure::Verdict(format!("{} has no GOOSE control block", self.file.display()))),
            (_, 0) => Ok(()),
            _ => Err(Failure::Verdict(format!("{faults} of {count} control blocks cannot be used"))),
        }
    }
}
