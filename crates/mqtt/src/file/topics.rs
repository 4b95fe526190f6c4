//! The topics of a group file: filters, ages, signatures, and names behind a bridge.

use std::borrow::Cow;

use antedate_channel::mqtt::topic;
use antedate_host::document::{Field, Section};

/// The prefix of topics at this broker, and what the members at the group's own broker write instead.
///
/// A bridge with a prefix (`topic # both 0 local/ remote/` of mosquitto.conf) renames topics. The
/// envelope is bound to the name at the group's own broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMap {
    /// The prefix here.
    pub here: String,
    /// The prefix under which payloads are sealed.
    pub sealed: String,
}

/// The name under which payloads of a topic are sealed. `None` for a topic that the maps lead away
/// from: its name belongs to another topic here, so that each payload has one place.
pub(super) fn sealed_name<'a>(maps: &[TopicMap], topic: &'a str) -> Option<Cow<'a, str>> {
    for map in maps {
        if let Some(rest) = topic.strip_prefix(&map.here) {
            return Some(if map.sealed.is_empty() {
                rest.into()
            } else {
                format!("{}{rest}", map.sealed).into()
            });
        }
    }
    let taken = maps.iter().any(|map| topic.starts_with(&map.sealed));
    (!taken).then_some(Cow::Borrowed(topic))
}

/// The topic here of a name under which payloads are sealed.
pub(super) fn topic_here<'a>(maps: &[TopicMap], name: &'a str) -> Cow<'a, str> {
    let mapped = maps.iter().find_map(|map| Some((map, name.strip_prefix(&map.sealed)?)));
    mapped.map_or(Cow::Borrowed(name), |(map, rest)| format!("{}{rest}", map.here).into())
}

pub(super) fn topic_maps(root: &mut Section<'_, '_>) -> Vec<TopicMap> {
    let mut maps: Vec<TopicMap> = Vec::new();
    for field in root.get("topic_map").and_then(|field| field.array()).unwrap_or_default() {
        let Some(mut section) = field.section() else { continue };
        let mut prefix = |key, remedy| {
            let field = section.required(key, remedy)?;
            let text = field.string()?;
            if text.is_empty() || topic::check_name(text).is_ok() && !text.starts_with('$') {
                return Some(text.to_owned());
            }
            field.fault("is no beginning of a topic", "write it as in the bridge: site2/ or nothing");
            None
        };
        let here = prefix("here", "write the prefix of the topics at this broker");
        let sealed = prefix("sealed", "write the prefix at the group's own broker, or \"\"");
        section.finish();
        let (Some(here), Some(sealed)) = (here, sealed) else { continue };
        let clash = |one: &str, other: &str| one.starts_with(other) || other.starts_with(one);
        if maps.iter().any(|map| clash(&map.here, &here) || clash(&map.sealed, &sealed)) {
            field.fault(
                "begins like another [[topic_map]], so a topic would have two names",
                "give each place of the group one prefix, or make a group for each",
            );
        }
        maps.push(TopicMap { here, sealed });
    }
    maps
}

pub(super) fn topics(section: &mut Section<'_, '_>) -> Vec<String> {
    let Some(field) = section.required("topics", "write topics = [\"plant/line4/#\"]") else {
        return Vec::new();
    };
    let fields = field.array().unwrap_or_default();
    if fields.is_empty() {
        field.fault("names no topic", "write topics = [\"plant/line4/#\"]");
    }
    let mut topics = Vec::new();
    for field in fields {
        let Some(text) = field.string() else { continue };
        match topic::check_filter(text) {
            Ok(()) => topics.push(text.to_owned()),
            Err(why) => field.fault(why.to_string(), "write a filter as for mosquitto_sub"),
        }
    }
    topics
}

pub(super) fn max_ages(root: &mut Section<'_, '_>, protected: &[String]) -> Vec<(String, u32)> {
    let mut ages = Vec::new();
    for field in root.get("fresh").and_then(|field| field.array()).unwrap_or_default() {
        let Some(mut section) = field.section() else { continue };
        let topics = topics(&mut section);
        let seconds = section
            .required("max_age", "write the seconds after which a message is refused")
            .and_then(|field| field.integer(1..=u64::from(u32::MAX)))
            .and_then(|seconds| u32::try_from(seconds).ok());
        section.finish();
        for filter in topics {
            within(&field, protected, &filter);
            ages.extend(seconds.map(|seconds| (filter, seconds)));
        }
    }
    ages
}

pub(super) fn signed_topics(root: &mut Section<'_, '_>, protected: &[String]) -> Vec<String> {
    let mut signed = Vec::new();
    for field in root.get("signed").and_then(|field| field.array()).unwrap_or_default() {
        let Some(mut section) = field.section() else { continue };
        let filters = topics(&mut section);
        section.finish();
        for filter in filters {
            within(&field, protected, &filter);
            signed.push(filter);
        }
    }
    signed
}

/// A fault if the group does not protect all of a filter.
fn within(field: &Field<'_, '_>, protected: &[String], filter: &str) {
    if !protected.iter().any(|wide| topic::covers(wide, filter)) {
        field.fault(
            format!("\"{filter}\": the group does not protect all of it"),
            "name topics within the group's",
        );
    }
}
