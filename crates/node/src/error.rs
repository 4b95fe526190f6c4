//! Failures: a JSON object of code, message and remedy as the text of an exception, from which
//! `index.js` makes errors with these properties.

use antedate_host::fault::{Fault, Faults};
use antedate_mqtt::guard::SealError;
use napi::Error;

fn made(code: &str, message: &str, remedy: &str) -> Error {
    Error::from_reason(serde_json::json!({ "code": code, "message": message, "remedy": remedy }).to_string())
}

/// Faults of the files.
pub(crate) fn configuration(faults: &Faults) -> Error {
    let remedies: Vec<&str> = faults.iter().map(|fault| fault.remedy.as_str()).collect();
    made("configuration", &faults.to_string(), &remedies.join("\n"))
}

/// A fault of the state directory.
pub(crate) fn state(fault: &Fault) -> Error {
    made("state", &format!("{fault:#}"), &fault.remedy)
}

/// A payload that was not sealed.
pub(crate) fn unsealed(error: &SealError) -> Error {
    let (code, remedy) = match error {
        SealError::NoGroup(_) => ("no-group", "name its group file in keys"),
        SealError::NoKey(_) => ("no-key", error.remedy()),
        SealError::NoSigner(_) => ("configuration", "name the device file with device"),
        SealError::NoName => ("configuration", "name the publisher, or its device file"),
        SealError::NoState => ("configuration", "name the state, and make it once with createState"),
        SealError::State(fault) => return state(fault),
        SealError::Payload(_) => ("payload", error.remedy()),
    };
    made(code, &error.to_string(), remedy)
}

/// A call of a guard that was closed.
pub(crate) fn closed() -> Error {
    made("state", "the guard was closed", "make another Guard")
}

/// A message that was not opened.
pub(crate) fn refused(code: &str, message: &str, remedy: &str) -> Error {
    made(code, message, remedy)
}
