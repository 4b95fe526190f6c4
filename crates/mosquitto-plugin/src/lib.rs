//! A plugin for Mosquitto 2 (`mosquitto_plugin.h`, interface version 5) that opens payloads at the
//! broker, for subscribers behind TLS without a key. Messages that do not open are not forwarded;
//! the broker's log counts them.
//!
//! ```text
//! plugin /usr/lib/antedate/libantedate_mosquitto_plugin.so
//! plugin_opt_keys /etc/antedate/line4.toml,/etc/antedate/line5.toml
//! plugin_opt_topics plant/line4/+/force        # opened here, the others stay sealed; default: all
//! plugin_opt_device /etc/antedate/broker.device
//! plugin_opt_state /var/lib/antedate/broker    # replay bounds, over restarts
//! plugin_opt_access list                       # with an acl_file (`anyone`: without)
//! ```
//!
//! Nothing passes in the clear on its topics: a configuration with a way around the plugin is refused
//! at the start.
// The broker calls this library through C.
#![allow(unsafe_code, reason = "the border to C of the broker")]

mod broker;
mod config;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use antedate_channel::mqtt::topic;
use antedate_host::fault::{Fault, Faults};
use antedate_mqtt::bypass::is_brokers_own;
use antedate_mqtt::file::{Device, GroupFile, doubled, keyless, overlaps};
use antedate_mqtt::guard::{Guard, Verdict};
use antedate_mqtt::store::Store;
use antedate_wire::mqtt::Envelope;

use broker::{
    ACL_DENIED, DEFER, EVENT_ACCESS, EVENT_MESSAGE, INVALID, LOG_ERR, LOG_NOTICE, LOG_WARNING, Message, Opt,
    Question, READ, SUCCESS, UNKNOWN, WRITE, log,
};

/// A fault of the options in mosquitto.conf or of a file that they name, as a line of the log.
pub(crate) struct OptionError(String);

impl From<Fault> for OptionError {
    fn from(fault: Fault) -> Self {
        Self(fault.to_string())
    }
}

impl From<Faults> for OptionError {
    fn from(faults: Faults) -> Self {
        Self(faults.to_string())
    }
}

/// The state of the plugin. The broker's only thread calls it.
struct Plugin {
    guard: Option<Guard>,
    /// The filters of the topics to open. Empty: all topics of the groups.
    topics: Vec<String>,
    opened: u64,
    refused: u64,
    /// Invalid messages on rotation topics.
    no_rotation: u64,
    /// Failed writes of the replay bounds.
    unwritten: u64,
    /// The answer to an access that the plugin permits.
    access: c_int,
}

