//! Reads `[ptp]`.

use antedate_host::document::Section;

use super::all;
use crate::config::Lines;

/// The obstacle of an overlay, and its remedy.
pub(super) const OVERLAY: (&str, &str) = (
    "an overlay cannot tell how long a message stays in it",
    "remove the line; time servers on each site, or a gateway with [macsec], keep time",
);
/// That of two uplinks.
pub(super) const TWO_WAYS: (&str, &str) =
    ("two uplinks are two ways with two delays, and time needs one", "remove the line, or [second_uplink]");

/// Whether the gateway is a transparent clock, which an `obstacle` forbids.
pub(super) fn ptp(
    mut section: Section<'_, '_>,
    obstacle: Option<(&str, &str)>,
    lines: &mut Lines,
) -> Option<bool> {
    lines.note("ptp", section.line());
    let clock = section.get("transparent_clock");
    let wanted = clock.as_ref().map(|field| {
        lines.note("ptp.transparent_clock", Some(field.line()));
        field.boolean()
    });
    let wanted = all(wanted)?.unwrap_or_default();
    if let (Some(field), Some((what, remedy))) = (clock.filter(|_| wanted), obstacle) {
        field.fault(what, remedy);
        return None;
    }
    section.finish();
    Some(wanted)
}
