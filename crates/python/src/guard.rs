//! The class that seals and opens.

use std::borrow::Cow;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::{Mutex, TryLockError};

use antedate_channel::mqtt::Opened;
use antedate_host::fault::Fault;
use antedate_mqtt::guard::{Guard as Inner, SealError, Verdict};
use antedate_mqtt::load::Files;
use antedate_mqtt::store::Store;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyList};

use crate::error;
use crate::message::{Message, Rotation};

/// Received messages whose numbers wait in memory, of calls that did not ask for the disk.
const UNWRITTEN_MAX: usize = 4096;

/// Makes an empty state directory, once for each publisher's name.
#[pyfunction]
pub(crate) fn create_state(py: Python<'_>, directory: PathBuf) -> PyResult<()> {
    py.detach(|| Store::create(&directory)).map_err(|fault| error::state(&fault))
}

/// All groups of a client. It seals payloads and opens messages.
#[pyclass(frozen, module = "antedate")]
pub(crate) struct Guard {
    /// `None` once it is closed.
    inner: Mutex<Option<Inner>>,
    rotation_topics: Vec<String>,
    /// The process that opened it. A child of `fork()` has a copy, which would repeat numbers.
    process: u32,
}

/// The outcome of a received message, before it is an object of Python.
enum Outcome {
    Message(Vec<u8>, Opened),
    Rotation(Rotation),
    Refused { reason: &'static str, text: String, remedy: &'static str },
    NoGroup,
}

impl Outcome {
    fn of(inner: &mut Inner, topic: &str, message: &[u8]) -> Self {
        let mut payload = Vec::with_capacity(message.len());
        match inner.open(topic, message, &mut payload) {
            Verdict::Opened(opened) => Self::Message(payload, opened),
            Verdict::Plain => Self::NoGroup,
            Verdict::Rotated { group, epoch } => Self::Rotation(Rotation { group, epoch }),
            Verdict::Known { group, newest, .. } => Self::Rotation(Rotation { group, epoch: newest }),
            Verdict::Refused(why) => {
                Self::Refused { reason: why.name(), text: why.to_string(), remedy: why.remedy() }
            }
            Verdict::NoRotation(why) => Self::Refused {
                reason: "not-rotation",
                text: why.to_string(),
                remedy: "ask the group's manager, or look who may publish there",
            },
        }
    }

    fn into_object(self, py: Python<'_>, topic: &str) -> PyResult<Py<PyAny>> {
        match self {
            Self::Message(payload, opened) => Ok(Py::new(py, Message::new(py, &payload, opened))?.into_any()),
            Self::Rotation(rotation) => Ok(Py::new(py, rotation)?.into_any()),
            Self::Refused { reason, text, remedy } => Err(error::refused(py, reason, &text, remedy)),
            Self::NoGroup => Err(error::no_group(topic)),
        }
    }
}

impl Guard {
    /// Runs a short call. Other threads of Python wait, unless one of them has the guard.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Inner) -> Result<T, PyErr> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        match self.inner.try_lock() {
            Ok(mut inner) => call(open(&mut inner)?),
            Err(TryLockError::WouldBlock) => self.detached(py, call),
            Err(TryLockError::Poisoned(_)) => Err(closed()),
        }
    }

    /// Runs a call that may write to the disk, while other threads of Python run.
    fn detached<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Inner) -> Result<T, PyErr> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        py.detach(|| call(open(&mut *self.inner.lock().map_err(|_| closed())?)?))
    }

    fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(error::state(&Fault::of_file(
            "the guard".as_ref(),
            "was opened before fork(), and is the parent process's",
            "open one in the process that uses it, or start processes with multiprocessing's \"spawn\"",
        )))
    }
}

fn open(inner: &mut Option<Inner>) -> PyResult<&mut Inner> {
    inner.as_mut().ok_or_else(closed)
}

fn closed() -> PyErr {
    error::state(&Fault::of_file("the guard".as_ref(), "was closed", "make another antedate.Guard"))
}

/// Seals one payload.
fn seal(inner: &mut Inner, topic: &str, payload: &[u8]) -> Result<Vec<u8>, SealError> {
    let mut envelope = Vec::with_capacity(payload.len() + 96);
    inner.seal(topic, payload, &mut envelope).map(|_| envelope)
}

/// Makes what was opened durable. After a failed read of the state, good messages may be among the
/// refused ones.
fn settle(inner: &mut Inner, durable: bool) -> PyResult<()> {
    inner.check_store().map_err(|fault| error::state(&fault))?;
    if durable || inner.unwritten() >= UNWRITTEN_MAX {
        inner.flush().map_err(|fault| error::state(&fault))?;
    }
    Ok(())
}

