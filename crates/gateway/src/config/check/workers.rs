//! Checks `run.workers`: what several forwarding threads share, and what they cannot.

use antedate_channel::macsec::channel_scis;
use antedate_wire::Sci;

use super::{Draft, describe};
use crate::config::keys::KeyFile;
use crate::config::policy::{Limit, Policy};
use crate::config::{Protection, SciMode, Threads};
use antedate_host::fault::Fault;

/// The number of workers, if there are several.
fn workers(draft: &Draft) -> Option<usize> {
    match draft.run.as_ref().map(|run| &run.threads) {
        Some(Threads::Workers(cpus)) => Some(cpus.len()),
        _ => None,
    }
}

/// Refuses settings that workers cannot have.
pub(in crate::config) fn fit(draft: &Draft, faults: &mut Vec<Fault>) {
    if workers(draft).is_none() {
        return;
    }
    let key = "run.workers";
    let mut refuse = |what: &str, remedy: &str| {
        faults.push(draft.lines.fault(&draft.file, key, what, remedy));
    };
    let alone = "remove run.workers";
    match &draft.protection {
        Some(Protection::Overlay(overlay)) => {
            if overlay.private_key_file.is_none() {
                refuse(
                    "need WireGuard, whose messages tell the worker",
                    "remove run.workers, or wireguard = false",
                );
            }
            if overlay.second_uplink.is_some() {
                refuse("cannot be beside [overlay.second_uplink]", "remove one of the two");
            }
            if overlay.release_clock_us > 0 {
                refuse("cannot be beside overlay.release_clock_us", "remove one of the two");
            }
        }
        Some(Protection::Plain) => {
            refuse("need secure channels, one each, and [plain] has none", alone);
        }
        _ => {}
    }
    if let Some(Protection::Macsec(macsec)) = &draft.protection
        && macsec.sci_mode != SciMode::Explicit
    {
        let remedy = "remove include_sci and end_station from [macsec]";
        refuse("need the SCI in each frame, which tells whose it is", remedy);
    }
    if draft.express.as_ref().is_some_and(Option::is_some) {
        let what = "cannot be beside [express], whose rate one thread keeps";
        refuse(what, "remove one: frames with a deadline have rings of their own without it, too");
    }
    if draft.second_uplink.as_ref().is_some_and(Option::is_some) {
        refuse("cannot be beside [second_uplink]", "remove one of the two");
    }
    if draft.standby.is_some_and(|settings| settings.is_some()) {
        refuse("cannot be beside [standby]", "remove one of the two");
    }
    if draft.loops.is_some_and(|settings| settings.is_some()) {
        refuse("cannot be beside [loop_detection]", "remove one of the two");
    }
    if draft.transparent_clock == Some(true) {
        refuse("cannot be beside ptp.transparent_clock", "remove one of the two");
    }
    if has_bounds(&draft.policy) {
        let what = "cannot be beside bounds on frames a second, which one thread counts";
        refuse(what, "remove run.workers, or the bounds of [policy]");
    }
}

fn has_bounds(policy: &Policy) -> bool {
    let Policy { broadcast_limit, multicast_limit, unknown_limit, rules, .. } = policy;
    [broadcast_limit, multicast_limit, unknown_limit].into_iter().any(|limit| *limit > 0)
        || rules.iter().any(|rule| rule.limit != Limit::default())
}

/// Checks that port numbers follow that of the SCI, with agreed keys, for a channel of each worker.
pub(super) fn ports_suffice(draft: &Draft, own: Sci, fault: &mut impl FnMut(&'static str, String, String)) {
    let Some(workers) = workers(draft) else { return };
    if channel_scis(own, workers as u8).count() < workers {
        fault(
            "run.workers",
            format!(
                "{workers} port numbers from {} on pass 32767, where express channels begin, or 65535",
                own.port()
            ),
            "give this gateway a lower port in [macsec], such as 1".to_owned(),
        );
    }
}

/// Checks that this gateway has a channel for each worker.
pub(super) fn channels_suffice(
    draft: &Draft,
    keys: &KeyFile,
    own: Sci,
    fault: &mut impl FnMut(&'static str, String, String),
) {
    let (Some(workers), Some(member)) = (workers(draft), keys.member(own)) else { return };
    if workers > usize::from(member.channels) {
        fault(
            "run.workers",
            format!(
                "{workers} workers need a transmit channel each, and {} has {} in the key file",
                describe(member),
                member.channels
            ),
            format!(
                "write channels = {workers} below its sci in the key file of all members, or make keys with `antedate keygen macsec --channels {workers}`"
            ),
        );
    }
}
