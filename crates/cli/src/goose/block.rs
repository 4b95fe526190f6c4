//! The control block: of an SCL file, or of the example.

use std::path::{Path, PathBuf};

use antedate_goose::control::Control;
use antedate_goose::scl;
use clap::Args;

use crate::failure::Failure;

/// Has a control block with a boolean, an INT32 and a time.
const EXAMPLE: &str = include_str!("../../../../docs/examples/goose/antedate.scd");

#[derive(Args)]
pub(super) struct Block {
    /// An ICD, CID or SCD file (IEC 61850-6) with the control block
    #[arg(long, value_name = "FILE")]
    pub(super) scl: Option<PathBuf>,
    /// The control block, as NAME, IED/NAME or its reference, if the file has several
    #[arg(long, value_name = "NAME", requires = "scl")]
    control_block: Option<String>,
}

impl Block {
    /// The control block of the file, if there is one.
    pub(super) fn of_file(&self) -> Result<Option<Control>, Failure> {
        let Some(file) = &self.scl else { return Ok(None) };
        Ok(Some(scl::select(file, scl::read(file)?, self.control_block.as_deref())?))
    }
}

/// The control block of a demonstration.
pub(super) fn example() -> Result<Control, Failure> {
    let path = Path::new("docs/examples/goose/antedate.scd");
    Ok(scl::select(path, scl::parse(path, EXAMPLE)?, Some("gcbTrip"))?)
}