impl Plugin {
    /// Reads the options of mosquitto.conf.
    fn new(options: &[(String, String)]) -> Result<Self, OptionError> {
        let (mut files, mut topics, mut device, mut store) = (Vec::new(), Vec::new(), None, None);
        let mut access = None;
        for (key, value) in options {
            let list = value.split(',').map(str::trim).filter(|one| !one.is_empty());
            match key.as_str() {
                "keys" => {
                    for file in list {
                        files.push(GroupFile::load(Path::new(file))?);
                    }
                }
                "topics" => {
                    for filter in list {
                        topic::check_filter(filter)
                            .map_err(|why| OptionError(format!("plugin_opt_topics {filter}: {why}")))?;
                        topics.push(filter.to_owned());
                    }
                }
                "device" => device = Some(Device::load(Path::new(value))?),
                "state" => store = Some(Store::open(Path::new(value))?),
                "access" => {
                    access = Some(match value.as_str() {
                        "list" => DEFER,
                        "anyone" => SUCCESS,
                        other => {
                            return Err(OptionError(format!(
                                "plugin_opt_access {other}: say list, where an acl_file or another plugin decides who may publish and subscribe, or anyone"
                            )));
                        }
                    });
                }
                other => {
                    return Err(OptionError(format!(
                        "plugin_opt_{other} is unknown; there are keys, topics, device, state and access"
                    )));
                }
            }
        }
        if files.is_empty() {
            let missing = "plugin_opt_keys is missing: name a group file (antedate keygen mqtt)";
            return Err(OptionError(missing.to_owned()));
        }
        let covered = |filter: &&String| files.iter().any(|file: &GroupFile| file.covers_filter(filter));
        if let Some(filter) = topics.iter().find(|filter| !covered(filter)) {
            return Err(OptionError(format!(
                "plugin_opt_topics {filter}: no group covers all of it, so what is sent there would not be opened; name its group file in plugin_opt_keys, or narrow the filter"
            )));
        }
        if let Some(fault) = doubled(&files).into_iter().chain(keyless(&files, device.as_ref())).next() {
            return Err(fault.into());
        }
        for warning in overlaps(&files) {
            log(LOG_WARNING, &warning);
        }
        let Some(access) = access else {
            let missing = "plugin_opt_access is missing, without which forged wills pass: say list if there is an acl_file, and anyone if there is none";
            return Err(OptionError(missing.to_owned()));
        };
        let of_groups = files.iter().flat_map(|file| &file.topics);
        if let Some(filter) = of_groups.chain(&topics).find(|filter| is_brokers_own(filter)) {
            return Err(OptionError(format!(
                "{filter}: the broker serves $CONTROL and $SYS itself, before it asks a plugin, so nothing can protect them (remedy: remove the filter from the group's topics)"
            )));
        }
        config::check()?;
        let guard = Guard::new(files, device, store, None);
        // Without its bounds it would refuse each message.
        guard.check_store()?;
        if !guard.has_keys() {
            log(
                LOG_WARNING,
                "a group has no key yet, and the broker shows no rotation message that it has retained: antedate mqtt rotate --again publishes it once more, and plugin_opt_state keeps it over restarts",
            );
        }
        let guard = Some(guard);
        let (opened, refused, no_rotation, unwritten) = (0, 0, 0, 0);
        Ok(Self { guard, topics, opened, refused, no_rotation, unwritten, access })
    }

    /// Whether payloads on a topic are opened, and whether it is a rotation topic.
    fn rules(&self, name: &str) -> (bool, bool) {
        let covered = self.guard.as_ref().is_some_and(|guard| guard.covers(name));
        let named = self.topics.iter().any(|filter| topic::matches(filter, name));
        let rotation = self.guard.iter().flat_map(Guard::rotation_topics).any(|one| one == name);
        (named || (covered && self.topics.is_empty()), rotation)
    }

    /// The answer to an access check. `None`: the plugin permits it.
    fn may(&mut self, name: &CStr, payload: &[u8], question: &Question) -> Option<c_int> {
        let text = name.to_str().ok()?;
        let (chosen, rotation) = self.rules(text);
        if !chosen || rotation {
            return None;
        }
        let guard = self.guard.as_mut()?;
        match question.access {
            // It was opened on arrival, or the read check denies it.
            WRITE if question.is_of_retained() => None,
            // The message event follows. The message does not count as received yet: a later plugin
            // may deny it.
            WRITE => {
                let refusal = guard.check(text, payload).err()?;
                self.refuse(text, &format!("{refusal} (remedy: {})", refusal.remedy()));
                Some(ACL_DENIED)
            }
            // A sealed payload in the broker is a will or older than the plugin. The first check
            // publishes it opened.
            READ if Envelope::parse(payload).is_ok() => {
                let mut opened = Vec::new();
                if let Verdict::Opened(_) = guard.open(text, payload, &mut opened) {
                    self.received();
                    let published = broker::publish(name, &opened, question.qos, question.retain);
                    if published != SUCCESS {
                        log(LOG_ERR, &format!("{text}: a will was not published: error {published}"));
                    }
                }
                Some(ACL_DENIED)
            }
            _ => None,
        }
    }

    /// Counts an opened message, and writes the replay bounds after every [`WRITE_AFTER`] messages.
    fn received(&mut self) {
        self.opened += 1;
        let Some(guard) = &mut self.guard else { return };
        // A failed write is tried again after as many messages.
        if guard.unwritten().is_multiple_of(WRITE_AFTER)
            && let Err(fault) = guard.flush()
        {
            self.unwritten += 1;
            if is_logged(self.unwritten) {
                log(LOG_ERR, &format!("{fault} ({} times so far)", self.unwritten));
            }
        }
    }

