//! Reads `[ptp]`.

use antedate_host::document::Section;

use super::all;
use crate::config::Lines;

/// Whether the gateway is a transparent clock.
pub(super) fn ptp(mut section: Section<'_, '_>, is_overlay: bool, lines: &mut Lines) -> Option<bool> {
    lines.note("ptp", section.line());
    let clock = section.get("transparent_clock");
    let wanted = clock.as_ref().map(|field| {
        lines.note("ptp.transparent_clock", Some(field.line()));
        field.boolean()
    });
    let wanted = all(wanted)?.unwrap_or_default();
    if let Some(field) = clock.filter(|_| wanted && is_overlay) {
        field.fault(
            "an overlay cannot tell how long a message stays in it",
            "remove the line; time servers on each site, or a gateway with [macsec], keep time",
        );
        return None;
    }
    section.finish();
    Some(wanted)
}
