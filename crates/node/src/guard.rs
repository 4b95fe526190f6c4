//! The class that seals and opens.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use antedate_mqtt::guard::{Guard as Inner, Verdict};
use antedate_mqtt::load::Files;
use antedate_mqtt::store::Store;
use napi::bindgen_prelude::{AsyncTask, Buffer};
use napi::{Env, Result, Task};
use napi_derive::napi;

use crate::error;

/// Received messages whose numbers wait in memory, of calls that did not ask for the disk.
const UNWRITTEN_MAX: usize = 4096;

/// Makes an empty state directory, once for each publisher's name.
#[napi]
#[allow(unreachable_pub, dead_code, reason = "Node calls it")]
pub fn create_state(directory: String) -> Result<()> {
    Store::create(Path::new(&directory)).map_err(|fault| error::state(&fault))
}

/// The files of a guard.
#[napi(object)]
pub struct Options {
    /// Group files.
    pub keys: Vec<String>,
    /// The state directory.
    pub state: Option<String>,
    /// The publisher's name.
    pub publisher: Option<String>,
    /// The device's own key.
    pub device: Option<String>,
}

/// An authentic and new payload with its origin, or a rotation that was followed.
#[napi(object)]
pub struct Opened {
    /// The payload; absent of a rotation.
    pub payload: Option<Buffer>,
    /// The publisher's name.
    pub publisher: Option<String>,
    /// The group of a rotation.
    pub group: Option<String>,
    /// The epoch of the group's key.
    pub epoch: u32,
    /// The publisher's sequence number.
    pub sequence: Option<i64>,
    /// The time of sealing in seconds since 1970, on topics with a most age.
    pub time: Option<u32>,
}

type Shared = Arc<Mutex<Option<Inner>>>;

/// Runs a call on an open guard.
fn with<T>(inner: &Shared, call: impl FnOnce(&mut Inner) -> Result<T>) -> Result<T> {
    call(inner.lock().map_err(|_| error::closed())?.as_mut().ok_or_else(error::closed)?)
}

/// Opens a message. With `durable`, its number is on the disk then.
fn open(inner: &mut Inner, topic: &str, message: &[u8], durable: bool) -> Result<Opened> {
    let mut payload = Vec::with_capacity(message.len());
    let verdict = inner.open(topic, message, &mut payload);
    // After a failed read of the state, a good message may be refused.
    inner.check_store().map_err(|fault| error::state(&fault))?;
    if durable || inner.unwritten() >= UNWRITTEN_MAX {
        inner.flush().map_err(|fault| error::state(&fault))?;
    }
    let rotation = |group, epoch| Opened {
        payload: None,
        publisher: None,
        group: Some(group),
        epoch,
        sequence: None,
        time: None,
    };
    match verdict {
        Verdict::Opened(opened) => Ok(Opened {
            payload: Some(payload.into()),
            publisher: Some(String::from_utf8_lossy(&opened.publisher).into_owned()),
            group: None,
            epoch: opened.epoch,
            sequence: i64::try_from(opened.sequence).ok(),
            time: opened.time,
        }),
        Verdict::Rotated { group, epoch } => Ok(rotation(group, epoch)),
        Verdict::Known { group, newest, .. } => Ok(rotation(group, newest)),
        Verdict::Plain => Err(error::refused(
            "no-group",
            &format!("the topic {topic:?} belongs to no group file, so nothing protects it"),
            "name its group file in keys",
        )),
        Verdict::Refused(why) => Err(error::refused(why.name(), &why.to_string(), why.remedy())),
        Verdict::NoRotation(why) => Err(error::refused(
            "not-rotation",
            &why.to_string(),
            "ask the group's manager, or look who may publish there",
        )),
    }
}

/// All groups of a client. It seals payloads and opens messages.
#[napi]
pub struct Guard {
    /// `None` once it is closed.
    inner: Shared,
    rotation_topics: Vec<String>,
    warnings: Vec<String>,
}

#[napi]
impl Guard {
    /// Reads the files.
    #[napi(constructor)]
    pub fn new(options: Options) -> Result<Self> {
        let files = Files {
            keys: options.keys.iter().map(PathBuf::from).collect(),
            device: options.device.map(PathBuf::from),
            state: options.state.map(PathBuf::from),
        };
        let (guard, warnings) = files.load(options.publisher).map_err(|faults| {
            // The state is read last, so its fault is alone.
            match (&files.state, faults.iter().next()) {
                (Some(state), Some(fault)) if fault.file.starts_with(state) => error::state(fault),
                _ => error::configuration(&faults),
            }
        })?;
        let rotation_topics = guard.rotation_topics();
        Ok(Self { inner: Arc::new(Mutex::new(Some(guard))), rotation_topics, warnings })
    }

    /// The topics of the groups' rotation messages.
    #[napi(getter)]
    pub fn rotation_topics(&self) -> Vec<String> {
        self.rotation_topics.clone()
    }

    /// What the operator should know about the files.
    #[napi(getter)]
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// Whether every group has a key.
    #[napi(getter)]
    pub fn has_keys(&self) -> Result<bool> {
        with(&self.inner, |inner| Ok(inner.has_keys()))
    }

    /// Whether a group protects a topic.
    #[napi]
    pub fn covers(&self, topic: String) -> Result<bool> {
        with(&self.inner, |inner| Ok(inner.covers(&topic)))
    }

    /// Seals a payload.
    #[napi]
    pub fn seal(&self, topic: String, payload: &[u8]) -> Result<Buffer> {
        let mut envelope = Vec::with_capacity(payload.len() + 96);
        with(&self.inner, |inner| {
            inner.seal(&topic, payload, &mut envelope).map_err(|error| error::unsealed(&error))
        })?;
        Ok(envelope.into())
    }

    /// Opens a message, or follows a rotation.
    #[napi]
    pub fn open_now(&self, topic: String, message: &[u8], durable: bool) -> Result<Opened> {
        with(&self.inner, |inner| open(inner, &topic, message, durable))
    }

    /// As `open_now`, on another thread.
    #[napi(ts_return_type = "Promise<Opened>")]
    pub fn open_later(&self, topic: String, message: Buffer) -> AsyncTask<Opening> {
        AsyncTask::new(Opening { inner: Arc::clone(&self.inner), topic, message: message.to_vec() })
    }

    /// Makes durable what was opened without `durable`.
    #[napi]
    pub fn flush(&self) -> Result<()> {
        with(&self.inner, |inner| inner.flush().map_err(|fault| error::state(&fault)))
    }

    /// Prepares the next payloads in idle time.
    #[napi]
    pub fn idle(&self) -> Result<()> {
        with(&self.inner, |inner| {
            inner.idle();
            Ok(())
        })
    }

    /// Writes the state, and ends.
    #[napi]
    pub fn close(&self) -> Result<()> {
        match self.inner.lock().map_err(|_| error::closed())?.take() {
            Some(inner) => inner.close().map_err(|fault| error::state(&fault)),
            None => Ok(()),
        }
    }
}

/// A message that another thread opens.
pub struct Opening {
    inner: Shared,
    topic: String,
    message: Vec<u8>,
}

impl Task for Opening {
    type Output = Opened;
    type JsValue = Opened;

    fn compute(&mut self) -> Result<Opened> {
        with(&self.inner, |inner| open(inner, &self.topic, &self.message, true))
    }

    fn resolve(&mut self, _env: Env, output: Opened) -> Result<Opened> {
        Ok(output)
    }
}
