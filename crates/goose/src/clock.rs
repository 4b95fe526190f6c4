//! Times of IEC 61850 (IEC 61850-8-1, 8.1.3.7): seconds since 1970, a fraction of 24 bits, an octet
//! of quality.

use serde_json::{Value as Json, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Flags of the octet of quality, with their names.
const FLAGS: [(u8, &str); 3] =
    [(0x80, "leap seconds known"), (0x40, "clock failure"), (0x20, "clock not synchronized")];
/// The clock is not synchronised.
pub const NOT_SYNCHRONIZED: u8 = 0x20;
/// Bits of accuracy: about a millisecond, as of a clock on a network (NTP).
pub const ACCURACY: u8 = 0x0a;

/// A time in its octets.
#[must_use]
pub fn octets(seconds: u64, nanoseconds: u32, quality: u8) -> [u8; 8] {
    let fraction = (u64::from(nanoseconds) << 24) / 1_000_000_000;
    let mut t = (seconds << 32 | fraction << 8).to_be_bytes();
    t[7] = quality;
    t
}

/// A time as JSON: `time` as in RFC 3339, `quality` and `accuracy` (bits of the fraction).
#[must_use]
pub fn show(t: [u8; 8]) -> Json {
    let all = u64::from_be_bytes(t);
    let (seconds, fraction) = (all >> 32, all >> 8 & 0xff_ffff);
    // The nearest microsecond, since a fraction of 24 bits has 60 ns.
    let micros = (fraction * 1_000_000 + (1 << 23)) >> 24;
    let nanos = i128::from(seconds * 1_000_000 + micros) * 1000;
    let text = OffsetDateTime::from_unix_timestamp_nanos(nanos)
        .ok()
        .and_then(|at| at.format(&Rfc3339).ok())
        .unwrap_or_default();
    let quality: Vec<&str> = FLAGS.iter().filter(|(bit, _)| t[7] & bit != 0).map(|(_, name)| *name).collect();
    json!({ "time": text, "quality": quality, "accuracy": t[7] & 0x1f })
}

/// A time of JSON: as [`show`] writes it, or its text alone.
#[must_use]
pub fn read(json: &Json) -> Option<[u8; 8]> {
    let text = json.as_str().or_else(|| json.get("time")?.as_str())?;
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    let seconds = u32::try_from(at.unix_timestamp()).ok()?;
    let flags = match json.get("quality") {
        None => 0,
        Some(list) => list.as_array()?.iter().try_fold(0, |all, name| {
            let name = name.as_str()?;
            FLAGS.iter().find(|(_, known)| *known == name).map(|(bit, _)| all | bit)
        })?,
    };
    let accuracy = match json.get("accuracy") {
        None => ACCURACY,
        Some(bits) => u8::try_from(bits.as_u64()?).ok().filter(|bits| *bits < 0x20)?,
    };
    Some(octets(u64::from(seconds), at.nanosecond(), flags | accuracy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_shown() {
        let t = octets(1_790_000_000, 250_000_000, NOT_SYNCHRONIZED | ACCURACY);
        let shown = show(t);
        assert_eq!(
            shown,
            json!({ "time": "2026-09-21T14:13:20.25Z", "quality": ["clock not synchronized"], "accuracy": 10 })
        );
        assert_eq!(read(&shown), Some(t));
        assert_eq!(
            read(&json!("2026-09-21T16:13:20.25+02:00")),
            Some(octets(1_790_000_000, 250_000_000, 10))
        );
        for wrong in [
            json!("yesterday"),
            json!(5),
            json!({ "time": "2026-09-21T14:13:20Z", "quality": ["fine"] }),
            json!({ "time": "2026-09-21T14:13:20Z", "accuracy": 32 }),
            json!("1960-01-01T00:00:00Z"),
        ] {
            assert_eq!(read(&wrong), None, "{wrong}");
        }
    }
}
