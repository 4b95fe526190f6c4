//! Reads `[macsec]`.

use std::path::Path;
use std::time::Duration;

use antedate_channel::fragment::Marks;
use antedate_channel::macsec::CipherSuite;
use antedate_channel::mka::AUTOMATIC;
use antedate_channel::replay::MAX_WINDOW;
use antedate_host::document::{Field, Section};
use antedate_host::fault::nearest;
use antedate_wire::EthernetAddress;

use super::{KeyPath, U16_MAX, all, number, path, suite};
use crate::config::sci::parse_sci;
use crate::config::{Cipher, Fragmentation, Identity, Keys, Lines, Macsec, SciMode, agreement};

pub(super) fn macsec(
    mut section: Section<'_, '_>,
    keys: Option<Keys>,
    two_paths: bool,
    lines: &mut Lines,
) -> Option<Macsec> {
    let cipher = cipher(&mut section, lines);
    let port = section.get("port");
    let identity = match section.get("sci") {
        Some(field) => {
            lines.note("macsec.sci", Some(field.line()));
            if let Some(port) = &port {
                port.fault(
                    "the SCI has its port number already",
                    "remove the line, or give port without sci",
                );
            }
            explicit_sci(&field)
        }
        None => match &port {
            Some(field) => {
                lines.note("macsec.port", Some(field.line()));
                number(field, 1..=U16_MAX).map(|port| Identity::OfUplink { port })
            }
            None => Some(Identity::OfUplink { port: 1 }),
        },
    };
    let confidentiality = section.get("confidentiality").map(|field| {
        lines.note("macsec.confidentiality", Some(field.line()));
        field.boolean()
    });
    let sci_mode = sci_mode(&mut section, lines);
    // Frames by two ways overtake each other.
    let narrowest = if two_paths { 64 } else { 0 };
    let replay_window =
        section.get("replay_window").map(|field| number(&field, narrowest..=MAX_WINDOW.into()));
    let usual = if two_paths { MAX_WINDOW } else { 0 };
    let validate = section.get("validate").map(|field| validate(&field));
    let fragmentation = section.get("fragmentation").map(|field| {
        lines.note("macsec.fragmentation", Some(field.line()));
        fragmentation(&field)
    });
    section.finish();
    all(validate)?;
    Some(Macsec {
        cipher: cipher?,
        keys: keys?,
        identity: identity?,
        confidentiality: all(confidentiality)?.unwrap_or(true),
        sci_mode: sci_mode?,
        fragmentation: all(fragmentation)?.unwrap_or_default(),
        replay_window: all(replay_window)?.unwrap_or(usual),
    })
}

/// A suite by its name, or `"auto"` with the suites to choose from.
fn cipher(section: &mut Section<'_, '_>, lines: &mut Lines) -> Option<Cipher> {
    let (named, choice) = (section.get("cipher"), section.get("auto_ciphers"));
    lines.note("macsec.cipher", named.as_ref().map(Field::line));
    let auto = named.as_ref().is_some_and(|field| field.as_string() == Some("auto"));
    if !auto {
        if let Some(field) = choice {
            field.fault("belongs to cipher = \"auto\"", "remove the line, or write cipher = \"auto\"");
        }
        let cipher = all(named.map(|field| suite(&field)))?;
        return Some(cipher.map_or(Cipher::Unsaid, Cipher::Named));
    }
    if section.get("key_file").is_some() {
        section.fault(
            "cipher",
            "\"auto\" needs key agreement: the gateways of a key file cannot tell each other what they have chosen",
            "remove the line, for the key file says its suite, or use a cak_file",
        );
        return None;
    }
    let Some(field) = choice else {
        let all = CipherSuite::ALL.into_iter().filter(|suite| suite.is_offered_unasked());
        return Some(Cipher::Auto(all.collect()));
    };
    let chosen: Vec<CipherSuite> = field.array()?.iter().map(suite).collect::<Option<_>>()?;
    if chosen.is_empty() {
        field.fault("names no cipher suite", "name one at least, or remove the line");
        return None;
    }
    Some(Cipher::Auto(chosen))
}