    /// Counts and logs a message that is not forwarded.
    fn refuse(&mut self, name: &str, why: &str) {
        self.refused += 1;
        // Bounds that cannot be read refuse every message: that is the reason then.
        if let Some(Err(fault)) = self.guard.as_ref().map(Guard::check_store) {
            log(LOG_ERR, &format!("{name}: not forwarded ({} so far): {fault}", self.refused));
            return;
        }
        if is_logged(self.refused) {
            log(LOG_WARNING, &format!("{name}: not forwarded ({} so far): {why}", self.refused));
        }
    }

    /// Decides a message's fate.
    fn message(&mut self, name: &str, payload: &[u8]) -> Fate {
        let Some(guard) = &mut self.guard else { return Fate::Same };
        let named = self.topics.iter().any(|filter| topic::matches(filter, name));
        let chosen = named || self.topics.is_empty();
        let rotation = guard.rotation_topics().iter().any(|one| one == name);
        if !chosen && !rotation {
            return Fate::Same;
        }
        let mut out = Vec::new();
        let why = match guard.open(name, payload, &mut out) {
            Verdict::Plain if named => "the topic belongs to no group".to_owned(),
            Verdict::Plain | Verdict::Known { .. } => return Fate::Same,
            Verdict::Opened(_) => {
                self.received();
                return Fate::Payload(out);
            }
            Verdict::Rotated { group, epoch } => {
                log(LOG_NOTICE, &format!("group {group}: epoch {epoch} begins"));
                return Fate::Same;
            }
            Verdict::NoRotation(refusal) if rotation => {
                self.no_rotation += 1;
                if is_logged(self.no_rotation) {
                    log(LOG_WARNING, &format!("{name}: {refusal} ({} so far)", self.no_rotation));
                }
                return Fate::Same;
            }
            Verdict::NoRotation(refusal) => refusal.to_string(),
            Verdict::Refused(refusal) => format!("{refusal} (remedy: {})", refusal.remedy()),
        };
        self.refuse(name, &why);
        Fate::Denied
    }
}

/// Whether the `count`th event of a kind is logged: the first 100, then the powers of two, so that
/// no peer floods the log.
const fn is_logged(count: u64) -> bool {
    count <= 100 || count.is_power_of_two()
}

/// The fate of a message.
enum Fate {
    Same,
    Payload(Vec<u8>),
    Denied,
}

/// The most messages that are accepted again after a crash of the broker.
const WRITE_AFTER: usize = 64;

/// Chooses the interface version.
///
/// # Safety
/// `versions` points to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mosquitto_plugin_version(count: c_int, versions: *const c_int) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller's `versions` points to `count` numbers during the call, and `i < count`.
    let has = (0..count).any(|i| unsafe { *versions.add(i) } == broker::VERSION);
    if has { broker::VERSION } else { -1 }
}

/// Reads the options and registers for events.
///
/// # Safety
/// The pointers are those of the broker's call: `options` points to `count` options, `user_data` to
/// a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mosquitto_plugin_init(
    identifier: *mut c_void,
    user_data: *mut *mut c_void,
    options: *const Opt,
    count: c_int,
) -> c_int {
    let text = |pointer: *const c_char| {
        if pointer.is_null() {
            return String::new();
        }
        // SAFETY: keys and values are NUL-terminated strings that the broker keeps during the call.
        unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
    };
    let count = usize::try_from(count).unwrap_or(0);
    let options: Vec<(String, String)> = (0..count)
        .map(|i| {
            // SAFETY: `options` points to `count` options during the call, and `i < count`.
            let option = unsafe { &*options.add(i) };
            (text(option.key), text(option.value))
        })
        .collect();
    let plugin = match catch_unwind(|| Plugin::new(&options)) {
        Ok(Ok(plugin)) => Box::into_raw(Box::new(plugin)),
        Ok(Err(why)) => {
            log(LOG_ERR, &why.0);
            return INVALID;
        }
        Err(_) => return UNKNOWN,
    };
    // SAFETY: `user_data` points to the broker's own variable for this pointer.
    unsafe { *user_data = plugin.cast() };
    let register = |event, callback| {
        // SAFETY: each callback has the type of its event, and the plugin lives until the clean-up.
        unsafe {
            broker::mosquitto_callback_register(identifier, event, callback, std::ptr::null(), plugin.cast())
        }
    };
    match register(EVENT_MESSAGE, on_message) {
        SUCCESS => register(EVENT_ACCESS, on_access),
        done => done,
    }
}

