//! A plugin for Mosquitto 2 (`mosquitto_plugin.h`, version 5 of its interface) that opens payloads at the broker, for subscribers
//! that are protected by TLS and have no key. What does not open is not forwarded, and is counted in the broker's log.
//!
//! ```text
//! plugin /usr/lib/antedate/libantedate_mosquitto_plugin.so
//! plugin_opt_keys /etc/antedate/line4.toml,/etc/antedate/line5.toml
//! plugin_opt_topics plant/line4/+/force        # opened here; the group's other topics stay sealed. All, if it is not there
//! plugin_opt_device /etc/antedate/broker.device
//! plugin_opt_state /var/lib/antedate/broker    # what was received, over restarts
//! plugin_opt_access list                       # wills too; an acl_file says who may publish (or `anyone`: nothing does)
//! ```
#![allow(unsafe_code)]

mod broker;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use antedate_channel::mqtt::topic;
use antedate_mqtt::file::{Device, GroupFile, doubled, keyless, overlaps};
use antedate_mqtt::guard::{Guard, Verdict};
use antedate_mqtt::store::Store;
use antedate_wire::mqtt::Envelope;

use broker::{
    ACL_DENIED, DEFER, EVENT_ACCESS, EVENT_MESSAGE, INVALID, LOG_ERR, LOG_NOTICE, LOG_WARNING, Message, Opt,
    Question, READ, SUCCESS, UNKNOWN, WRITE, log,
};

/// What the plugin knows while the broker runs. The broker has one thread, which is the only one that comes here.
struct Plugin {
    guard: Option<Guard>,
    /// The filters whose payloads are opened; none: all that a group covers.
    topics: Vec<String>,
    opened: u64,
    refused: u64,
    /// What came where rotation messages are and was none.
    no_rotation: u64,
    /// How often the disk did not take what was received.
    unwritten: u64,
    /// What the plugin answers where it has nothing against an access; none: it is not asked, and sees no wills.
    access: Option<c_int>,
}

