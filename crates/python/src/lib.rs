//! The Python module `antedate`: MQTT payloads sealed and opened, for applications with an MQTT
//! client of their own.
//!
//! - `guard`: the class `Guard`, of [`antedate_mqtt::guard`]
//! - `message`: what it opens
//! - `error`: the exceptions

mod error;
mod guard;
mod message;

/// MQTT payloads, sealed from publisher to subscriber.
#[pyo3::pymodule(name = "antedate", gil_used = true)]
mod module {
    #[pymodule_export]
    use crate::error::{
        AntedateError, ConfigurationError, NoGroupError, NoKeyError, PayloadError, RefusedError, StateError,
    };
    #[pymodule_export]
    use crate::guard::{Guard, create_state};
    #[pymodule_export]
    use crate::message::{Message, Rotation};

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name of a version")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
