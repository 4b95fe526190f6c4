//! Payloads of MQTT: the functions of `antedate_mqtt.h`, for programs with an operating system.
//!
//! A guard is an allocation of this library behind an opaque pointer, apart from the contexts of the
//! engine. It has the files of a client: groups, device, state.
//!
//! For all functions: a pointer is null or points to as much memory as the header demands, nothing else
//! uses that memory during the call, and a guard is null or one of `antedate_mqtt_new` that was not
//! closed. This is the caller's guarantee, and the only condition without a check.
#![allow(unsafe_code, reason = "C calls these functions with pointers")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the module comment and the header give the conditions for all functions"
)]

use core::ffi::{CStr, c_char};
use core::ptr;
use std::boxed::Box;
use std::path::{Path, PathBuf};
use std::string::{String, ToString as _};
use std::vec::Vec;

use antedate_mqtt::guard::{Guard, SealError, Verdict};
use antedate_mqtt::load::Files;
use antedate_mqtt::store::Store;

use crate::arguments::{slice, slice_mut};
use crate::calls::code;
use crate::process;
use crate::{Bytes, Code};

/// Octets that an envelope adds to its payload, at most.
pub const MQTT_OVERHEAD: usize = 256;
/// The most group files.
const KEYS_MAX: usize = 1024;

/// `antedate_mqtt_files`: the files of a client.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MqttFiles {
    /// Paths of group files.
    pub keys: *const *const c_char,
    /// Their number.
    pub key_count: usize,
    /// The state directory, or null.
    pub state: *const c_char,
    /// The device's own key, or null.
    pub device: *const c_char,
    /// The publisher's name, or null for the device's.
    pub publisher: *const c_char,
}

/// `antedate_mqtt_opened`: what a message was.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MqttOpened {
    /// Octets of the payload.
    pub len: usize,
    /// The publisher's sequence number.
    pub sequence: u64,
    /// The epoch of the key.
    pub epoch: u32,
    /// The authentic time of sealing in seconds since 1970, or 0.
    pub time: u32,
    /// 0 for a payload, 1 for a rotation that was followed, 2 for a topic of no group.
    pub kind: u32,
    /// The publisher's name, with a zero behind it.
    pub publisher: [c_char; 65],
    /// Zeros.
    pub reserved: [u8; 3],
}

/// `antedate_mqtt`: a client's groups.
#[derive(Debug)]
pub struct Mqtt {
    guard: Guard,
    rotation_topics: Vec<String>,
    /// Why the last call failed.
    why: String,
    /// The process that made it.
    process: u64,
    buffer: Vec<u8>,
}

/// A text of C. `None` for null.
///
/// # Safety
/// As for the functions of C.
unsafe fn text<'a>(of: *const c_char) -> Result<Option<&'a str>, Code> {
    if of.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and a text with a final zero, by the caller's guarantee.
    unsafe { CStr::from_ptr(of) }.to_str().map(Some).map_err(|_| Code::Argument)
}

/// Writes a text with its final zero, cut to the room.
fn put_text(text: &str, room: &mut [u8]) {
    let Some(last) = room.len().checked_sub(1) else { return };
    let mut end = text.len().min(last);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    room[..end].copy_from_slice(&text.as_bytes()[..end]);
    room[end] = 0;
}

/// The guard of this process.
///
/// # Safety
/// As for the functions of C.
unsafe fn own<'a>(mqtt: *mut Mqtt) -> Result<&'a mut Mqtt, Code> {
    // SAFETY: null, or a live guard that nothing else uses, by the caller's guarantee.
    let own = unsafe { mqtt.as_mut() }.ok_or(Code::Argument)?;
    if own.process == process::number() { Ok(own) } else { Err(Code::Forked) }
}

/// Makes an empty state directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_mqtt_create_state(
    directory: *const c_char,
    why: *mut c_char,
    why_room: usize,
) -> Code {
    // SAFETY: the caller's guarantee; see the module comment.
    let outcome = unsafe { slice_mut(why.cast(), why_room) }.and_then(|why| {
        // SAFETY: as above.
        let directory = unsafe { text(directory) }?.ok_or(Code::Argument)?;
        Store::create(Path::new(directory)).map_err(|fault| {
            put_text(&fault.to_string(), why);
            Code::Files
        })
    });
    code(outcome)
}

