//! What is wrong with a control block's publishers, as lines of JSON and of the log.

use std::time::{Duration, Instant};

use antedate_channel::goose::{Expected, Supervision, Trouble};
use antedate_goose::control::Control;
use antedate_goose::values;
use antedate_wire::EthernetAddress;
use antedate_wire::goose::Message;
use serde_json::{Value as Json, json};

use super::socket::Sink;
use crate::failure::Failure;
use crate::output;

/// The pause between two log lines of one trouble: a stranger may cause it.
const QUIET: Duration = Duration::from_secs(60);

/// Watches the messages of one control block.
pub(super) struct Watch {
    control: Control,
    supervision: Supervision,
    begun: Instant,
    /// When the log told each trouble, and whether its end is to be told.
    said: [(Option<Instant>, bool); 4],
    detail: [String; 4],
}

impl Watch {
    pub(super) fn new(control: Control) -> Self {
        // A publisher repeats its state after MaxTime at the latest.
        let patience = 2 * u64::from(control.address.max_time);
        Self {
            control,
            supervision: Supervision::new(0, patience),
            begun: Instant::now(),
            said: [(None, false); 4],
            detail: Default::default(),
        }
    }

    fn clock(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Whether a frame is to the control block's address.
    pub(super) fn is_addressed(&self, destination: &[u8], appid: u16) -> bool {
        destination == self.control.address.destination.0 && appid == self.control.address.appid
    }

    /// A message came. Returns its values if it is of the control block, as configured.
    pub(super) fn heard(&mut self, source: [u8; 6], message: &Message<'_>) -> Option<Json> {
        let control = &self.control;
        let expected = Expected {
            gocb_ref: control.reference.as_bytes(),
            dat_set: control.dat_set.as_bytes(),
            go_id: control.go_id.as_bytes(),
            appid: control.address.appid,
            conf_rev: control.conf_rev,
        };
        if message.publisher.gocb_ref != expected.gocb_ref {
            return None;
        }
        let shown = values::show(control, &message.all_data);
        let now = self.clock();
        let fits = self.supervision.heard(source, message, &expected, shown.is_ok(), now);
        if !fits {
            let text =
                |octets: Option<&[u8]>| String::from_utf8_lossy(octets.unwrap_or_default()).into_owned();
            self.detail[Trouble::Revision as usize] =
                format!("confRev is {}, and {} in the file", message.conf_rev, expected.conf_rev);
            self.detail[Trouble::Configuration as usize] = match &shown {
                Err(error) => format!("the data set {error}"),
                Ok(_) => format!(
                    "datSet is {} and goID {}, and {} and {} in the file",
                    text(Some(message.publisher.dat_set)),
                    text(message.publisher.go_id),
                    control.dat_set,
                    control.go_id
                ),
            };
        }
        if self.supervision.has(Trouble::Duplicate) {
            let all: Vec<String> =
                self.supervision.sources().map(|source| EthernetAddress(source).to_string()).collect();
            self.detail[Trouble::Duplicate as usize] = format!("from {}", all.join(" and "));
        }
        shown.ok().filter(|_| fits).map(Json::from)
    }

    /// Tells what began and what ended. False if nobody reads any longer.
    pub(super) fn tell(&mut self, sink: &mut Sink) -> Result<bool, Failure> {
        self.supervision.look(self.clock());
        while let Some((trouble, begins)) = self.supervision.next_change() {
            let at = trouble as usize;
            let (name, ended) = match trouble {
                Trouble::Missing => ("publisher missing", "the publisher is there"),
                Trouble::Revision => ("other revision", "the revision is the file's"),
                Trouble::Configuration => ("other configuration", "the configuration is the file's"),
                Trouble::Duplicate => ("several publishers", "there is one publisher"),
            };
            let detail = self.detail[at].as_str();
            let reference = &self.control.reference;
            let mut line = json!({ "event": name, "control_block": reference, "state": if begins { "begins" } else { "ends" } });
            if begins && !detail.is_empty() {
                line["detail"] = detail.into();
            }
            let (said, open) = &mut self.said[at];
            if begins && said.is_none_or(|said| said.elapsed() >= QUIET) {
                (*said, *open) = (Some(Instant::now()), true);
                let colon = if detail.is_empty() { "" } else { ": " };
                output::tell(format_args!("WARN {reference}: {name}{colon}{detail}; {}", remedy(trouble)));
            } else if !begins && std::mem::take(open) {
                output::tell(format_args!("INFO {reference}: {ended}"));
            }
            if !sink.print(&format!("{line}\n"))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

const fn remedy(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Missing => "look at the IED and at the path, and at the key if the messages are protected",
        Trouble::Revision => "give the publisher's present SCL file",
        Trouble::Configuration => "compare the SCL file with the IED's configuration",
        Trouble::Duplicate => "find the device that publishes under a reference of another",
    }
}
