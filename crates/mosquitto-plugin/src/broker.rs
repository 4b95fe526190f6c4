//! The C interface of Mosquitto 2.0 (`mosquitto_broker.h`, `mosquitto_plugin.h`).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// The interface version.
pub(crate) const VERSION: c_int = 5;
/// MOSQ_EVT_ACL_CHECK
pub(crate) const EVENT_ACCESS: c_int = 2;
/// MOSQ_EVT_MESSAGE
pub(crate) const EVENT_MESSAGE: c_int = 7;
/// MOSQ_ERR_SUCCESS
pub(crate) const SUCCESS: c_int = 0;
/// MOSQ_ERR_NOMEM
const NO_MEMORY: c_int = 1;
/// MOSQ_ERR_INVAL
pub(crate) const INVALID: c_int = 3;
/// MOSQ_ERR_ACL_DENIED
pub(crate) const ACL_DENIED: c_int = 12;
/// MOSQ_ERR_UNKNOWN
pub(crate) const UNKNOWN: c_int = 13;
/// MOSQ_ERR_PLUGIN_DEFER: the next plugin or access list decides; the broker denies if there is
/// none.
pub(crate) const DEFER: c_int = 17;
/// MOSQ_ACL_READ: delivery to a subscriber.
pub(crate) const READ: c_int = 1;
/// MOSQ_ACL_WRITE: a client's publish or will.
pub(crate) const WRITE: c_int = 2;
/// MOSQ_LOG_NOTICE
pub(crate) const LOG_NOTICE: c_int = 2;
/// MOSQ_LOG_WARNING
pub(crate) const LOG_WARNING: c_int = 4;
/// MOSQ_LOG_ERR
pub(crate) const LOG_ERR: c_int = 8;

/// `struct mosquitto_opt`
#[repr(C)]
pub struct Opt {
    pub(crate) key: *const c_char,
    pub(crate) value: *const c_char,
}

/// `struct mosquitto_evt_message`
#[repr(C)]
pub(crate) struct Message {
    future: *mut c_void,
    client: *mut c_void,
    pub(crate) topic: *const c_char,
    pub(crate) payload: *mut c_void,
    properties: *mut c_void,
    reason_string: *mut c_char,
    pub(crate) payloadlen: u32,
    qos: u8,
    reason_code: u8,
    retain: bool,
    future2: [*mut c_void; 4],
}

/// `struct mosquitto_evt_acl_check`
#[repr(C)]
pub(crate) struct Question {
    future: *mut c_void,
    client: *const c_void,
    pub(crate) topic: *const c_char,
    pub(crate) payload: *const c_void,
    properties: *mut c_void,
    pub(crate) access: c_int,
    pub(crate) payloadlen: u32,
    pub(crate) qos: u8,
    pub(crate) retain: bool,
    future2: [*mut c_void; 4],
}

// `peers/mqtt/layout.c` asserts the same of the headers, on 64-bit targets such as Debian's broker.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(offset_of!(Opt, key) == 0 && offset_of!(Opt, value) == 8 && size_of::<Opt>() == 16);
    assert!(offset_of!(Message, future) == 0 && offset_of!(Message, client) == 8);
    assert!(offset_of!(Message, topic) == 16 && offset_of!(Message, payload) == 24);
    assert!(offset_of!(Message, properties) == 32 && offset_of!(Message, reason_string) == 40);
    assert!(offset_of!(Message, payloadlen) == 48 && offset_of!(Message, qos) == 52);
    assert!(offset_of!(Message, reason_code) == 53 && offset_of!(Message, retain) == 54);
    assert!(offset_of!(Message, future2) == 56 && size_of::<Message>() == 88);
    assert!(offset_of!(Question, future) == 0 && offset_of!(Question, client) == 8);
    assert!(offset_of!(Question, topic) == 16 && offset_of!(Question, payload) == 24);
    assert!(offset_of!(Question, properties) == 32 && offset_of!(Question, access) == 40);
    assert!(offset_of!(Question, payloadlen) == 44 && offset_of!(Question, qos) == 48);
    assert!(offset_of!(Question, retain) == 49 && offset_of!(Question, future2) == 56);
    assert!(size_of::<Question>() == 88);
};

/// `MOSQ_FUNC_generic_callback`
type Callback = extern "C" fn(c_int, *mut c_void, *mut c_void) -> c_int;

unsafe extern "C" {
    pub(crate) fn mosquitto_callback_register(
        identifier: *mut c_void,
        event: c_int,
        callback: Callback,
        event_data: *const c_void,
        user_data: *mut c_void,
    ) -> c_int;
    fn mosquitto_broker_publish_copy(
        client: *const c_char,
        topic: *const c_char,
        length: c_int,
        payload: *const c_void,
        qos: c_int,
        retain: bool,
        properties: *mut c_void,
    ) -> c_int;
    fn mosquitto_client_protocol_version(client: *const c_void) -> c_int;
    fn mosquitto_malloc(size: usize) -> *mut c_void;
    fn mosquitto_log_printf(level: c_int, format: *const c_char, ...);
}

impl Question {
    /// Whether the check is of a retained message before delivery (`check_retain_source`). Its
    /// publisher is gone then, and the client in its place has no protocol version.
    pub(crate) fn is_of_retained(&self) -> bool {
        // SAFETY: `client` is the broker's own client, which it keeps during the call.
        unsafe { mosquitto_client_protocol_version(self.client) == 0 }
    }
}

/// Writes lines to the broker's log.
pub(crate) fn log(level: c_int, text: &str) {
    for line in text.lines() {
        if let Ok(line) = CString::new(format!("antedate: {line}")) {
            // SAFETY: both strings are NUL-terminated, and the format takes one string.
            unsafe { mosquitto_log_printf(level, c"%s".as_ptr(), line.as_ptr()) };
        }
    }
}

/// Publishes as the broker itself, without a message event.
pub(crate) fn publish(topic: &CStr, payload: &[u8], qos: u8, retain: bool) -> c_int {
    let Ok(len) = c_int::try_from(payload.len()) else { return INVALID };
    // SAFETY: the topic is NUL-terminated and the payload has `len` octets; the broker copies both.
    // Null for the client means all subscribers, null for the properties none.
    unsafe {
        mosquitto_broker_publish_copy(
            null(),
            topic.as_ptr(),
            len,
            payload.as_ptr().cast(),
            c_int::from(qos),
            retain,
            null_mut(),
        )
    }
}

/// Replaces the payload of a message, in memory that the broker allocates and frees. It frees the
/// old payload too.
pub(crate) fn replace(message: &mut Message, payload: &[u8]) -> c_int {
    let Ok(len) = u32::try_from(payload.len()) else { return INVALID };
    // One octet more: the broker's own payloads end with a zero.
    // SAFETY: as `malloc`; null is checked below.
    let place = unsafe { mosquitto_malloc(payload.len() + 1) }.cast::<u8>();
    if place.is_null() {
        return NO_MEMORY;
    }
    // SAFETY: `place` has `len + 1` octets, and no other code has it yet.
    unsafe {
        place.copy_from_nonoverlapping(payload.as_ptr(), payload.len());
        place.add(payload.len()).write(0);
    }
    message.payload = place.cast();
    message.payloadlen = len;
    SUCCESS
}
