//! The native part of the Node package `antedate`: MQTT payloads sealed and opened, for
//! applications with an MQTT client of their own. `index.js` is the package's face.
//!
//! - `guard`: the class `Guard`, of [`antedate_mqtt::guard`]
//! - `error`: failures as `index.js` reads them

mod error;
mod guard;