impl Plugin {
    /// From the options of mosquitto.conf.
    fn new(options: &[(String, String)]) -> Result<Self, String> {
        let (mut files, mut topics, mut device, mut store) = (Vec::new(), Vec::new(), None, None);
        let mut access = None;
        for (key, value) in options {
            let list = value.split(',').map(str::trim).filter(|one| !one.is_empty());
            match key.as_str() {
                "keys" => {
                    for file in list {
                        files.push(GroupFile::load(Path::new(file)).map_err(|faults| faults.to_string())?);
                    }
                }
                "topics" => {
                    for filter in list {
                        topic::check_filter(filter)
                            .map_err(|why| format!("plugin_opt_topics {filter}: {why}"))?;
                        topics.push(filter.to_owned());
                    }
                }
                "device" => {
                    device = Some(Device::load(Path::new(value)).map_err(|faults| faults.to_string())?)
                }
                "state" => store = Some(Store::open(Path::new(value)).map_err(|fault| fault.to_string())?),
                "access" => {
                    access = Some(match value.as_str() {
                        "list" => DEFER,
                        "anyone" => SUCCESS,
                        other => {
                            return Err(format!(
                                "plugin_opt_access {other}: say list, where an acl_file or another plugin decides who may publish and subscribe, or anyone"
                            ));
                        }
                    });
                }
                other => {
                    return Err(format!(
                        "plugin_opt_{other} is unknown; there are keys, topics, device, state and access"
                    ));
                }
            }
        }
        if files.is_empty() {
            return Err("plugin_opt_keys is missing: name a group file (antedate keygen mqtt)".into());
        }
        let covered = |filter: &&String| files.iter().any(|file: &GroupFile| file.covers_filter(filter));
        if let Some(filter) = topics.iter().find(|filter| !covered(filter)) {
            return Err(format!(
                "plugin_opt_topics {filter}: no group covers all of it, so what is sent there would not be opened; name its group file in plugin_opt_keys, or narrow the filter"
            ));
        }
        if let Some(fault) = doubled(&files).into_iter().chain(keyless(&files, device.as_ref())).next() {
            return Err(fault.to_string());
        }
        for warning in overlaps(&files) {
            log(LOG_WARNING, &warning);
        }
        if access.is_none() {
            log(
                LOG_WARNING,
                "wills are passed on as they are, sealed or forged: say plugin_opt_access list if there is an acl_file, plugin_opt_access anyone if there is none",
            );
        }
        let guard = Guard::new(files, device, store, None);
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

    /// Whether payloads on a topic are opened, and whether rotation messages are there.
    fn of(&self, name: &str) -> (bool, bool) {
        let covered = self.guard.as_ref().is_some_and(|guard| guard.covers(name));
        let named = self.topics.iter().any(|filter| topic::matches(filter, name));
        let rotation = self.guard.iter().flat_map(Guard::rotation_topics).any(|one| one == name);
        (named || (covered && self.topics.is_empty()), rotation)
    }

    /// Whether a client may, as far as the plugin decides. `None`: it has nothing against it.
    fn may(&mut self, name: &CStr, payload: &[u8], question: &Question) -> Option<c_int> {
        let text = name.to_str().ok()?;
        let (chosen, rotation) = self.of(text);
        if !chosen || rotation {
            return None;
        }
        let guard = self.guard.as_mut()?;
        match question.access {
            // It was opened when it came, or is refused to whoever reads.
            WRITE if question.is_of_kept() => None,
            // A publish is shown next. Nothing counts as received before, for whoever decides after us may be against it.
            WRITE => {
                let refusal = guard.check(text, payload).err()?;
                self.refuse(text, &format!("{refusal} (remedy: {})", refusal.remedy()));
                Some(ACL_DENIED)
            }
            // What lies sealed in the broker is a will, or from before the plugin. All get it opened, the first time it is asked.
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

    /// Counts a message that opened, and writes down what was received.
    fn received(&mut self) {
        self.opened += 1;
        let Some(guard) = &mut self.guard else { return };
        // A disk that does not take it is asked again after as many messages.
        if guard.unwritten().is_multiple_of(WRITE_AFTER)
            && let Err(fault) = guard.flush()
        {
            self.unwritten += 1;
            if is_said(self.unwritten) {
                log(LOG_ERR, &format!("{fault} ({} times so far)", self.unwritten));
            }
        }
    }

    /// Counts a message that is not forwarded, and says why.
    fn refuse(&mut self, name: &str, why: &str) {
        self.refused += 1;
        if is_said(self.refused) {
            log(LOG_WARNING, &format!("{name}: not forwarded ({} so far): {why}", self.refused));
        }
    }

    /// What becomes of a message: another payload, the same one, or nothing.
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
                if is_said(self.no_rotation) {
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

/// Whether something is said that has come so often: at first, and then less and less often, so that nobody floods the log.
const fn is_said(count: u64) -> bool {
    count <= 100 || count.is_power_of_two()
}

enum Fate {
    Same,
    Payload(Vec<u8>),
    Denied,
}

/// How many messages may be accepted once more after a crash of the broker.
const WRITE_AFTER: usize = 64;

/// The version of the interface, from those that the broker has.
///
/// # Safety
/// `versions` points to `count` numbers, as the broker calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mosquitto_plugin_version(count: c_int, versions: *const c_int) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the broker gives a pointer to that many numbers, which it keeps during the call.
    let has = (0..count).any(|i| unsafe { *versions.add(i) } == broker::VERSION);
    if has { broker::VERSION } else { -1 }
}

/// Reads the options and registers for messages.
///
/// # Safety
/// All pointers are the broker's own, as it calls it.
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
        // SAFETY: keys and values are strings that end with a zero, which the broker keeps during the call.
        unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
    };
    let count = usize::try_from(count).unwrap_or(0);
    let options: Vec<(String, String)> = (0..count)
        .map(|i| {
            // SAFETY: the broker gives a pointer to that many options, which it keeps during the call.
            let option = unsafe { &*options.add(i) };
            (text(option.key), text(option.value))
        })
        .collect();
    let plugin = match catch_unwind(|| Plugin::new(&options)) {
        Ok(Ok(plugin)) => Box::into_raw(Box::new(plugin)),
        Ok(Err(why)) => {
            log(LOG_ERR, &why);
            return INVALID;
        }
        Err(_) => return UNKNOWN,
    };
    // SAFETY: `plugin` was made above, and nobody else has it yet.
    let asked = unsafe { (*plugin).access.is_some() };
    // SAFETY: `user_data` is where the broker keeps our pointer until the clean-up.
    unsafe { *user_data = plugin.cast() };
    let register = |event, callback| {
        // SAFETY: the callbacks fit their events, and the broker gives them the plugin until the clean-up.
        unsafe {
            broker::mosquitto_callback_register(identifier, event, callback, std::ptr::null(), plugin.cast())
        }
    };
    match register(EVENT_MESSAGE, on_message) {
        SUCCESS if asked => register(EVENT_ACCESS, on_access),
        done => done,
    }
}

/// Writes down what was received, and says what was done.
///
/// # Safety
/// `user_data` is what the initialisation left there, as the broker calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mosquitto_plugin_cleanup(
    user_data: *mut c_void,
    _options: *const Opt,
    _count: c_int,
) -> c_int {
    if user_data.is_null() {
        return SUCCESS;
    }
    // SAFETY: made by `Box::into_raw` in the initialisation, and the broker does not use it after this call.
    let mut plugin = unsafe { Box::from_raw(user_data.cast::<Plugin>()) };
    log(LOG_NOTICE, &format!("{} payloads opened, {} messages not forwarded", plugin.opened, plugin.refused));
    let closed = catch_unwind(AssertUnwindSafe(|| plugin.guard.take().map_or(Ok(()), Guard::close)));
    if let Ok(Err(fault)) = closed {
        log(LOG_ERR, &fault.to_string());
    }
    SUCCESS
}

/// Bytes that the broker shows.
///
/// # Safety
/// `payload` is null or has that many bytes for as long as the result is used.
unsafe fn shown<'a>(payload: *const c_void, len: u32) -> &'a [u8] {
    if payload.is_null() {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(payload.cast::<u8>(), len as usize) }
}

/// May a client publish this, or get it?
extern "C" fn on_access(_event: c_int, data: *mut c_void, user_data: *mut c_void) -> c_int {
    // SAFETY: for this event the broker gives a `mosquitto_evt_acl_check`, and nobody else has it or the plugin meanwhile.
    let (question, plugin) = unsafe { (&*data.cast::<Question>(), &mut *user_data.cast::<Plugin>()) };
    let nothing_against = plugin.access.unwrap_or(DEFER);
    if question.topic.is_null() {
        return nothing_against;
    }
    // SAFETY: the topic is a string that ends with a zero, and the broker keeps topic and payload during the call.
    let (name, payload) =
        unsafe { (CStr::from_ptr(question.topic), shown(question.payload, question.payloadlen)) };
    match catch_unwind(AssertUnwindSafe(|| plugin.may(name, payload, question))) {
        Ok(denied) => denied.unwrap_or(nothing_against),
        Err(_) => ACL_DENIED,
    }
}

/// A client has published.
extern "C" fn on_message(_event: c_int, data: *mut c_void, user_data: *mut c_void) -> c_int {
    // SAFETY: for this event the broker gives a `mosquitto_evt_message`, and nobody else has it or the plugin meanwhile.
    let (message, plugin) = unsafe { (&mut *data.cast::<Message>(), &mut *user_data.cast::<Plugin>()) };
    if message.topic.is_null() {
        return SUCCESS;
    }
    // SAFETY: the topic is a string that ends with a zero.
    let Ok(name) = unsafe { CStr::from_ptr(message.topic) }.to_str() else { return ACL_DENIED };
    // SAFETY: the broker keeps the payload during the call.
    let payload = unsafe { shown(message.payload, message.payloadlen) };
    match catch_unwind(AssertUnwindSafe(|| plugin.message(name, payload))) {
        Ok(Fate::Same) => SUCCESS,
        Ok(Fate::Denied) => ACL_DENIED,
        Ok(Fate::Payload(opened)) => broker::replace(message, &opened),
        Err(_) => UNKNOWN,
    }
}
