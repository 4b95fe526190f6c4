//! The exceptions, by kind.
//!
//! Each has the remedy as an attribute, and a refused message its reason.

use antedate_host::fault::{Fault, Faults};
use antedate_mqtt::guard::SealError;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::{create_exception, intern};

create_exception!(antedate, AntedateError, PyException, "Base of this module's exceptions.");
create_exception!(
    antedate,
    ConfigurationError,
    AntedateError,
    "A group file, device file or publisher's name is wrong or missing."
);
create_exception!(
    antedate,
    StateError,
    AntedateError,
    "The state directory is missing, damaged, copied, in use, or cannot be written."
);
create_exception!(antedate, NoGroupError, AntedateError, "No group protects the topic.");
create_exception!(antedate, NoKeyError, AntedateError, "The group has no key for this device yet.");
create_exception!(antedate, PayloadError, AntedateError, "The payload or topic cannot be sealed.");
create_exception!(antedate, RefusedError, AntedateError, "The message is not authentic, or not new.");

/// Adds what is to be done. A failure leaves it out.
fn with_remedy(error: PyErr, remedy: &str) -> PyErr {
    Python::attach(|py| {
        let _ = error.value(py).setattr(intern!(py, "remedy"), remedy);
    });
    error
}

/// Faults of the files.
pub(crate) fn configuration(faults: &Faults) -> PyErr {
    let remedies: Vec<&str> = faults.iter().map(|fault| fault.remedy.as_str()).collect();
    with_remedy(ConfigurationError::new_err(faults.to_string()), &remedies.join("\n"))
}

/// A fault of the state directory.
pub(crate) fn state(fault: &Fault) -> PyErr {
    with_remedy(StateError::new_err(format!("{fault:#}")), &fault.remedy)
}

/// A payload that was not sealed.
pub(crate) fn unsealed(error: &SealError) -> PyErr {
    let text = error.to_string();
    // The program's remedies name its options.
    let remedy = match error {
        SealError::NoGroup(_) => "name its group file in keys",
        SealError::NoSigner(_) => "name the device file with device=",
        SealError::NoName => "name the publisher with publisher=, or its device file with device=",
        SealError::NoState => "name it with state=, and make it once with antedate.create_state",
        other => other.remedy(),
    };
    let made = match error {
        SealError::NoGroup(_) => NoGroupError::new_err(text),
        SealError::NoKey(_) => NoKeyError::new_err(text),
        SealError::NoName | SealError::NoState | SealError::NoSigner(_) => ConfigurationError::new_err(text),
        SealError::State(fault) => return state(fault),
        SealError::Payload(_) => PayloadError::new_err(text),
    };
    with_remedy(made, remedy)
}

/// A topic of no group.
pub(crate) fn no_group(topic: &str) -> PyErr {
    unsealed(&SealError::NoGroup(topic.to_owned()))
}

/// A message that was refused, by the name of the reason.
pub(crate) fn refused(py: Python<'_>, reason: &str, text: &str, remedy: &str) -> PyErr {
    let error = with_remedy(RefusedError::new_err(format!("{text} (remedy: {remedy})")), remedy);
    let _ = error.value(py).setattr(intern!(py, "reason"), reason);
    error
}