/// Reads the files of a client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_mqtt_new(
    mqtt: *mut *mut Mqtt,
    files: *const MqttFiles,
    why: *mut c_char,
    why_room: usize,
) -> Code {
    let make = || {
        if mqtt.is_null() || !mqtt.is_aligned() || files.is_null() || !files.is_aligned() {
            return Err(Code::Argument);
        }
        // SAFETY: the caller's guarantee; see the module comment. The pointers are checked above.
        let (why, files) = unsafe {
            *mqtt = ptr::null_mut();
            (slice_mut(why.cast(), why_room)?, *files)
        };
        if files.key_count > KEYS_MAX {
            return Err(Code::TooLong);
        }
        let path = |of: *const c_char| {
            // SAFETY: as above.
            Ok(unsafe { text(of) }?.map(PathBuf::from))
        };
        // SAFETY: as above.
        let keys = unsafe { slice(files.keys, files.key_count) }?;
        let keys = keys.iter().map(|file| path(*file)?.ok_or(Code::Argument)).collect::<Result<_, _>>()?;
        // SAFETY: as above.
        let publisher = unsafe { text(files.publisher) }?.map(String::from);
        let files = Files { keys, device: path(files.device)?, state: path(files.state)? };
        if files.keys.is_empty() {
            return Err(Code::Argument);
        }
        let (guard, warnings) = files.load(publisher).map_err(|faults| {
            put_text(&faults.to_string(), why);
            Code::Files
        })?;
        put_text(&warnings.join("\n"), why);
        let own = Mqtt {
            rotation_topics: guard.rotation_topics(),
            guard,
            why: String::new(),
            process: process::number(),
            buffer: Vec::new(),
        };
        // SAFETY: as above.
        unsafe { *mqtt = Box::into_raw(Box::new(own)) };
        Ok(())
    };
    code(make())
}

/// Why the last call of this guard failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_mqtt_why(mqtt: *mut Mqtt, why: *mut c_char, why_room: usize) -> Code {
    // SAFETY: the caller's guarantee; see the module comment.
    let outcome = unsafe { own(mqtt) }.and_then(|own| {
        // SAFETY: as above.
        put_text(&own.why, unsafe { slice_mut(why.cast(), why_room) }?);
        Ok(())
    });
    code(outcome)
}

/// A topic of rotation messages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_mqtt_rotation_topic(
    mqtt: *mut Mqtt,
    index: usize,
    topic: *mut c_char,
    room: usize,
) -> Code {
    // SAFETY: the caller's guarantee; see the module comment.
    let outcome = unsafe { own(mqtt) }.and_then(|own| {
        let name = own.rotation_topics.get(index).ok_or(Code::State)?;
        // SAFETY: as above.
        let topic = unsafe { slice_mut(topic.cast(), room) }?;
        if topic.len() <= name.len() {
            return Err(Code::TooLong);
        }
        put_text(name, topic);
        Ok(())
    });
    code(outcome)
}

/// Seals a payload.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_mqtt_seal(
    mqtt: *mut Mqtt,
    topic: *const c_char,
    payload: Bytes,
    out: *mut u8,
    room: usize,
    len: *mut usize,
) -> Code {
    let seal = || {
        if len.is_null() || !len.is_aligned() {
            return Err(Code::Argument);
        }
        // SAFETY: the caller's guarantee; see the module comment. The pointer is checked above.
        let (own, topic, payload, out) = unsafe {
            *len = 0;
            let topic = text(topic)?.ok_or(Code::Argument)?;
            (own(mqtt)?, topic, slice(payload.data, payload.len)?, slice_mut(out, room)?)
        };
        // Before a number is used.
        if room < payload.len().saturating_add(MQTT_OVERHEAD) {
            own.why = "the room is less than payload and ANTEDATE_MQTT_OVERHEAD".into();
            return Err(Code::TooLong);
        }
        own.buffer.clear();
        if let Err(error) = own.guard.seal(topic, payload, &mut own.buffer) {
            own.why = match &error {
                SealError::State(fault) => fault.to_string(),
                other => std::format!("{other} (remedy: {})", other.remedy()),
            };
            return Err(match error {
                SealError::State(_) => Code::Files,
                _ => Code::Refused,
            });
        }
        let to = out.get_mut(..own.buffer.len()).ok_or(Code::TooLong)?;
        to.copy_from_slice(&own.buffer);
        // SAFETY: as above.
        unsafe { *len = own.buffer.len() };
        Ok(())
    };
    code(seal())
}

