//! The file of a scenario with messages.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use antedate_host::fault::Fault;
use antedate_plan::bearer::Bearer;
use antedate_plan::budget::{self, Answer, Message, Scenario};
use antedate_plan::device::{self, Cipher, Device};
use antedate_plan::schedule::Work;
use serde::Deserialize;

use super::at_its_line;
use super::labels::{self, Origin};
use crate::failure::Failure;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// A device's name, or the path of a platform file.
    platform: String,
    receiver: Option<String>,
    #[serde(default = "any")]
    cipher: String,
    #[serde(default = "yes")]
    antedated: bool,
    bearer: Bearer,
    #[serde(default)]
    work: Vec<WorkEntry>,
    message: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkEntry {
    period_ms: f64,
    cost_ms: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    size: usize,
    period_ms: f64,
    deadline_ms: f64,
    /// Bytes known in advance.
    r#static: usize,
    /// Bytes before the first new one; by default all static ones.
    front: Option<usize>,
    /// Blocks of 16 bytes with new bytes.
    new_blocks: Option<usize>,
}

fn any() -> String {
    "any".into()
}

const fn yes() -> bool {
    true
}

/// A parsed scenario.
#[derive(Clone)]
pub(super) struct Document {
    pub(super) file: PathBuf,
    device: Device,
    receiver: Option<Device>,
    bearer: Bearer,
    cipher: Option<Cipher>,
    antedated: bool,
    work: Vec<Work>,
    pub(super) messages: Vec<Message>,
}

/// Parses a scenario.
pub(super) fn read(path: &Path, text: &str) -> Result<Document, Failure> {
    let fault = |what: String, remedy: &str| Failure::from(Fault::of_file(path, what, remedy));
    let chapter = "see the chapter on the planner in the book";
    let file: File = toml::from_str(text).map_err(|error: toml::de::Error| {
        // A bearer is a table, and not a name alone.
        let (what, remedy) = match error.message() {
            what if what.contains("enum Bearer") => (
                "bearer: must be a table with `kind`",
                "write [bearer] and below it kind = \"none\", \"loopback\", \"tsch\", \"6lowpan\", \"fast-ethernet\", \"gigabit\", \"wireguard\", \"relayed\" or \"mqtt\"",
            ),
            what => (what, chapter),
        };
        at_its_line(path, text, &error, what, remedy)
    })?;
    let cipher = match file.cipher.as_str() {
        "any" => None,
        name => Some(Cipher::find(name).ok_or_else(|| {
            let names: Vec<_> = Cipher::ALL.into_iter().map(Cipher::name).collect();
            fault(format!("cipher: no `{name}`"), &format!("{} or any", names.join(", ")))
        })?),
    };
    let device = find(path, "platform", &file.platform)?;
    let receiver = file.receiver.as_deref().map(|name| find(path, "receiver", name)).transpose()?;
    let message = |entry: Entry| {
        let known = entry.r#static;
        let new = entry.size.saturating_sub(known);
        // Contiguous new bytes may begin anywhere in a block.
        let blocks = if new == 0 { 0 } else { ((new + 14) / 16 + 1).min(entry.size.div_ceil(16)) };
        Message {
            name: entry.name,
            size: entry.size,
            period_ms: entry.period_ms,
            deadline_ms: entry.deadline_ms,
            known,
            front: entry.front.unwrap_or(known),
            new_blocks: entry.new_blocks.unwrap_or(blocks),
        }
    };
    // Advice names messages.
    let mut names: Vec<&str> = file.message.iter().map(|entry| entry.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(fault(format!("message: two are called `{}`", twice[0]), "give each its own name"));
    }
    Ok(Document {
        file: path.to_owned(),
        device,
        receiver,
        bearer: file.bearer,
        cipher,
        antedated: file.antedated,
        work: file
            .work
            .iter()
            .map(|work| Work { period_ms: work.period_ms, cost_ms: work.cost_ms })
            .collect(),
        messages: file.message.into_iter().map(message).collect(),
    })
}

/// Finds a device by name, or by the path of its file relative to the scenario.
fn find(scenario: &Path, key: &str, name: &str) -> Result<Device, Failure> {
    if let Some(device) = device::find(name) {
        return Ok(device);
    }
    let path = scenario.parent().unwrap_or(Path::new("")).join(name);
    if !name.ends_with(".toml") {
        let names: Vec<_> = device::all().into_iter().map(|device| device.name).collect();
        let remedy = format!(
            "{}, or the path of a platform file (.toml) of antedate plan --calibrate",
            names.join(", ")
        );
        return Err(Fault::of_file(scenario, format!("{key}: no `{name}`"), remedy).into());
    }
    let remedy = "make it with antedate plan --calibrate --out FILE";
    let text = fs::read_to_string(&path)
        .map_err(|error| Fault::of_file(&path, format!("cannot be read: {error}"), remedy))?;
    toml::from_str(&text).map_err(|error| at_its_line(&path, &text, &error, error.message(), remedy))
}

impl Document {
    /// The origin of each number of an answer.
    pub(super) fn origins(&self) -> BTreeMap<&'static str, Origin> {
        let receiver = self.receiver.as_ref().unwrap_or(&self.device);
        labels::of_messages(Origin::of(&self.device), Origin::of(receiver))
    }

    /// The same in words.
    pub(super) fn say_origins(&self) -> String {
        labels::say_messages(&self.device, self.receiver.as_ref())
    }

    /// The planner's answer.
    pub(super) fn answer(&self, advise: bool) -> Result<Answer, Failure> {
        let scenario = Scenario {
            device: &self.device,
            receiver: self.receiver.as_ref(),
            bearer: &self.bearer,
            cipher: self.cipher,
            antedated: self.antedated,
            work: &self.work,
            messages: &self.messages,
            advise,
        };
        Ok(budget::answer(&scenario).map_err(|fault| Fault::of_file(&self.file, fault.what, fault.remedy))?)
    }
}
