//! What a received message was.

use antedate_channel::mqtt::Opened;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// An authentic and new payload, and its origin.
#[pyclass(frozen, module = "antedate")]
pub(crate) struct Message {
    /// The payload.
    #[pyo3(get)]
    payload: Py<PyBytes>,
    opened: Opened,
}

impl Message {
    pub(crate) fn new(py: Python<'_>, payload: &[u8], opened: Opened) -> Self {
        Self { payload: PyBytes::new(py, payload).unbind(), opened }
    }
}

#[pymethods]
impl Message {
    /// The publisher's name.
    #[getter]
    fn publisher(&self) -> String {
        String::from_utf8_lossy(&self.opened.publisher).into_owned()
    }

    /// The epoch of the group's key.
    #[getter]
    fn epoch(&self) -> u32 {
        self.opened.epoch
    }

    /// The publisher's sequence number.
    #[getter]
    fn sequence(&self) -> u64 {
        self.opened.sequence
    }

    /// The time of sealing in seconds since 1970, on topics with a most age.
    #[getter]
    fn time(&self) -> Option<u32> {
        self.opened.time
    }

    /// Without the payload: it may be secret.
    fn __repr__(&self) -> String {
        format!(
            "<antedate.Message of {:?}, epoch {}, number {}>",
            self.publisher(),
            self.epoch(),
            self.sequence()
        )
    }
}

/// A rotation message of the group's manager, which was followed.
#[pyclass(frozen, module = "antedate")]
pub(crate) struct Rotation {
    /// The group.
    #[pyo3(get)]
    pub(crate) group: String,
    /// The newest known epoch.
    #[pyo3(get)]
    pub(crate) epoch: u32,
}

#[pymethods]
impl Rotation {
    fn __repr__(&self) -> String {
        format!("<antedate.Rotation of {:?} to epoch {}>", self.group, self.epoch)
    }
}