/// Writes the replay bounds and logs the counters.
///
/// # Safety
/// `user_data` is null or the pointer from the initialisation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mosquitto_plugin_cleanup(
    user_data: *mut c_void,
    _options: *const Opt,
    _count: c_int,
) -> c_int {
    if user_data.is_null() {
        return SUCCESS;
    }
    // SAFETY: the pointer is from `Box::into_raw` in the initialisation, and the broker does not
    // use it after this call.
    let mut plugin = unsafe { Box::from_raw(user_data.cast::<Plugin>()) };
    log(LOG_NOTICE, &format!("{} payloads opened, {} messages not forwarded", plugin.opened, plugin.refused));
    let closed = catch_unwind(AssertUnwindSafe(|| plugin.guard.take().map_or(Ok(()), Guard::close)));
    if let Ok(Err(fault)) = closed {
        log(LOG_ERR, &fault.to_string());
    }
    SUCCESS
}

/// A payload of the broker.
///
/// # Safety
/// `payload` is null or points to `len` octets for as long as the result is used.
unsafe fn octets<'a>(payload: *const c_void, len: u32) -> &'a [u8] {
    if payload.is_null() {
        return &[];
    }
    // SAFETY: by this function's contract.
    unsafe { std::slice::from_raw_parts(payload.cast::<u8>(), len as usize) }
}

/// The callback of `MOSQ_EVT_ACL_CHECK`.
extern "C" fn on_access(_event: c_int, data: *mut c_void, user_data: *mut c_void) -> c_int {
    // SAFETY: the event's data is a `mosquitto_evt_acl_check`. The broker has one thread, so no
    // other reference to it or to the plugin exists during the call.
    let (question, plugin) = unsafe { (&*data.cast::<Question>(), &mut *user_data.cast::<Plugin>()) };
    let permitted = plugin.access;
    if question.topic.is_null() {
        return permitted;
    }
    // SAFETY: the topic is NUL-terminated, and the broker keeps topic and payload during the call.
    let (name, payload) =
        unsafe { (CStr::from_ptr(question.topic), octets(question.payload, question.payloadlen)) };
    match catch_unwind(AssertUnwindSafe(|| plugin.may(name, payload, question))) {
        Ok(denied) => denied.unwrap_or(permitted),
        Err(_) => ACL_DENIED,
    }
}

/// The callback of `MOSQ_EVT_MESSAGE`.
extern "C" fn on_message(_event: c_int, data: *mut c_void, user_data: *mut c_void) -> c_int {
    // SAFETY: the event's data is a `mosquitto_evt_message`. The broker has one thread, so no other
    // reference to it or to the plugin exists during the call.
    let (message, plugin) = unsafe { (&mut *data.cast::<Message>(), &mut *user_data.cast::<Plugin>()) };
    if message.topic.is_null() {
        return SUCCESS;
    }
    // SAFETY: the topic is NUL-terminated.
    let Ok(name) = unsafe { CStr::from_ptr(message.topic) }.to_str() else { return ACL_DENIED };
    // SAFETY: the broker keeps the payload during the call.
    let payload = unsafe { octets(message.payload, message.payloadlen) };
    match catch_unwind(AssertUnwindSafe(|| plugin.message(name, payload))) {
        Ok(Fate::Same) => SUCCESS,
        Ok(Fate::Denied) => ACL_DENIED,
        Ok(Fate::Payload(opened)) => broker::replace(message, &opened),
        Err(_) => UNKNOWN,
    }
}