#[pymethods]
impl Guard {
    #[new]
    #[pyo3(signature = (keys, *, state=None, publisher=None, device=None))]
    fn new(
        py: Python<'_>,
        keys: Vec<PathBuf>,
        state: Option<PathBuf>,
        publisher: Option<String>,
        device: Option<PathBuf>,
    ) -> PyResult<Self> {
        let files = Files { keys, device, state };
        if files.keys.is_empty() {
            return Err(error::configuration(
                &Fault::of_file("keys".as_ref(), "names no group file", "antedate keygen mqtt makes one")
                    .into(),
            ));
        }
        let (guard, warnings) = py.detach(|| files.load(publisher)).map_err(|faults| {
            // The state is read last, so its fault is alone.
            match (&files.state, faults.iter().next()) {
                (Some(state), Some(fault)) if fault.file.starts_with(state) => error::state(fault),
                _ => error::configuration(&faults),
            }
        })?;
        for text in warnings {
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(text)?, 1)?;
        }
        let rotation_topics = guard.rotation_topics();
        Ok(Self { inner: Mutex::new(Some(guard)), rotation_topics, process: std::process::id() })
    }

    /// The topics of the groups' rotation messages, for a subscription of the application's client.
    #[getter]
    fn rotation_topics(&self) -> Vec<String> {
        self.rotation_topics.clone()
    }

    /// Whether every group has a key.
    #[getter]
    fn has_keys(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |inner| Ok(inner.has_keys()))
    }

    /// Whether a group protects a topic.
    fn covers(&self, py: Python<'_>, topic: &str) -> PyResult<bool> {
        self.with(py, |inner| Ok(inner.covers(topic)))
    }

    /// Seals a payload.
    fn seal<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        payload: Cow<'_, [u8]>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let envelope =
            self.with(py, |inner| seal(inner, topic, &payload).map_err(|error| error::unsealed(&error)))?;
        Ok(PyBytes::new(py, &envelope))
    }

    /// Seals pairs of topic and payload. Other threads run meanwhile.
    fn seal_many<'py>(
        &self,
        py: Python<'py>,
        pairs: Vec<(PyBackedStr, PyBackedBytes)>,
    ) -> PyResult<Bound<'py, PyList>> {
        let envelopes = self.detached(py, |inner| {
            let each = pairs.iter().map(|(topic, payload)| seal(inner, topic, payload));
            each.collect::<Result<Vec<_>, _>>().map_err(|error| error::unsealed(&error))
        })?;
        PyList::new(py, envelopes.iter().map(|envelope| PyBytes::new(py, envelope)))
    }

    /// Opens a message, or follows a rotation.
    #[pyo3(signature = (topic, message, *, durable=true))]
    fn open(
        &self,
        py: Python<'_>,
        topic: &str,
        message: Cow<'_, [u8]>,
        durable: bool,
    ) -> PyResult<Py<PyAny>> {
        let call = |inner: &mut Inner| {
            let outcome = Outcome::of(inner, topic, &message);
            settle(inner, durable).map(|()| outcome)
        };
        // Without a store nothing is written.
        let outcome = if durable { self.detached(py, call) } else { self.with(py, call) }?;
        outcome.into_object(py, topic)
    }

    /// Opens pairs of topic and message with one write. The exception of a refused message is in its
    /// place. Other threads run meanwhile.
    #[pyo3(signature = (pairs, *, durable=true))]
    fn open_many<'py>(
        &self,
        py: Python<'py>,
        pairs: Vec<(PyBackedStr, PyBackedBytes)>,
        durable: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let outcomes = self.detached(py, |inner| {
            let each = pairs.iter().map(|(topic, message)| Outcome::of(inner, topic, message));
            let outcomes: Vec<Outcome> = each.collect();
            settle(inner, durable).map(|()| outcomes)
        })?;
        let list = PyList::empty(py);
        for (outcome, (topic, _)) in outcomes.into_iter().zip(&pairs) {
            match outcome.into_object(py, topic) {
                Ok(object) => list.append(object)?,
                Err(error) => list.append(error.value(py))?,
            }
        }
        Ok(list)
    }

    /// Makes durable what was opened without `durable`.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.detached(py, |inner| settle(inner, true))
    }

    /// Prepares the next payloads in idle time.
    fn idle(&self, py: Python<'_>) -> PyResult<()> {
        self.detached(py, |inner| {
            inner.idle();
            Ok(())
        })
    }

    /// Writes the state, and ends.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process()?;
        let close = || match self.inner.lock().map_err(|_| closed())?.take() {
            Some(inner) => inner.close().map_err(|fault| error::state(&fault)),
            None => Ok(()),
        };
        py.detach(close)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Ok(Some(inner)) = self.inner.get_mut().map(Option::take) else { return };
        if self.process == std::process::id() {
            // A failure loses numbers, and repeats none.
            let _ = inner.close();
        } else {
            // The files are the parent's, and closing would write them.
            std::mem::forget(inner);
        }
    }
}