/// Opens a message, or follows a rotation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_mqtt_open(
    mqtt: *mut Mqtt,
    topic: *const c_char,
    message: Bytes,
    durable: u8,
    out: *mut u8,
    room: usize,
    opened: *mut MqttOpened,
) -> Code {
    let open = || {
        if opened.is_null() || !opened.is_aligned() {
            return Err(Code::Argument);
        }
        let mut told = MqttOpened {
            len: 0,
            sequence: 0,
            epoch: 0,
            time: 0,
            kind: 0,
            publisher: [0; 65],
            reserved: [0; 3],
        };
        // SAFETY: the caller's guarantee; see the module comment. The pointer is checked above.
        let (own, topic, message, out) = unsafe {
            *opened = told;
            let topic = text(topic)?.ok_or(Code::Argument)?;
            (own(mqtt)?, topic, slice(message.data, message.len)?, slice_mut(out, room)?)
        };
        // Before a number counts as received. A payload is shorter than its message.
        if room < message.len() {
            own.why = "the room is less than the message".into();
            return Err(Code::TooLong);
        }
        let verdict = own.guard.open(topic, message, &mut own.buffer);
        if let Err(fault) = own.guard.check_store() {
            own.why = fault.to_string();
            return Err(Code::Files);
        }
        match verdict {
            Verdict::Opened(of) => {
                (told.epoch, told.sequence, told.time) = (of.epoch, of.sequence, of.time.unwrap_or(0));
                for (to, octet) in told.publisher[..64].iter_mut().zip(&*of.publisher) {
                    *to = c_char::from_ne_bytes([*octet]);
                }
            }
            Verdict::Plain => told.kind = 2,
            Verdict::Rotated { epoch, .. } | Verdict::Known { newest: epoch, .. } => {
                (told.kind, told.epoch) = (1, epoch);
                own.buffer.clear();
            }
            Verdict::Refused(why) => {
                own.why = std::format!("{}: {why} (remedy: {})", why.name(), why.remedy());
                return Err(Code::Refused);
            }
            Verdict::NoRotation(why) => {
                own.why = std::format!("not-rotation: {why}");
                return Err(Code::Refused);
            }
        }
        if durable != 0
            && let Err(fault) = own.guard.flush()
        {
            own.why = fault.to_string();
            return Err(Code::Files);
        }
        told.len = own.buffer.len();
        out.get_mut(..told.len).ok_or(Code::TooLong)?.copy_from_slice(&own.buffer);
        // SAFETY: as above.
        unsafe { *opened = told };
        Ok(())
    };
    code(open())
}

/// Makes durable what was opened without it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_mqtt_flush(mqtt: *mut Mqtt) -> Code {
    // SAFETY: the caller's guarantee; see the module comment.
    let outcome = unsafe { own(mqtt) }.and_then(|own| {
        own.guard.flush().map_err(|fault| {
            own.why = fault.to_string();
            Code::Files
        })
    });
    code(outcome)
}

/// Prepares the next payloads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_mqtt_idle(mqtt: *mut Mqtt) -> Code {
    // SAFETY: the caller's guarantee; see the module comment.
    code(unsafe { own(mqtt) }.map(|own| own.guard.idle()))
}

/// Writes the state and frees the guard, whatever it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_mqtt_close(mqtt: *mut Mqtt, why: *mut c_char, why_room: usize) -> Code {
    if mqtt.is_null() {
        return Code::Argument;
    }
    // SAFETY: a live guard that nothing else uses, by the caller's guarantee. It came from a box.
    let own = unsafe { Box::from_raw(mqtt) };
    if own.process != process::number() {
        // The files are the parent's, and closing would write them.
        std::mem::forget(own);
        return Code::Forked;
    }
    // SAFETY: as above.
    let room = unsafe { slice_mut(why.cast(), why_room) };
    let outcome = own.guard.close().map_err(|fault| {
        if let Ok(room) = room {
            put_text(&fault.to_string(), room);
        }
        Code::Files
    });
    code(outcome)
}