/// Either `key_file`, or `cak_file` with its settings. The path is returned even if a setting is
/// wrong.
pub(super) fn keys(
    section: &mut Section<'_, '_>,
    base: &Path,
    lines: &mut Lines,
) -> (Option<KeyPath>, Option<Keys>) {
    let remedy = "name the file that `antedate keygen macsec` wrote";
    let cak = section.get("cak_file").map(|field| {
        lines.note("macsec.cak_file", Some(field.line()));
        path(&field, base, "name the file that `antedate keygen macsec --cak` wrote")
    });
    let [to, priority, rekey, delay] =
        ["mka_destination", "mka_priority", "mka_rekey_seconds", "mka_delay_protect"]
            .map(|key| section.get(key));
    let Some(cak) = cak else {
        for field in [to, priority, rekey, delay].into_iter().flatten() {
            field.fault(
                "belongs to key agreement, and there is no cak_file",
                "remove the line, or name a cak_file",
            );
        }
        let file = section.required("key_file", remedy).and_then(|field| {
            lines.note("macsec.key_file", Some(field.line()));
            path(&field, base, remedy)
        });
        return (file.clone().map(KeyPath::Static), file.map(Keys::Static));
    };
    lines.note("macsec.mka_destination", to.as_ref().map(Field::line));
    let to = to.map(|field| destinations(&field));
    let priority = priority.map(|field| number(&field, 0..=0xff));
    let rekey = rekey.map(|field| number(&field, 2..=0xffff_ffff));
    let delay = delay.map(|field| field.boolean());
    if let Some(field) = section.get("key_file") {
        field.fault(
            "stands beside cak_file, and keys are either static or agreed upon",
            "remove one of the two",
        );
        return (None, None);
    }
    let named = cak.clone().map(KeyPath::Agreed);
    let settings = || {
        Some(Keys::Agreed(agreement::Settings {
            cak_file: cak?,
            destinations: all(to)?.unwrap_or_else(|| AUTOMATIC.to_vec()),
            priority: all(priority)?.unwrap_or(agreement::PRIORITY),
            delay_protect: all(delay)?.unwrap_or(false),
            rekey_after: Some(
                all(rekey)?.map_or(agreement::REKEY, |seconds: u32| Duration::from_secs(seconds.into())),
            ),
        }))
    };
    (named, settings())
}

/// The destinations of MKPDUs: those that reach the others, a group of IEEE 802.1Q table 8-1 by
/// name, broadcast, or an address.
fn destinations(field: &Field<'_, '_>) -> Option<Vec<EthernetAddress>> {
    let [non_tpmr, customer, bridge, broadcast] = &AUTOMATIC;
    let one = std::slice::from_ref;
    let names: [(&str, &[EthernetAddress]); 5] = [
        ("auto", &AUTOMATIC),
        ("nearest-non-tpmr-bridge", one(non_tpmr)),
        ("nearest-bridge", one(bridge)),
        ("nearest-customer-bridge", one(customer)),
        ("broadcast", one(broadcast)),
    ];
    match field.as_string().and_then(|text| text.parse().ok()) {
        Some(EthernetAddress([0, 0, 0, 0, 0, 0])) => {
            field
                .fault("is nobody's address", "write \"auto\", or the address of the other gateway's uplink");
            None
        }
        Some(address) => Some(vec![address]),
        None => field.one_of("an address, nor the name of one", &names).map(<[_]>::to_vec),
    }
}

fn explicit_sci(field: &Field<'_, '_>) -> Option<Identity> {
    let text = field.string()?;
    let sci = parse_sci(text);
    if sci.is_none() {
        field.fault(
            format!("\"{text}\" is not an SCI"),
            "give 16 hexadecimal digits as `ip macsec` does, or address and port: \"02:00:5e:10:00:01/1\"",
        );
    }
    sci.map(Identity::Explicit)
}

fn sci_mode(section: &mut Section<'_, '_>, lines: &mut Lines) -> Option<SciMode> {
    let include = section.get("include_sci");
    let station = section.get("end_station");
    let include_set = all(include.as_ref().map(Field::boolean))?;
    let station_set = all(station.as_ref().map(Field::boolean))?;
    lines.note("macsec.include_sci", include.as_ref().map(Field::line));
    lines.note("macsec.end_station", station.as_ref().map(Field::line));
    match (include_set, station_set, station) {
        (Some(true), Some(true), Some(station)) => {
            station.fault(
                "contradicts include_sci: the SCI is either in the frame or its source address",
                "remove one of the two",
            );
            None
        }
        (_, Some(true), _) => Some(SciMode::EndStation),
        (Some(false), _, _) => Some(SciMode::PointToPoint),
        _ => Some(SciMode::Explicit),
    }
}

/// A boolean or a name.
fn fragmentation(field: &Field<'_, '_>) -> Option<Fragmentation> {
    const NAMES: [(&str, Fragmentation); 2] =
        [("auto", Fragmentation::Auto), ("marked", Fragmentation::On(Marks::Both))];
    match field.as_string() {
        Some(text) => {
            let known = NAMES.iter().find(|(name, _)| *name == text);
            if known.is_none() {
                let remedy = match nearest(text, NAMES.iter().map(|(name, _)| *name)) {
                    Some(name) => format!("did you mean \"{name}\"?"),
                    None => "write true or false without quotes, \"auto\" or \"marked\"".to_owned(),
                };
                field.fault(format!("\"{text}\" is not a way to fragment"), remedy);
            }
            known.map(|(_, fragmentation)| *fragmentation)
        }
        None => {
            field.boolean().map(|on| if on { Fragmentation::On(Marks::More) } else { Fragmentation::Off })
        }
    }
}

fn validate(field: &Field<'_, '_>) -> Option<()> {
    let text = field.string()?;
    if matches!(text, "check" | "disabled") {
        field.fault(
            format!("\"{text}\" would let frames that nobody authenticated reach the machines"),
            "write \"strict\" or remove the line",
        );
        return None;
    }
    field.one_of("a way to validate", &[("strict", ())])
}
